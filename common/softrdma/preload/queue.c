/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What stands for functions of completion queues and channels, shared receive queues and QPs. */
#include <errno.h>

#include "common/softrdma/preload/real.h"

SOFT_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	if (soft_ours(context))
		return softrdma_create_comp_channel(context);
	return SOFT_FORWARD(NULL, ibv_create_comp_channel, context);
}

SOFT_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (soft_ours(channel->context))
		return softrdma_destroy_comp_channel(channel);
	return SOFT_FORWARD(ENOSYS, ibv_destroy_comp_channel, channel);
}

SOFT_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
				 void **cq_context)
{
	if (soft_ours(channel->context))
		return softrdma_get_cq_event(channel, cq, cq_context);
	return SOFT_FORWARD(-1, ibv_get_cq_event, channel, cq, cq_context);
}

SOFT_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	if (soft_ours(cq->context))
		softrdma_ack_cq_events(cq, nevents);
	else
		SOFT_FORWARD((void)0, ibv_ack_cq_events, cq, nevents);
}

SOFT_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
					 struct ibv_comp_channel *channel, int comp_vector)
{
	if (soft_ours(context))
		return softrdma_create_cq(context, cqe, cq_context, channel, comp_vector);
	return SOFT_FORWARD(NULL, ibv_create_cq, context, cqe, cq_context, channel, comp_vector);
}

SOFT_EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	if (soft_ours(cq->context))
		return softrdma_resize_cq(cq, cqe);
	return SOFT_FORWARD(ENOSYS, ibv_resize_cq, cq, cqe);
}

SOFT_EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	if (soft_ours(cq->context))
		return softrdma_destroy_cq(cq);
	return SOFT_FORWARD(ENOSYS, ibv_destroy_cq, cq);
}

SOFT_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	if (soft_ours(pd->context))
		return softrdma_create_srq(pd, attr);
	return SOFT_FORWARD(NULL, ibv_create_srq, pd, attr);
}

SOFT_EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	if (soft_ours(srq->context))
		return softrdma_modify_srq(srq, attr, mask);
	return SOFT_FORWARD(ENOSYS, ibv_modify_srq, srq, attr, mask);
}

SOFT_EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	if (soft_ours(srq->context))
		return softrdma_query_srq(srq, attr);
	return SOFT_FORWARD(ENOSYS, ibv_query_srq, srq, attr);
}

SOFT_EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	if (soft_ours(srq->context))
		return softrdma_destroy_srq(srq);
	return SOFT_FORWARD(ENOSYS, ibv_destroy_srq, srq);
}

SOFT_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (soft_ours(pd->context))
		return softrdma_create_qp(pd, attr);
	return SOFT_FORWARD(NULL, ibv_create_qp, pd, attr);
}

SOFT_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	if (soft_ours(qp->context))
		return softrdma_qp_to_qp_ex(qp);
	return SOFT_FORWARD(NULL, ibv_qp_to_qp_ex, qp);
}

SOFT_EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (soft_ours(qp->context))
		return softrdma_modify_qp(qp, attr, mask);
	return SOFT_FORWARD(ENOSYS, ibv_modify_qp, qp, attr, mask);
}

SOFT_EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			     struct ibv_qp_init_attr *init_attr)
{
	if (soft_ours(qp->context))
		return softrdma_query_qp(qp, attr, mask, init_attr);
	return SOFT_FORWARD(ENOSYS, ibv_query_qp, qp, attr, mask, init_attr);
}

SOFT_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	/* What a program may count on: nothing. */
	if (soft_ours(qp->context))
		return 0;
	return SOFT_FORWARD(0, ibv_query_qp_data_in_order, qp, op, flags);
}

SOFT_EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	if (soft_ours(qp->context))
		return softrdma_destroy_qp(qp);
	return SOFT_FORWARD(ENOSYS, ibv_destroy_qp, qp);
}
