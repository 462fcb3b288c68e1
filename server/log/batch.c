/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The log's writer: what has come meanwhile becomes a batch, is written, and synced. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mutant.h"
#include "common/base/time.h"
#include "server/log/log_internal.h"

#define SPIN_NS 200000u /* as workers do while a write waits for the log */

uint64_t batch_seal(struct log *l, const struct group *g, uint64_t identity)
{
	const uint64_t bytes = log_batch_bytes(g->bytes);
	struct log_batch_header *h = (void *)l->batch;
	uint8_t *records = l->batch + sizeof(*h);

	for (uint32_t at = 0; at < g->bytes;) {
		struct log_record *r = (void *)(records + at);

		r->checksum = log_record_checksum(r, identity);
		at += r->length;
	}
	*h = (struct log_batch_header){
		.magic = LOG_BATCH_MAGIC,
		.position = g->position,
		/* relaxed: an older value says less, and is as true */
		.durable = atomic_load_explicit(&l->durable, memory_order_relaxed),
		.clock_ms = l->config.clock_ms(l->config.ctx),
		.bytes = g->bytes,
		.records = g->records,
	};
	h->checksum = log_batch_checksum(h, identity);
	memset(records + g->bytes, 0, bytes - sizeof(*h) - g->bytes);
	return bytes;
}

void at_disk(struct log *l)
{
	/* relaxed: one thread counts, and who looks wants to see it change */
	uint64_t n = atomic_load_explicit(&l->disk_calls, memory_order_relaxed);

	atomic_store_explicit(&l->disk_calls, n + 1, memory_order_relaxed);
}

static int write_batch(struct log *l, uint64_t bytes)
{
	struct segment *s = l->current; /* the writer alone changes it */
	const bool sync = l->config.sync == LOG_SYNC_ALWAYS;
	const uint64_t began_ns = time_now_ns();
	int rc;

	at_disk(l);
	rc = sync ? l->io->write_durable(s->file, l->batch, bytes, l->offset)
		  : l->io->write_cached(s->file, l->batch, bytes, l->offset);
	if (rc && MUTANT(retry_fsync))
		rc = l->io->sync(s->file);
	if (rc) {
		log_fail(l, sync ? "writing and syncing" : "writing", s->name, rc);
		return -EIO;
	}
	at_disk(l);
	if (sync)
		sync_took(l, time_now_ns() - began_ns);
	return 0;
}

void batch_count(struct log *l, const struct group *g, uint64_t bytes, uint64_t cached)
{
	pthread_mutex_lock(&l->lock);
	l->unsynced += cached;
	l->stats.batches++;
	l->stats.records += g->records;
	l->stats.bytes += bytes;
	l->stats.group = g->records;
	pthread_mutex_unlock(&l->lock);
}

/* What stands in l->batch, to the disk. Holders get it meanwhile. */
static int to_disk(struct log *l, const struct group *g)
{
	const uint64_t end = g->position + g->bytes;
	const uint64_t bytes = batch_seal(l, g, l->current->identity);

	holders_send(l, g);
	at_disk(l);
	ahead_claim(l, bytes);
	sync_keep_up(l);
	at_disk(l);
	if (write_batch(l, bytes))
		return -EIO;
	l->offset += bytes;
	/* relaxed: a count of bytes */
	atomic_fetch_add_explicit(&l->disk_room, (int64_t)(g->worst - bytes), memory_order_relaxed);
	batch_count(l, g, bytes, l->config.sync == LOG_SYNC_ALWAYS ? 0 : bytes);
	return log_raise(l, end, l->config.sync == LOG_SYNC_ALWAYS ? end : 0) ? 0 : -EIO;
}

/* Sleeps where it has to wait. False: the log has failed. */
static bool await_buffer(struct log *l)
{
	while (!holders_buffer(l)) {
		if (log_has_failed(l))
			return false;
		time_give_way();
	}
	return true;
}

static int await_holders(struct log *l, uint64_t end)
{
	if (!l->config.mirror)
		return 0;
	while (!holders_have(l, end)) {
		if (log_has_failed(l))
			return -EIO;
		time_give_way();
	}
	return log_raise(l, 0, 0) ? 0 : -EIO;
}

static int commit_group(struct log *l, const struct group *g)
{
	const uint64_t bytes = log_batch_bytes(g->bytes);
	int rc;

	if (!await_buffer(l))
		return -EIO;
	if (bytes > l->current->bytes - l->offset && segment_switch(l)) /* in the buffer */
		return -EIO;
	ring_take(l, g, l->batch + sizeof(struct log_batch_header));
	rc = to_disk(l, g);
	return rc ? rc : await_holders(l, g->position + g->bytes);
}

/*
 * The writer says that it is about to sleep, then looks for the last time; who appends makes the
 * tail longer, then looks whether the writer sleeps. All four are seq_cst, so one of the two sees
 * what the other did, and no append is slept over.
 */
void log_kick(struct log *l)
{
	const uint64_t one = 1;

	/* seq_cst: see above. The exchange lets one of many kick. */
	if (atomic_load_explicit(&l->asleep, memory_order_seq_cst) &&
	    atomic_exchange_explicit(&l->asleep, false, memory_order_seq_cst))
		while (write(l->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
}

static bool rests(struct log *l)
{
	return l->io ? log_tail(l) == l->taken : turn_rests(l);
}

static void sleep_for_more(struct log *l)
{
	uint64_t kicks;

	atomic_store_explicit(&l->asleep, true, memory_order_seq_cst); /* see log_kick() */
	if (rests(l) && !atomic_load_explicit(&l->stop, memory_order_seq_cst) &&
	    !log_has_failed(l)) {
		if (read(l->wake_fd, &kicks, sizeof(kicks)) < 0) {
			/* interrupted: it is asked again what there is to do */
		}
	}
	/* relaxed: who still sees that it is true kicks once too often */
	atomic_store_explicit(&l->asleep, false, memory_order_relaxed);
}

/*
 * Those whose writes were in the last batch are about to write again, and waking a thread takes
 * about the time of a fast disk's sync: so look a while longer, but only where to yield is cheap
 * (base/time.c): who is about to write may need this core. Without a disk they do it themselves.
 */
static void idle(struct log *l, uint64_t *since_ns)
{
	const uint64_t now = time_now_ns();

	if (!*since_ns)
		*since_ns = now;
	if (l->io && now - *since_ns < SPIN_NS && time_yield())
		return;
	if (l->io)
		holders_tell(l);
	else
		turn_tell(l);
	sleep_for_more(l);
	*since_ns = 0;
}

/* Returns false where there is nothing to do, or it has failed. */
static bool write_group(struct log *l)
{
	struct group g;

	if (!l->io)
		return turn_take(l);
	return ring_look(l, &g) && commit_group(l, &g) == 0;
}

void *writer_run(void *log)
{
	struct log *l = log;
	uint64_t idle_since_ns = 0; /* 0: it is at work */

	while (!log_has_failed(l)) {
		if (write_group(l))
			idle_since_ns = 0;
		else if (!rests(l))
			time_give_way(); /* the next one is being filled, or one is under way */
		else if (atomic_load_explicit(&l->stop, memory_order_acquire))
			break;
		else
			idle(l, &idle_since_ns);
	}
	return NULL;
}
