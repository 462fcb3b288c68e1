/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the files of rpc share; the worker's loop sees rpc.h only. The worker's thread. */
#include <stdatomic.h>

#include "common/base/time.h"
#include "server/worker/rpc.h"

/* rpc_count - one writer: no read-modify-write needed. */
static inline void rpc_count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/*
 * rpc_may_answer - nobody else is primary, as far as this server's lease goes. To be asked when
 * what is to be answered has been read. True where it belongs to no group.
 */
static inline bool rpc_may_answer(const struct rpc_worker *w)
{
	/* relaxed: what the clock says stands for itself */
	return !w->config.lease_until ||
	       time_read_ns(CLOCK_BOOTTIME) / 1000 <
		       atomic_load_explicit(w->config.lease_until, memory_order_relaxed);
}

/* rpc_hazard_take - hold the block at @place for the reply to come. -1: every one is in use. */
int rpc_hazard_take(struct rpc_worker *w, const struct conn *c, struct memory_place place);
void rpc_hazard_drop(struct rpc_worker *w, unsigned hazard); /* one that is free is fine */

/* rpc_room_take - RPC_ROOM_BYTES for the reply to come, or NULL. */
void *rpc_room_take(struct rpc_worker *w, const struct conn *c);
void rpc_room_drop(struct rpc_worker *w, const struct conn *c); /* one that has none is fine */

/* rpc_push_drop - the hazard or the room of a reply of @c that was not posted. */
void rpc_push_drop(struct rpc_worker *w, const struct conn *c, const struct rpc_push *push);

/* rpc_reply_begin - the slot's frame, with all that every reply has. */
struct rpc_reply *rpc_reply_begin(struct request *r, uint64_t sequence, int status);

/*
 * rpc_queue_add - post what @r has to post, the READ of its value (REQUEST_PULLING) or its reply,
 * or keep it until there is a place for it.
 */
void rpc_queue_add(struct rpc_worker *w, struct request *r);

/* rpc_queue_completed - a signalled send of @c completed: post what waits. */
void rpc_queue_completed(struct rpc_worker *w, struct conn *c);

/*
 * rpc_queue_fail - @c has failed: what waits will not be posted, and gives back what it holds. The
 * client may keep such a queue pair for as long as the session lasts.
 */
void rpc_queue_fail(struct rpc_worker *w, struct conn *c);

/*
 * rpc_send_reply - send the @len bytes of the slot's frame, after an RDMA WRITE where @push says
 * so. On a connection that has failed nothing is posted, and what @push holds is dropped.
 */
void rpc_send_reply(struct rpc_worker *w, struct request *r, uint32_t len,
		    const struct rpc_push *push);

/* rpc_reply_status, rpc_reply_write - a reply without a value: of @status; of a write. */
void rpc_reply_status(struct rpc_worker *w, struct request *r, uint64_t sequence, int status);
void rpc_reply_write(struct rpc_worker *w, struct request *r, uint64_t sequence,
		     const struct client_reply *what);

/* A write with a value of its own, and one without: they go through the worker's door. */
void rpc_put(struct rpc_worker *w, struct request *r, enum write_op op,
	     const struct rpc_request_view *view);
void rpc_update(struct rpc_worker *w, struct request *r, enum write_op op,
		const struct rpc_request_view *view);

/* rpc_pulled - the READ that fetches a value ended; @ok: with success. */
void rpc_pulled(struct rpc_worker *w, struct request *r, bool ok);
