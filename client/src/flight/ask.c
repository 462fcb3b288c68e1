/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Requests in flight, of operations: writes, and look-ups that ended without an answer. As many at
 * a time as the server grants the handle, in the order in which they came; each is a rpc_call.
 */
#include <errno.h>
#include <string.h>

#include "client/src/flight/async.h"
#include "client/src/request/fill.h"
#include "common/base/hash.h"

/* Its arguments were found right when it was submitted, by the same functions. */
static void make(struct async *a, struct async_call *x, struct op *op)
{
	const struct gkv_request *q = &op->q;
	struct rpc_call *c = &x->call;

	memset(x, 0, sizeof(*x));
	x->op = op;
	op_request(a->h, c, q);
	c->deadline_ns = op->deadline_ns;
	if (op_is_get(op))
		return;
	op->age = handle_age(a->h);
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
	write_done(a->h, c, op->age, rc, &op->result.meta);
	if (rc == 0 && op->q.op == GKV_OP_INCR)
		op->result.sum = c->reply->number;
	op_end(a, op, rc);
}

/* The last one takes its place. */
static void leave(struct async *a, struct async_call *x)
{
	rpc_end(a->h, &x->call);
	a->calls--;
	if (x == &a->call[a->calls])
		return;
	*x = a->call[a->calls];
	x->op->at = (unsigned)(x - a->call);
}

/* Whether any has ended. */
static bool step_all(struct async *a)
{
	bool ended = false;

	for (unsigned i = 0; i < a->calls && a->h->live;) {
		struct async_call *x = &a->call[i];
		struct op *op = x->op;
		int rc = rpc_step(a->h, &x->call);

		if (rc == -EINPROGRESS) {
			i++;
			continue;
		}
		if (op_is_get(op))
			end_get(a, op, &x->call, rc);
		else
			end_write(a, op, &x->call, rc);
		leave(a, x);
		ended = true;
	}
	return ended;
}

/* Whether any was begun. */
static bool start(struct async *a)
{
	bool begun = false;

	while (a->calls < HANDLE_CREDITS && a->ask.first) {
		struct op *op = a->ask.first;

		ops_remove(&a->ask, op);
		op->state = OP_ASKING;
		op->at = a->calls;
		make(a, &a->call[a->calls++], op);
		begun = true;
	}
	if (begun)
		rpc_note(a->h, true);
	return begun;
}

void asks_step(struct async *a)
{
	do {
		step_all(a);
	} while (a->h->live && start(a));
}

void async_calls_step(struct async *a)
{
	step_all(a);
}

void asks_lost(struct async *a)
{
	for (unsigned i = 0; i < a->calls; i++)
		rpc_again(a->h, &a->call[i].call);
}

int ask_expire(struct async *a, struct op *op)
{
	struct async_call *x = &a->call[op->at];
	int rc;

	if (a->down) {
		connector_why(a);
		rc = rpc_cut(a->h, &x->call, x->call.posted ? -ETIMEDOUT : a->why.code);
	} else {
		rc = rpc_expired(a->h, &x->call);
	}
	if (!op_is_get(op))
		write_done(a->h, &x->call, 0, rc, NULL);
	leave(a, x);
	return rc;
}

void asks_fail(struct async *a, int rc)
{
	while (a->calls) {
		struct async_call *x = &a->call[a->calls - 1];
		struct op *op = x->op;
		int status = rpc_cut(a->h, &x->call, rc);

		if (!op_is_get(op))
			write_done(a->h, &x->call, 0, status, NULL);
		leave(a, x);
		op_end(a, op, op->cancelled ? -ECANCELED : status);
	}
	while (a->ask.first) {
		struct op *op = a->ask.first;

		ops_remove(&a->ask, op);
		op_end(a, op, rc);
	}
}

bool ask_undelivered(const struct async *a)
{
	for (unsigned i = 0; i < a->calls; i++) {
		const struct rpc_call *c = &a->call[i].call;

		if (c->state == RPC_SENT && a->h->slot[c->slot].send_due)
			return true;
	}
	return false;
}

bool ask_abandon(struct async *a, struct op *op)
{
	struct async_call *x = &a->call[op->at];

	if (x->call.posted)
		return false;
	leave(a, x);
	return true;
}
