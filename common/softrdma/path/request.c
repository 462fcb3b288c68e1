/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/softrdma/path/request.h"

#include <errno.h>

#include "common/softrdma/softrdma.h"

enum { ON_RC = 1, ON_UC = 2, ON_UD = 4, INLINE = 8 };

/* Which service has an operation, and whether it can carry inline data: IBTA, 9.4 and 10.8. */
static unsigned operation(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return ON_RC | ON_UC | ON_UD | INLINE;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return ON_RC | ON_UC | INLINE;
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return ON_RC;
	default:
		return 0;
	}
}

static unsigned service(enum ibv_qp_type type)
{
	return type == IBV_QPT_UD ? ON_UD : type == IBV_QPT_UC ? ON_UC : ON_RC;
}

static bool inline_fits(const struct soft_qp *qp, const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	return length <= qp->inline_max;
}

int soft_request_check(const struct soft_qp *qp, const struct ibv_send_wr *wr)
{
	unsigned has = operation(wr->opcode);

	if (!has) /* memory windows, invalidation, segmentation */
		return wr->opcode <= IBV_WR_DRIVER1 ? EOPNOTSUPP : EINVAL;
	if (!(has & service(qp->base.qp_type)) || wr->num_sge < 0 ||
	    (uint32_t)wr->num_sge > qp->sge_max)
		return EINVAL;
	if (qp->base.qp_type == IBV_QPT_UD &&
	    (!wr->wr.ud.ah || !softrdma_owns(wr->wr.ud.ah->context)))
		return EINVAL;
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return 0;
	return (has & INLINE) && inline_fits(qp, wr) ? 0 : EINVAL;
}
