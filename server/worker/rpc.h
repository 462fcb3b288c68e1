/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Answering requests: called by the worker's loop, on its thread. */
#include <stdbool.h>

#include "server/worker/conn.h"
#include "server/worker/worker.h"

/*
 * Rooms for what STATS and MEASURE are answered with, in registered memory, until it was written
 * into the client's. A request that finds none free, or comes from a connection that has one, is
 * answered -EBUSY, and its client comes again.
 */
#define RPC_ROOMS      4u
#define RPC_ROOM_BYTES (32u << 10)

/* What the rpc functions need of their worker. */
struct rpc_worker {
	struct store_worker store;
	struct write_door door;
	struct worker_counters counters;
	struct worker_config config;
	uint64_t batch; /* number of the batch of completions that is being handled */
	/* Hazards (reclaim.h): one for every receive. The free ones, and whose the others are. */
	unsigned hazards_free;
	uint16_t hazard_free[WORKER_RECEIVES];
	const struct conn *hazard_owner[WORKER_RECEIVES];
	struct rdma_buffer rooms;
	const struct conn *room_owner[RPC_ROOMS]; /* NULL: it is free */
};

/* rpc_answer - the door has answered a write of this worker. */
void rpc_answer(struct write_door *door, struct write *write);

/* rpc_receive - a frame of @len bytes arrived on @c; the buffer is reusable on return. */
void rpc_receive(struct rpc_worker *w, struct conn *c, const void *frame, uint32_t len);

/* rpc_completed - a signalled send other than the marker ended, with success or not. */
void rpc_completed(struct rpc_worker *w, uint64_t wr_id, bool ok);

/* rpc_abandon - the queue pair of @c is destroyed: release what its requests hold. */
void rpc_abandon(struct rpc_worker *w, struct conn *c);

/*
 * rpc_protocol_error - give the connection up. Its queue pair fails at once, so that it takes no
 * more of the shared receives; the control thread sees the life line end, tells the peer @why (a
 * static text), and ends the session.
 */
void rpc_protocol_error(struct rpc_worker *w, struct conn *c, const char *why);

/*
 * rpc_conn_lost - its queue pair broke, as it does when the client destroyed its end. That is no
 * fault of the session: its other queue pairs go on, and the client opens this one again or closes.
 * The control thread tells it, over the life line: it may wait for a reply that cannot come.
 */
void rpc_conn_lost(struct rpc_worker *w, struct conn *c, const char *why);

/*
 * wr_id of a send: bits 0..2 what it was, bits 3..47 the address of its request (of its connection
 * for the marker), bits 48..63 one more than the number of the hazard that it holds, or 0.
 */
enum rpc_wr { RPC_WR_REPLY = 0, RPC_WR_STATS = 1, RPC_WR_PULL = 2, RPC_WR_MARKER = 3 };
#define RPC_WR_WHAT   7ull
#define RPC_WR_HAZARD 48

static inline void *rpc_wr_pointer(uint64_t wr_id)
{
	return (void *)(uintptr_t)(wr_id & ((1ull << RPC_WR_HAZARD) - 1) & ~RPC_WR_WHAT);
}
