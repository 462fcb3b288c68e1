/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Another queue pair for a handle with operations in flight (link/connector.c), while its thread
 * goes on: the connecting thread makes the attempts, and signals whoever sleeps. Where there is
 * none the handle's own makes them.
 */
#include <errno.h>

#include "client/src/flight/async.h"

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
	struct connector *c = &h->connector;
	bool wanted;
	int rc;

	if (!h->down)
		handle_disconnect(h);
	if (idle(a))
		return false;
	wanted = connector_state(c) == CONNECTOR_WANTED;
	rc = connector_step(h, !session_is_served(h->session));
	if (!wanted && connector_state(c) == CONNECTOR_WANTED && !connecting_wake(h->session))
		rc = connector_step(h, true);
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
