/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Requests and replies.
 *
 * A request slot is a small state machine: IDLE, or PULLING while an RDMA READ fetches the value of
 * a large PUT straight into its new block. Everything else is answered before rpc_receive()
 * returns.
 *
 * What a posted operation names stays until its completion is polled or its queue pair is
 * destroyed (DESIGN section 7, late DMA): the block of a PULLING slot is unpublished and owned by
 * the slot; the block that a GET's RDMA WRITE reads from is held by a hazard, set in the same
 * read-side section in which it was found, released by the completion of the reply behind it; the
 * reply's frame is rewritten only when the next request of its slot arrives, which the client
 * sends after it has the reply.
 *
 * Receives are shared by all connections of a worker, so a client that sends more than its credits
 * takes them from others, whose queue pairs break when that goes on for longer than their
 * RNR retries. Two frames for one slot within one batch of completions prove it (the batch stood in
 * the queue before any of it was answered); a batch is larger than the credits of a queue pair, so
 * one that floods is caught by the first batch that it fills.
 */
#include "server/worker/rpc.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/time.h"
#include "common/rdma/post.h"
#include "server/reclaim/qsbr.h"

#define GROWTH_WAIT_MS 50u
#define GROWTH_WAITS   100u /* 5 s in all, then the store is full */

static void count(_Atomic uint64_t *counter, uint64_t n)
{
	/* One writer: no read-modify-write needed. */
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

void rpc_protocol_error(struct rpc_worker *w, struct conn *c, const char *why)
{
	if (c->failed)
		return;
	c->failed = true;
	count(&w->counters.protocol_errors, 1);
	log_warn("rpc", "session %" PRIu64 " handle %u is given up: %s", c->generation, c->handle,
		 why);
	rdma_qp_fail(&c->qp);
	/* release: pairs with conn_why() */
	atomic_store_explicit(&c->why, why, memory_order_release);
	shutdown(c->lifeline, SHUT_RD); /* the control thread sees it and ends the session */
}

/* Hold the block at @place for the reply to come. -1: every hazard is in use. */
static int hazard_take(struct rpc_worker *w, const struct conn *c, struct memory_place place)
{
	unsigned hazard;

	if (!w->hazards_free)
		return -1;
	hazard = w->hazard_free[--w->hazards_free];
	w->hazard_owner[hazard] = c;
	reclaim_hazard_set(w->store.reclaim, hazard, place);
	return (int)hazard;
}

static void hazard_drop(struct rpc_worker *w, unsigned hazard)
{
	reclaim_hazard_clear(w->store.reclaim, hazard);
	w->hazard_owner[hazard] = NULL;
	w->hazard_free[w->hazards_free++] = (uint16_t)hazard;
}

/* What travels with a reply into the client's staging memory. */
struct push {
	const void *data;
	uint32_t len;
	uint32_t lkey;
	enum rpc_wr what; /* whose completion releases the data */
	int hazard; /* held meanwhile, or -1 */
};

/* Post the reply that stands in the slot's frame, behind an RDMA WRITE where @push says so. */
static void send_reply(struct rpc_worker *w, struct request *r, const struct rpc_request *q,
		       uint32_t len, const struct push *push)
{
	struct conn *c = r->conn;
	bool signal = push || ++c->unsignalled >= c->credits / 2 + 1;
	struct ibv_sge frame = {
		.addr = (uintptr_t)conn_reply_at(c, r->slot),
		.length = len,
		.lkey = c->replies.region.lkey,
	};
	struct ibv_send_wr send = {
		.wr_id = (uintptr_t)r,
		.sg_list = &frame,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = (signal ? IBV_SEND_SIGNALED : 0) |
			      (len <= c->qp.inline_max ? IBV_SEND_INLINE : 0),
	};
	struct ibv_sge data;
	struct ibv_send_wr write = {
		.wr_id = (uintptr_t)r,
		.next = &send,
		.sg_list = &data,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma.remote_addr = q->staging_addr,
		.wr.rdma.rkey = q->staging_rkey,
	};
	struct ibv_send_wr *bad;

	if (push) {
		data.addr = (uintptr_t)push->data;
		data.length = push->len;
		data.lkey = push->lkey;
		send.wr_id |= push->what | (uint64_t)(push->hazard + 1) << RPC_WR_HAZARD;
		count(&w->counters.pushed_bytes, push->len);
	}
	if (signal)
		c->unsignalled = 0;
	if (rdma_post_send(c->qp.qp, push ? &write : &send, &bad))
		rpc_protocol_error(w, c, "its queue pair takes no reply");
}

static struct rpc_reply *reply_begin(struct request *r, const struct rpc_request *q, int status)
{
	struct rpc_reply *p = conn_reply_at(r->conn, r->slot);

	*p = (struct rpc_reply){
		.magic = RPC_REPLY_MAGIC,
		.status = status,
		.slot = r->slot,
		.sequence = q->sequence,
		.clock_ms = time_wall_ms(),
	};
	return p;
}

static void reply_status(struct rpc_worker *w, struct request *r, const struct rpc_request *q,
			 int status)
{
	if (status && status != -ENOENT)
		count(&w->counters.refused, 1);
	reply_begin(r, q, status);
	send_reply(w, r, q, RPC_REPLY_BYTES, NULL);
}

static void reply_write(struct rpc_worker *w, struct request *r, const struct rpc_request *q,
			const struct client_reply *what)
{
	struct rpc_reply *p = reply_begin(r, q, what->status);

	p->version = what->version;
	p->index_slot = what->index_slot;
	p->incarnation = what->incarnation;
	send_reply(w, r, q, RPC_REPLY_BYTES, NULL);
}

static int verdict_status(enum client_verdict verdict)
{
	return verdict == CLIENT_UNKNOWN ? -EREMOTEIO : -ESTALE;
}

/* Must hold the client's lock. True: apply the write; false: the lock is dropped, reply sent. */
static bool may_apply(struct rpc_worker *w, struct request *r, const struct rpc_request *q)
{
	struct conn *c = r->conn;
	const struct client_reply *last;
	struct client_reply said;
	enum client_verdict verdict;

	verdict = client_check(c->client, c->generation, c->handle, r->slot, q->sequence,
			       q->flags & RPC_RETRY, &last);
	if (verdict == CLIENT_APPLY)
		return true;
	if (verdict == CLIENT_REPEAT)
		said = *last;
	pthread_mutex_unlock(&c->client->lock);
	if (verdict == CLIENT_REPEAT) {
		count(&w->counters.repeats, 1);
		reply_write(w, r, q, &said);
	} else {
		reply_status(w, r, q, verdict_status(verdict));
	}
	return false;
}

/* The value stands in the block: check, apply and remember in one hold of the client's lock. */
static void put_commit(struct rpc_worker *w, struct request *r, const struct rpc_request *q,
		       struct store_put *put)
{
	struct conn *c = r->conn;
	struct client_reply said = { .sequence = q->sequence };
	struct store_result result;

	pthread_mutex_lock(&c->client->lock);
	if (!may_apply(w, r, q)) {
		store_put_abort(&w->store, put);
		return;
	}
	said.status = store_put_commit(&w->store, put, &result);
	if (said.status == 0) {
		said.version = result.version;
		said.index_slot = result.slot;
		said.incarnation = result.incarnation;
	}
	client_store(c->client, c->handle, r->slot, &said);
	pthread_mutex_unlock(&c->client->lock);
	reply_write(w, r, q, &said);
}

/* Take a block, waiting for growth where it is under way. */
static int put_begin(struct rpc_worker *w, const struct rpc_request_view *view,
		     struct store_put *put)
{
	const struct rpc_request *q = view->header;

	for (unsigned i = 0;; i++) {
		int rc = store_put_begin(&w->store, view->key, q->key_len, q->value_len,
					 q->expiry_ms, put);

		if (rc != -EAGAIN)
			return rc;
		if (i == GROWTH_WAITS)
			return -ENOMEM;
		qsbr_offline(); /* nothing found by look-up is held here */
		memory_growth_wait(w->store.store->memory, GROWTH_WAIT_MS);
		qsbr_online();
	}
}

/* Post the READ that brings the value from the client's staging memory into the block. */
static void pull(struct rpc_worker *w, struct request *r, const struct rpc_request *q,
		 const struct store_put *put)
{
	struct conn *c = r->conn;
	struct ibv_sge sge = {
		.addr = (uintptr_t)put->block->data + q->key_len,
		.length = q->value_len,
		.lkey = memory_extent_region(w->store.store->memory, put->place.extent)->lkey,
	};
	struct ibv_send_wr read = {
		.wr_id = (uintptr_t)r | RPC_WR_PULL,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma.remote_addr = q->staging_addr,
		.wr.rdma.rkey = q->staging_rkey,
	};
	struct ibv_send_wr *bad;

	r->header = *q;
	r->put = *put;
	r->state = REQUEST_PULLING;
	c->unsignalled = 0;
	count(&w->counters.pulled_bytes, q->value_len);
	if (rdma_post_send(c->qp.qp, &read, &bad)) {
		r->state = REQUEST_IDLE;
		store_put_abort(&w->store, &r->put);
		rpc_protocol_error(w, c, "its queue pair takes no READ");
	}
}

static void do_put(struct rpc_worker *w, struct request *r, const struct rpc_request_view *view)
{
	const struct rpc_request *q = view->header;
	struct conn *c = r->conn;
	struct store_put put;
	int rc;

	count(&w->counters.puts, 1);
	if (q->flags & RPC_RETRY) { /* do not take memory for what was done already */
		pthread_mutex_lock(&c->client->lock);
		if (!may_apply(w, r, q))
			return;
		pthread_mutex_unlock(&c->client->lock);
	}
	rc = put_begin(w, view, &put);
	if (rc) {
		reply_status(w, r, q, rc == -E2BIG ? -EINVAL : rc);
		return;
	}
	if (!(q->flags & RPC_INLINE_VALUE)) {
		pull(w, r, q, &put);
		return;
	}
	memcpy(put.block->data + q->key_len, view->value, q->value_len);
	put_commit(w, r, q, &put);
}

static void pulled(struct rpc_worker *w, struct request *r, bool ok)
{
	const uint8_t *value = r->put.block->data + r->header.key_len;

	r->state = REQUEST_IDLE;
	if (!ok) {
		store_put_abort(&w->store, &r->put);
		rpc_protocol_error(w, r->conn, "its value could not be read");
	} else if (hash_bytes(value, r->header.value_len) != r->header.value_hash) {
		store_put_abort(&w->store, &r->put);
		reply_status(w, r, &r->header, -EBADMSG);
	} else {
		put_commit(w, r, &r->header, &r->put);
	}
}

static void do_del(struct rpc_worker *w, struct request *r, const struct rpc_request_view *view)
{
	const struct rpc_request *q = view->header;
	struct conn *c = r->conn;
	struct client_reply said = { .sequence = q->sequence };
	struct store_result result;

	count(&w->counters.dels, 1);
	pthread_mutex_lock(&c->client->lock);
	if (!may_apply(w, r, q))
		return;
	said.status = store_del(&w->store, view->key, q->key_len, &result);
	if (said.status == 0)
		said.version = result.version;
	client_store(c->client, c->handle, r->slot, &said);
	pthread_mutex_unlock(&c->client->lock);
	reply_write(w, r, q, &said);
}

static void do_get(struct rpc_worker *w, struct request *r, const struct rpc_request_view *view)
{
	const struct rpc_request *q = view->header;
	struct store_result found;
	struct rpc_reply *p;
	const uint8_t *value;
	struct push push = { .what = RPC_WR_REPLY };
	int rc;

	count(&w->counters.gets, 1);
	rc = store_get(&w->store, view->key, q->key_len, time_wall_ms(), &found);
	if (rc) {
		reply_status(w, r, q, rc);
		return;
	}
	p = reply_begin(r, q, 0);
	p->version = found.version;
	p->index_slot = found.slot;
	p->incarnation = found.incarnation;
	p->expiry_ms = found.expiry_ms;
	p->value_len = found.value_len;
	value = found.block->data + q->key_len;
	if (found.value_len <= RPC_REPLY_INLINE_MAX) {
		p->flags = RPC_INLINE_VALUE;
		memcpy(p + 1, value, found.value_len);
		send_reply(w, r, q, RPC_REPLY_BYTES + found.value_len, NULL);
		return;
	}
	if (found.value_len > q->staging_len) {
		p->status = -EMSGSIZE;
		send_reply(w, r, q, RPC_REPLY_BYTES, NULL);
		return;
	}
	push.hazard = hazard_take(w, r->conn, found.place);
	if (push.hazard < 0) {
		reply_status(w, r, q, -EBUSY);
		return;
	}
	push.data = value;
	push.len = found.value_len;
	push.lkey = memory_extent_region(w->store.store->memory, found.place.extent)->lkey;
	send_reply(w, r, q, RPC_REPLY_BYTES, &push);
}

static void do_stats(struct rpc_worker *w, struct request *r, const struct rpc_request_view *view)
{
	const struct rpc_request *q = view->header;
	struct conn *c = r->conn;
	struct rpc_reply *p;
	struct push push = {
		.data = conn_stats_at(c),
		.lkey = c->replies.region.lkey,
		.what = RPC_WR_STATS,
		.hazard = -1,
	};

	count(&w->counters.stats, 1);
	if (c->stats_busy) {
		reply_status(w, r, q, -EBUSY);
		return;
	}
	push.len =
		(uint32_t)w->config.stats(w->config.stats_ctx, conn_stats_at(c), CONN_STATS_BYTES);
	p = reply_begin(r, q, push.len > q->staging_len ? -EMSGSIZE : 0);
	p->value_len = push.len;
	if (p->status == 0)
		c->stats_busy = true;
	send_reply(w, r, q, RPC_REPLY_BYTES, p->status ? NULL : &push);
}

static void dispatch(struct rpc_worker *w, struct request *r, const struct rpc_request_view *view)
{
	switch (view->header->op) {
	case RPC_PING:
		count(&w->counters.pings, 1);
		reply_status(w, r, view->header, 0);
		break;
	case RPC_GET:
		do_get(w, r, view);
		break;
	case RPC_PUT:
		do_put(w, r, view);
		break;
	case RPC_DEL:
		do_del(w, r, view);
		break;
	case RPC_STATS:
		do_stats(w, r, view);
		break;
	}
}

void rpc_receive(struct rpc_worker *w, struct conn *c, const void *frame, uint32_t len)
{
	const struct rpc_request *q = frame;
	struct rpc_request_view view;
	struct request *r;
	const char *why = "";
	int rc;

	if (c->failed)
		return;
	rc = rpc_request_decode(frame, len, &view, &why);
	if (len < RPC_REQUEST_BYTES || q->magic != RPC_REQUEST_MAGIC || q->slot >= c->credits) {
		rpc_protocol_error(w, c, rc ? why : "it used a request slot beyond its credits");
		return;
	}
	r = &c->request[q->slot];
	if (r->state != REQUEST_IDLE) {
		rpc_protocol_error(w, c, "it used a request slot that is busy");
		return;
	}
	if (r->batch == w->batch) { /* both had come before the first was answered */
		rpc_protocol_error(w, c, "it used a request slot again before it had the reply");
		return;
	}
	r->batch = w->batch;
	if (rc) {
		reply_status(w, r, q, rc);
	} else if (q->client_id[0] != c->client_id[0] || q->client_id[1] != c->client_id[1] ||
		   q->generation != c->generation) {
		reply_status(w, r, q, -ESTALE);
	} else {
		dispatch(w, r, &view);
	}
}

void rpc_completed(struct rpc_worker *w, uint64_t wr_id, bool ok)
{
	struct request *r = rpc_wr_pointer(wr_id);
	unsigned hazard = (unsigned)(wr_id >> RPC_WR_HAZARD);

	if (hazard)
		hazard_drop(w, hazard - 1);
	switch ((enum rpc_wr)(wr_id & RPC_WR_WHAT)) {
	case RPC_WR_PULL:
		pulled(w, r, ok);
		break;
	case RPC_WR_STATS:
		r->conn->stats_busy = false;
		break;
	case RPC_WR_REPLY:
	case RPC_WR_MARKER:
		break;
	}
	if (!ok)
		rpc_protocol_error(w, r->conn, "a send to it failed");
}

void rpc_abandon(struct rpc_worker *w, struct conn *c)
{
	for (unsigned i = 0; i < c->credits; i++) {
		if (c->request[i].state == REQUEST_PULLING) {
			c->request[i].state = REQUEST_IDLE;
			store_put_abort(&w->store, &c->request[i].put);
		}
	}
	for (unsigned i = 0; i < WORKER_RECEIVES; i++) {
		if (w->hazard_owner[i] == c)
			hazard_drop(w, i);
	}
}
