/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "batch.h"

#define FOR_EVER 7

struct ibv_qp_init_attr_ex batch_attr(struct end *end, uint64_t ops)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = end->send_cq,
		.recv_cq = end->recv_cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = BATCH_DEPTH,
			 .max_recv_wr = 64,
			 .max_send_sge = BATCH_SGES,
			 .max_recv_sge = 1,
			 .max_inline_data = BATCH_INLINE },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = end->pd,
		.send_ops_flags = ops,
	};
}

struct ibv_qp_ex *batch_open(struct end *a, struct end *b, uint64_t ops)
{
	const struct end_options options = { .rnr_retry = FOR_EVER };
	struct ibv_qp_init_attr_ex attr;

	end_open(a, &options);
	end_open(b, &options);
	assert_ok(softrdma_destroy_qp(a->qp));
	attr = batch_attr(a, ops);
	a->qp = softrdma_create_qp_ex(a->context, &attr);
	assert_non_null(a->qp);
	end_connect(a, b->qp->qp_num);
	end_connect(b, a->qp->qp_num);
	assert_ptr_equal(softrdma_qp_to_qp_ex(a->qp), a->qp);
	return softrdma_qp_to_qp_ex(a->qp);
}

void batch_write(struct ibv_qp_ex *qp, struct end *a, struct end *b, size_t offset)
{
	ibv_wr_rdma_write(qp, b->mr->rkey, b->base + offset);
	ibv_wr_set_sge(qp, a->mr->lkey, a->base, 8);
}
