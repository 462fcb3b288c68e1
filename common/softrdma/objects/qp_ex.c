/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The ibv_wr functions. From wr_start to wr_complete the requests of a batch are written into
 * places that were made with the QP, as many as its send queue has, with their SGEs and inline
 * data; then all are posted under one hold of the send queue's lock, or, where anything was wrong
 * with any, none.
 *
 * Two threads are kept apart by a lock of the batch, which comes before all others since the user's
 * code runs under it. It is not that of the send queue, for which fences wait.
 *
 * Nothing but wr_complete returns an error, so the first one is kept, and what follows it is not
 * looked at. An operation that the QP was not created for is such an error (EINVAL), and so is one
 * that soft0 lacks (EOPNOTSUPP), a request without the setters that it needs, and a setter too
 * many.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/softrdma/objects/qp.h"
#include "common/softrdma/path/send.h"
#include "common/softrdma/softrdma.h"

#define OPS_SEND  (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define OPS_WRITE (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
#define OPS_READ                                                        \
	(IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

/* What the last request still has to be given. */
enum { NEED_DATA = 1, NEED_ADDRESS = 2 };

struct soft_batch {
	struct lock lock; /* protects the rest */
	uint64_t ops; /* constant: enum ibv_qp_create_send_ops_flags */
	int error; /* the first, a positive errno */
	uint32_t count;
	unsigned needs;
	struct soft_send *last; /* NULL: none yet */
	/* send_max places of send_size bytes, as in the send queue */
	_Alignas(16) unsigned char places[];
};

static struct soft_batch *batch_of(struct ibv_qp_ex *ex)
{
	return soft_qp(&ex->qp_base)->batch;
}

static void batch_fail(struct ibv_qp_ex *ex, int code)
{
	struct soft_batch *batch = batch_of(ex);

	if (!batch->error)
		batch->error = code;
}

/* A new request of the batch, or NULL after an error. */
static struct ibv_send_wr *batch_next(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint64_t op)
{
	struct soft_qp *qp = soft_qp(&ex->qp_base);
	struct soft_batch *batch = qp->batch;
	struct soft_send *send;

	if (!(batch->ops & op) || batch->needs)
		batch_fail(ex, EINVAL);
	else if (batch->count == qp->send_max)
		batch_fail(ex, ENOMEM);
	if (batch->error)
		return NULL;
	send = (struct soft_send *)(void *)(batch->places + batch->count++ * qp->send_size);
	send->wr = (struct ibv_send_wr){ .wr_id = ex->wr_id,
					 .sg_list = (struct ibv_sge *)(void *)send->rest,
					 .opcode = opcode,
					 .send_flags = ex->wr_flags & ~(unsigned)IBV_SEND_INLINE };
	if (batch->last)
		batch->last->wr.next = &send->wr;
	batch->last = send;
	batch->needs = NEED_DATA | (ex->qp_base.qp_type == IBV_QPT_UD ? NEED_ADDRESS : 0);
	return &send->wr;
}

/* The last request, if it waits for @need; else NULL and an error. */
static struct ibv_send_wr *batch_give(struct ibv_qp_ex *ex, unsigned need)
{
	struct soft_batch *batch = batch_of(ex);

	if (!(batch->needs & need))
		batch_fail(ex, EINVAL);
	if (batch->error)
		return NULL;
	batch->needs &= ~need;
	return &batch->last->wr;
}

static void rdma_next(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint64_t op, uint32_t rkey,
		      uint64_t addr, __be32 imm)
{
	struct ibv_send_wr *wr = batch_next(ex, opcode, op);

	if (!wr)
		return;
	wr->imm_data = imm;
	wr->wr.rdma.remote_addr = addr;
	wr->wr.rdma.rkey = rkey;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	rdma_next(ex, IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ, rkey, addr, 0);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	rdma_next(ex, IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, rkey, addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	rdma_next(ex, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, rkey, addr,
		  imm);
}

static void wr_send(struct ibv_qp_ex *ex)
{
	batch_next(ex, IBV_WR_SEND, IBV_QP_EX_WITH_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	struct ibv_send_wr *wr = batch_next(ex, IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM);

	if (wr)
		wr->imm_data = imm;
}

static void atomic_next(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint64_t op, uint32_t rkey,
			uint64_t addr, uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr *wr = batch_next(ex, opcode, op);

	if (!wr)
		return;
	wr->wr.atomic.remote_addr = addr;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
	wr->wr.atomic.rkey = rkey;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare,
			      uint64_t swap)
{
	atomic_next(ex, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, rkey, addr,
		    compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	atomic_next(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, rkey,
		    addr, add, 0);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	batch_fail(ex, EOPNOTSUPP);
}

static void wr_invalidate(struct ibv_qp_ex *ex, uint32_t rkey)
{
	batch_fail(ex, EOPNOTSUPP);
}

static void wr_send_tso(struct ibv_qp_ex *ex, void *header, uint16_t header_size, uint16_t mss)
{
	batch_fail(ex, EOPNOTSUPP);
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, const void *value)
{
	batch_fail(ex, EOPNOTSUPP);
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	batch_fail(ex, EOPNOTSUPP);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct ibv_send_wr *wr = batch_give(ex, NEED_ADDRESS);

	if (!wr)
		return;
	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = qpn;
	wr->wr.ud.remote_qkey = qkey;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *list)
{
	struct ibv_send_wr *wr = batch_give(ex, NEED_DATA);

	if (!wr)
		return;
	if (count > soft_qp(&ex->qp_base)->sge_max) {
		batch_fail(ex, EINVAL);
		return;
	}
	wr->num_sge = (int)count;
	if (count)
		memcpy(wr->sg_list, list, count * sizeof(*list));
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	wr_set_sge_list(ex, 1, &sge);
}

/* Copied now, after the one SGE that describes it. */
static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t count,
				    const struct ibv_data_buf *list)
{
	struct ibv_send_wr *wr = batch_give(ex, NEED_DATA);
	unsigned char *data;
	size_t size = 0;

	if (!wr)
		return;
	data = (unsigned char *)(wr->sg_list + 1);
	for (size_t i = 0; i < count; i++) {
		if (list[i].length > soft_qp(&ex->qp_base)->inline_max - size) {
			batch_fail(ex, EINVAL);
			return;
		}
		if (list[i].length)
			memcpy(data + size, list[i].addr, list[i].length);
		size += list[i].length;
	}
	wr->sg_list[0] = (struct ibv_sge){ .addr = (uintptr_t)data, .length = (uint32_t)size };
	wr->num_sge = 1;
	wr->send_flags |= IBV_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(ex, 1, &buf);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct soft_qp *qp = soft_qp(&ex->qp_base);

	/* In a forked child the lock may be that of a thread that is not there. */
	if (process_alive(qp->epoch))
		lock_take(&qp->batch->lock);
	qp->batch->error = 0;
	qp->batch->count = 0;
	qp->batch->needs = 0;
	qp->batch->last = NULL;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct soft_qp *qp = soft_qp(&ex->qp_base);

	if (process_alive(qp->epoch))
		lock_drop(&qp->batch->lock);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct soft_qp *qp = soft_qp(&ex->qp_base);
	struct soft_batch *batch = qp->batch;
	int rc;

	if (!process_alive(qp->epoch) || batch->needs)
		batch_fail(ex, EINVAL);
	rc = batch->error;
	if (rc == 0 && batch->count)
		rc = soft_post_all(qp, &((struct soft_send *)(void *)batch->places)->wr,
				   batch->count);
	wr_abort(ex);
	return rc;
}

static int batch_create(struct soft_qp *qp, uint64_t ops)
{
	struct ibv_qp_ex *ex = &qp->ex;

	qp->batch = calloc(1, sizeof(*qp->batch) + qp->send_max * qp->send_size);
	if (!qp->batch)
		return ENOMEM;
	qp->batch->ops = ops;
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_local_inv = wr_invalidate;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_invalidate;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_atomic_write = wr_atomic_write;
	return 0;
}

static uint64_t ops_of(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return OPS_SEND | OPS_WRITE | OPS_READ;
	case IBV_QPT_UC:
		return OPS_SEND | OPS_WRITE;
	case IBV_QPT_UD:
		return OPS_SEND;
	default:
		return 0;
	}
}

static int ex_check(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t mask = attr->comp_mask;
	const uint32_t here = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			      IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	const uint32_t elsewhere = IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
				   IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;

	if (mask & ~(here | elsewhere))
		return EINVAL;
	if ((mask & elsewhere) || ((mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags) ||
	    ((mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
	     (attr->send_ops_flags & ~ops_of(attr->qp_type))))
		return EOPNOTSUPP;
	return (mask & IBV_QP_INIT_ATTR_PD) && attr->pd && attr->pd->context == context ? 0
											: EINVAL;
}

struct ibv_qp *softrdma_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr plain = { .qp_context = attr->qp_context,
					  .send_cq = attr->send_cq,
					  .recv_cq = attr->recv_cq,
					  .srq = attr->srq,
					  .cap = attr->cap,
					  .qp_type = attr->qp_type,
					  .sq_sig_all = attr->sq_sig_all };
	bool batches = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	int rc = ex_check(context, attr);
	struct ibv_qp *qp;

	if (rc) {
		errno = rc;
		return NULL;
	}
	/* inline data needs an SGE to describe it, which its setters do not ask for */
	if (batches && plain.cap.max_inline_data && !plain.cap.max_send_sge)
		plain.cap.max_send_sge = 1;
	qp = softrdma_create_qp(attr->pd, &plain);
	if (!qp)
		return NULL;
	rc = batches ? batch_create(soft_qp(qp), attr->send_ops_flags) : 0;
	if (rc) {
		softrdma_destroy_qp(qp);
		errno = rc;
		return NULL;
	}
	attr->cap = plain.cap;
	return qp;
}

struct ibv_qp_ex *softrdma_qp_to_qp_ex(struct ibv_qp *qp)
{
	return soft_qp(qp)->batch ? &soft_qp(qp)->ex : NULL;
}
