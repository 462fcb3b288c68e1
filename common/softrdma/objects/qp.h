/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Queue pairs. */
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/softrdma/objects/ah.h"
#include "common/softrdma/device/context.h"
#include "common/softrdma/objects/cq.h"
#include "common/softrdma/faults/dice.h"
#include "common/softrdma/shared/lock.h"
#include "common/softrdma/objects/mr.h"
#include "common/softrdma/process/peer.h"
#include "common/softrdma/process/process.h"
#include "common/softrdma/objects/rq.h"
#include "common/softrdma/objects/srq.h"
#include "common/softrdma/datagram/ud.h"

struct soft_batch;

enum soft_stall {
	STALL_NONE,
	STALL_RNR, /* the peer has no receive posted */
	STALL_PEER, /* the peer's QP is not in RTR yet */
	STALL_ASKED, /* the peer's process executes it */
	STALL_ROOM, /* the way to the peer is full */
	STALL_FATE, /* its fate wants it so, see fated.c */
};

struct soft_qp {
	union {
		struct ibv_qp base;
		struct ibv_qp_ex ex;
	};
	/* constant */
	uint32_t epoch, index;
	struct shared_qp *shared;
	struct soft_cq *send_cq, *recv_cq;
	struct soft_srq *srq;
	uint32_t pd;
	uint32_t send_max, sge_max, inline_max;
	bool sig_all;
	struct shared_cqe *in_ring;
	uint64_t in_offset; /* of in_ring in the arena */
	uint32_t in_slots;
	uint32_t send_slots;
	size_t send_size;
	unsigned char *sends; /* the ring of waiting sends */

	uint64_t in_head; /* lock of recv_cq; a copy is in the arena, for the peer */

	struct lock sq; /* protects the rest, but not rq */
	bool flushed; /* in ERR, and that was attended to */
	bool chains; /* the last READ was of private memory of the peer: chain.c */
	uint32_t rd_atomic; /* as initiator */
	/* the connection; see soft_process.walk */
	uint32_t dest_qpn;
	struct soft_peer *peer;
	struct shared_qp *remote; /* in the peer's arena */
	int wake_fd; /* of the channel of the peer's receive CQ, or -1 */
	uint64_t wake_id; /* that channel, or 0 */
	/* sends: counters since RESET */
	uint64_t posted, executed;
	_Atomic uint64_t sent_polled; /* written under the lock of send_cq */
	/* in SQD: those before `drain_to` are executed still */
	uint64_t drain_to;
	bool drain_event; /* tell when that is done */
	/* the oldest waiting send */
	enum soft_stall stall;
	uint64_t stall_ns; /* next time that counts as a retry, or the end of patience */
	uint32_t stall_left; /* retries left */
	struct soft_dice weak_dice, fault_dice; /* for fates */
	uint64_t fated; /* requests that got one */
	uint32_t shuffle; /* of the request that is being executed */
	uint64_t asked; /* word of the peer's QP that was asked to execute it, or 0: atomic.c */
	struct ibv_qp_attr attr; /* as set by modify */
	struct ibv_qp_cap cap;
	int destroy_failed; /* SOFTRDMA_FAULT: with that; only destroy_qp */
	bool writer_stuck; /* see fence.c: the index is not used again */
	/* The peer's operation that a fence found under way, and when; 0: none. Under walk. */
	_Atomic uint64_t seen_busy, seen_ns;

	struct soft_rq rq;
	bool rq_flushed; /* rq.lock */
	struct soft_batch *batch; /* constant; NULL: no ibv_wr functions, see qp_ex.c */
	struct soft_async_count async;
	struct soft_ud *ud; /* of a UD QP, else NULL; constant */
};

static inline struct soft_qp *soft_qp(struct ibv_qp *base)
{
	return (struct soft_qp *)base;
}

static inline struct soft_rq *qp_rq(struct soft_qp *qp)
{
	return qp->srq ? &qp->srq->rq : &qp->rq;
}

/* qp_receive_done - the completion of a receive was polled, or is void. */
static inline void qp_receive_done(struct soft_qp *qp)
{
	/* release: pairs with the acquire in soft_rq_post() */
	atomic_fetch_add_explicit(&qp_rq(qp)->polled, 1, memory_order_release);
}

/* qp_state - the state, which a peer may have changed to ERR. */
static inline enum ibv_qp_state qp_state(struct soft_qp *qp)
{
	/* acquire: pairs with the compare-and-swap in soft_remote_fail() */
	return qp_word_state(atomic_load_explicit(&qp->shared->word, memory_order_acquire));
}

int soft_post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

/* soft_post_all - post the @count requests of the list @wr, or none. Returns 0 or a positive
 * errno. */
int soft_post_all(struct soft_qp *qp, struct ibv_send_wr *wr, uint32_t count);

int soft_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* soft_send_progress - execute what waits in the send queue, as far as that goes. Holds sq. */
void soft_send_progress(struct soft_qp *qp);

/* soft_send_flush - complete what waits in the send queue with FLUSH_ERR. Holds sq. */
void soft_send_flush(struct soft_qp *qp);

/*
 * soft_qp_error - go to ERR, or attend to a peer having put us there: wait for the peer's writes,
 * flush both queues. Holds sq.
 */
void soft_qp_error(struct soft_qp *qp);

/* qp_receives - may a peer's requests be executed in @state? Takes what qp_word_state() returns. */
static inline bool qp_receives(uint32_t state)
{
	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
	       state == IBV_QPS_SQE;
}

/* soft_qp_raise - an asynchronous event about @qp. */
void soft_qp_raise(struct soft_qp *qp, enum ibv_event_type type);

/* soft_qp_connect, soft_qp_disconnect - to the peer that dest_qpn names. Holds sq. */
void soft_qp_connect(struct soft_qp *qp);
void soft_qp_disconnect(struct soft_qp *qp);
