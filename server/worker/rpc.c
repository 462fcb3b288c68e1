/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Requests and replies.
 *
 * A request slot is a small state machine: IDLE, or PULLING while an RDMA READ fetches the value of
 * a large PUT or APPEND straight into its new block, or PENDING while its write waits for the log.
 * Everything else is answered before rpc_receive() returns.
 *
 * What a posted operation names stays until its completion is polled or its queue pair is
 * destroyed (DESIGN 7.4): the block of a PULLING slot is unpublished and owned by
 * the slot; the block that a GET's RDMA WRITE reads from is held by a hazard, set in the same
 * read-side section in which it was found, released by the completion of the reply after it; the
 * reply's frame is rewritten only when the next request of its slot arrives, which the client
 * sends after it has the reply. What was not posted when the connection failed gives back its own
 * at once (rpc_queue.c).
 *
 * Receives are shared by all connections of a worker, so a client that sends more than its credits
 * takes them from others, whose queue pairs break when that goes on for longer than their
 * RNR retries. Two frames for one slot within one batch of completions prove it (the batch stood in
 * the queue before any of it was answered); a batch is larger than the credits of a queue pair, so
 * one that floods is caught by the first batch that it fills.
 */
#include "server/worker/rpc_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/time.h"

void rpc_protocol_error(struct rpc_worker *w, struct conn *c, const char *why)
{
	if (c->failed)
		return;
	c->failed = true;
	rpc_count(&w->counters.protocol_errors, 1);
	log_warn("rpc", "session %" PRIu64 " handle %u is given up: %s", c->generation, c->handle,
		 why);
	rdma_qp_fail(&c->qp);
	rpc_queue_fail(w, c);
	/* release: pairs with conn_lifeline_why() */
	atomic_store_explicit(&c->lifeline->why, why, memory_order_release);
	shutdown(c->lifeline->fd, SHUT_RD); /* the control thread sees it and ends the session */
}

void rpc_conn_lost(struct rpc_worker *w, struct conn *c, const char *why)
{
	const uint64_t one = 1;

	if (c->failed)
		return;
	c->failed = true;
	rpc_count(&w->counters.lost, 1);
	log_info("rpc", "session %" PRIu64 " handle %u is lost: %s", c->generation, c->handle, why);
	rdma_qp_fail(&c->qp);
	rpc_queue_fail(w, c);
	/* relaxed: the write below is a system call, and the reader's read of it another */
	atomic_store_explicit(&c->lifeline->lost[c->handle], CONN_LOST | c->qp.peer_qpn,
			      memory_order_relaxed);
	if (write(w->config.notice_fd, &one, sizeof(one)) != sizeof(one))
		log_error("rpc", "waking the control thread failed: %s", error_name(errno));
}

static void do_get(struct rpc_worker *w, struct request *r, const struct rpc_request_view *view)
{
	const struct rpc_request *q = view->header;
	struct store_result found;
	struct rpc_reply *p;
	const uint8_t *value;
	struct rpc_push push = {
		.what = RPC_WR_REPLY,
		.staging_addr = q->staging_addr,
		.staging_rkey = q->staging_rkey,
	};
	int rc;

	rpc_count(&w->counters.gets, 1);
	rc = store_get(&w->store, view->key, q->key_len, r->now_ns / NS_PER_MS,
		       reclaim_patience_over(w->store.store->reclaim, q->waited_ms), &found);
	if (rc == -EBUSY)
		reclaim_wanting(w->store.store->reclaim);
	if (!rpc_may_answer(w))
		rc = -EBUSY;
	if (rc) {
		rpc_reply_status(w, r, q->sequence, rc);
		return;
	}
	p = rpc_reply_begin(r, q->sequence, 0);
	p->version = found.version;
	p->index_slot = found.slot;
	p->incarnation = found.incarnation;
	p->expiry_ms = found.expiry_ms;
	p->value_len = found.value_len;
	value = found.block->data + q->key_len;
	if (found.value_len <= RPC_REPLY_INLINE_MAX) {
		p->flags = RPC_INLINE_VALUE;
		memcpy(p + 1, value, found.value_len);
		rpc_send_reply(w, r, RPC_REPLY_BYTES + found.value_len, NULL);
		return;
	}
	if (found.value_len > q->staging_len) {
		p->status = -EMSGSIZE;
		rpc_send_reply(w, r, RPC_REPLY_BYTES, NULL);
		return;
	}
	push.hazard = rpc_hazard_take(w, r->conn, found.place);
	if (push.hazard < 0) {
		rpc_reply_status(w, r, q->sequence, -EBUSY);
		return;
	}
	push.data = value;
	push.len = found.value_len;
	push.lkey = memory_extent_region(w->store.store->memory, found.place.extent)->lkey;
	rpc_send_reply(w, r, RPC_REPLY_BYTES, &push);
}

/* A reply with @len bytes of the room @data, which the completion of it gives back. */
static void reply_room(struct rpc_worker *w, struct request *r, const struct rpc_request *q,
		       const void *data, uint32_t len)
{
	const struct rpc_push push = {
		.data = data,
		.len = len,
		.lkey = w->rooms.region.lkey,
		.what = RPC_WR_STATS,
		.hazard = -1,
		.staging_addr = q->staging_addr,
		.staging_rkey = q->staging_rkey,
	};

	rpc_reply_begin(r, q->sequence, 0)->value_len = len;
	rpc_send_reply(w, r, RPC_REPLY_BYTES, &push);
}

static void do_stats(struct rpc_worker *w, struct request *r, const struct rpc_request_view *view)
{
	const struct rpc_request *q = view->header;
	char *text = rpc_room_take(w, r->conn);
	uint32_t len;

	rpc_count(&w->counters.stats, 1);
	if (!text) {
		rpc_reply_status(w, r, q->sequence, -EBUSY);
		return;
	}
	len = (uint32_t)w->config.stats(w->config.stats_ctx, text, RPC_ROOM_BYTES);
	if (len <= q->staging_len) {
		reply_room(w, r, q, text, len);
		return;
	}
	rpc_room_drop(w, r->conn);
	rpc_reply_begin(r, q->sequence, -EMSGSIZE)->value_len = len;
	rpc_send_reply(w, r, RPC_REPLY_BYTES, NULL);
}

static void do_measure(struct rpc_worker *w, struct request *r, const struct rpc_request_view *view)
{
	const struct rpc_request *q = view->header;
	const char *why = "it carries no value";
	struct rpc_measured *out = NULL;
	struct rpc_measure plan;
	int rc = view->value ? measure_decode(view->value, q->value_len, &plan, &why) : -EINVAL;

	rpc_count(&w->counters.stats, 1);
	if (rc == 0 && q->staging_len < sizeof(*out))
		rc = -EMSGSIZE;
	if (rc == 0) {
		out = rpc_room_take(w, r->conn);
		rc = out ? 0 : -EBUSY;
	}
	if (rc) {
		rpc_reply_status(w, r, q->sequence, rc);
		return;
	}
	*out = (struct rpc_measured){ 0 };
	w->config.measure(w->config.stats_ctx, out);
	conn_measure(r->conn, &plan, out);
	reply_room(w, r, q, out, sizeof(*out));
}

static void do_save(struct rpc_worker *w, struct request *r, const struct rpc_request *q)
{
	int64_t number = w->config.save ? w->config.save(w->config.stats_ctx) : -EOPNOTSUPP;

	rpc_count(&w->counters.stats, 1);
	if (number < 0) {
		rpc_reply_status(w, r, q->sequence, (int)number);
		return;
	}
	rpc_reply_begin(r, q->sequence, 0)->number = number;
	rpc_send_reply(w, r, RPC_REPLY_BYTES, NULL);
}

static void dispatch(struct rpc_worker *w, struct request *r, const struct rpc_request_view *view)
{
	switch (view->header->op) {
	case RPC_PING:
		rpc_count(&w->counters.pings, 1);
		rpc_reply_status(w, r, view->header->sequence, 0);
		break;
	case RPC_GET:
		do_get(w, r, view);
		break;
	case RPC_PUT:
		rpc_put(w, r, WRITE_PUT, view);
		break;
	case RPC_APPEND:
		rpc_put(w, r, WRITE_APPEND, view);
		break;
	case RPC_DEL:
		rpc_update(w, r, WRITE_DEL, view);
		break;
	case RPC_INCR:
		rpc_update(w, r, WRITE_INCR, view);
		break;
	case RPC_TOUCH:
		rpc_update(w, r, WRITE_TOUCH, view);
		break;
	case RPC_STATS:
		do_stats(w, r, view);
		break;
	case RPC_MEASURE:
		do_measure(w, r, view);
		break;
	case RPC_SAVE:
		do_save(w, r, view->header);
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
	/* the one look at the clock, for all that it needs it for */
	r->now_ns = store_now_ns(w->store.store);
	if (rc) {
		rpc_reply_status(w, r, q->sequence, rc);
	} else if (q->client_id[0] != c->client_id[0] || q->client_id[1] != c->client_id[1] ||
		   q->generation != c->generation) {
		rpc_reply_status(w, r, q->sequence, -ESTALE);
	} else {
		dispatch(w, r, &view);
	}
}

void rpc_completed(struct rpc_worker *w, uint64_t wr_id, bool ok)
{
	struct request *r = rpc_wr_pointer(wr_id);
	unsigned hazard = (unsigned)(wr_id >> RPC_WR_HAZARD);

	if (ok)
		rpc_queue_completed(w, r->conn);
	if (hazard)
		rpc_hazard_drop(w, hazard - 1);
	switch ((enum rpc_wr)(wr_id & RPC_WR_WHAT)) {
	case RPC_WR_PULL:
		rpc_pulled(w, r, ok);
		break;
	case RPC_WR_STATS:
		rpc_room_drop(w, r->conn);
		break;
	case RPC_WR_REPLY:
	case RPC_WR_MARKER:
		break;
	}
	if (!ok)
		rpc_conn_lost(w, r->conn, "a send to it failed");
}

void rpc_abandon(struct rpc_worker *w, struct conn *c)
{
	for (unsigned i = 0; i < c->credits; i++) {
		if (c->request[i].state == REQUEST_PULLING)
			write_drop(&w->door, &c->request[i].write);
		else if (c->request[i].state == REQUEST_PENDING)
			write_forsake(&c->request[i].write);
		c->request[i].state = REQUEST_IDLE;
	}
	for (unsigned i = 0; i < WORKER_RECEIVES; i++) {
		if (w->hazard_owner[i] == c)
			rpc_hazard_drop(w, i);
	}
	rpc_room_drop(w, c);
}
