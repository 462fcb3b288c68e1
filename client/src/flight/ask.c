/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Requests in flight, of operations: writes, and look-ups that ended without an answer. They go
 * through a window (request/window.c) in the order in which they came.
 */
#include <errno.h>

#include "client/src/flight/async.h"
#include "client/src/request/fill.h"
#include "common/base/hash.h"

/* The next that waits. Its arguments were found right when it was submitted, by the same code. */
static bool next(void *arg, struct rpc_call *c)
{
	struct async *a = arg;
	struct op *op = a->ask.first;

	if (!op)
		return false;
	ops_remove(&a->ask, op);
	op->state = OP_ASKING;
	op_request(a->h, c, &op->q);
	c->item = op;
	c->deadline_ns = op->deadline_ns;
	if (!op_is_get(op))
		op->age = handle_age(a->h);
	return true;
}

static void end_get(struct async *a, struct op *op, const struct rpc_call *c, int rc)
{
	struct gkv *h = a->h;
	struct lookup l = {
		.key = c->key,
		.key_len = c->key_len,
		.dest = op->q.op == GKV_OP_GET ? op->q.value : NULL,
		.cap = op->q.op == GKV_OP_GET ? op->q.len : 0,
		.hash = hash_key(h->reader.world->hash_seed, c->key, c->key_len),
	};

	if (op->cancelled)
		rc = -ECANCELED;
	if (rc == 0)
		rc = rpc_found(h, c, &l, op->age);
	if (rc)
		op_end(a, op, rc);
	else
		op_end_found(a, op, &l);
}

static void end_write(struct async *a, struct op *op, const struct rpc_call *c, int rc)
{
	if (rc != -ECANCELED) /* it was sent, or would have been */
		write_done(a->h, c, op->age, rc, &op->result.meta);
	if (rc == 0 && op->q.op == GKV_OP_INCR)
		op->result.sum = c->reply->number;
	op_end(a, op, rc);
}

static void done(void *arg, struct rpc_call *c, int status)
{
	struct op *op = c->item;

	if (op_is_get(op))
		end_get(arg, op, c, status);
	else
		end_write(arg, op, c, status);
}

void asks_create(struct async *a)
{
	a->asks =
		(struct window){ .h = a->h, .call = a->call, .next = next, .done = done, .arg = a };
}

void asks_step(struct async *a)
{
	do {
		window_step(&a->asks);
		if (!a->h->link.live || !window_fill(&a->asks))
			return;
		rpc_note(a->h, true);
	} while (a->h->link.live);
}

static struct rpc_call *call_of(struct async *a, const struct op *op)
{
	struct rpc_call *c = a->call;

	while (c->item != op)
		c++;
	return c;
}

void ask_expire(struct async *a, struct op *op)
{
	struct rpc_call *c = call_of(a, op);
	int rc;

	if (a->h->down) {
		connector_why(a->h);
		rc = rpc_cut(a->h, c, c->posted ? -ETIMEDOUT : a->h->why.code);
	} else {
		rc = rpc_expired(a->h, c);
	}
	c->reply = NULL;
	window_end(&a->asks, c, rc);
}

void asks_fail(struct async *a, int rc)
{
	while (a->asks.count) {
		struct rpc_call *c = &a->call[a->asks.count - 1];

		c->reply = NULL;
		window_end(&a->asks, c, rpc_cut(a->h, c, rc));
	}
	while (a->ask.first) {
		struct op *op = a->ask.first;

		ops_remove(&a->ask, op);
		op_end(a, op, rc);
	}
}

bool ask_abandon(struct async *a, struct op *op)
{
	struct rpc_call *c = call_of(a, op);

	if (c->posted)
		return false;
	window_end(&a->asks, c, -ECANCELED);
	return true;
}
