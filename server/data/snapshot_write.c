/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A snapshot of a store that goes on being written, without a copy of the process.
 *
 * WHAT IT HAS. Let S0 be a position below which every write was published, its reply remembered
 * included, before the walk began. Then a record that is not seen by the walk, or is seen in an old
 * version, was written by a log record at or above S0, or was deleted by one; so the snapshot and
 * the log from S0 on have everything. Records and replies that are seen although they come from log
 * records above S0 do no harm: replay applies what is newer only.
 *
 * S0 is what data_published says: of a server that takes writes, the least of the log's tail, read
 * first, and what each door says is its oldest write that is not published. A door says so (the
 * tail at that moment, or less) before it appends, so of a write below the tail that was read,
 * either the door's word is seen, or the write was published before its door said that there is
 * none (all of these are seq_cst). Writes that no door makes, LOG_CLIENT and LOG_FORGET, are
 * applied to the table in one hold of a lock that the walk takes later (clients/durable.c).
 *
 * WHEN IT COUNTS. All that was seen was appended before, so it lies below the tail that is read
 * after the walk: the FOOT's `end`. (The committed position would do for a server that takes
 * writes, but not for a backup, which applies what its group has committed and its own log may not
 * have written yet.) The FOOT is written when the log is durable up to there: a complete snapshot
 * never has what its log could have lost.
 *
 * READERS ARE NOT HELD UP. Blocks are found in short read-side sections and then held by hazards,
 * not by the section, while they are copied and written. Where others want the cores, which the
 * thread learns from being preempted, it leaves them most of the time: from then on it rests after
 * each chunk, for a multiple of the processor's time that the chunk took, until some chunks went by
 * without, or the server stops. A low priority would not do: the thread takes a bucket's lock now
 * and then, and should not be preempted longer with it than others are.
 */
#include "server/data/snapshot_write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/base/mutant.h"
#include "common/base/random.h"
#include "common/base/time.h"
#include "server/index/index.h"
#include "server/reclaim/qsbr.h"

#define CHUNK_BYTES (1u << 20) /* usual length, header included */
#define SYNC_BYTES  (64u << 20) /* written between two syncs, so that the last one is short */
#define REST_TIMES  8u /* a rest takes the processor's time of a chunk, times this */
#define REST_MAX_NS (40 * NS_PER_MS)
#define RESTS	    16u /* after chunks, from the last preemption on */

static const char temporary[] = "snapshot/next.tmp";

struct sink {
	struct data *d;
	struct log_file *file;
	struct snapshot_chunk *chunk; /* with its body behind it; SNAPSHOT_BLOCK aligned */
	uint64_t room; /* bytes of it */
	uint64_t identity, offset, synced;
	uint64_t cpu_ns; /* the thread's, when the last chunk was written */
	long preempted; /* how often it was */
	unsigned rests; /* that are left */
	uint32_t number, used, items; /* of the chunk: used and items of its body so far */
	struct snapshot_foot foot;
};

static int sink_failed(const struct sink *s, const char *verb, int rc, struct error *err)
{
	return error_set(err, rc, "%s %s/%s failed: %s", verb, s->d->path, temporary,
			 error_name(rc));
}

static bool is_stopping(struct data *d)
{
	bool stopping;

	pthread_mutex_lock(&d->snapshots.lock);
	stopping = d->snapshots.stopping;
	pthread_mutex_unlock(&d->snapshots.lock);
	return stopping;
}

static bool is_given_up(struct data *d)
{
	bool given_up;

	pthread_mutex_lock(&d->snapshots.lock);
	given_up = d->snapshots.stopping && d->lost;
	pthread_mutex_unlock(&d->snapshots.lock);
	return given_up;
}

static uint64_t ns_of(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * NS_PER_S + (uint64_t)t->tv_usec * 1000;
}

static void rest(struct sink *s)
{
	uint64_t cpu_ns, ns;
	struct rusage used;

	getrusage(RUSAGE_THREAD, &used);
	cpu_ns = ns_of(&used.ru_utime) + ns_of(&used.ru_stime);
	ns = (cpu_ns - s->cpu_ns) * REST_TIMES;
	if (used.ru_nivcsw != s->preempted)
		s->rests = RESTS;
	s->preempted = used.ru_nivcsw;
	s->cpu_ns = cpu_ns;
	if (!s->rests || is_stopping(s->d))
		return;
	s->rests--;
	time_sleep(ns < REST_MAX_NS ? ns : REST_MAX_NS);
}

/* Write the chunk, and begin another. */
static int sink_flush(struct sink *s, enum snapshot_kind kind, struct error *err)
{
	const struct log_io *io = s->d->io;
	uint64_t bytes = snapshot_chunk_bytes(s->used);
	struct snapshot_chunk *c = s->chunk;
	int rc;

	*c = (struct snapshot_chunk){
		.magic = SNAPSHOT_MAGIC,
		.identity = s->identity,
		.number = s->number++,
		.kind = kind,
		.bytes = s->used,
		.items = s->items,
	};
	memset((uint8_t *)(c + 1) + s->used, 0, bytes - sizeof(*c) - s->used);
	c->checksum = snapshot_chunk_checksum(c);
	rc = io->write(s->file, c, bytes, s->offset);
	if (rc)
		return sink_failed(s, "writing", rc, err);
	s->offset += bytes;
	s->used = s->items = 0;
	if (s->offset - s->synced >= SYNC_BYTES) {
		rc = io->sync(s->file);
		s->synced = s->offset;
	}
	rest(s);
	return rc ? sink_failed(s, "syncing", rc, err) : 0;
}

static int sink_room(struct sink *s, uint64_t room, struct error *err)
{
	struct snapshot_chunk *grown;

	if (room <= s->room)
		return 0;
	grown = aligned_alloc(SNAPSHOT_BLOCK, room);
	if (!grown)
		return error_set(err, -ENOMEM, "out of memory: %" PRIu64 " bytes for a snapshot",
				 room);
	free(s->chunk);
	s->chunk = grown;
	s->room = room;
	return 0;
}

/* Room for an item of @length bytes in a chunk of @kind, all zeroes; NULL with @err: no. */
static void *sink_item(struct sink *s, enum snapshot_kind kind, uint32_t length, struct error *err)
{
	uint8_t *at;

	if (s->used && sizeof(*s->chunk) + s->used + length > CHUNK_BYTES &&
	    sink_flush(s, kind, err))
		return NULL;
	if (sink_room(s, snapshot_chunk_bytes(s->used + length), err))
		return NULL;
	at = (uint8_t *)(s->chunk + 1) + s->used;
	s->used += length;
	s->items++;
	return at;
}

static int put_record(struct sink *s, const struct block *b, struct error *err)
{
	uint32_t bytes = b->key_len + b->value_len;
	uint32_t length = snapshot_record_length(b->key_len, b->value_len);
	struct snapshot_record *r = sink_item(s, SNAPSHOT_RECORDS, length, err);

	if (!r)
		return err->code;
	memset((uint8_t *)r + length - 8, 0, 8);
	*r = (struct snapshot_record){
		.version = b->version,
		.expiry_ms = b->expiry_ms,
		.value_len = b->value_len,
		.key_len = b->key_len,
	};
	memcpy(r->data, b->data, bytes);
	s->foot.records++;
	s->foot.record_bytes += block_bytes(b->key_len, b->value_len);
	if (b->version > s->foot.version)
		s->foot.version = b->version;
	return 0;
}

/* The blocks of one step of the walk, which hazards hold. */
static int put_blocks(struct sink *s, const struct store_walk *walk, struct error *err)
{
	struct data_snapshots *all = &s->d->snapshots;

	for (unsigned i = 0; i < walk->count; i++) {
		int rc = put_record(s, walk->block[i], err);

		if (rc)
			return rc;
	}
	atomic_store_explicit(&all->progress, s->foot.records, memory_order_relaxed);
	return 0;
}

static int put_records(struct sink *s, struct reclaim_worker *hazards, struct error *err)
{
	struct store_walk walk = { .at = 0 };
	bool more;
	int rc = 0;

	do {
		qsbr_online();
		more = store_walk(s->d->store, &walk);
		for (unsigned i = 0; i < walk.count; i++)
			reclaim_hazard_set(hazards, i, walk.place[i]);
		qsbr_offline();
		rc = put_blocks(s, &walk, err);
		for (unsigned i = 0; i < walk.count; i++)
			reclaim_hazard_clear(hazards, i);
		if (rc == 0 && is_given_up(s->d))
			rc = error_set(err, -ECANCELED, "nobody needs it any more");
	} while (more && rc == 0);
	if (rc == 0 && s->used)
		rc = sink_flush(s, SNAPSHOT_RECORDS, err);
	return rc;
}

struct client_sink {
	struct sink *s;
	struct error *err;
};

static int put_client(void *ctx, const struct snapshot_client *items, unsigned count)
{
	struct client_sink *to = ctx;

	for (unsigned i = 0; i < count; i++) {
		struct snapshot_client *c = sink_item(to->s, SNAPSHOT_CLIENTS, sizeof(*c), to->err);

		if (!c)
			return to->err->code;
		*c = items[i];
		to->s->foot.clients++;
	}
	return 0;
}

static int put_clients(struct sink *s, struct error *err)
{
	struct client_sink to = { s, err };
	int rc;

	if (MUTANT(replies_not_in_snapshot))
		return 0;
	rc = clients_walk(s->d->clients, put_client, &to);
	if (rc == -ENOMEM)
		error_set(err, rc, "out of memory for the replies of a snapshot");
	if (rc == 0 && s->used)
		rc = sink_flush(s, SNAPSHOT_CLIENTS, err);
	return rc;
}

static int put_head(struct sink *s, struct error *err)
{
	const struct data *d = s->d;
	struct snapshot_head *head;
	int rc = random_fill(&s->identity, sizeof(s->identity), err);

	if (rc)
		return rc;
	s->identity |= 1; /* never 0 */
	head = sink_item(s, SNAPSHOT_HEAD, sizeof(*head), err);
	if (!head)
		return err->code;
	*head = (struct snapshot_head){
		.store = { d->snapshots.store[0], d->snapshots.store[1] },
		.hash_seed = d->snapshots.hash_seed,
		.life = atomic_load_explicit(&d->life, memory_order_relaxed), /* at least */
		.start = s->foot.start,
		.clock_ms = data_clock_ms(d),
	};
	return sink_flush(s, SNAPSHOT_HEAD, err);
}

static int put_foot(struct sink *s, struct error *err)
{
	struct snapshot_foot *foot;
	int rc;

	s->foot.end = log_tail(s->d->log);
	rc = log_await_durable(s->d->log, s->foot.end);
	if (rc)
		return error_set(err, rc, "the log has failed, and no snapshot may have more");
	s->foot.clock_ms = data_clock_ms(s->d);
	s->foot.chunks = s->number + 1;
	foot = sink_item(s, SNAPSHOT_FOOT, sizeof(*foot), err);
	if (!foot)
		return err->code;
	*foot = s->foot;
	return sink_flush(s, SNAPSHOT_FOOT, err);
}

/* The opening comment has the argument. */
static uint64_t first_unpublished(struct data *d)
{
	if (MUTANT(snapshot_s0_committed))
		return log_committed(d->log);
	return d->snapshots.published.first_not(d->snapshots.published.ctx);
}

static int finish(struct sink *s, struct error *err)
{
	const struct log_io *io = s->d->io;
	char name[64];
	int rc = io->sync(s->file);

	if (rc)
		return sink_failed(s, "syncing", rc, err);
	snprintf(name, sizeof(name), "snapshot/%016" PRIx64 ".snap", s->foot.start);
	rc = io->rename(io->ctx, temporary, name);
	if (rc == 0)
		rc = io->sync_dir(io->ctx, "snapshot");
	if (rc)
		return error_set(err, rc, "naming %s/%s failed: %s", s->d->path, name,
				 error_name(rc));
	return 0;
}

static int write_all(struct sink *s, struct reclaim_worker *hazards, struct error *err)
{
	int rc = put_head(s, err);

	if (rc == 0)
		rc = put_records(s, hazards, err);
	if (rc == 0)
		rc = put_clients(s, err);
	if (rc == 0)
		rc = put_foot(s, err);
	return rc ? rc : finish(s, err);
}

int snapshot_take(struct data *d, struct reclaim_worker *hazards, struct data_newest *out,
		  struct error *err)
{
	struct sink s = { .d = d };
	uint64_t begun_ns = time_now_ns();
	int rc = sink_room(&s, CHUNK_BYTES, err);

	rest(&s); /* counts from here on */

	if (rc == 0) {
		rc = d->io->open(d->io->ctx, temporary, LOG_OPEN_NEW, &s.file);
		if (rc)
			sink_failed(&s, "making", rc, err);
	}
	if (rc == 0) {
		s.foot.start = first_unpublished(d);
		rc = write_all(&s, hazards, err);
		d->io->close(s.file);
		if (rc)
			d->io->unlink(d->io->ctx, temporary);
	}
	free(s.chunk);
	*out = (struct data_newest){
		.start = s.foot.start,
		.bytes = s.offset,
		.took_ms = (time_now_ns() - begun_ns) / NS_PER_MS,
		.time_ms = s.foot.clock_ms,
	};
	return rc;
}

int snapshot_prune(struct data *d, struct error *err)
{
	struct snapshot_info *all = calloc(SNAPSHOTS_MAX, sizeof(*all));
	unsigned newest, second, count;
	int found, rc = 0;

	if (!all)
		return error_set(err, -ENOMEM, "out of memory for the list of snapshots");
	found = snapshot_list(d->io, all, SNAPSHOTS_MAX, err);
	count = found < 0 ? 0 : (unsigned)found;
	newest = data_choose(all, count, 0);
	second = data_choose(all, count, newest + 1);
	for (unsigned i = second + 1; i < count && rc == 0; i++)
		rc = d->io->unlink(d->io->ctx, all[i].name);
	if (rc)
		error_set(err, rc, "removing an old snapshot from %s failed: %s", d->path,
			  error_name(rc));
	else if (second < count)
		log_drop(d->log, all[second].foot.start);
	free(all);
	return found < 0 ? found : rc;
}
