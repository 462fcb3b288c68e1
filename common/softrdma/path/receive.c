/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Posting receives to a QP, and what the error state does to a QP. */
#include <errno.h>

#include "common/softrdma/path/fence.h"
#include "common/softrdma/path/progress.h"
#include "common/softrdma/objects/qp.h"

static void receive_flush(struct soft_qp *qp, uint64_t wr_id)
{
	struct soft_done done = { .wr_id = wr_id,
				  .status = IBV_WC_WR_FLUSH_ERR,
				  .opcode = IBV_WC_RECV };

	soft_cq_push(qp->recv_cq, qp, &done);
}

/* Flush all that is posted. What was received before stays before it. */
static void receive_flush_all(struct soft_qp *qp)
{
	struct soft_recv recv;

	lock_take(&qp->rq.lock);
	soft_cq_collect(qp->recv_cq, qp);
	/* Bounded by the slots: a peer may have broken head or tail in the arena. */
	for (uint32_t i = 0; i < qp->rq.slots && soft_rq_take(own_arena(), qp->rq.shared, &recv);
	     i++)
		receive_flush(qp, recv.wr_id);
	qp->rq_flushed = true;
	lock_drop(&qp->rq.lock);
}

void soft_qp_raise(struct soft_qp *qp, enum ibv_event_type type)
{
	struct ibv_async_event event = { .element.qp = &qp->base, .event_type = type };

	soft_async_raise(qp->base.context, &event, &qp->async);
}

void soft_qp_error(struct soft_qp *qp)
{
	uint64_t word = atomic_load(&qp->shared->word);
	uint32_t event;

	if (qp->flushed)
		return;
	/* seq_cst and full fence: see fence.c */
	while (!atomic_compare_exchange_weak(&qp->shared->word, &word,
					     (word & ~(uint64_t)0xff) | IBV_QPS_ERR))
		;
	fence_full();
	soft_fence_qp(qp);
	qp->flushed = true;
	soft_send_flush(qp);
	receive_flush_all(qp);
	event = atomic_exchange(&qp->shared->async_event, 0);
	/* of the two that there are: any other would not be acknowledged as one of a QP */
	if (event)
		soft_qp_raise(qp, event - 1 == IBV_EVENT_QP_ACCESS_ERR ? IBV_EVENT_QP_ACCESS_ERR
								       : IBV_EVENT_QP_REQ_ERR);
	if (qp->srq)
		soft_qp_raise(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}

int soft_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct soft_qp *qp = soft_qp(base);
	int rc = 0;

	if (!process_alive(qp->epoch) || qp->srq) {
		*bad = wr;
		return EINVAL;
	}
	lock_take(&qp->rq.lock);
	for (; wr; wr = wr->next) {
		struct soft_recv recv;

		rc = qp_state(qp) == IBV_QPS_RESET ? EINVAL : soft_rq_post(&qp->rq, wr);
		if (rc) {
			*bad = wr;
			break;
		}
		/* In ERR, but before it was attended to, the receive waits for that. */
		if (qp->rq_flushed && soft_rq_take(own_arena(), qp->rq.shared, &recv))
			receive_flush(qp, recv.wr_id);
	}
	lock_drop(&qp->rq.lock);
	soft_progress_posted(qp->rq.shared);
	return rc;
}
