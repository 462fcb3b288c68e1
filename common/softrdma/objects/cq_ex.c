/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Extended completion queues: the same queue, polled one completion at a time. start_poll and
 * next_poll move a completion into `current`, and the read functions show parts of it.
 *
 * From start_poll to end_poll other pollers wait. They wait for `poll`, not for the lock of the
 * ring: the user's code runs in between and may post, and a request that is executed when it is
 * posted puts its completion into this very ring. So `poll` comes before all other locks, and
 * no holder of one takes it. As on hardware, ibv_poll_cq() in between waits for itself, unless
 * the CQ is for one thread, which has no use for `poll`.
 *
 * As with rdma-core, there are read functions for what was asked for at creation, and NULL for the
 * rest. Not here: time stamps (another process completes a receive, and looks at no clock),
 * VLANs, flow tags and tag matching. IGNORE_OVERRUN is refused, since soft0 drops the new
 * completion, not the old one.
 */
#include <errno.h>
#include <limits.h>

#include "common/softrdma/objects/cq.h"
#include "common/softrdma/process/process.h"
#include "common/softrdma/softrdma.h"

static struct soft_cq *cq_of(struct ibv_cq_ex *base)
{
	return soft_cq(ibv_cq_ex_to_cq(base));
}

static int ex_next_poll(struct ibv_cq_ex *base)
{
	struct soft_cq *cq = cq_of(base);

	if (soft_cq_poll(cq, 1, &cq->current) != 1)
		return ENOENT;
	base->status = cq->current.status;
	base->wr_id = cq->current.wr_id;
	return 0;
}

static void ex_end_poll(struct ibv_cq_ex *base)
{
	struct soft_cq *cq = cq_of(base);

	if (cq->serial)
		lock_drop(&cq->poll);
}

static int ex_start_poll(struct ibv_cq_ex *base, struct ibv_poll_cq_attr *attr)
{
	struct soft_cq *cq = cq_of(base);
	int rc;

	if (!process_alive(cq->epoch) || (attr && attr->comp_mask))
		return EINVAL;
	if (cq->serial)
		lock_take(&cq->poll);
	rc = ex_next_poll(base);
	if (rc)
		ex_end_poll(base);
	return rc;
}

static enum ibv_wc_opcode ex_opcode(struct ibv_cq_ex *base)
{
	return cq_of(base)->current.opcode;
}

static uint32_t ex_vendor_err(struct ibv_cq_ex *base)
{
	return cq_of(base)->current.vendor_err;
}

static unsigned int ex_wc_flags(struct ibv_cq_ex *base)
{
	return cq_of(base)->current.wc_flags;
}

static uint32_t ex_byte_len(struct ibv_cq_ex *base)
{
	return cq_of(base)->current.byte_len;
}

static __be32 ex_imm_data(struct ibv_cq_ex *base)
{
	return cq_of(base)->current.imm_data;
}

static uint32_t ex_qp_num(struct ibv_cq_ex *base)
{
	return cq_of(base)->current.qp_num;
}

static uint32_t ex_src_qp(struct ibv_cq_ex *base)
{
	return cq_of(base)->current.src_qp;
}

static uint32_t ex_slid(struct ibv_cq_ex *base)
{
	return cq_of(base)->current.slid;
}

static uint8_t ex_sl(struct ibv_cq_ex *base)
{
	return cq_of(base)->current.sl;
}

static uint8_t ex_dlid_path_bits(struct ibv_cq_ex *base)
{
	return cq_of(base)->current.dlid_path_bits;
}

static int ex_check(const struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr)
{
	const uint32_t mask = attr->comp_mask;
	const uint32_t flags = mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;

	if (mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD))
		return EINVAL;
	if ((mask & IBV_CQ_INIT_ATTR_MASK_PD) || /* a parent domain: there are none */
	    (attr->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS) ||
	    (flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED))
		return EOPNOTSUPP;
	if (attr->cqe > INT_MAX || attr->comp_vector >= (uint32_t)context->num_comp_vectors)
		return EINVAL;
	return 0;
}

static void ex_readers(struct ibv_cq_ex *base, uint64_t wanted)
{
	base->start_poll = ex_start_poll;
	base->next_poll = ex_next_poll;
	base->end_poll = ex_end_poll;
	base->read_opcode = ex_opcode;
	base->read_vendor_err = ex_vendor_err;
	base->read_wc_flags = ex_wc_flags;
	if (wanted & IBV_WC_EX_WITH_BYTE_LEN)
		base->read_byte_len = ex_byte_len;
	if (wanted & IBV_WC_EX_WITH_IMM)
		base->read_imm_data = ex_imm_data;
	if (wanted & IBV_WC_EX_WITH_QP_NUM)
		base->read_qp_num = ex_qp_num;
	if (wanted & IBV_WC_EX_WITH_SRC_QP)
		base->read_src_qp = ex_src_qp;
	if (wanted & IBV_WC_EX_WITH_SLID)
		base->read_slid = ex_slid;
	if (wanted & IBV_WC_EX_WITH_SL)
		base->read_sl = ex_sl;
	if (wanted & IBV_WC_EX_WITH_DLID_PATH_BITS)
		base->read_dlid_path_bits = ex_dlid_path_bits;
}

struct ibv_cq_ex *softrdma_create_cq_ex(struct ibv_context *context,
					struct ibv_cq_init_attr_ex *attr)
{
	int rc = ex_check(context, attr);
	struct ibv_cq *base;
	struct soft_cq *cq;

	if (rc) {
		errno = rc;
		return NULL;
	}
	base = softrdma_create_cq(context, (int)attr->cqe, attr->cq_context, attr->channel,
				  (int)attr->comp_vector);
	if (!base)
		return NULL;
	cq = soft_cq(base);
	cq->serial = !((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
		       (attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED));
	ex_readers(&cq->ex, attr->wc_flags);
	return &cq->ex;
}
