/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The log of a life: begun, asked, ended. The other files are
 *	ring.c      who appends, and the memory between them and the writer
 *	holders.c   mirrors, which must hold what is committed
 *	batch.c     the writer: one batch of all that has come, written and synced, again and again
 *	turn.c      the same without a disk, by whoever waits
 *	sync.c      positions, who waits for them, syncs by time or on demand, and the failure
 *	segments.c  the keeper: files made ahead, and dropped
 *	ahead.c     the keeper: zeroes where the writer will come
 *
 * What holds throughout:
 * 1. taken <= tail, and written, durable and committed are positions of batches' ends. They grow
 *    only. A batch is given to the disk in one piece, after the one before it was.
 * 2. What is committed is durable (--sync always), or in the kernel's hands, and held by each
 *    mirror that must. `committed` is raised after the call that did it had returned 0, and never
 *    after any call has failed: `failed` is set, and `committed` raised, under one lock.
 * 3. A call that failed is not made again. The writer ends with it; so do keeper and syncer.
 * 4. No thread of the log waits for one that appends, but for the filling of the next record.
 * 5. A sleeper is woken by whatever ends its sleep: the writer by log_kick(), waiters by
 *    log_wake(), both by a pair of stores and loads that are all seq_cst; all else sleeps at
 *    `changed`, or the keeper at `chores`, under the lock that guards what it waits for.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/log/log_internal.h"

/* The records at @at that make the next batch of the config's tail. */
static struct group tail_group(const struct log *l, uint64_t at)
{
	struct group g = { .position = l->config.first + at };

	while (at + g.bytes < l->config.tail_bytes) {
		const struct log_record *r =
			(const void *)((const uint8_t *)l->config.tail + at + g.bytes);

		assert(r->position == g.position + g.bytes);
		if (g.records && g.bytes + r->length > BATCH_RECORDS_BYTES)
			break;
		g.bytes += r->length;
		g.records++;
	}
	return g;
}

/* The file's length: that of any, or more where the tail needs it. */
static uint64_t first_bytes(const struct log *l)
{
	uint64_t bytes = LOG_BLOCK + BATCH_BYTES_MAX;

	for (uint64_t at = 0; at < l->config.tail_bytes;) {
		const struct group g = tail_group(l, at);

		bytes += log_batch_bytes(g.bytes);
		at += g.bytes;
	}
	return bytes > l->config.segment_bytes ? bytes : l->config.segment_bytes;
}

static int write_tail(struct log *l, struct segment *s)
{
	for (uint64_t at = 0; at < l->config.tail_bytes;) {
		const struct group g = tail_group(l, at);
		uint64_t bytes;
		int rc;

		memcpy(l->batch + sizeof(struct log_batch_header),
		       (const uint8_t *)l->config.tail + at, g.bytes);
		bytes = batch_seal(l, &g, s->identity);
		rc = l->io->write(s->file, l->batch, bytes, l->offset);
		if (rc)
			return rc;
		l->offset += bytes;
		at += g.bytes;
	}
	return l->config.tail_bytes ? l->io->sync(s->file) : 0;
}

/* All below @end is written, durable and committed. */
static void begin_at(struct log *l, uint64_t end)
{
	l->taken = end;
	/* relaxed: no other thread is there yet */
	atomic_store_explicit(&l->tail, end, memory_order_relaxed);
	atomic_store_explicit(&l->written, end, memory_order_relaxed);
	atomic_store_explicit(&l->durable, end, memory_order_relaxed);
	atomic_store_explicit(&l->committed, end, memory_order_relaxed);
}

/* All of it is there before it has its name, so a crash leaves the log as it was. */
static int begin_first(struct log *l, struct error *err)
{
	const uint64_t end = l->config.first + l->config.tail_bytes;
	struct segment **last = &l->segments, *s;
	int rc = segment_make(l, SEGMENT_FIRST, first_bytes(l), &s);

	if (rc)
		return error_set(err, rc,
				 "making a segment of the log of %llu MiB failed: %s (make room on "
				 "the disk of the data directory, or give a smaller --log-segment)",
				 (unsigned long long)(first_bytes(l) >> 20), error_name(rc));
	while (*last)
		last = &(*last)->next;
	*last = l->current = s;
	l->offset = LOG_BLOCK;
	atomic_store_explicit(&l->durable, l->config.first, memory_order_relaxed); /* alone yet */
	rc = segment_header(l, s, l->config.first);
	if (!rc)
		rc = write_tail(l, s);
	if (!rc)
		rc = segment_publish(l, s, SEGMENT_FIRST);
	if (rc)
		return error_set(err, rc,
				 "beginning the log's segment %s failed: %s (look at the disk and "
				 "at the kernel's messages; the log is as it was)",
				 s->name, error_name(rc));
	ahead_begin(l, l->offset);
	begin_at(l, end);
	/* relaxed: as there */
	atomic_store_explicit(&l->disk_room, (int64_t)(s->bytes - l->offset), memory_order_relaxed);
	return 0;
}

static int begin(struct log *l, struct error *err)
{
	int rc;

	if (!l->io) { /* whoever must hold the tail has it already */
		begin_at(l, l->config.first + l->config.tail_bytes);
		atomic_store_explicit(&l->disk_room, INT64_MAX / 2, memory_order_relaxed);
		return 0;
	}
	rc = segments_adopt(l, err);
	return rc ? rc : begin_first(l, err);
}

static int start(pthread_t *thread, bool *has, void *(*run)(void *), struct log *l,
		 const char *name)
{
	int rc = pthread_create(thread, NULL, run, l);

	if (rc)
		return -rc;
	*has = true;
	pthread_setname_np(*thread, name);
	return 0;
}

static int start_threads(struct log *l, struct error *err)
{
	int rc = 0;

	l->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (l->wake_fd < 0)
		rc = -errno;
	if (!rc)
		rc = start(&l->writer, &l->has_writer, writer_run, l, "gkv-log");
	if (!rc && l->io)
		rc = start(&l->keeper, &l->has_keeper, keeper_run, l, "gkv-log-keep");
	if (!rc && l->io && l->config.sync != LOG_SYNC_ALWAYS)
		rc = start(&l->syncer, &l->has_syncer, syncer_run, l, "gkv-log-sync");
	if (rc)
		return error_set(err, rc,
				 "starting the log's threads failed: %s (raise the limit of "
				 "threads or of open files)",
				 error_name(rc));
	return 0;
}

static void stop_writer(struct log *l)
{
	pthread_mutex_lock(&l->lock);
	/* seq_cst: the writer is asleep or about to sleep, see log_kick() */
	atomic_store_explicit(&l->stop, true, memory_order_seq_cst);
	pthread_mutex_unlock(&l->lock);
	if (!l->has_writer)
		return;
	log_kick(l);
	pthread_join(l->writer, NULL);
	l->has_writer = false;
}

static void stop_threads(struct log *l)
{
	stop_writer(l); /* it may need what the others do */
	pthread_mutex_lock(&l->lock);
	l->ended = true;
	pthread_cond_broadcast(&l->changed);
	pthread_cond_broadcast(&l->chores);
	pthread_mutex_unlock(&l->lock);
	if (l->has_keeper)
		pthread_join(l->keeper, NULL);
	if (l->has_syncer)
		pthread_join(l->syncer, NULL);
}

static void destroy(struct log *l)
{
	segments_free(l);
	ring_close(l);
	ahead_close(l);
	if (l->wake_fd >= 0)
		close(l->wake_fd);
	pthread_cond_destroy(&l->chores);
	pthread_cond_destroy(&l->changed);
	pthread_mutex_destroy(&l->lock);
	pthread_mutex_destroy(&l->wait_lock);
	pthread_mutex_destroy(&l->turn);
	free(l);
}

static struct log *create(const struct log_config *config)
{
	struct log *l = aligned_alloc(CACHE_LINE, sizeof(*l));
	pthread_condattr_t attr;

	if (!l)
		return NULL;
	memset(l, 0, sizeof(*l));
	l->config = *config;
	l->config.segment_bytes &= ~(uint64_t)(LOG_BLOCK - 1);
	l->io = config->io;
	l->wake_fd = -1;
	/* relaxed: no other thread is there yet */
	atomic_store_explicit(&l->held,
			      config->mirror ? config->first + config->tail_bytes : UINT64_MAX,
			      memory_order_relaxed);
	pthread_mutex_init(&l->turn, NULL);
	pthread_mutex_init(&l->wait_lock, NULL);
	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->changed, &attr);
	pthread_cond_init(&l->chores, &attr);
	pthread_condattr_destroy(&attr);
	return l;
}

int log_open(struct log **out, const struct log_config *config, struct error *err)
{
	struct log *l;
	int rc;

	assert(!config->io || config->segment_bytes >= LOG_SEGMENT_MIN);
	assert(config->first % 8 == 0 && config->tail_bytes % 8 == 0);
	l = create(config);
	if (!l)
		return error_set(err, -ENOMEM,
				 "there is no memory for the log (give the server "
				 "more memory)");
	rc = ahead_open(l);
	if (rc)
		error_set(err, rc,
			  "taking memory for the log failed: %s (give the server more "
			  "memory)",
			  error_name(rc));
	if (!rc)
		rc = ring_open(l, err);
	if (!rc)
		rc = begin(l, err);
	if (!rc)
		rc = start_threads(l, err);
	l->config.tail = NULL; /* they are the caller's again */
	l->config.older = NULL;
	if (rc) {
		stop_threads(l);
		destroy(l);
		return rc;
	}
	*out = l;
	return 0;
}

int log_close(struct log *l)
{
	int rc;

	stop_threads(l);
	if (!log_has_failed(l) && log_durable(l) < log_tail(l)) {
		rc = l->io->sync(l->current->file);
		if (rc)
			log_fail(l, "syncing", l->current->name, rc);
	}
	rc = log_has_failed(l) ? -EIO : 0;
	destroy(l);
	return rc;
}

/* With a disk the writer is the only thread that looks at mirrors: what is changed while there is
 * none, the next one sees by its start. */
int log_mirror(struct log *l, const struct log_mirror *mirror, struct error *err)
{
	int rc;

	assert(l->io && !l->config.mirror);
	stop_writer(l);
	l->config.mirror = mirror;
	rc = mirror->memory(mirror->ctx, l->buffers, BUFFERS_BYTES);
	if (rc)
		return error_set(err, rc, "the log's memory cannot be sent to others: %s",
				 error_name(rc));
	atomic_store_explicit(&l->held, log_tail(l), memory_order_relaxed);
	atomic_store_explicit(&l->stop, false, memory_order_relaxed);
	rc = start(&l->writer, &l->has_writer, writer_run, l, "gkv-log");
	return rc ? error_set(err, rc,
			      "starting the log's thread failed: %s (raise the limit of "
			      "threads)",
			      error_name(rc))
		  : 0;
}

uint64_t log_tail(const struct log *l)
{
	/* seq_cst: see log_append_begin() */
	return atomic_load_explicit(&l->tail, memory_order_seq_cst);
}

uint64_t log_committed(const struct log *l)
{
	/* acquire: pairs with log_raise() */
	return atomic_load_explicit(&l->committed, memory_order_acquire);
}

uint64_t log_durable(const struct log *l)
{
	/* acquire: pairs with log_raise() */
	return atomic_load_explicit(&l->durable, memory_order_acquire);
}

bool log_is_full(const struct log *l)
{
	/* acquire: pairs with the keeper's store */
	return atomic_load_explicit(&l->full, memory_order_acquire);
}

bool log_has_failed(const struct log *l)
{
	/* acquire: pairs with log_fail() */
	return atomic_load_explicit(&l->failed, memory_order_acquire);
}

void log_stats_get(struct log *l, struct log_stats *out)
{
	pthread_mutex_lock(&l->lock);
	*out = l->stats;
	/* relaxed: figures; those of the lock stand still. The tail comes last, none is above
	 * it. */
	out->committed = atomic_load_explicit(&l->committed, memory_order_relaxed);
	out->durable = atomic_load_explicit(&l->durable, memory_order_relaxed);
	out->written = atomic_load_explicit(&l->written, memory_order_relaxed);
	out->tail = log_tail(l);
	out->pending_bytes = out->tail - out->committed;
	out->first = l->segments ? l->segments->first : l->config.first;
	for (const struct segment *s = l->segments; s; s = s->next) {
		out->segments++;
		out->segment_bytes += s->bytes;
	}
	if (l->next)
		out->segment_bytes += l->next->bytes;
	pthread_mutex_unlock(&l->lock);
	out->refused_busy = atomic_load_explicit(&l->refused_busy, memory_order_relaxed);
	out->refused_space = atomic_load_explicit(&l->refused_space, memory_order_relaxed);
}
