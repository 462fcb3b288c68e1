/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The send queue of a connection. The client may use a request slot again as soon as it has the
 * reply, while the completion of that reply may come much later, so that credits do not bound what
 * stands in the send queue. So places are counted, and what finds none waits, at most one thing a
 * request slot, until completions free some. The worker waits for nobody meanwhile.
 *
 * Sends complete in order. Each signalled one has a mark: how many had been posted with it; its
 * completion frees the places of all up to there. One in so many is signalled that a full queue
 * always holds one. The last place is the marker's (apart.c).
 */
#include "common/rdma/post.h"
#include "server/worker/rpc_internal.h"

static bool queue_has_room(const struct conn_queue *queue)
{
	/* for a WRITE, a SEND and the marker */
	return queue->posted - queue->completed + 3 <= queue->places;
}

/* @count sends were posted, the last of them signalled or not. */
static void queue_count(struct conn_queue *queue, unsigned count, bool signalled)
{
	queue->posted += count;
	if (signalled) {
		queue->mark[queue->marks_tail++ & (queue->marks - 1)] = queue->posted;
		queue->unsignalled = 0;
	}
}

/* The READ that brings the value from the client's staging memory into the block. */
static void post_pull(struct rpc_worker *w, struct request *r)
{
	const struct write *write = &r->write;
	struct conn *c = r->conn;
	struct ibv_sge sge = {
		.addr = (uintptr_t)write_value(write),
		.length = write->ask.value_len,
		.lkey = memory_extent_region(w->store.store->memory, write->put.place.extent)->lkey,
	};
	struct ibv_send_wr read = {
		.wr_id = (uintptr_t)r | RPC_WR_PULL,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma.remote_addr = r->pull.addr,
		.wr.rdma.rkey = r->pull.rkey,
	};
	struct ibv_send_wr *bad;

	if (rdma_post_send(c->qp.qp, &read, &bad)) {
		r->state = REQUEST_IDLE;
		write_drop(&w->door, &r->write);
		rpc_conn_lost(w, c, "its queue pair takes no READ");
		return;
	}
	queue_count(&c->queue, 1, true);
}

static void post_reply(struct rpc_worker *w, struct request *r)
{
	struct conn *c = r->conn;
	bool signal = r->pushes || ++c->queue.unsignalled >= c->credits / 2 + 1;
	struct ibv_sge frame = {
		.addr = (uintptr_t)conn_reply_at(c, r->slot),
		.length = r->reply_len,
		.lkey = c->replies.region.lkey,
	};
	struct ibv_send_wr send = {
		.wr_id = (uintptr_t)r,
		.sg_list = &frame,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = (signal ? IBV_SEND_SIGNALED : 0) |
			      (r->reply_len <= c->qp.inline_max ? IBV_SEND_INLINE : 0),
	};
	struct ibv_sge data = { (uintptr_t)r->push.data, r->push.len, r->push.lkey };
	struct ibv_send_wr write = {
		.wr_id = (uintptr_t)r,
		.next = &send,
		.sg_list = &data,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma.remote_addr = r->push.staging_addr,
		.wr.rdma.rkey = r->push.staging_rkey,
	};
	struct ibv_send_wr *bad;

	r->state = REQUEST_IDLE;
	if (r->pushes)
		send.wr_id |= r->push.what | (uint64_t)(r->push.hazard + 1) << RPC_WR_HAZARD;
	if (rdma_post_send(c->qp.qp, r->pushes ? &write : &send, &bad)) {
		rpc_conn_lost(w, c, "its queue pair takes no reply");
		return;
	}
	queue_count(&c->queue, r->pushes ? 2 : 1, signal);
}

static void post(struct rpc_worker *w, struct request *r)
{
	if (r->state == REQUEST_PULLING)
		post_pull(w, r);
	else
		post_reply(w, r);
}

void rpc_queue_add(struct rpc_worker *w, struct request *r)
{
	struct conn_queue *queue = &r->conn->queue;

	if (!queue->waiting && queue_has_room(queue)) {
		post(w, r);
		return;
	}
	if (r->state != REQUEST_PULLING)
		r->state = REQUEST_WAITING;
	r->next = NULL;
	if (queue->waiting)
		queue->waiting_last->next = r;
	else
		queue->waiting = r;
	queue->waiting_last = r;
}

void rpc_queue_completed(struct rpc_worker *w, struct conn *c)
{
	struct conn_queue *queue = &c->queue;

	queue->completed = queue->mark[queue->marks_head++ & (queue->marks - 1)];
	while (!c->failed && queue->waiting && queue_has_room(queue)) {
		struct request *r = queue->waiting;

		queue->waiting = r->next;
		post(w, r);
	}
}

void rpc_queue_fail(struct rpc_worker *w, struct conn *c)
{
	for (struct request *r = c->queue.waiting; r; r = r->next) {
		if (r->state == REQUEST_PULLING)
			write_drop(&w->door, &r->write);
		else if (r->pushes)
			rpc_push_drop(w, c, &r->push);
		r->state = REQUEST_IDLE;
	}
	c->queue.waiting = NULL;
}
