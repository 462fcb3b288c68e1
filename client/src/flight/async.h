/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Operations in flight: what gkv_submit() took and gkv_poll() has not brought yet. The essay is in
 * async.c.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/src/link/handle.h"
#include "client/src/know/lookup.h"
#include "client/src/request/window.h"

#define LANE_ARENA_BYTES (64u << 10) /* block bytes of one chain, unless one block is larger */

enum op_state {
	OP_FREE,
	OP_READ, /* waits for a lane */
	OP_READING, /* in one */
	OP_ASK, /* waits to be a request */
	OP_ASKING, /* is one */
	OP_DONE, /* waits to be polled */
};

struct op {
	struct op *next, *prev; /* in the list of its state: all but OP_READING, OP_ASKING */
	struct gkv_request q; /* as it was given */
	struct gkv_completion result; /* of a write, before its end; of all, when DONE */
	uint64_t deadline_ns;
	uint64_t hash, hash_seed; /* of a get that is hashed: its key's, by that server's seed */
	uint32_t age; /* of what a request's reply may be remembered with */
	uint32_t block_bytes; /* that found no room in a lane; 0: not known */
	enum op_state state;
	unsigned at; /* READING: lane * READER_BATCH + place in it */
	bool cancelled;
	bool hashed; /* when it was submitted: the server's seed was known */
	bool aimed; /* the memory that it names is in use by it */
	bool direct; /* its value is READ to the application's registered memory, */
	uint32_t lkey; /* by this key, */
	const void *device; /* which is this device's */
};

static inline bool op_is_get(const struct op *op)
{
	return op->q.op == GKV_OP_GET || op->q.op == GKV_OP_EXISTS;
}

struct op_list {
	struct op *first, *last;
};

static inline void ops_append(struct op_list *list, struct op *op)
{
	op->next = NULL;
	op->prev = list->last;
	if (list->last)
		list->last->next = op;
	else
		list->first = op;
	list->last = op;
}

static inline void ops_remove(struct op_list *list, struct op *op)
{
	if (op->prev)
		op->prev->next = op->next;
	else
		list->first = op->next;
	if (op->next)
		op->next->prev = op->prev;
	else
		list->last = op->prev;
}

/* A chain of READs under way: a batch with memory of its own. */
struct lane {
	unsigned count; /* of its operations; 0: it is free */
	uint64_t chain; /* that it waits for */
	struct batch batch;
	struct fetch fetch;
	struct rdma_buffer larger; /* in place of its arena, for a block that has no room there */
	struct op *op[READER_BATCH]; /* NULL: ended before its READs */
	struct lookup lookup[READER_BATCH];
};

struct async {
	struct gkv *h;
	unsigned depth;
	unsigned pending; /* operations that were not polled */
	struct op *op; /* depth of them */
	struct op *free; /* a stack */
	struct op_list read, ask, done;
	struct gkv_completion *out; /* of the gkv_poll() under way: where the next one goes, */
	size_t room; /* and how many may */

	struct lane lane[HANDLE_LANES];
	unsigned reads; /* in flight */
	struct rdma_buffer memory; /* of the lanes */
	struct read_op chain[READER_BATCH]; /* being gathered */

	struct rpc_call call[HANDLE_CREDITS];
	struct window asks; /* over those */

	unsigned busy; /* async_step()s that brought something */
	uint64_t next_ns; /* no operation's deadline is earlier */
	uint64_t quiet_ns; /* nothing came since; 0: not looked at */
	uint64_t looked_ns; /* at the life line */

	/* The descriptor to sleep on; -1: not asked for yet. */
	int epoll, timer, event;
	bool watching; /* the queue pair's descriptors are in it */
	bool armed;

	/* For the housekeeper, which has the handle for a moment (tend.c). */
	uint64_t polls; /* grows with each call */
	uint64_t polls_seen; /* its own: when it looked last, */
	uint64_t seen_ns; /* and since when that did not change */
	/* The same for async_aside(); the owner's. */
	uint64_t polls_aside;
	uint64_t aside_ns;
};

/* Of a session: its handles with operations in flight, for the housekeeper and the connecting
 * thread. What stands here stays while the lock is held. */
struct flights {
	pthread_mutex_t lock;
	struct async *async[SESSION_HANDLES_MAX];

	/* The connecting thread (connecting.c). Lock order: thread_lock, then lock. */
	struct bell bell; /* wakes it, and is stopped with the session */
	pthread_mutex_t thread_lock; /* protects what follows */
	pthread_t thread;
	bool started; /* it is to be joined, */
	bool running; /* and looks at what is wanted still */
};

void flights_init(struct flights *f);
void flights_destroy(struct flights *f);
/* flights_end - the session was closed: no connecting thread after it returns, none is begun. */
void flights_end(struct flights *f);
/* flights_signal - wake what sleeps with operations in flight. */
void flights_signal(struct flights *f);

/* async_create - the handle's, from its first gkv_submit() on. Returns 0 or -ENOMEM. */
int async_create(struct gkv *h);
/* flights_remove - the housekeeper does not look at the handle any more, nor connect it. */
void flights_remove(struct gkv *h);
/* async_destroy - after handle_disconnect(); NULL is fine. */
void async_destroy(struct async *a);

/* async_step - take what came, go on with all that is in flight, connect again. Does not wait.
 * Returns whether something came: there may be more, or there is another queue pair. */
bool async_step(struct async *a);

/* async_poll - gkv_poll() inside a call. */
int async_poll(struct gkv *h, struct gkv_completion *out, size_t max);

/* async_tend - by the housekeeper: of handles that nobody has polled for @patience_ns the sections
 * are closed. Returns how many were. */
unsigned async_tend(struct gkv_session *s, uint64_t patience_ns);

/* async_due - when it wants to be called at the latest, whatever comes; UINT64_MAX: never. */
uint64_t async_due(const struct async *a);

/*
 * async_lost - the queue pair is about to be destroyed: what was READ or asked starts again on the
 * next one.
 */
void async_lost(struct async *a);

/* async_aside - a call goes on, outside of a section, that is not about them: the sections of
 * chains that have come end where it takes long, as async_tend() would end them. The queue pair may
 * be lost then. */
void async_aside(struct async *a);

/* async_close_lanes - end the sections of chains that have come, without looking at what they
 * brought; @all: of the others as well, as the queue pair is of no use any more. Returns how
 * many. */
unsigned async_close_lanes(struct async *a, bool all);

/* Lists and ends of operations (ops.c). */
int ops_create(struct async *a, unsigned depth);
void ops_prepend(struct op_list *list, struct op *op);
/* op_free - its completion was handed over. It is in no list. */
static inline void op_free(struct async *a, struct op *op)
{
	op->state = OP_FREE;
	op->next = a->free;
	a->free = op;
	a->pending--;
}

/* ops_of - the list of @state: OP_READ, OP_ASK or OP_DONE. */
static inline struct op_list *ops_of(struct async *a, enum op_state state)
{
	return state == OP_READ ? &a->read : state == OP_ASK ? &a->ask : &a->done;
}

/* op_to - into the list of @state, at its end. It is in none. */
static inline void op_to(struct async *a, struct op *op, enum op_state state)
{
	op->state = state;
	ops_append(ops_of(a, state), op);
}

/* op_request - check @q, and make a call of it, zeroed before. Returns 0 or -EINVAL. */
int op_request(struct gkv *h, struct rpc_call *c, const struct gkv_request *q);
/* op_aim - of a get: whether it is direct. Returns 0 or -EINVAL. */
int op_aim(struct async *a, struct op *op);
/* op_end - its completion is due. It is in no list. No READ to its memory is on its way then: a
 * queue pair that failed is destroyed first. */
void op_end(struct async *a, struct op *op, int status);
/* op_end_found - the same of a look-up, with what @l has found. */
void op_end_found(struct async *a, struct op *op, const struct lookup *l);
/* ops_expire - end those whose deadline is at or before @now. */
void ops_expire(struct async *a, uint64_t now);

/* Lanes (lane.c). */
int lanes_create(struct async *a);
void lanes_destroy(struct async *a);
/* lanes_step - judge what came, post what follows, start what waits. */
void lanes_step(struct async *a);
/* lane_drop - an operation ends before its READs: they bring it nothing. */
void lane_drop(struct async *a, struct op *op);

/* Requests (ask.c). */
void asks_create(struct async *a);
void asks_step(struct async *a);
/* ask_expire - the time of an operation's request is over: both end. */
void ask_expire(struct async *a, struct op *op);
/* asks_fail - there will be no connection, because of @rc: all end. */
void asks_fail(struct async *a, int rc);
/* ask_abandon - both end, unsent. Returns false where it was sent, or may have been. */
bool ask_abandon(struct async *a, struct op *op);

/* Another queue pair (reconnect.c). */
/* async_reconnect - the handle has no queue pair of the present connection: see to another one.
 * Returns whether it has one now. */
bool async_reconnect(struct async *a);
/* reconnect_due - when that has something to do, whatever comes; UINT64_MAX: never. */
uint64_t reconnect_due(const struct async *a);
/* connecting_wake - a queue pair is wanted. Returns whether there is a thread to see to it. */
bool connecting_wake(struct gkv_session *s);

/* Sleeping (wait.c). */
/* wait_unwatch - the queue pair's descriptors are about to be closed. */
void wait_unwatch(struct async *a);
/* wait_signal - it is to be polled. Must hold the lock of the session's flights. */
void wait_signal(struct async *a);
/* wait_awake - what woke it is taken. */
void wait_awake(struct async *a);
void wait_end(struct async *a);
