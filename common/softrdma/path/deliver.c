/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What consumes a receive of the peer: SEND and WRITE with immediate. The initiator takes a receive
 * from the QP's queue or its SRQ (rq.c), copies into its buffers, puts a completion into the ring
 * of the peer's QP, of which it is the only producer, and wakes the thread that sleeps on the CQ.
 * All of it lies between the stores to `busy` (execute.c), so that the owner can wait for it.
 *
 * No receive posted: the initiator leaves word that it waits and looks once more; the owner posts
 * and then looks for waiters; seq_cst on both sides, so that one sees the other.
 *
 * UC loses what cannot be delivered, as IBTA 9.9.3 has it: no receive posted, key or access refused
 * (class D: no receive is used up), longer than the receive (class D; from an SRQ, class E: the
 * receive completes with an error, the QP goes on). A receive whose own memory may not be written
 * completes with an error and takes the QP to ERR, as with RC (class A).
 */
#include "common/softrdma/path/execute.h"
#include "common/softrdma/path/progress.h"

/* Take the place for one more completion, and count it in the CQ. NULL: overrun. */
static struct shared_cqe *inbound_place(struct soft_qp *qp, struct shared_cq *cq, uint64_t tail)
{
	struct shared_qp *remote = qp->remote;
	uint32_t slots = atomic_load_explicit(&remote->in_slots, memory_order_relaxed);
	struct shared_cqe *ring;

	if (!slots || (slots & (slots - 1)))
		return NULL;
	ring = arena_at(qp->peer->arena,
			atomic_load_explicit(&remote->in_ring, memory_order_relaxed),
			slots * sizeof(*ring));
	if (!ring)
		return NULL;
	/* acquire: pairs with the release in soft_cq_inbound(): the place has been read */
	if (tail - atomic_load_explicit(&remote->in_head, memory_order_acquire) >= slots)
		return NULL;
	if (atomic_fetch_add_explicit(&cq->inbound, 1, memory_order_relaxed) +
		    atomic_load_explicit(&cq->own, memory_order_relaxed) >=
	    atomic_load_explicit(&cq->cqe, memory_order_relaxed)) {
		atomic_fetch_sub_explicit(&cq->inbound, 1, memory_order_relaxed);
		return NULL;
	}
	return &ring[tail & (slots - 1)];
}

/* Complete a receive at the peer. @solicited: also where only such ones were asked for. */
static void inbound_push(struct soft_qp *qp, const struct ibv_wc *wc, bool solicited)
{
	struct shared_qp *remote = qp->remote;
	struct shared_arena *arena = qp->peer->arena;
	uint64_t tail = atomic_load_explicit(&remote->in_tail, memory_order_relaxed);
	uint32_t index = atomic_load_explicit(&remote->recv_cq, memory_order_relaxed);
	struct shared_cq *cq = &arena->cq[index % SHARED_CQS];
	struct shared_cqe *cqe = inbound_place(qp, cq, tail);

	if (!cqe) {
		atomic_store(&cq->overrun, 1);
		atomic_store(&arena->attention, 1);
		soft_kick(qp->peer->kick_fd);
		return;
	}
	atomic_store_explicit(&cqe->wr_id, wc->wr_id, memory_order_relaxed);
	atomic_store_explicit(&cqe->byte_len, wc->byte_len, memory_order_relaxed);
	atomic_store_explicit(&cqe->imm, wc->imm_data, memory_order_relaxed);
	atomic_store_explicit(&cqe->status, wc->status, memory_order_relaxed);
	atomic_store_explicit(&cqe->opcode, wc->opcode, memory_order_relaxed);
	atomic_store_explicit(&cqe->flags, wc->wc_flags, memory_order_relaxed);
	/* release: pairs with the acquire in soft_cq_inbound(): entry and payload */
	atomic_store_explicit(&remote->in_tail, tail + 1, memory_order_release);
	pending_set(cq, qpn_index(qp->dest_qpn));
	cq_notify(cq, qp->wake_fd, solicited);
}

static struct shared_rq *remote_rq(struct soft_qp *qp)
{
	uint32_t srq = atomic_load_explicit(&qp->remote->srq, memory_order_relaxed);

	return srq < SHARED_SRQS ? &qp->peer->arena->srq[srq] : &qp->remote->rq;
}

static bool take(struct soft_qp *qp, struct shared_rq *rq, struct soft_recv *recv)
{
	struct shared_arena *arena = qp->peer->arena;
	uint32_t limit;

	if (!soft_rq_take(arena, rq, recv)) {
		if (qp->base.qp_type == IBV_QPT_UC)
			return false; /* lost: nobody waits */
		/* seq_cst: pairs with soft_progress_posted() */
		atomic_store(&qp->remote->waiter, 1);
		atomic_store(&rq->waited, 1);
		fence_full();
		if (!soft_rq_take(arena, rq, recv))
			return false;
	}
	limit = atomic_load_explicit(&rq->limit, memory_order_relaxed);
	if (limit && rq_count(rq) < limit &&
	    atomic_compare_exchange_strong(&rq->limit, &limit, 0)) {
		atomic_store(&rq->limit_hit, 1);
		atomic_store(&arena->attention, 1);
		soft_kick(qp->peer->kick_fd);
	}
	return true;
}

/* Copy the message into the buffers of @recv. Returns a status, the sender's. */
static int scatter(struct soft_qp *qp, struct shared_rq *rq, const struct soft_recv *recv,
		   struct soft_local *local, struct soft_found *found)
{
	uint32_t pd = atomic_load_explicit(&rq->pd, memory_order_relaxed);
	uint64_t left = local->total;

	for (uint32_t i = 0; i < recv->sges && left; i++) {
		const struct ibv_sge *sge = &recv->sge[i];
		uint64_t length = sge->length < left ? sge->length : left;
		struct soft_remote remote;
		int rc;

		if (!length)
			continue;
		if (!soft_remote_resolve(qp, sge->lkey, sge->addr, length, IBV_ACCESS_LOCAL_WRITE,
					 pd, &remote))
			return IBV_WC_REM_OP_ERR;
		found_add(found, remote.mr, remote.word);
		rc = soft_copy_out(qp, &remote, local);
		if (rc != IBV_WC_SUCCESS)
			return rc;
		left -= length;
	}
	return left ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_SUCCESS;
}

/* WRITE with immediate: the data goes where rkey says, the receive only tells of it. */
static int write_imm(struct soft_qp *qp, const struct ibv_send_wr *wr, struct soft_local *local,
		     struct soft_found *found)
{
	struct soft_remote remote;
	int event = IBV_EVENT_QP_ACCESS_ERR, rc = IBV_WC_REM_ACCESS_ERR;

	if (!(atomic_load_explicit(&qp->remote->access, memory_order_relaxed) &
	      IBV_ACCESS_REMOTE_WRITE)) {
		event = IBV_EVENT_QP_REQ_ERR;
		rc = IBV_WC_REM_INV_REQ_ERR;
	} else if (!local->total) {
		return IBV_WC_SUCCESS;
	} else if (soft_remote_resolve(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, local->total,
				       IBV_ACCESS_REMOTE_WRITE,
				       atomic_load_explicit(&qp->remote->pd, memory_order_relaxed),
				       &remote)) {
		found_add(found, remote.mr, remote.word);
		return soft_copy_out(qp, &remote, local);
	}
	soft_remote_fail(qp, event);
	return rc;
}

/* Of UC: will the message arrive? Decided before a receive is taken, because it stays if not. */
static bool arrives(struct soft_qp *qp, const struct ibv_send_wr *wr, struct shared_rq *rq,
		    const struct soft_local *local)
{
	struct soft_remote remote;
	struct soft_recv recv;

	if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		return (atomic_load_explicit(&qp->remote->access, memory_order_relaxed) &
			IBV_ACCESS_REMOTE_WRITE) &&
		       (!local->total ||
			soft_remote_resolve(
				qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, local->total,
				IBV_ACCESS_REMOTE_WRITE,
				atomic_load_explicit(&qp->remote->pd, memory_order_relaxed),
				&remote));
	if (rq != &qp->remote->rq)
		return true; /* of an SRQ others take too: it is gone when its length is known */
	return soft_rq_peek(qp->peer->arena, rq, &recv) && local->total <= recv_size(&recv);
}

/*
 * After the copy and before the peer is told of it: does the owner wait for it still, or would it
 * allow it again? Returns a status.
 */
static int still_wanted(struct soft_qp *qp, const struct soft_found *found)
{
	/* relaxed: where the mark comes later, soft_busy_end() finds it */
	uint64_t busy = atomic_load_explicit(&qp->shared->busy, memory_order_relaxed);

	if (__builtin_expect(!(busy & BUSY_GIVEN_UP) && !peer_dead(qp->peer), 1))
		return IBV_WC_SUCCESS;
	return soft_look_again(qp, found);
}

/* The peer's queue pair changed meanwhile: does it have a use for the receive that was taken? */
static bool takes_back(struct soft_qp *qp, const struct soft_found *found)
{
	uint64_t now = atomic_load(&qp->remote->word);

	return (now ^ found->qp) < 0x100 && !peer_dead(qp->peer);
}

int soft_deliver(struct soft_qp *qp, const struct ibv_send_wr *wr, struct soft_local *local,
		 struct soft_found *found)
{
	bool with_write = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool with_imm = with_write || wr->opcode == IBV_WR_SEND_WITH_IMM;
	bool lossy = qp->base.qp_type == IBV_QPT_UC;
	struct shared_rq *rq = remote_rq(qp);
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS, .byte_len = local->total };
	struct soft_recv recv;
	int rc;

	if ((lossy && !arrives(qp, wr, rq, local)) || !take(qp, rq, &recv))
		return EXECUTE_RNR;
	wc.wr_id = recv.wr_id;
	wc.opcode = with_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
	if (with_imm) {
		wc.imm_data = wr->imm_data;
		wc.wc_flags = IBV_WC_WITH_IMM;
	}
	if (with_write) {
		rc = write_imm(qp, wr, local, found);
		if (rc == IBV_WC_SUCCESS)
			rc = still_wanted(qp, found);
		if (rc == IBV_WC_REM_ACCESS_ERR)
			soft_remote_fail(qp, IBV_EVENT_QP_ACCESS_ERR);
		if (rc != IBV_WC_SUCCESS) /* not used: flushed with the rest */
			wc.status = lossy && rc != IBV_WC_RETRY_EXC_ERR ? IBV_WC_REM_ACCESS_ERR
									: IBV_WC_WR_FLUSH_ERR;
	} else if (local->total > recv_size(&recv)) {
		wc.status = IBV_WC_LOC_LEN_ERR;
		rc = IBV_WC_REM_INV_REQ_ERR;
	} else {
		rc = scatter(qp, rq, &recv, local, found);
		if (rc == IBV_WC_SUCCESS)
			rc = still_wanted(qp, found);
		if (rc != IBV_WC_SUCCESS)
			wc.status = rc == IBV_WC_RETRY_EXC_ERR ? IBV_WC_WR_FLUSH_ERR
							       : IBV_WC_LOC_PROT_ERR;
	}
	if (rc == IBV_WC_RETRY_EXC_ERR && !takes_back(qp, found))
		return rc;
	inbound_push(qp, &wc, wc.status != IBV_WC_SUCCESS || (wr->send_flags & IBV_SEND_SOLICITED));
	if (rc != IBV_WC_SUCCESS && (!lossy || wc.status == IBV_WC_LOC_PROT_ERR))
		soft_remote_fail(qp, -1);
	return rc;
}
