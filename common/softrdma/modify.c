/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The state machine of a queue pair: which attributes each transition needs and takes, as IBTA's
 * table for reliable connections and the kernel's ib_modify_qp_is_ok() have it, without alternate
 * paths and without SQD. A request without IBV_QP_STATE stays in the state.
 */
#include <errno.h>
#include <string.h>

#include "common/softrdma/fence.h"
#include "common/softrdma/qp.h"
#include "common/softrdma/softrdma.h"

#define PORT	    1
#define QPN_MASK    0xffffff
#define RNR_MAX	    31
#define TIMEOUT_MAX 31
#define RETRY_MAX   7
#define QP_ACCESS                                                                    \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

static const struct transition {
	enum ibv_qp_state from, to;
	int needs, takes;
} transitions[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_INIT, IBV_QPS_RTR,
	  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	  IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_RTR, IBV_QPS_RTS,
	  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		  IBV_QP_MAX_QP_RD_ATOMIC,
	  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0,
	  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
};

static bool modify_known(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	mask &= ~IBV_QP_STATE;
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return mask == 0;
	for (unsigned i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
		const struct transition *t = &transitions[i];

		if (t->from == from && t->to == to)
			return (mask & t->needs) == t->needs && !(mask & ~(t->needs | t->takes));
	}
	return false;
}

static bool path_valid(const struct ibv_ah_attr *ah)
{
	/* Ethernet: a GRH is a must. The only port of the only machine. */
	return ah->is_global && ah->port_num == PORT && ah->grh.sgid_index < SOFT_GIDS &&
	       soft_gid_known(&ah->grh.dgid);
}

static bool values_valid(enum ibv_qp_state from, const struct ibv_qp_attr *a, int mask)
{
	return !(((mask & IBV_QP_CUR_STATE) && a->cur_qp_state != from) ||
		 ((mask & IBV_QP_PKEY_INDEX) && a->pkey_index != 0) ||
		 ((mask & IBV_QP_PORT) && a->port_num != PORT) ||
		 ((mask & IBV_QP_ACCESS_FLAGS) && (a->qp_access_flags & ~(unsigned)QP_ACCESS)) ||
		 ((mask & IBV_QP_AV) && !path_valid(&a->ah_attr)) ||
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
	qp->peer = peer;
	qp->remote = peer ? &peer->arena->qp[qpn_index(qp->dest_qpn)] : NULL;
	lock_drop(&soft_process.walk);
	atomic_store(&qp->shared->dest_incarnation, peer ? peer->incarnation : 0);
}

void soft_qp_connect(struct soft_qp *qp)
{
	uint32_t cq;

	if (!qp->peer) {
		/* Nobody there, or no answer: operations will fail, as with a wrong number. */
		struct soft_peer *peer = soft_peer_get(qp->dest_qpn);

		if (!peer)
			return;
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
	uint64_t word = atomic_load(&qp->shared->word);

	/* seq_cst and full fence: see fence.c */
	atomic_exchange(&qp->shared->word,
			qp_word(qp_word_life(word) + 1, qp->base.qp_num, IBV_QPS_RESET));
	fence_full();
	if (!soft_fence_qp(qp)) {
		atomic_store(&qp->shared->word,
			     qp_word(qp_word_life(word) + 1, qp->base.qp_num, IBV_QPS_ERR));
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
	atomic_store(&qp->shared->in_head, 0);
	atomic_store(&qp->shared->in_tail, 0);
	atomic_store(&qp->shared->waiter, 0);
	atomic_store(&qp->shared->answered, 0);
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

static int modify_state(struct soft_qp *qp, enum ibv_qp_state to)
{
	uint64_t word = atomic_load(&qp->shared->word);

	if (to == IBV_QPS_RTR) {
		atomic_store(&qp->shared->dest_qpn, qp->dest_qpn);
		soft_qp_connect(qp);
	} else if (to == IBV_QPS_RTS) {
		soft_qp_connect(qp); /* it may have been stopped before */
	}
	/* release: pairs with the acquire of initiators: what was stored before */
	do {
		if (qp_word_state(word) == IBV_QPS_ERR)
			return EINVAL; /* a peer was faster */
	} while (!atomic_compare_exchange_weak(&qp->shared->word, &word,
					       (word & ~(uint64_t)0xff) | to));
	return 0;
}

int softrdma_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
	struct soft_qp *qp = soft_qp(base);
	enum ibv_qp_state from, to;
	int rc = EINVAL;

	if (!process_alive(qp->epoch))
		return EINVAL;
	lock_take(&qp->sq);
	from = qp_state(qp);
	to = mask & IBV_QP_STATE ? attr->qp_state : from;
	if (!modify_known(from, to, mask) || !values_valid(from, attr, mask))
		goto out;
	if (to == IBV_QPS_RESET) {
		rc = modify_reset(qp);
	} else if (to == IBV_QPS_ERR) {
		soft_qp_error(qp);
		rc = 0;
	} else {
		modify_store(qp, attr, mask);
		rc = modify_state(qp, to);
	}
	base->state = qp_state(qp);
out:
	lock_drop(&qp->sq);
	return rc;
}
