/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Another queue pair for a handle: connecting takes milliseconds, or seconds where the server does
 * not answer.
 *
 *	IDLE -- due --> WANTED -- taken --> BUSY -- tried --> DONE -- the handle takes it --> IDLE
 *	   \____________________________/^
 *	          by the call itself
 *
 * A call that waits steps this machine until there is a queue pair, and makes the attempts itself.
 * With operations in flight gkv_poll() steps it, and the attempts are another thread's
 * (flight/connecting.c); where there is none, they are made in gkv_poll().
 *
 * Ownership. The state is the only word that two threads write. WANTED: whoever takes it, by
 * compare-and-swap with acquire, has the fresh link and all that lies beside it until DONE is
 * stored with release; the handle's thread has them otherwise, and the rest always. What the fresh
 * link shares with the handle is the memory that replies go to: so the old queue pair is destroyed
 * before, and gkv_close() waits while it is BUSY.
 *
 * Pace. A queue pair that broke before it did any work is not replaced at once (link.backoff), and
 * connections have a back-off of their own, which all handles of the session share.
 */
#include "client/src/link/connector.h"

#include <errno.h>
#include <stdio.h>

#include "client/src/link/handle.h"
#include "client/src/link/trace.h"

#define FOLLOW_NS (10 * NS_PER_MS) /* a pause where the device failed meanwhile */

bool connector_take(struct connector *c)
{
	uint32_t expected = CONNECTOR_WANTED;

	/* acquire pairs with connector_set() */
	return atomic_compare_exchange_strong_explicit(&c->state, &expected, CONNECTOR_BUSY,
						       memory_order_acquire, memory_order_relaxed);
}

void connector_try(struct connector *c, uint64_t until_ns)
{
	c->rc = link_attempt(&c->fresh, until_ns, &c->next_ns, &c->again);
	if (c->rc)
		link_close(&c->fresh);
}

/* What came of it: as connector_step(). */
static int finish(struct gkv *h)
{
	struct connector *c = &h->connector;

	h->link = c->fresh;
	h->link.err = &h->error;
	c->due_ns = c->rc ? c->next_ns : 0;
	connector_set(c, CONNECTOR_IDLE);
	if (c->rc) {
		h->error = h->why = c->error;
		if (c->again)
			return -EINPROGRESS;
		return c->rc == -ESHUTDOWN ? -ECONNRESET : c->rc; /* by ourselves, for good */
	}
	handle_enter(h);
	h->reader.stats.reconnects += h->connected_before;
	h->connected_before = true;
	bell_ring(&h->session->bell); /* its queue pair is to be made again as well */
	return 0;
}

/* Whether an attempt is due. */
static bool is_due(struct gkv *h)
{
	struct connector *c = &h->connector;
	const uint64_t now = time_now_ns();
	const uint64_t due = backoff_due(&h->link.backoff, now);

	if (due > c->due_ns)
		c->due_ns = due;
	if (c->due_ns > now && !bell_stopped(&h->session->bell))
		return false;
	return true;
}

/* The fresh link is as the handle's, whose memory is where its queue pair will be. */
static int begin(struct gkv *h, bool here)
{
	struct connector *c = &h->connector;
	int rc = handle_follow(h);

	if (rc == -ESTALE) { /* again, before we were done */
		c->due_ns = time_now_ns() + FOLLOW_NS;
		h->why = h->error;
		return -EINPROGRESS;
	}
	if (rc) {
		h->why = h->error;
		return rc;
	}
	c->fresh = h->link;
	c->fresh.err = &c->error;
	c->error = h->why; /* where nobody comes to try */
	c->wanted_ns = time_now_ns();
	connector_set(c, here ? CONNECTOR_BUSY : CONNECTOR_WANTED);
	return 0;
}

int connector_step(struct gkv *h, bool here)
{
	struct connector *c = &h->connector;
	bool ours = here && connector_take(c); /* nobody has begun */
	int rc;

	if (!h->down)
		handle_disconnect(h);
	if (connector_state(c) == CONNECTOR_IDLE && is_due(h)) {
		rc = begin(h, here);
		if (rc)
			return rc;
		ours = here;
	}
	if (ours) {
		connector_try(c, handle_deadline(h)); /* it is this call's time */
		connector_set(c, CONNECTOR_DONE);
	}
	return connector_state(c) == CONNECTOR_DONE ? finish(h) : -EINPROGRESS;
}

/* Of an attempt that another thread makes nothing is known here but how far any has come. */
int connector_why(struct gkv *h)
{
	const enum connector_state state = connector_state(&h->connector);
	const struct settings_server *o = session_server(h->session);
	const char *known;
	char step[64] = "waiting for its turn";

	h->error = h->why;
	if (state == CONNECTOR_IDLE || state == CONNECTOR_DONE)
		return h->why.code;
	known = state == CONNECTOR_BUSY ? trace_step(h->session) : NULL;
	if (known)
		snprintf(step, sizeof(step), "at step %s", known);
	return error_set(&h->error, h->why.code,
			 "%.400s; the next attempt to connect to %s:%s is %s after %llu ms%s",
			 h->why.text, o->host, o->port, step,
			 (unsigned long long)((time_now_ns() - h->connector.wanted_ns) / NS_PER_MS),
			 known ? " (is kv-server alive there?)" : "");
}

/* The time of a call is over, and there is no queue pair. */
static int overdue(struct gkv *h, uint64_t deadline_ns)
{
	const struct backoff *b = &h->link.backoff;
	const bool busy = connector_state(&h->connector) == CONNECTOR_BUSY;
	/* longer than the call may take; not by an attempt that took all of it */
	const bool pause = backoff_due(b, deadline_ns) > deadline_ns && b->ended_ns < deadline_ns;

	connector_why(h);
	if (!busy && pause)
		error_prefix(&h->error, "queue pairs keep breaking (the log of kv-server may say "
					"why), and the next one is due after this call");
	if (busy || pause)
		h->error.code = -ETIMEDOUT;
	return h->error.code;
}

int handle_connect(struct gkv *h)
{
	const uint64_t deadline_ns = handle_deadline(h);
	struct connector *c = &h->connector;
	int rc;

	handle_disconnect(h);
	for (;;) {
		rc = connector_step(h, true);
		if (rc == 0 ? handle_current(h) : rc != -EINPROGRESS)
			return rc;
		if (connector_state(c) == CONNECTOR_BUSY) /* another thread's */
			time_sleep(NS_PER_MS);
		else /* without the lock */
			backoff_sleep(c->due_ns, deadline_ns);
		if (time_now_ns() >= deadline_ns)
			return overdue(h, deadline_ns);
	}
}

void connector_end(struct gkv *h)
{
	struct connector *c = &h->connector;

	if (connector_take(c)) /* nobody has begun */
		connector_set(c, CONNECTOR_IDLE);
	while (connector_state(c) == CONNECTOR_BUSY)
		time_sleep(NS_PER_MS);
	if (connector_state(c) == CONNECTOR_DONE)
		finish(h);
}
