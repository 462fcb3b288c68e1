/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Another queue pair for a handle with operations in flight, while its thread goes on: connecting
 * takes milliseconds, or seconds where the server does not answer.
 *
 *	its thread				the housekeeper's thread
 *	destroy the queue pair
 *	a fresh handle: number, buffers
 *	WANTED (release), wake			WANTED -> BUSY (acquire)
 *						connect the fresh one, once
 *	take the queue pair, free it	<-	DONE (release), signal
 *
 * What is shared is the fresh handle, which only one of them knows at a time, and the memory that
 * replies go to. So the old queue pair is destroyed first, and gkv_close() waits while it is BUSY.
 * Where there is no thread, the handle's own does both, in gkv_poll().
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/src/flight/async.h"
#include "client/src/link/trace.h"

static enum connector_state state_of(const struct connector *c)
{
	/* acquire pairs with done(): the fresh handle */
	return atomic_load_explicit(&c->state, memory_order_acquire);
}

static void set_state(struct connector *c, enum connector_state state)
{
	/* release pairs with state_of() and serve(): the fresh handle */
	atomic_store_explicit(&c->state, state, memory_order_release);
}

static bool take(struct connector *c, enum connector_state from, enum connector_state to)
{
	uint32_t expected = from;

	/* acquire pairs with set_state() */
	return atomic_compare_exchange_strong_explicit(&c->state, &expected, to,
						       memory_order_acquire, memory_order_relaxed);
}

/* By whoever serves: BUSY. One attempt, until @until_ns at most. */
static void try_once(struct connector *c, uint64_t until_ns)
{
	struct gkv *fresh = c->fresh;

	fresh->deadline_ns = time_now_ns() + EXCHANGE_DEADLINE_MS * NS_PER_MS;
	if (fresh->deadline_ns > until_ns)
		fresh->deadline_ns = until_ns;
	if (handle_attempt(fresh, fresh->deadline_ns, &c->next_ns, &c->again))
		handle_disconnect(fresh);
}

bool connector_serve(struct gkv_session *s, unsigned *next)
{
	for (unsigned i = 0; i < SESSION_HANDLES_MAX; i++) {
		unsigned number = (*next + i) % SESSION_HANDLES_MAX;
		struct async *a;
		bool wanted;

		pthread_mutex_lock(&s->flights->lock);
		a = s->flights->async[number];
		wanted = a && take(&a->connector, CONNECTOR_WANTED, CONNECTOR_BUSY);
		pthread_mutex_unlock(&s->flights->lock);
		if (!wanted)
			continue;
		/* not the 5 s of an attempt where calls have less: gkv_close() waits for it */
		try_once(&a->connector,
			 time_now_ns() + (uint64_t)s->settings.timeout_ms * NS_PER_MS);
		pthread_mutex_lock(&s->flights->lock); /* until it is signalled it stays */
		set_state(&a->connector, CONNECTOR_DONE);
		wait_signal(a);
		pthread_mutex_unlock(&s->flights->lock);
		*next = number + 1;
		return true;
	}
	return false;
}

/* Nothing that is in flight can go on, now or later. */
static void fail_all(struct async *a, int rc)
{
	while (a->read.first) {
		struct op *op = a->read.first;

		ops_remove(&a->read, op);
		op_end(a, op, rc);
	}
	asks_fail(a, rc);
}

/* What came of it. Returns whether the handle has a queue pair. */
static bool finish(struct async *a)
{
	struct connector *c = &a->connector;
	struct gkv *fresh = c->fresh;
	bool live = fresh->live;

	c->fresh = NULL;
	c->due_ns = live ? 0 : c->next_ns;
	set_state(c, CONNECTOR_IDLE);
	if (live) {
		handle_adopt(a->h, fresh);
		bell_ring(&a->h->session->bell); /* its queue pair is to be made again as well */
		async_up(a);
	} else {
		a->h->backoff = fresh->backoff;
		a->h->error = a->why = fresh->error;
	}
	reader_drop(&fresh->reader);
	free(fresh);
	if (!live && !c->again)
		fail_all(a, a->why.code == -ESHUTDOWN ? -ECONNRESET : a->why.code);
	return live;
}

static bool prepare(struct async *a)
{
	struct connector *c = &a->connector;
	struct gkv *h = a->h;
	const uint64_t now = time_now_ns();
	uint64_t due = backoff_due(&h->backoff, now);

	if (due > c->due_ns)
		c->due_ns = due;
	if (c->due_ns > now && !bell_stopped(&h->session->bell))
		return false;
	c->fresh = handle_new(h->session, h->number, h->credits_wish);
	if (!c->fresh) {
		c->due_ns = now + NS_PER_S;
		return false;
	}
	c->fresh->fetch = h->fetch; /* where replies go */
	c->fresh->reads_max = h->reads_max;
	c->fresh->backoff = h->backoff;
	c->fresh->attempted = h->attempted;
	c->fresh->lost = a->why;
	c->fresh->error = a->why; /* where nobody comes to try */
	return true;
}

static bool in_flight(const struct async *a)
{
	return a->read.first || a->ask.first || a->asks.count;
}

bool connector_step(struct async *a)
{
	struct connector *c = &a->connector;
	struct gkv *h = a->h;

	if (!a->down)
		handle_disconnect(h);
	/* what a thread that has ended since has left is ours */
	if (!session_is_served(h->session) && take(c, CONNECTOR_WANTED, CONNECTOR_BUSY)) {
		try_once(c, handle_deadline(h));
		set_state(c, CONNECTOR_DONE);
	}
	if (state_of(c) == CONNECTOR_DONE && finish(a))
		return true;
	if (state_of(c) != CONNECTOR_IDLE || !in_flight(a) || !prepare(a))
		return false;
	if (session_is_served(h->session)) {
		c->wanted_ns = time_now_ns();
		set_state(c, CONNECTOR_WANTED);
		bell_ring(&h->session->bell);
		return false;
	}
	try_once(c, handle_deadline(h)); /* it is this call's time */
	return finish(a);
}

/* Of the attempt under way nothing is known here but how far any has come: it has the handle. */
int connector_why(struct async *a)
{
	const enum connector_state state = state_of(&a->connector);
	const struct settings *o = &a->h->session->settings;
	const char *known;
	char step[64] = "waiting for its turn";

	a->h->error = a->why;
	if (state == CONNECTOR_IDLE || state == CONNECTOR_DONE)
		return a->why.code;
	known = state == CONNECTOR_BUSY ? trace_step(a->h->session) : NULL;
	if (known)
		snprintf(step, sizeof(step), "at step %s", known);
	return error_set(&a->h->error, a->why.code,
			 "%.400s; the next attempt to connect to %s:%s is %s after %llu ms%s",
			 a->why.text, o->host, o->port, step,
			 (unsigned long long)((time_now_ns() - a->connector.wanted_ns) / NS_PER_MS),
			 known ? " (is kv-server alive there?)" : "");
}

uint64_t connector_due(const struct async *a)
{
	/* While it is wanted or under way its end makes an event. */
	return a->down && in_flight(a) && state_of(&a->connector) == CONNECTOR_IDLE
		       ? a->connector.due_ns
		       : UINT64_MAX;
}

bool connector_settle(struct async *a, uint64_t deadline_ns)
{
	struct connector *c = &a->connector;

	if (take(c, CONNECTOR_WANTED, CONNECTOR_DONE)) /* nobody has begun: as one that failed */
		c->again = true;
	while (state_of(c) == CONNECTOR_BUSY && time_now_ns() < deadline_ns)
		time_sleep(NS_PER_MS);
	if (state_of(c) == CONNECTOR_DONE)
		finish(a);
	return state_of(c) == CONNECTOR_IDLE;
}

void connector_end(struct async *a)
{
	struct gkv_session *s = a->h->session;

	connector_settle(a, UINT64_MAX);
	pthread_mutex_lock(&s->flights->lock); /* who has served it is gone now */
	pthread_mutex_unlock(&s->flights->lock);
}
