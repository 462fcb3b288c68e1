/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Attributes and states of a queue pair. Which of them go together is in transition.c. A request
 * without IBV_QP_STATE stays in the state.
 *
 * SQD: what was posted before is executed still, and IBV_EVENT_SQ_DRAINED tells the end of it if
 * that was asked for; what is posted after waits for RTS. SQE: the send queue of a UC or UD queue
 * pair has failed and flushes; RTS sets it going again. Both go on receiving.
 */
#include <errno.h>
#include <string.h>

#include "common/softrdma/faults/fault.h"
#include "common/softrdma/path/fence.h"
#include "common/softrdma/device/port.h"
#include "common/softrdma/objects/qp.h"
#include "common/softrdma/softrdma.h"
#include "common/softrdma/objects/transition.h"
#include "common/softrdma/datagram/ud.h"

#define QPN_MASK    0xffffff
#define RNR_MAX	    31
#define TIMEOUT_MAX 31
#define RETRY_MAX   7
#define QP_ACCESS                                                                    \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

static bool values_valid(enum ibv_qp_state from, const struct ibv_qp_attr *a, int mask)
{
	return !(((mask & IBV_QP_CUR_STATE) && a->cur_qp_state != from) ||
		 ((mask & IBV_QP_PKEY_INDEX) && a->pkey_index != 0) ||
		 ((mask & IBV_QP_PORT) && a->port_num != SOFT_PORT) ||
		 ((mask & IBV_QP_ACCESS_FLAGS) && (a->qp_access_flags & ~(unsigned)QP_ACCESS)) ||
		 ((mask & IBV_QP_AV) && !soft_path_valid(&a->ah_attr)) ||
		 ((mask & IBV_QP_PATH_MTU) &&
		  (a->path_mtu < IBV_MTU_256 || a->path_mtu > IBV_MTU_4096)) ||
		 ((mask & IBV_QP_DEST_QPN) && a->dest_qp_num > QPN_MASK) ||
		 ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && a->max_rd_atomic > SOFT_RD_ATOMIC_MAX) ||
		 ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) &&
		  a->max_dest_rd_atomic > SOFT_RD_ATOMIC_MAX) ||
		 ((mask & IBV_QP_MIN_RNR_TIMER) && a->min_rnr_timer > RNR_MAX) ||
		 ((mask & IBV_QP_TIMEOUT) && a->timeout > TIMEOUT_MAX) ||
		 ((mask & IBV_QP_RETRY_CNT) && a->retry_cnt > RETRY_MAX) ||
		 ((mask & IBV_QP_RNR_RETRY) && a->rnr_retry > RETRY_MAX));
}

static void modify_store(struct soft_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	struct ibv_qp_attr *own = &qp->attr;

	if (mask & IBV_QP_PKEY_INDEX)
		own->pkey_index = a->pkey_index;
	if (mask & IBV_QP_PORT)
		own->port_num = a->port_num;
	if (mask & IBV_QP_ACCESS_FLAGS) {
		own->qp_access_flags = a->qp_access_flags;
		atomic_store(&qp->shared->access, a->qp_access_flags);
	}
	if (mask & IBV_QP_QKEY) {
		own->qkey = a->qkey;
		soft_ud_qkey(qp, a->qkey);
	}
	if (mask & IBV_QP_AV)
		own->ah_attr = a->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		own->path_mtu = a->path_mtu;
	if (mask & IBV_QP_DEST_QPN)
		own->dest_qp_num = qp->dest_qpn = a->dest_qp_num;
	if (mask & IBV_QP_RQ_PSN)
		own->rq_psn = a->rq_psn & QPN_MASK;
	if (mask & IBV_QP_SQ_PSN)
		own->sq_psn = a->sq_psn & QPN_MASK;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) {
		own->max_dest_rd_atomic = a->max_dest_rd_atomic;
		atomic_store(&qp->shared->rd_atomic, a->max_dest_rd_atomic);
	}
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		own->max_rd_atomic = qp->rd_atomic = a->max_rd_atomic;
	if (mask & IBV_QP_MIN_RNR_TIMER) {
		own->min_rnr_timer = a->min_rnr_timer;
		atomic_store(&qp->shared->min_rnr_timer, a->min_rnr_timer);
	}
	if (mask & IBV_QP_TIMEOUT)
		own->timeout = a->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		own->retry_cnt = a->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		own->rnr_retry = a->rnr_retry;
}

static void qp_attach(struct soft_qp *qp, struct soft_peer *peer)
{
	lock_take(&soft_process.walk);
	/* relaxed: written under walk. What was seen was the last peer's */
	atomic_store_explicit(&qp->seen_busy, 0, memory_order_relaxed);
	qp->peer = peer;
	qp->remote = peer ? &peer->arena->qp[qpn_index(qp->dest_qpn)] : NULL;
	lock_drop(&soft_process.walk);
	atomic_store(&qp->shared->dest_incarnation, peer ? peer->incarnation : 0);
}

void soft_qp_connect(struct soft_qp *qp)
{
	uint32_t cq;

	if (!qp->peer) {
		/*
		 * Nobody there, or not there any more, or no answer: operations will fail, as with
		 * a wrong number.
		 */
		struct soft_peer *peer = soft_peer_get(qp->dest_qpn);

		if (!peer)
			return;
		if (!soft_path_leads(&qp->attr.ah_attr, atomic_load(&peer->arena->port))) {
			soft_peer_put(peer);
			return;
		}
		qp_attach(qp, peer);
	}
	if (qp->wake_id || qp_word_qpn(atomic_load(&qp->remote->word)) != qp->dest_qpn)
		return;
	cq = atomic_load(&qp->remote->recv_cq);
	if (cq < SHARED_CQS)
		qp->wake_id = atomic_load(&qp->peer->arena->cq[cq].channel_id);
	if (qp->wake_id)
		qp->wake_fd = soft_peer_channel_get(qp->peer, qp->wake_id);
	if (qp->wake_fd < 0)
		qp->wake_id = 0;
}

void soft_qp_disconnect(struct soft_qp *qp)
{
	struct soft_peer *peer = qp->peer;

	if (!peer)
		return;
	qp_attach(qp, NULL);
	if (qp->wake_id)
		soft_peer_channel_put(peer, qp->wake_id);
	qp->wake_id = 0;
	qp->wake_fd = -1;
	soft_peer_put(peer);
}

/* Take it back to where create_qp left it; only its life goes on. */
static int modify_reset(struct soft_qp *qp)
{
	uint32_t life = qp_life_after_reset(qp_word_life(atomic_load(&qp->shared->word)));

	/* seq_cst and full fence: see fence.c */
	atomic_exchange(&qp->shared->word, qp_word(life, qp->base.qp_num, IBV_QPS_RESET));
	fence_full();
	if (!soft_fence_qp(qp)) {
		atomic_store(&qp->shared->word, qp_word(life, qp->base.qp_num, IBV_QPS_ERR));
		soft_qp_error(qp);
		return EBUSY;
	}
	qp->executed = qp->posted;
	soft_send_progress(qp); /* nothing left: it stops waiting */
	soft_qp_disconnect(qp);
	soft_cq_forget(qp->send_cq, qp);
	soft_cq_forget(qp->recv_cq, qp);
	qp->posted = qp->executed = 0;
	atomic_store(&qp->sent_polled, 0);
	lock_take(&qp->recv_cq->lock); /* a poll sees both or none */
	qp->in_head = 0;
	atomic_store(&qp->shared->in_head, 0);
	atomic_store(&qp->shared->in_tail, 0);
	lock_drop(&qp->recv_cq->lock);
	atomic_store(&qp->shared->waiter, 0);
	atomic_store(&qp->shared->answered, 0);
	/* of a peer that was late: it found us in ERR, and its event was raised or is void */
	atomic_store(&qp->shared->async_event, 0);
	lock_take(&qp->rq.lock);
	if (!qp->srq)
		soft_rq_clear(&qp->rq);
	qp->rq_flushed = false;
	lock_drop(&qp->rq.lock);
	qp->flushed = false;
	qp->dest_qpn = 0;
	memset(&qp->attr, 0, sizeof(qp->attr));
	return 0;
}

/* What has to be in place before the state changes. */
static void modify_prepare(struct soft_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to,
			   bool drain_event)
{
	if (from == IBV_QPS_RTS && to == IBV_QPS_SQD) {
		qp->drain_to = qp->posted;
		qp->drain_event = drain_event;
	}
	if (qp->base.qp_type == IBV_QPT_UD) {
		if (to == IBV_QPS_RTR)
			soft_ud_drain(qp);
		return;
	}
	if (to == IBV_QPS_RTR)
		atomic_store(&qp->shared->dest_qpn, qp->dest_qpn);
	/* again for RTS: the peer may have been stopped before */
	if (to == IBV_QPS_RTR || to == IBV_QPS_RTS)
		soft_qp_connect(qp);
}

static int modify_state(struct soft_qp *qp, enum ibv_qp_state to)
{
	uint64_t word = atomic_load(&qp->shared->word);

	/* release: pairs with the acquire of initiators: what was stored before */
	do {
		if (qp_word_state(word) == IBV_QPS_ERR)
			return EINVAL; /* a peer was faster */
	} while (!atomic_compare_exchange_weak(&qp->shared->word, &word,
					       (word & ~(uint64_t)0xff) | to));
	/* SQD: it may be drained already. RTS: what was posted in SQD. */
	if (to == IBV_QPS_SQD || to == IBV_QPS_RTS)
		soft_send_progress(qp);
	return 0;
}

int softrdma_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
	struct soft_qp *qp = soft_qp(base);
	enum ibv_qp_state from, to;
	int rc;

	if (!process_alive(qp->epoch))
		return EINVAL;
	rc = soft_fault(base->context, FAULT_MODIFY_QP);
	if (rc == 0 && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTR)
		rc = soft_fault(base->context, FAULT_RTR);
	if (rc)
		return rc;
	lock_take(&qp->sq);
	from = qp_state(qp);
	to = mask & IBV_QP_STATE ? attr->qp_state : from;
	rc = soft_transition_check(base->qp_type, from, to, mask);
	if (rc == 0 && !values_valid(from, attr, mask))
		rc = EINVAL;
	if (rc)
		goto out;
	if (to == IBV_QPS_RESET) {
		rc = modify_reset(qp);
	} else if (to == IBV_QPS_ERR) {
		soft_qp_error(qp);
	} else {
		modify_store(qp, attr, mask);
		modify_prepare(qp, from, to,
			       (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) && attr->en_sqd_async_notify);
		rc = modify_state(qp, to);
	}
	base->state = qp_state(qp);
out:
	lock_drop(&qp->sq);
	return rc;
}
