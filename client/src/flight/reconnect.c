/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Another queue pair for a handle with operations in flight (link/connector.c), while its thread
 * goes on: the housekeeper's thread makes the attempts, and signals whoever sleeps.
 */
#include <errno.h>

#include "client/src/flight/async.h"

/* Not the time of an exchange where calls have less: gkv_close() waits for it. */
static uint64_t attempt_until(const struct settings *o)
{
	const uint64_t ms = o->timeout_ms;

	return time_now_ns() + (ms < EXCHANGE_DEADLINE_MS ? ms : EXCHANGE_DEADLINE_MS) * NS_PER_MS;
}

bool flights_connect(struct gkv_session *s, unsigned *next)
{
	for (unsigned i = 0; i < SESSION_HANDLES_MAX; i++) {
		unsigned number = (*next + i) % SESSION_HANDLES_MAX;
		struct connector *c = NULL;
		struct async *a;

		pthread_mutex_lock(&s->flights->lock);
		a = s->flights->async[number];
		if (a && connector_take(&a->h->connector))
			c = &a->h->connector;
		pthread_mutex_unlock(&s->flights->lock);
		if (!c)
			continue;
		connector_try(c, attempt_until(&s->settings));
		pthread_mutex_lock(&s->flights->lock); /* until it is signalled it stays */
		connector_set(c, CONNECTOR_DONE);
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

/* No attempt is under way, and nothing waits for one. */
static bool idle(const struct async *a)
{
	return connector_state(&a->h->connector) == CONNECTOR_IDLE && !a->read.first &&
	       !a->ask.first && !a->asks.count;
}

bool async_reconnect(struct async *a)
{
	struct gkv *h = a->h;
	int rc;

	if (!h->down)
		handle_disconnect(h);
	if (idle(a))
		return false;
	rc = connector_step(h, !session_is_served(h->session));
	if (rc && rc != -EINPROGRESS)
		fail_all(a, rc);
	return rc == 0;
}

uint64_t reconnect_due(const struct async *a)
{
	/* While it is wanted or under way its end makes an event. */
	return a->h->down && !idle(a) && connector_state(&a->h->connector) == CONNECTOR_IDLE
		       ? a->h->connector.due_ns
		       : UINT64_MAX;
}
