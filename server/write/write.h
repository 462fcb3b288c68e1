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
 * Today the answer comes before the call returns. A caller must not rely on that: it keeps the
 * struct write in place until then, and learns the result from `answer` alone.
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
};

/* write_begin - a new write, in place of one that was answered or dropped. */
static inline void write_begin(struct write *w)
{
	w->result = (struct client_reply){ 0 };
	w->repeated = false;
	w->put.block = NULL;
}

struct write_door {
	struct store_worker *store;
	void (*answer)(struct write_door *door, struct write *w);
	uint64_t growth_pause_until_ns; /* it waited for memory to grow: not again before */
};

/*
 * write_take - the first half of a PUT or APPEND: take a block for its value. @fetched: the value
 * comes later, so a write that would have to wait is refused before anybody fetches the value in
 * vain. True: bring the value to write_value(), then call write_run() or write_drop(). False: it
 * was answered.
 */
bool write_take(struct write_door *door, struct write *w, bool fetched);

/* write_value - where the value goes, between write_take() and write_run(). */
static inline uint8_t *write_value(const struct write *w)
{
	return w->put.block->data + w->ask.key_len + w->put.base;
}

/* write_drop - the value cannot be had: give the block back. Nothing is answered. */
void write_drop(struct write_door *door, struct write *w);

/* write_run - decide, apply, remember and answer. */
void write_run(struct write_door *door, struct write *w);
