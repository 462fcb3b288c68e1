/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The log of a server's life: writers append records to a ring in memory; one thread writes what
 * has come meanwhile as a batch, and syncs it (group commit); without a disk those who wait for it
 * do (turn.c). log_format.h has the bytes on disk, log.c the argument.
 *
 * POSITIONS (log_format.h), each at most the one before it:
 *	tail       all that was appended
 *	written    given to the kernel: a killed process loses nothing below
 *	durable    synced: a power cut loses nothing below
 *	committed  what --sync makes of it: durable (always), else written; and held by all that
 *	           must (mirror.h). Writes below are published and acknowledged.
 *
 * A log without a disk is what mirrors need: written and durable are what is committed.
 *
 * A record of a key has a lower position than the next one of that key if their writers append
 * under one lock; the log itself orders nothing else.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/layout/log_format.h"
#include "server/log/io.h"
#include "server/log/mirror.h"

enum log_sync { LOG_SYNC_ALWAYS, LOG_SYNC_MS, LOG_SYNC_NEVER };

struct log;
struct log_survey; /* read.h */

/* Someone who sleeps until the log commits. */
struct log_waiter {
	struct log_waiter *next; /* the log's */
	int fd; /* an eventfd, which becomes readable */
	_Atomic uint64_t wants; /* a position; UINT64_MAX: none. See log_wait_arm() */
};

/*
 * Memory for a log's ring, in pages that are there. Taking it lasts some 50 ms, which a server that
 * takes over does not have: it takes it before.
 *
 * log_memory_take - @ring_bytes: as in struct log_config. Returns 0 or a negative errno with @err.
 * log_memory_free - what log_open() has not taken over; nothing where it is all zeros.
 */
struct log_memory {
	uint8_t *ring; /* NULL: none */
	uint64_t ring_bytes;
};

int log_memory_take(struct log_memory *out, uint64_t ring_bytes, struct error *err);
void log_memory_free(struct log_memory *m);

struct log_config {
	struct log_memory *memory; /* taken over, and empty then; NULL or empty: its own */
	const struct log_io *io; /* stays until log_close(); NULL: there is no disk */
	const struct log_mirror *mirror; /* the same; NULL: nobody else must hold it */
	enum log_sync sync;
	unsigned sync_ms; /* LOG_SYNC_MS: durable within that time */
	uint64_t segment_bytes; /* LOG_SEGMENT_MIN at least */
	uint64_t ring_bytes; /* of memory; 0: 64 MiB. A multiple of the page. Without @memory */
	uint64_t store[2], life;
	const struct log_survey *older; /* segments that log_drop() may delete; NULL: none. Read by
					 * log_open() only; all begin at @first or below */
	/*
	 * Where it begins: the records @tail, from position @first on, of @tail_bytes, stand in
	 * memory, whole, and are written into the new segment and synced before log_open() returns.
	 * All below @first is durable.
	 */
	uint64_t first;
	const void *tail;
	uint64_t tail_bytes;
	uint64_t (*clock_ms)(void *ctx); /* what expiry goes by. Any thread */
	/* Writing has failed, for good: @why, in words. Nothing is committed from then on. Once.
	 * Any thread. */
	void (*failed)(void *ctx, const char *why);
	void *ctx;
};

/*
 * log_open - begin the log of this life: a new segment, durable with its name, and its threads.
 * Older segments stay as they are. Returns 0 or a negative errno with @err.
 * log_close - no writer is left: writes and syncs what was appended, unless it has failed, and ends
 * the threads. Returns 0; -EIO: the last of it could not be made durable.
 */
int log_open(struct log **out, const struct log_config *config, struct error *err);
int log_close(struct log *l);

/*
 * log_mirror - from now on others must hold what is committed, too; those who must have all that
 * was appended so far. There was no mirror before, nobody appends, and all is durable. Returns 0;
 * negative with @err: the log has to be closed.
 */
int log_mirror(struct log *l, const struct log_mirror *mirror, struct error *err);

/* What is to be appended: fields of struct log_record by their names. */
struct log_entry {
	enum log_kind kind;
	uint64_t version;
	uint64_t client[2];
	uint64_t sequence;
	int64_t number;
	uint64_t expiry_ms;
	uint8_t handle;
	uint16_t slot;
	const void *key, *value; /* stay until log_append_end() */
	uint32_t key_len, value_len;
	uint64_t body; /* XXH3 of both; where both are empty the log knows it */
};

struct log_place {
	uint64_t start, end; /* positions: of the record, and behind it */
};

/*
 * log_append_begin - a place for a record, and room for it in memory and on disk. Then it is in the
 * log, and log_append_end() must follow soon: what comes later waits for it. Takes no lock, never
 * sleeps.
 * Returns 0; -EBUSY: the disk is slow, come again; -ENOSPC: the disk is full, which ends by itself
 * where there is room again; -EROFS: log_refuse(); -EIO: writing has failed. Any thread.
 * log_append_end - fill it. @e: of the lengths that were given at the begin.
 */
int log_append_begin(struct log *l, uint32_t key_len, uint32_t value_len, struct log_place *out);
void log_append_end(struct log *l, const struct log_place *at, const struct log_entry *e);

/* log_refuse - nothing more is appended, or it is again; what was begun goes on. Any thread. */
void log_refuse(struct log *l, bool refuse);

/*
 * log_kick - the log's thread writes what was appended, now: once after a few appends.
 * log_push - the same, from one who waits for it and goes on to look, by log_step() again and
 * again, until all of it is committed, or until log_leave(). Without a disk such a caller writes
 * the log itself, as far as that goes without waiting; with one the log's thread does, and the
 * other two do nothing.
 * log_leave - also now and then where nothing is waited for (@waits), and before a sleep. Returns
 * how long that may be, in ns: others are to be told then what was committed.
 * log_needs_thread - what comes next is not the caller's, but the log's thread's.
 * Any thread; they never wait.
 */
void log_kick(struct log *l);
void log_push(struct log *l);
void log_step(struct log *l);
uint64_t log_leave(struct log *l, bool waits);
bool log_needs_thread(const struct log *l);

uint64_t log_tail(const struct log *l); /* seq_cst */
uint64_t log_committed(const struct log *l); /* acquire */
uint64_t log_durable(const struct log *l); /* acquire */
bool log_is_full(const struct log *l); /* appends are refused with -ENOSPC */
bool log_has_failed(const struct log *l);

/*
 * log_wait_join, log_wait_leave - a waiter with its eventfd; any thread, rarely.
 * log_wait_arm - its fd becomes readable when all below @position is committed, or the log has
 * failed. False: it is committed already, or has failed; do not sleep. Arm, then look at whatever
 * else you wait for, then sleep; log_wait_disarm() after it, and read the fd: it stays readable.
 */
void log_wait_join(struct log *l, struct log_waiter *w);
void log_wait_leave(struct log *l, struct log_waiter *w);
bool log_wait_arm(struct log *l, struct log_waiter *w, uint64_t position);
void log_wait_disarm(struct log_waiter *w);

/* log_await_durable - sleep until all below @position is durable, syncing it if --sync does not.
 * Returns 0, or -EIO: writing has failed. */
int log_await_durable(struct log *l, uint64_t position);

/*
 * log_at_disk - the number of the writer's call of the disk that is under way, or of its wait for
 * another thread's; 0: there is none. One that stays the same is one that the disk does not end.
 * log_give_up - it counts as failed from now on, however it ends. Any thread.
 */
uint64_t log_at_disk(const struct log *l);
void log_give_up(struct log *l);

/* log_drop - segments whose records all lie below @position may go, in the background. */
void log_drop(struct log *l, uint64_t position);

#define LOG_BINS 64u /* of the latency of syncs: bin i counts those of 2^(i/4) us and more */

struct log_stats {
	uint64_t tail, written, durable, committed, first; /* first: of the oldest segment */
	uint64_t pending_bytes; /* appended and not committed */
	uint64_t segments, segment_bytes; /* on disk */
	uint64_t batches, records,
		bytes; /* since the start: written, of records, padding included */
	uint64_t group; /* records of the last batch */
	uint64_t refused_busy, refused_space; /* appends */
	uint64_t syncs, sync_bins[LOG_BINS], sync_ns_last, sync_ns_max;
};

void log_stats_get(struct log *l, struct log_stats *out);
