/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Writes that come by RPC: from the frame to the door (server/write), and from its answer back. */
#include "server/worker/rpc_internal.h"

#include <errno.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/time.h"

static_assert((int)RPC_ALWAYS == STORE_ALWAYS && (int)RPC_IF_ABSENT == STORE_IF_ABSENT &&
		      (int)RPC_IF_PRESENT == STORE_IF_PRESENT &&
		      (int)RPC_IF_VERSION == STORE_IF_VERSION,
	      "conditions go from the frame to the door as they are");

/*
 * Whether it was not applied, by what stands in the store: such an answer is as good as the store.
 * What was applied is committed. Of a write whose outcome nobody knows, or that is to come again as
 * it is, nothing else may be said: after -EBUSY a client sends another request.
 */
static bool was_refused(const struct write *write)
{
	const int status = write->result.status;

	return status < 0 && status != -EREMOTEIO && status != -ESTALE;
}

void rpc_answer(struct write_door *door, struct write *write)
{
	struct rpc_worker *w = caa_container_of(door, struct rpc_worker, door);
	struct request *r = caa_container_of(write, struct request, write);

	if (r->state == REQUEST_PENDING)
		r->state = REQUEST_IDLE;
	if (write->repeated)
		rpc_count(&w->counters.repeats, 1);
	if (was_refused(write) && !rpc_may_answer(w))
		rpc_reply_status(w, r, write->ask.sequence, -EBUSY);
	else
		rpc_reply_write(w, r, write->ask.sequence, &write->result);
}

/* The door was called: it has answered, or will. */
static void went(struct request *r)
{
	if (r->write.waiting)
		r->state = REQUEST_PENDING;
}

static void run(struct rpc_worker *w, struct request *r)
{
	write_run(&w->door, &r->write);
	went(r);
}

static void fill(struct request *r, enum write_op op, const struct rpc_request_view *view)
{
	const struct rpc_request *q = view->header;
	const struct conn *c = r->conn;

	write_begin(&r->write);
	r->write.ask = (struct write_request){
		.client = c->client,
		.generation = c->generation,
		.sequence = q->sequence,
		.handle = c->handle,
		.slot = r->slot,
		.retry = q->flags & RPC_RETRY,
		.op = op,
		.condition = (enum store_condition)q->condition,
		.keep = q->flags & RPC_KEEP_EXPIRY,
		.operand = q->operand,
		.now_ns = r->now_ns,
		.ttl_ms = q->ttl_ms,
		.waited_ms = q->waited_ms,
		.key_len = q->key_len,
		.value_len = q->value_len,
		.key = view->key,
	};
}

void rpc_put(struct rpc_worker *w, struct request *r, enum write_op op,
	     const struct rpc_request_view *view)
{
	const struct rpc_request *q = view->header;
	const bool pull = !(q->flags & RPC_INLINE_VALUE);

	rpc_count(op == WRITE_PUT ? &w->counters.puts : &w->counters.updates, 1);
	fill(r, op, view);
	if (!write_take(&w->door, &r->write, pull)) {
		went(r);
		return;
	}
	if (!pull) {
		memcpy(write_value(&r->write), view->value, q->value_len);
		run(w, r);
		return;
	}
	r->pull.addr = q->staging_addr;
	r->pull.rkey = q->staging_rkey;
	r->pull.hash = q->value_hash;
	r->state = REQUEST_PULLING;
	rpc_count(&w->counters.pulled_bytes, q->value_len);
	rpc_queue_add(w, r);
}

void rpc_pulled(struct rpc_worker *w, struct request *r, bool ok)
{
	struct write_request *ask = &r->write.ask;

	r->state = REQUEST_IDLE;
	r->now_ns = ask->now_ns = store_now_ns(w->store.store);
	if (!ok) {
		write_drop(&w->door, &r->write);
		rpc_conn_lost(w, r->conn, "its value could not be read");
	} else if (hash_bytes(write_value(&r->write), ask->value_len) != r->pull.hash) {
		write_drop(&w->door, &r->write);
		rpc_reply_status(w, r, ask->sequence, -EBADMSG);
	} else {
		run(w, r);
	}
}

void rpc_update(struct rpc_worker *w, struct request *r, enum write_op op,
		const struct rpc_request_view *view)
{
	rpc_count(op == WRITE_DEL ? &w->counters.dels : &w->counters.updates, 1);
	fill(r, op, view);
	run(w, r);
}
