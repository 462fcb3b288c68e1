/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Replies: their frames, the RDMA WRITE before them, and the hazards that it needs. */
#include "server/worker/rpc_internal.h"

#include <errno.h>

#include "common/base/time.h"
#include "common/rdma/post.h"

/* Hold the block at @place for the reply to come. -1: every hazard is in use. */
int rpc_hazard_take(struct rpc_worker *w, const struct conn *c, struct memory_place place)
{
	unsigned hazard;

	if (!w->hazards_free)
		return -1;
	hazard = w->hazard_free[--w->hazards_free];
	w->hazard_owner[hazard] = c;
	reclaim_hazard_set(w->store.reclaim, hazard, place);
	return (int)hazard;
}

void rpc_hazard_drop(struct rpc_worker *w, unsigned hazard)
{
	if (!w->hazard_owner[hazard])
		return;
	reclaim_hazard_clear(w->store.reclaim, hazard);
	w->hazard_owner[hazard] = NULL;
	w->hazard_free[w->hazards_free++] = (uint16_t)hazard;
}

/* Post the reply that stands in the slot's frame, behind an RDMA WRITE where @push says so. */
void rpc_send_reply(struct rpc_worker *w, struct request *r, const struct rpc_request *q,
		    uint32_t len, const struct rpc_push *push)
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

	if (c->failed) { /* nothing is posted behind the marker of worker.c's drain() */
		if (push && push->hazard >= 0)
			rpc_hazard_drop(w, (unsigned)push->hazard);
		return;
	}
	if (push) {
		data.addr = (uintptr_t)push->data;
		data.length = push->len;
		data.lkey = push->lkey;
		send.wr_id |= push->what | (uint64_t)(push->hazard + 1) << RPC_WR_HAZARD;
		rpc_count(&w->counters.pushed_bytes, push->len);
	}
	if (signal)
		c->unsignalled = 0;
	if (rdma_post_send(c->qp.qp, push ? &write : &send, &bad))
		rpc_conn_lost(w, c, "its queue pair takes no reply");
}

struct rpc_reply *rpc_reply_begin(struct request *r, const struct rpc_request *q, int status)
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

void rpc_reply_status(struct rpc_worker *w, struct request *r, const struct rpc_request *q,
		      int status)
{
	if (status && status != -ENOENT)
		rpc_count(&w->counters.refused, 1);
	rpc_reply_begin(r, q, status);
	rpc_send_reply(w, r, q, RPC_REPLY_BYTES, NULL);
}

void rpc_reply_write(struct rpc_worker *w, struct request *r, const struct rpc_request *q,
		     const struct client_reply *what)
{
	struct rpc_reply *p = rpc_reply_begin(r, q, what->status);

	p->version = what->version;
	p->index_slot = what->index_slot;
	p->incarnation = what->incarnation;
	rpc_send_reply(w, r, q, RPC_REPLY_BYTES, NULL);
}
