/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/softrdma/objects/qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/softrdma/faults/fate.h"
#include "common/softrdma/faults/fault.h"
#include "common/softrdma/path/fence.h"
#include "common/softrdma/path/send.h"
#include "common/softrdma/softrdma.h"

static int qp_check(const struct soft_pd *pd, const struct ibv_qp_init_attr *attr)
{
	const struct ibv_context *context = pd->base.context;
	const struct ibv_qp_cap *cap = &attr->cap;

	if (!process_alive(pd->epoch))
		return EINVAL;
	switch (attr->qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
		break;
	case IBV_QPT_RAW_PACKET:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
	case IBV_QPT_DRIVER:
		return EOPNOTSUPP;
	default:
		return EINVAL;
	}
	if (!attr->send_cq || attr->send_cq->context != context || !attr->recv_cq ||
	    attr->recv_cq->context != context || (attr->srq && attr->srq->context != context))
		return EINVAL;
	if (cap->max_send_wr > SOFT_WR_MAX || cap->max_send_sge > SHARED_SGES ||
	    cap->max_inline_data > SOFT_INLINE_MAX)
		return EINVAL;
	if (!attr->srq && (cap->max_recv_wr > SOFT_WR_MAX || cap->max_recv_sge > SHARED_SGES))
		return EINVAL;
	return soft_fault(context, FAULT_CREATE_QP);
}

/* Rings: waiting sends in private memory, receives and inbound completions in the arena. */
static int qp_rings(struct soft_qp *qp)
{
	size_t rest = qp->sge_max * sizeof(struct ibv_sge);
	uint32_t receives = qp->srq ? qp->srq->rq.wr_max : qp->cap.max_recv_wr;

	/* inline data needs one SGE that describes it */
	if (rest < sizeof(struct ibv_sge) + qp->inline_max)
		rest = sizeof(struct ibv_sge) + qp->inline_max;
	qp->send_slots = round_up_pow2(qp->send_max);
	qp->send_size = (sizeof(struct soft_send) + rest + 15) & ~(size_t)15;
	qp->sends = calloc(qp->send_slots, qp->send_size);
	if (!qp->sends)
		return -ENOMEM;
	/* for all that can be received: the CQ may become larger than it is now */
	qp->in_slots = round_up_pow2(receives);
	qp->in_offset = soft_arena_alloc(&soft_process.arena, qp->in_slots * sizeof(*qp->in_ring));
	if (!qp->in_offset)
		return -ENOMEM;
	qp->in_ring = arena_at(own_arena(), qp->in_offset, qp->in_slots * sizeof(*qp->in_ring));
	atomic_store(&qp->shared->in_ring, qp->in_offset);
	atomic_store(&qp->shared->in_slots, qp->in_slots);
	if (qp->srq)
		return 0;
	return soft_rq_init(&qp->rq, &qp->shared->rq, qp->cap.max_recv_wr, qp->cap.max_recv_sge,
			    qp->pd);
}

static void qp_rings_free(struct soft_qp *qp)
{
	free(qp->sends);
	if (qp->writer_stuck)
		return;
	soft_arena_free(&soft_process.arena, qp->in_offset, qp->in_slots * sizeof(*qp->in_ring));
	soft_rq_destroy(&qp->rq);
}

/*
 * Find a number and a life that differ from those of whoever had the index before. The name of a UD
 * QP's socket may be taken: by a stranger, or for a moment by a copy in another process.
 */
static int qp_number(struct soft_qp *qp, uint32_t *life)
{
	int rc = -EADDRINUSE;

	*life = qp_word_life(atomic_load(&qp->shared->word));
	for (unsigned i = 0; i < QPN_GENERATIONS && rc == -EADDRINUSE; i++) {
		++*life;
		qp->base.qp_num =
			qpn_make(soft_process.slot,
				 soft_process.incarnation % QPN_GENERATIONS + *life, qp->index);
		rc = qp->base.qp_type == IBV_QPT_UD ? soft_ud_open(qp, qp->base.qp_num) : 0;
	}
	return rc;
}

/* Publish it, in RESET. */
static void qp_publish(struct soft_qp *qp, uint32_t life)
{
	struct shared_qp *shared = qp->shared;

	atomic_store(&shared->pd, qp->pd);
	atomic_store(&shared->type, qp->base.qp_type);
	atomic_store(&shared->recv_cq, qp->recv_cq->index);
	atomic_store(&shared->srq, qp->srq ? qp->srq->index : SHARED_NONE);
	atomic_store(&shared->dest_qpn, 0);
	atomic_store(&shared->rd_atomic, 0); /* only RC sets it */
	atomic_store(&shared->async_event, 0);
	atomic_store(&shared->waiter, 0);
	atomic_store(&shared->answered, 0);
	atomic_store(&shared->in_head, 0);
	atomic_store(&shared->in_tail, 0);
	atomic_store(&shared->word, qp_word(life, qp->base.qp_num, IBV_QPS_RESET));
	qp->base.handle = qp->index;
	qp->base.state = IBV_QPS_RESET;
	lock_take(&soft_process.walk);
	atomic_store(&soft_process.qps[qp->index], qp);
	if (soft_process.qps_end <= qp->index)
		soft_process.qps_end = qp->index + 1;
	lock_drop(&soft_process.walk);
}

static struct soft_qp *qp_new(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct soft_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->base.context = pd->context;
	qp->base.qp_context = attr->qp_context;
	qp->base.pd = pd;
	qp->base.send_cq = attr->send_cq;
	qp->base.recv_cq = attr->recv_cq;
	qp->base.srq = attr->srq;
	qp->base.qp_type = attr->qp_type;
	qp->epoch = soft_process.epoch;
	qp->pd = soft_pd(pd)->id;
	qp->send_cq = soft_cq(attr->send_cq);
	qp->recv_cq = soft_cq(attr->recv_cq);
	qp->srq = attr->srq ? soft_srq(attr->srq) : NULL;
	if (qp->srq)
		attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0;
	qp->cap = attr->cap;
	qp->send_max = attr->cap.max_send_wr;
	qp->sge_max = attr->cap.max_send_sge;
	qp->inline_max = attr->cap.max_inline_data;
	qp->sig_all = attr->sq_sig_all;
	qp->wake_fd = -1;
	soft_fates_qp(qp);
	return qp;
}

struct ibv_qp *softrdma_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	int rc = qp_check(soft_pd(pd), attr);
	struct soft_qp *qp;
	uint32_t life = 0;

	if (rc) {
		errno = rc;
		return NULL;
	}
	qp = qp_new(pd, attr);
	if (!qp)
		return NULL;
	rc = ENOMEM;
	qp->index = soft_ids_take(&soft_process.qp_ids);
	if (qp->index == SHARED_NONE)
		goto err_qp;
	qp->shared = &own_arena()->qp[qp->index];
	rc = -qp_rings(qp);
	if (!rc)
		rc = -qp_number(qp, &life);
	if (rc)
		goto err_rings;
	pthread_mutex_init(&qp->base.mutex, NULL);
	pthread_cond_init(&qp->base.cond, NULL);
	atomic_fetch_add(&soft_pd(pd)->users, 1);
	atomic_fetch_add(&qp->send_cq->users, 1);
	atomic_fetch_add(&qp->recv_cq->users, 1);
	if (qp->srq)
		atomic_fetch_add(&qp->srq->users, 1);
	qp_publish(qp, life);
	return &qp->base;

err_rings:
	qp_rings_free(qp);
	soft_ids_give(&soft_process.qp_ids, qp->index);
err_qp:
	free(qp);
	errno = rc;
	return NULL;
}

int softrdma_query_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask,
		      struct ibv_qp_init_attr *init_attr)
{
	struct soft_qp *qp = soft_qp(base);

	if (!process_alive(qp->epoch))
		return EINVAL;
	(void)mask; /* a hint what is wanted; all is cheap */
	lock_take(&qp->sq);
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = base->state = qp_state(qp);
	attr->sq_draining = attr->qp_state == IBV_QPS_SQD && qp->executed < qp->drain_to;
	lock_drop(&qp->sq);
	attr->cap = qp->cap;
	*init_attr = (struct ibv_qp_init_attr){ .qp_context = base->qp_context,
						.send_cq = base->send_cq,
						.recv_cq = base->recv_cq,
						.srq = base->srq,
						.cap = qp->cap,
						.qp_type = base->qp_type,
						.sq_sig_all = qp->sig_all };
	return 0;
}

/* Wait until all events that were handed out are acknowledged. */
static void qp_wait_events(struct soft_qp *qp)
{
	uint32_t async = soft_async_retire(qp->base.context, &qp->async);

	pthread_mutex_lock(&qp->base.mutex);
	while (qp->base.events_completed != async)
		pthread_cond_wait(&qp->base.cond, &qp->base.mutex);
	pthread_mutex_unlock(&qp->base.mutex);
}

int softrdma_destroy_qp(struct ibv_qp *base)
{
	struct soft_qp *qp = soft_qp(base);
	uint64_t word;
	int rc;

	if (!process_alive(qp->epoch))
		return EINVAL;
	rc = soft_fault_lasting(base->context, FAULT_DESTROY_QP, &qp->destroy_failed);
	if (rc)
		return rc;
	lock_take(&qp->sq);
	word = atomic_load(&qp->shared->word);
	/* Number 0: nobody finds it any more. seq_cst and full fence: see fence.c. */
	atomic_exchange(&qp->shared->word, qp_word(qp_word_life(word), 0, IBV_QPS_RESET));
	fence_full();
	soft_fence_qp(qp);
	qp->executed = qp->posted;
	soft_send_progress(qp); /* nothing left: it stops waiting */
	soft_qp_disconnect(qp);
	lock_drop(&qp->sq);
	if (qp->ud)
		soft_ud_close(qp);

	lock_take(&soft_process.walk);
	atomic_store(&soft_process.qps[qp->index], NULL);
	lock_drop(&soft_process.walk);
	soft_cq_forget(qp->send_cq, qp);
	soft_cq_forget(qp->recv_cq, qp);
	qp_wait_events(qp);
	qp_rings_free(qp);
	if (!qp->writer_stuck)
		soft_ids_give(&soft_process.qp_ids, qp->index);
	if (qp->srq)
		atomic_fetch_sub(&qp->srq->users, 1);
	atomic_fetch_sub(&qp->recv_cq->users, 1);
	atomic_fetch_sub(&qp->send_cq->users, 1);
	atomic_fetch_sub(&soft_pd(base->pd)->users, 1);
	pthread_cond_destroy(&base->cond);
	pthread_mutex_destroy(&base->mutex);
	free(qp->batch);
	free(qp);
	return 0;
}
