/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What stands for functions of completion queues and channels, shared receive queues and QPs. */
#include <errno.h>

#include "common/softrdma/preload/real.h"

/* clang-format off */
SOFT_FUNCTION(struct ibv_comp_channel *, create_comp_channel, (struct ibv_context *context),
	(context), context, NULL)
SOFT_FUNCTION(int, destroy_comp_channel, (struct ibv_comp_channel *channel), (channel),
	channel->context, ENOSYS)
SOFT_FUNCTION(int, get_cq_event,
	(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context),
	(channel, cq, cq_context), channel->context, -1)
SOFT_FUNCTION(struct ibv_cq *, create_cq,
	(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
	int comp_vector),
	(context, cqe, cq_context, channel, comp_vector), context, NULL)
SOFT_FUNCTION(int, resize_cq, (struct ibv_cq *cq, int cqe), (cq, cqe), cq->context, ENOSYS)
SOFT_FUNCTION(int, destroy_cq, (struct ibv_cq *cq), (cq), cq->context, ENOSYS)
SOFT_FUNCTION(struct ibv_srq *, create_srq, (struct ibv_pd *pd, struct ibv_srq_init_attr *attr),
	(pd, attr), pd->context, NULL)
SOFT_FUNCTION(int, modify_srq, (struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask),
	(srq, attr, mask), srq->context, ENOSYS)
SOFT_FUNCTION(int, query_srq, (struct ibv_srq *srq, struct ibv_srq_attr *attr), (srq, attr),
	srq->context, ENOSYS)
SOFT_FUNCTION(int, destroy_srq, (struct ibv_srq *srq), (srq), srq->context, ENOSYS)
SOFT_FUNCTION(struct ibv_qp *, create_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *attr),
	(pd, attr), pd->context, NULL)
SOFT_FUNCTION(struct ibv_qp_ex *, qp_to_qp_ex, (struct ibv_qp *qp), (qp), qp->context, NULL)
SOFT_FUNCTION(int, modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask),
	(qp, attr, mask), qp->context, ENOSYS)
SOFT_FUNCTION(int, query_qp,
	(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init_attr),
	(qp, attr, mask, init_attr), qp->context, ENOSYS)
SOFT_FUNCTION(int, destroy_qp, (struct ibv_qp *qp), (qp), qp->context, ENOSYS)
/* clang-format on */

SOFT_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	if (soft_ours(cq->context))
		softrdma_ack_cq_events(cq, nevents);
	else
		SOFT_FORWARD((void)0, ibv_ack_cq_events, cq, nevents);
}

SOFT_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	/* What a program may count on: nothing. */
	if (soft_ours(qp->context))
		return 0;
	return SOFT_FORWARD(0, ibv_query_qp_data_in_order, qp, op, flags);
}
