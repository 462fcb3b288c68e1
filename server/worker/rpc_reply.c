/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Replies: their frames, the RDMA WRITE before them, and the hazards and rooms that it needs. */
#include "server/worker/rpc_internal.h"

#include <errno.h>

#include "common/base/time.h"

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

void *rpc_room_take(struct rpc_worker *w, const struct conn *c)
{
	unsigned room = RPC_ROOMS;

	for (unsigned i = 0; i < RPC_ROOMS; i++) {
		if (w->room_owner[i] == c)
			return NULL;
		room = w->room_owner[i] ? room : i;
	}
	if (room == RPC_ROOMS)
		return NULL;
	w->room_owner[room] = c;
	return (char *)w->rooms.addr + room * RPC_ROOM_BYTES;
}

void rpc_room_drop(struct rpc_worker *w, const struct conn *c)
{
	for (unsigned i = 0; i < RPC_ROOMS; i++) {
		if (w->room_owner[i] == c)
			w->room_owner[i] = NULL;
	}
}

void rpc_push_drop(struct rpc_worker *w, const struct conn *c, const struct rpc_push *push)
{
	if (push->hazard >= 0)
		rpc_hazard_drop(w, (unsigned)push->hazard);
	if (push->what == RPC_WR_STATS)
		rpc_room_drop(w, c);
}

void rpc_send_reply(struct rpc_worker *w, struct request *r, uint32_t len,
		    const struct rpc_push *push)
{
	const struct rpc_reply *reply = conn_reply_at(r->conn, r->slot);

	if (reply->status && reply->status != -ENOENT)
		rpc_count(&w->counters.refused, 1);
	if (reply->status == -ENOMEM)
		rpc_count(&w->counters.full, 1);
	if (r->conn->failed) { /* nothing is posted after apart.c's marker */
		if (push)
			rpc_push_drop(w, r->conn, push);
		return;
	}
	r->reply_len = len;
	r->pushes = push;
	if (push) {
		r->push = *push;
		rpc_count(&w->counters.pushed_bytes, push->len);
	}
	rpc_queue_add(w, r);
}

struct rpc_reply *rpc_reply_begin(struct request *r, uint64_t sequence, int status)
{
	struct rpc_reply *p = conn_reply_at(r->conn, r->slot);

	*p = (struct rpc_reply){
		.magic = RPC_REPLY_MAGIC,
		.status = status,
		.slot = r->slot,
		.sequence = sequence,
		.clock_ms = r->now_ns / NS_PER_MS,
	};
	return p;
}

void rpc_reply_status(struct rpc_worker *w, struct request *r, uint64_t sequence, int status)
{
	rpc_reply_begin(r, sequence, status);
	rpc_send_reply(w, r, RPC_REPLY_BYTES, NULL);
}

void rpc_reply_write(struct rpc_worker *w, struct request *r, uint64_t sequence,
		     const struct client_reply *what)
{
	struct rpc_reply *p = rpc_reply_begin(r, sequence, what->status);

	p->version = what->version;
	p->index_slot = what->index_slot;
	p->incarnation = what->incarnation;
	p->expiry_ms = what->expiry_ms;
	p->number = what->number;
	p->value_len = what->value_len;
	rpc_send_reply(w, r, RPC_REPLY_BYTES, NULL);
}
