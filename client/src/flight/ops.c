/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Operations in flight: their lists, their ends, their deadlines. */
#include <errno.h>
#include <stdlib.h>

#include "client/src/flight/async.h"
#include "client/src/link/memory.h"

int ops_create(struct async *a, unsigned depth)
{
	a->op = calloc(depth, sizeof(*a->op));
	if (!a->op)
		return -ENOMEM;
	a->depth = depth;
	a->next_ns = UINT64_MAX;
	for (unsigned i = depth; i-- > 0;) {
		a->op[i].next = a->free;
		a->free = &a->op[i];
	}
	return 0;
}

void ops_prepend(struct op_list *list, struct op *op)
{
	op->prev = NULL;
	op->next = list->first;
	if (list->first)
		list->first->prev = op;
	else
		list->last = op;
	list->first = op;
}

/* Its completion's place: of the gkv_poll() under way, if there is room, or its own. */
static struct gkv_completion *place(struct async *a, struct op *op)
{
	return a->room && !a->done.first ? a->out : &op->result;
}

static void hand_over(struct async *a, struct op *op, const struct gkv_completion *c)
{
	if (c == &op->result) {
		op_to(a, op, OP_DONE);
		return;
	}
	a->out++;
	a->room--;
	op_free(a, op);
}

/* What the operation names is the application's again. */
static void let_go(struct async *a, struct op *op)
{
	struct gkv *h = a->h;

	if (!op->q.memory)
		return;
	if (!h->link.live && h->link.qp.qp)
		handle_disconnect(h);
	if (op->aimed)
		memory_done(op->q.memory);
	op->aimed = false;
}

void op_end(struct async *a, struct op *op, int status)
{
	struct gkv_stats *stats = &a->h->reader.stats;
	struct gkv_completion *c;

	let_go(a, op);
	if (op_is_get(op)) {
		op->result = (struct gkv_completion){ .user = op->q.user, .op = op->q.op };
	}
	stats->cancelled += status == -ECANCELED;
	op->result.status = status;
	c = place(a, op);
	if (c != &op->result)
		*c = op->result;
	hand_over(a, op, c);
}

/* Field by field, to where it is wanted: most completions are of this kind. */
void op_end_found(struct async *a, struct op *op, const struct lookup *l)
{
	struct gkv *h = a->h;
	const bool fits = op->q.op == GKV_OP_EXISTS || l->value_len <= op->q.len;
	struct gkv_completion *c;

	let_go(a, op);
	if (!fits)
		error_set(&h->error, -EMSGSIZE, "the value has %u bytes, there is room for %zu",
			  l->value_len, op->q.len);
	h->reader.stats.hits++;
	c = place(a, op);
	c->user = op->q.user;
	c->op = op->q.op;
	c->status = fits ? 0 : -EMSGSIZE;
	c->len = l->value_len;
	c->meta.version = l->version;
	c->meta.expiry_ms = l->expiry_ms;
	c->meta.value_len = l->value_len;
	c->meta.reserved = 0;
	c->sum = 0;
	c->reserved = 0;
	hand_over(a, op, c);
}

/* Why one that did not reach the server has no answer. */
static int unanswered(struct async *a)
{
	struct gkv *h = a->h;

	if (h->down)
		return connector_why(h);
	return error_set(&h->error, -ETIMEDOUT,
			 "the operation was not done in its time (is the server at %s:%s stopped "
			 "or overloaded? are too many in flight?)",
			 session_server(h->session)->host, session_server(h->session)->port);
}

static void expire(struct async *a, struct op *op)
{
	int status = -ETIMEDOUT;

	switch (op->state) {
	case OP_READ:
	case OP_ASK:
		ops_remove(ops_of(a, op->state), op);
		status = unanswered(a);
		break;
	case OP_READING:
		if (op->direct) { /* the READ is on its way: only its end frees the memory */
			channel_fail(a->h, "an RDMA READ took longer than its operation may");
			handle_disconnect(a->h); /* it waits again, or, cancelled, has ended */
			if (op->state != OP_READ)
				return;
			ops_remove(&a->read, op);
			break;
		}
		lane_drop(a, op);
		status = unanswered(a);
		break;
	case OP_ASKING:
		ask_expire(a, op);
		return;
	default:
		return;
	}
	op_end(a, op, op->cancelled ? -ECANCELED : status);
}

void ops_expire(struct async *a, uint64_t now)
{
	a->next_ns = UINT64_MAX;
	for (unsigned i = 0; i < a->depth; i++) {
		struct op *op = &a->op[i];

		if (op->state == OP_FREE || op->state == OP_DONE)
			continue;
		if (op->deadline_ns <= now)
			expire(a, op);
		else if (op->deadline_ns < a->next_ns)
			a->next_ns = op->deadline_ns;
	}
}

/* Returns whether it will end as cancelled. */
static bool cancel(struct async *a, struct op *op)
{
	if (op->state == OP_READ || op->state == OP_ASK) {
		ops_remove(ops_of(a, op->state), op);
		op_end(a, op, -ECANCELED);
		return true;
	}
	if (op->state == OP_ASKING && ask_abandon(a, op))
		return true;
	/* what is on its way may still look at the application's memory: its end comes later */
	op->cancelled =
		op->state == OP_READING ||
		(op->state == OP_ASKING && (op->q.op == GKV_OP_GET || op->q.op == GKV_OP_EXISTS));
	return op->cancelled;
}

int gkv_cancel(struct gkv *h, const void *user)
{
	int count = 0, rc = handle_begin(h);
	struct async *a;

	if (rc)
		return rc;
	a = h->async;
	for (unsigned i = 0; a && i < a->depth; i++) {
		struct op *op = &a->op[i];

		if (op->state != OP_FREE && op->state != OP_DONE && !op->cancelled &&
		    op->q.user == user)
			count += cancel(a, op);
	}
	return handle_end(h, count ? count : -ENOENT);
}
