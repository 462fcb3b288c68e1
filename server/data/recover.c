/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Recovery: the newest complete snapshot, then the log from its start on. A record is applied where
 * nothing as new stands there, so it does not matter that the log has some of what the snapshot
 * has, nor that a snapshot which turns out to be corrupt was applied in part before an older one
 * is taken: all that the log says from the older one's start on comes after it.
 *
 * THEN THE NEXT LIFE BEGINS, in this order, each step durable before the next one:
 *  1. meta names a life that no version has: above those of meta, log and snapshots;
 *  2. the log's new segment has what stands above D again (read.h), and is synced. All below D is
 *     durable by the word of the log, or because a complete snapshot vouches for it: its FOOT was
 *     written when the log was durable up to its `end`;
 *  3. the store waits for the log from now on, and may be reached.
 * A crash in between leaves what was there before, or the same with another life: recovery runs
 * again, and finds the same records.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/cores.h"
#include "common/base/log.h"
#include "common/base/mutant.h"
#include "common/base/time.h"
#include "server/data/recover.h"

const char recovery_corrupt[] = "it is corrupt";

/* A record of @bytes is about to be given. */
static int count(struct recovery *r, uint64_t bytes)
{
	r->records++;
	r->bytes += bytes;
	progress_add(&r->progress, bytes);
	return r->records % 1024 == 0 && data_is_stopping(r->d) ? -ECANCELED : 0;
}

static int snapshot_record(void *ctx, const struct snapshot_record *s)
{
	struct recovery *r = ctx;
	const struct apply_record record = {
		.key = s->data,
		.key_len = s->key_len,
		.value = s->data + s->key_len,
		.value_len = s->value_len,
		.version = s->version,
		.expiry_ms = s->expiry_ms,
	};
	int rc = count(r, snapshot_record_length(s->key_len, s->value_len));

	return rc ? rc : replay_record(r->replay, &record);
}

static int snapshot_client(void *ctx, const struct snapshot_client *s)
{
	struct recovery *r = ctx;

	return replay_client(r->replay, s);
}

/* What has to be written again. Its length was known from the survey. */
static void keep_tail(struct recovery *r, const struct log_record *l)
{
	if (l->position < r->durable || r->tail_bytes + l->length > r->tail_room ||
	    MUTANT(no_rewrite))
		return;
	memcpy(r->tail + r->tail_bytes, l, l->length);
	r->tail_bytes += l->length;
}

static int log_record(void *ctx, const struct log_record *l)
{
	struct recovery *r = ctx;
	int rc = 0;

	keep_tail(r, l);
	if (l->position < r->start)
		return 0;
	if (l->kind == LOG_PUT || l->kind == LOG_DEL)
		rc = count(r, l->length);
	return rc ? rc : replay_log(r->replay, l);
}

static int make_room_for_tail(struct recovery *r, struct error *err)
{
	void *at;

	r->tail_room = r->survey.end > r->durable ? r->survey.end - r->durable : 0;
	if (!r->tail_room)
		return 0;
	at = mmap(NULL, r->tail_room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) {
		int code = -errno;
		uint64_t bytes = r->tail_room;

		r->tail_room = 0;
		return error_set(err, code,
				 "out of memory: the last %" PRIu64 " bytes of the log have to be "
				 "written again, and stand in memory meanwhile (free that much)",
				 bytes);
	}
	r->tail = at;
	return 0;
}

/* What there is, and where replay begins. */
static int plan(struct recovery *r, struct error *err)
{
	struct data *d = r->d;
	int count, rc = 0;

	r->snapshot = calloc(SNAPSHOTS_MAX, sizeof(*r->snapshot));
	if (!r->snapshot)
		return error_set(err, -ENOMEM, "out of memory for the list of snapshots");
	if (d->config.recover_until != UINT64_MAX)
		rc = data_cut(d, d->config.recover_until, err);
	if (rc == 0)
		rc = log_survey_make(&r->survey, d->io, d->meta.store, err);
	if (rc)
		return rc;
	count = snapshot_list(d->io, r->snapshot, SNAPSHOTS_MAX, err);
	if (count < 0)
		return count;
	r->snapshots = (unsigned)count;
	return 0;
}

/* The store must be large enough: said before minutes were spent on it. */
static int check_memory(const struct recovery *r, const struct snapshot_info *s, struct error *err)
{
	struct memory_stats m;

	memory_stats_get(r->d->store->memory, &m);
	if (s->foot.record_bytes <= m.bytes_max)
		return 0;
	return error_set(err, -ENOMEM,
			 "%s has %" PRIu64 " records of %" PRIu64 " MiB, and the store may have "
			 "%" PRIu64 " MiB: give --memory %" PRIu64 "M at least",
			 s->name, s->foot.records, s->foot.record_bytes >> 20, m.bytes_max >> 20,
			 (s->foot.record_bytes + s->foot.record_bytes / 4) >> 20);
}

static int check_snapshot(struct recovery *r, const struct snapshot_info *s, struct error *err)
{
	const struct data_meta *m = &r->d->meta;
	int rc;

	if (s->head.store[0] != m->store[0] || s->head.store[1] != m->store[1])
		return error_set(err, -EXDEV,
				 "%s/%s is of another data directory (move it back to where it "
				 "came from)",
				 r->d->path, s->name);
	rc = data_outran(s, &r->survey, err);
	return rc ? rc : check_memory(r, s, err);
}

/* Expiry is judged by a clock that does not go back, from before the first record on. */
static void raise_clock(struct recovery *r)
{
	uint64_t ms = recovery_later(r->d->meta.clock_ms, r->survey.clock_ms);

	for (unsigned i = 0; i < r->snapshots; i++)
		ms = recovery_later(ms, r->snapshot[i].foot.clock_ms);
	store_clock_raise(r->d->store, ms);
}

/* Each snapshot that is complete, newest first, until one is whole. */
static int load_snapshot(struct recovery *r, struct error *err)
{
	const struct snapshot_reader reader = { .record = snapshot_record,
						.client = snapshot_client,
						.ctx = r };
	int rc;

	r->chosen = data_choose(r->snapshot, r->snapshots, 0);
	for (; r->chosen < r->snapshots;
	     r->chosen = data_choose(r->snapshot, r->snapshots, r->chosen + 1)) {
		struct snapshot_info *s = &r->snapshot[r->chosen];

		rc = check_snapshot(r, s, err);
		if (rc)
			return rc;
		r->progress.total = r->progress.bytes + s->bytes + r->survey.end - s->foot.start;
		rc = snapshot_read(r->d->io, s, &reader, err);
		if (rc != -EUCLEAN) {
			r->start = s->foot.start;
			r->durable = recovery_later(r->durable, s->foot.end);
			return rc;
		}
		log_warn("data", "%s; the next older snapshot is taken", err->text);
		s->why = recovery_corrupt;
		*err = (struct error){ 0 };
	}
	r->progress.total = r->progress.bytes + r->survey.end;
	return data_begins(&r->survey, err);
}

static int load_log(struct recovery *r, struct error *err)
{
	const struct log_reader reader = { .each = log_record, .ctx = r };
	uint64_t from = r->start < r->durable ? r->start : r->durable;
	int rc = make_room_for_tail(r, err);

	if (rc || r->survey.segments == 0)
		return rc;
	return log_read(&r->survey, r->d->io, from, r->survey.end, &reader, err);
}

/* Errors that a callback, or a thread, had, in words. */
static int explain(const struct recovery *r, int rc, struct error *err)
{
	struct memory_stats m;

	if (rc == -ECANCELED) {
		error_set(err, rc,
			  "told to stop after %" PRIu64 " records: nothing in %s has changed",
			  r->records, r->d->path);
		log_info("data", "%s", err->text);
		return rc;
	}
	if (rc != -ENOMEM)
		return error_set(err, rc,
				 "%s has a record that this server cannot take: %s (use the "
				 "release of GraceKV that wrote it)",
				 r->d->path, error_name(rc));
	memory_stats_get(r->d->store->memory, &m);
	return error_set(err, rc,
			 "the records of %s need more memory than the store's %" PRIu64 " MiB: it "
			 "was full after %" PRIu64 " records of %" PRIu64 " MiB (give more "
			 "--memory; %" PRIu64 " MiB of snapshot and log were to be read)",
			 r->d->path, m.bytes_max >> 20, r->records, r->bytes >> 20,
			 r->progress.total >> 20);
}

static int load(struct recovery *r, struct error *err)
{
	struct data *d = r->d;
	const struct apply_config config = {
		.store = d->store,
		.threads = d->config.threads ? d->config.threads : cores_usable(),
		.stopping = d->config.stopping,
		.ctx = d->config.ctx,
	};
	int rc, applied;

	raise_clock(r);
	r->durable = r->survey.durable;
	*err = (struct error){ 0 };
	rc = replay_open(&r->replay, &config, d->clients, err);
	if (rc)
		return rc;
	memory_growth_ahead(d->store->memory, true);
	rc = load_snapshot(r, err);
	if (rc == 0)
		rc = load_log(r, err);
	r->version = replay_version(r->replay);
	applied = replay_close(r->replay);
	memory_growth_ahead(d->store->memory, false);
	r->loaded_ns = time_now_ns() - r->progress.begun_ns;
	progress_end(&r->progress);
	if (applied)
		rc = applied;
	if (rc && (applied || !err->code))
		rc = explain(r, rc, err);
	return rc;
}

int data_recover(struct data *d, struct store *store, struct clients *clients, struct error *err)
{
	struct recovery r = { .d = d };
	int rc;

	d->store = store;
	d->clients = clients;
	progress_begin(&r.progress, 0);
	rc = plan(&r, err);
	if (rc == 0)
		rc = load(&r, err);
	if (rc == 0)
		rc = recovery_begin_life(&r, err);
	if (rc == 0)
		recovery_tell(&r);
	else if (!strstr(err->text, d->path))
		error_prefix(err, "--data-dir %s", d->path);
	if (r.tail)
		munmap(r.tail, r.tail_room);
	free(r.snapshot);
	log_survey_free(&r.survey);
	return rc;
}
