/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* For tests of extended QPs: ends that have one. */
#include "ends.h"

#define BATCH_DEPTH  8 /* max_send_wr */
#define BATCH_SGES   3
#define BATCH_INLINE 96

#define BATCH_OPS_RC                                                                            \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                              \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

/* For an RC QP of @end with @ops. */
struct ibv_qp_init_attr_ex batch_attr(struct end *end, uint64_t ops);

/* A pair, of which @a has an extended QP with @ops. */
struct ibv_qp_ex *batch_open(struct end *a, struct end *b, uint64_t ops);

/* A WRITE of the first 8 bytes of @a to @offset in @b, in the batch that is open. */
void batch_write(struct ibv_qp_ex *qp, struct end *a, struct end *b, size_t offset);
