/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Another queue pair for a handle. The essay is in connector.c. */
#include "client/src/link/link.h"

enum connector_state { CONNECTOR_IDLE, CONNECTOR_WANTED, CONNECTOR_BUSY, CONNECTOR_DONE };

struct connector {
	_Atomic uint32_t state; /* enum connector_state */
	struct link fresh; /* all but IDLE: gets the queue pair; DONE: live, or closed */
	struct error error; /* of that attempt; not live: why */
	int rc; /* DONE: what came of it, */
	bool again; /* and where it failed, whether it may go well later, */
	uint64_t next_ns; /* then */
	uint64_t due_ns; /* IDLE: not before; 0: at once. The handle's own, */
	uint64_t wanted_ns; /* and since when it is WANTED */
};

struct gkv;

/*
 * connector_step - the handle has no queue pair of the present connection: go on to another one.
 * @here: what is due is tried by this call, in its time; otherwise by connector_try().
 * Returns 0: there is one; -EINPROGRESS: the next attempt is due at due_ns, or is another thread's
 * now, or WANTED, which that thread is to be told; else why there will be none, with the sentence
 * in h->error.
 */
int connector_step(struct gkv *h, bool here);

static inline enum connector_state connector_state(const struct connector *c)
{
	/* acquire pairs with connector_set(): the fresh link */
	return atomic_load_explicit(&c->state, memory_order_acquire);
}

static inline void connector_set(struct connector *c, enum connector_state state)
{
	/* release pairs with connector_state() and connector_take(): the fresh link */
	atomic_store_explicit(&c->state, state, memory_order_release);
}

/* connector_take - WANTED becomes BUSY: connector_try() is the caller's to call. Any thread. */
bool connector_take(struct connector *c);

/* connector_try - one attempt, until @until_ns at most, by whoever has taken it. DONE comes after
 * it; from then on it is the handle's thread's, and may be gone. */
void connector_try(struct connector *c, uint64_t until_ns);

/* connector_why - there is no queue pair: h->error says why, and what goes on. Returns its code. */
int connector_why(struct gkv *h);

/* connector_end - nothing of it is under way any more; waits for the thread that tries. */
void connector_end(struct gkv *h);
