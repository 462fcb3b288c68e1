/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The one door for writes. A caller fills a struct write_request, and the door calls its `answer`
 * with the result, once for each write. The door knows records and clients, but neither frames nor
 * queue pairs: RPC uses it today, and every later way to write will.
 *
 * A write goes through these steps (write.c):
 *	take      a PUT or APPEND gets its block, and the caller brings the value into it;
 *	decide    the session may write, and the request was not answered before;
 *	apply     the condition holds, and the record is published;
 *	remember  the reply is kept for a retry;
 *	answer    the caller hears of it.
 * Without a log the answer comes before the call returns. With one, `apply` ends with the record
 * in the log; it is published, remembered and answered by write_poll() when the log has committed
 * it (write.c). In both cases the caller keeps the struct write in place until the answer, or until
 * write_forsake(), and learns the result from `answer` alone.
 *
 * Threads: a door belongs to one worker thread, which is registered with liburcu and online.
 * write_take() and write_run() may go offline for a moment while memory grows, so the caller holds
 * nothing that it found by look-up.
 */
#include <stdbool.h>
#include <stdint.h>

#include "server/clients/clients.h"
#include "server/store/store.h"

enum write_op { WRITE_PUT, WRITE_DEL, WRITE_INCR, WRITE_TOUCH, WRITE_APPEND };

struct write_request {
	/* The client and its request: exactly once goes by these. */
	struct client_entry *client;
	uint64_t generation;
	uint64_t sequence;
	unsigned handle;
	unsigned slot;
	bool retry; /* it may have been sent before */

	enum write_op op;
	enum store_condition condition; /* all but TOUCH */
	bool keep; /* PUT: the record that is there keeps its expiry, as with INCR and APPEND */
	uint64_t operand; /* STORE_IF_VERSION: the version; INCR: what is added, two's complement */
	uint64_t now_ns; /* wall clock, since the request came: expiry is judged by it */
	uint64_t ttl_ms; /* all but DEL; 0: the record never expires */
	uint32_t waited_ms; /* since the client got its first -EBUSY for this; 0: none yet */
	uint32_t key_len;
	uint32_t value_len; /* PUT, APPEND */
	const void *key; /* these two need it for write_take() only */
};

/* The caller sets `ask`; write_begin() the rest. */
struct write {
	struct write_request ask;
	struct client_reply result; /* what `answer` is about */
	bool repeated; /* the result was remembered: this time nothing was applied */
	struct store_put put; /* the door's; put.block: what write_take() took, or NULL */
	struct write_waiting *waiting; /* the door's: it waits for the log; NULL: it does not */
};

/* write_begin - a new write, in place of one that was answered or dropped. */
static inline void write_begin(struct write *w)
{
	w->result = (struct client_reply){ 0 };
	w->repeated = false;
	w->put.block = NULL;
	w->waiting = NULL;
}

struct write_waiting; /* write_log.c */

struct write_door {
	struct store_worker *store;
	/* With a log (write_log.c). */
	struct log_waiter waiter; /* its fd: to be polled by one who sleeps; -1: there is no log */
	struct write_waiting *free, *first, *last; /* a pool; in the order of their decisions */
	struct write_waiting *pool;
	bool appended; /* since the last write_flush() */
	/* No record of this door below this position waits to be published; UINT64_MAX: none does.
	 * Written by the door's thread, read by a snapshot (seq_cst): write_log.c. */
	_Atomic uint64_t oldest;
	void (*answer)(struct write_door *door, struct write *w);
	uint64_t growth_pause_until_ns; /* it waited for memory to grow: not again before */
};

/*
 * write_take - the first half of a PUT or APPEND: take a block for its value. @fetched: the value
 * comes later, so a write that would have to wait is refused before anybody fetches the value in
 * vain. True: bring the value to write_value(), then call write_run() or write_drop(). False: it
 * was answered, or w->waiting is set: it will be.
 */
bool write_take(struct write_door *door, struct write *w, bool fetched);

/* write_value - where the value goes, between write_take() and write_run(). */
static inline uint8_t *write_value(const struct write *w)
{
	return w->put.block->data + w->ask.key_len + w->put.base;
}

/* write_drop - the value cannot be had: give the block back. Nothing is answered. */
void write_drop(struct write_door *door, struct write *w);

/* write_run - decide, apply, remember and answer; or w->waiting is set, and the rest follows. */
void write_run(struct write_door *door, struct write *w);

/*
 * With a log. write_door_open - before its thread runs: @writes: how many may wait at once; where
 * more would, they are refused with -EBUSY. Without a log it does nothing; a door that was not
 * opened may be used then. Returns 0, -ENOMEM, or what eventfd() said, with @err.
 * write_door_close - the thread has ended, and nothing waits, unless the log has failed: what does
 * is dropped.
 */
int write_door_open(struct write_door *door, unsigned writes, struct error *err);
void write_door_close(struct write_door *door);

/* write_poll - once per loop of the worker: publish, remember and answer what is committed. Returns
 * whether it did anything. */
bool write_poll(struct write_door *door);

/* write_flush - after the writes that were polled together: the log may go on. */
void write_flush(struct write_door *door);

/* write_waits - something waits for the log. */
static inline bool write_waits(const struct write_door *door)
{
	return door->first;
}

/*
 * write_sleep - before the thread sleeps: door->waiter.fd will wake it when the log has committed
 * what is first. Returns nanoseconds that it may sleep at most: UINT64_MAX: any time; 0: do not
 * sleep, poll. write_woke - after it, whatever was returned. write_rest - now and then, where the
 * thread does not come to sleep: others may have to be told what was committed.
 */
uint64_t write_sleep(struct write_door *door);
void write_woke(struct write_door *door);
void write_rest(struct write_door *door);

/*
 * write_first_unpublished - position: all below it is published, of writes by the @count doors
 * @doors, which are all there are. Any thread.
 */
uint64_t write_first_unpublished(const struct log *log, const struct write_door *const *doors,
				 unsigned count);

/* write_forsake - nobody wants the answer of @w any more: its memory may go. The write itself goes
 * its way, and a retry will find its reply. */
void write_forsake(struct write *w);
