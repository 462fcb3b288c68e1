/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/softrdma/objects/srq.h"

#include <errno.h>
#include <stdlib.h>

#include "common/softrdma/objects/mr.h"
#include "common/softrdma/process/process.h"
#include "common/softrdma/path/progress.h"
#include "common/softrdma/softrdma.h"

struct ibv_srq *softrdma_create_srq(struct ibv_pd *base, struct ibv_srq_init_attr *attr)
{
	struct soft_pd *pd = soft_pd(base);
	struct soft_srq *srq;

	if (!process_alive(pd->epoch) || attr->attr.max_wr < 1 || attr->attr.max_wr > SOFT_WR_MAX ||
	    attr->attr.max_sge > SHARED_SGES) {
		errno = EINVAL;
		return NULL;
	}
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return NULL;
	srq->index = soft_ids_take(&soft_process.srq_ids);
	if (srq->index == SHARED_NONE)
		goto err_srq;
	if (soft_rq_init(&srq->rq, &own_arena()->srq[srq->index], attr->attr.max_wr,
			 attr->attr.max_sge, pd->id) < 0)
		goto err_index;
	srq->epoch = pd->epoch;
	srq->base.context = base->context;
	srq->base.srq_context = attr->srq_context;
	srq->base.pd = base;
	srq->base.handle = srq->index;
	pthread_mutex_init(&srq->base.mutex, NULL);
	pthread_cond_init(&srq->base.cond, NULL);
	atomic_fetch_add(&pd->users, 1);
	atomic_store(&soft_process.srqs[srq->index], srq);
	return &srq->base;

err_index:
	soft_ids_give(&soft_process.srq_ids, srq->index);
err_srq:
	free(srq);
	errno = ENOMEM;
	return NULL;
}

struct ibv_srq *softrdma_create_srq_ex(struct ibv_context *context,
				       struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t mask = attr->comp_mask;
	const uint32_t here = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
	const uint32_t elsewhere =
		IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
	struct ibv_srq_init_attr plain = { .srq_context = attr->srq_context, .attr = attr->attr };
	struct ibv_srq *srq;
	int rc = 0;

	if (mask & ~(here | elsewhere))
		rc = EINVAL;
	else if ((mask & elsewhere) ||
		 ((mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type != IBV_SRQT_BASIC))
		rc = EOPNOTSUPP;
	else if (!(mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd || attr->pd->context != context)
		rc = EINVAL;
	if (rc) {
		errno = rc;
		return NULL;
	}
	srq = softrdma_create_srq(attr->pd, &plain);
	if (srq)
		attr->attr = plain.attr;
	return srq;
}

int softrdma_modify_srq(struct ibv_srq *base, struct ibv_srq_attr *attr, int mask)
{
	struct soft_srq *srq = soft_srq(base);

	if (!process_alive(srq->epoch) || (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)))
		return EINVAL;
	if (mask & IBV_SRQ_MAX_WR) /* soft0 has no IBV_DEVICE_SRQ_RESIZE */
		return EOPNOTSUPP;
	if (!(mask & IBV_SRQ_LIMIT))
		return 0;
	if (attr->srq_limit > srq->rq.wr_max)
		return EINVAL;
	atomic_store(&srq->rq.shared->limit, attr->srq_limit);
	/* As on hardware, a limit that is above the present count fires at once. */
	soft_progress_srq_limit(srq);
	return 0;
}

int softrdma_query_srq(struct ibv_srq *base, struct ibv_srq_attr *attr)
{
	struct soft_srq *srq = soft_srq(base);

	if (!process_alive(srq->epoch))
		return EINVAL;
	attr->max_wr = srq->rq.wr_max;
	attr->max_sge = srq->rq.sge_max;
	attr->srq_limit = atomic_load(&srq->rq.shared->limit);
	return 0;
}

int softrdma_destroy_srq(struct ibv_srq *base)
{
	struct soft_srq *srq = soft_srq(base);
	uint32_t async;

	if (!process_alive(srq->epoch))
		return EINVAL;
	if (atomic_load(&srq->users))
		return EBUSY;
	lock_take(&soft_process.walk);
	atomic_store(&soft_process.srqs[srq->index], NULL);
	lock_drop(&soft_process.walk);
	async = soft_async_retire(base->context, &srq->async);
	pthread_mutex_lock(&base->mutex);
	while (base->events_completed != async)
		pthread_cond_wait(&base->cond, &base->mutex);
	pthread_mutex_unlock(&base->mutex);
	if (!atomic_load(&srq->retired)) {
		soft_rq_destroy(&srq->rq);
		soft_ids_give(&soft_process.srq_ids, srq->index);
	}
	atomic_fetch_sub(&soft_pd(base->pd)->users, 1);
	pthread_cond_destroy(&base->cond);
	pthread_mutex_destroy(&base->mutex);
	free(srq);
	return 0;
}

int soft_post_srq_recv(struct ibv_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct soft_srq *srq = soft_srq(base);
	int rc = process_alive(srq->epoch) ? 0 : EINVAL;

	if (rc) {
		*bad = wr;
		return rc;
	}
	lock_take(&srq->rq.lock);
	for (; wr && rc == 0; wr = rc ? wr : wr->next)
		rc = soft_rq_post(&srq->rq, wr);
	lock_drop(&srq->rq.lock);
	if (rc)
		*bad = wr;
	soft_progress_posted(srq->rq.shared);
	return rc;
}
