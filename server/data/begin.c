/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The next life, behind what was recovered: recover.c has the order of its steps. */
#include <inttypes.h>
#include <stdio.h>

#include "common/base/log.h"
#include "common/base/mutant.h"
#include "common/base/time.h"
#include "server/data/recover.h"

static uint64_t clock_ms(void *ctx)
{
	const struct data *d = ctx;

	return data_clock_ms(d);
}

static void log_failed(void *ctx, const char *why)
{
	struct data *d = ctx;

	pthread_mutex_lock(&d->snapshots.lock);
	d->lost = true;
	pthread_mutex_unlock(&d->snapshots.lock);
	if (d->config.failed)
		d->config.failed(d->config.ctx, why);
}

static uint64_t next_life(const struct recovery *r)
{
	uint64_t life = recovery_later(r->d->meta.life, r->survey.life);

	for (unsigned i = 0; i < r->snapshots; i++)
		life = recovery_later(life, r->snapshot[i].head.life);
	life = recovery_later(life, r->version >> COUNT_BITS);
	return MUTANT(reuse_version) ? recovery_later(life, 1) : life + 1;
}

int data_begin_log(struct data *d, const struct log_config *with, struct error *err)
{
	struct log_config config = *with;
	char said[256] = "";
	int rc = 0;

	config.io = d->io;
	config.sync = d->config.sync;
	config.sync_ms = d->config.sync_ms;
	config.segment_bytes = d->config.segment_bytes;
	config.store[0] = d->meta.store[0];
	config.store[1] = d->meta.store[1];
	config.life = d->meta.life;
	config.clock_ms = clock_ms;
	config.failed = log_failed;
	config.ctx = d;
	if (d->io == &d->kernel)
		rc = log_io_kernel_measure(&d->kernel, said, err);
	if (rc == 0)
		rc = log_open(&d->log, &config, err);
	if (rc)
		return error_prefix(err, "--data-dir %s", d->path);
	if (said[0] && config.sync == LOG_SYNC_ALWAYS)
		log_info("data", "%s: the log is written by %s", d->path, said);
	else if (said[0])
		log_info("data", "%s: the log is written to the kernel's memory first", d->path);
	return 0;
}

int recovery_begin_life(struct recovery *r, struct error *err)
{
	const struct log_config behind = {
		.first = MUTANT(no_rewrite) ? r->survey.end : r->durable,
		.tail = r->tail,
		.tail_bytes = r->tail_bytes,
		.older = &r->survey,
	};
	struct data *d = r->d;
	int rc = data_raise_life(d, next_life(r), err);

	if (rc == 0)
		rc = data_begin_log(d, &behind, err);
	if (rc || d->in_group) /* the life of a member is drawn later */
		return rc;
	rc = store_log_open(d->store, d->log, life_first(d->meta.life));
	if (rc)
		return error_set(err, rc, "out of memory for the writes that wait for the log");
	clients_log(d->clients, d->log);
	return 0;
}

/* A corrupt snapshot is kept for whoever wants to look, and is none of the two that count. */
static void set_aside(const struct recovery *r)
{
	const struct log_io *io = r->d->io;
	char name[64];

	for (unsigned i = 0; i < r->snapshots; i++) {
		if (r->snapshot[i].why != recovery_corrupt)
			continue;
		snprintf(name, sizeof(name), "%s.corrupt", r->snapshot[i].name);
		if (io->rename(io->ctx, r->snapshot[i].name, name) == 0)
			log_warn("data",
				 "%s/%s is kept as %s: delete it when you have looked at it",
				 r->d->path, r->snapshot[i].name, name);
	}
}

/* What a snapshot of this life starts from. */
static void note_snapshots(struct recovery *r)
{
	struct data_snapshots *s = &r->d->snapshots;

	if (r->chosen >= r->snapshots)
		return;
	s->newest = (struct data_newest){
		.start = r->snapshot[r->chosen].foot.start,
		.bytes = r->snapshot[r->chosen].bytes,
		.time_ms = r->snapshot[r->chosen].foot.clock_ms,
	};
}

void recovery_tell(struct recovery *r)
{
	struct data *d = r->d;
	uint64_t ns = r->loaded_ns;

	set_aside(r);
	note_snapshots(r);
	d->recovery_ms = ns / NS_PER_MS;
	d->recovery_records = r->records;
	d->recovery_bytes = r->bytes;
	d->recovery_rewritten_bytes = r->tail_bytes;
	if (r->survey.end_why)
		log_info("data", "the log ended at %s, offset %" PRIu64 ": %s", r->survey.end_name,
			 r->survey.end_offset, r->survey.end_why);
	if (!r->records) {
		log_info("data", "%s has no records; life %" PRIu64 " begins", d->path,
			 d->meta.life);
		return;
	}
	log_info("data",
		 "recovered %s: %" PRIu64 " records, %.2f GB in %.2f s (%.2f GB/s) from %s and the "
		 "log up to position %" PRIu64 "; life %" PRIu64 " begins",
		 d->path, r->records, (double)r->bytes / 1e9, (double)ns / NS_PER_S,
		 (double)r->bytes / (double)(ns ? ns : 1),
		 r->chosen < r->snapshots ? r->snapshot[r->chosen].name : "no snapshot",
		 r->survey.end, d->meta.life);
}
