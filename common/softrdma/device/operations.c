/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The inline functions of verbs.h call operations of the context. Where one is NULL, they say
 * EOPNOTSUPP by themselves: flows, work queues, counters, thread and parent domains, device memory,
 * shared QPs, XRC, advice, tag matching. A few look at nothing before they call, and get an answer
 * here.
 */
#include "common/softrdma/device/operations.h"

#include <errno.h>

#include "common/softrdma/objects/cq.h"
#include "common/softrdma/device/port.h"
#include "common/softrdma/objects/qp.h"
#include "common/softrdma/softrdma.h"
#include "common/softrdma/objects/srq.h"

static int no_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	return EOPNOTSUPP;
}

static int no_dealloc_mw(struct ibv_mw *mw)
{
	return EOPNOTSUPP;
}

static int no_close_xrcd(struct ibv_xrcd *xrcd)
{
	return EOPNOTSUPP;
}

void soft_operations(struct verbs_context *ex)
{
	ex->sz = sizeof(*ex);
	ex->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	ex->context.ops.poll_cq = soft_poll_cq;
	ex->context.ops.req_notify_cq = soft_req_notify_cq;
	ex->context.ops.post_srq_recv = soft_post_srq_recv;
	ex->context.ops.post_send = soft_post_send;
	ex->context.ops.post_recv = soft_post_recv;
	ex->context.ops.bind_mw = no_bind_mw;
	ex->context.ops.dealloc_mw = no_dealloc_mw;
	ex->close_xrcd = no_close_xrcd;
	ex->query_port = soft_port_fill;
	ex->create_qp_ex = softrdma_create_qp_ex;
	ex->create_srq_ex = softrdma_create_srq_ex;
	ex->create_cq_ex = softrdma_create_cq_ex;
	ex->query_device_ex = softrdma_query_device_ex;
}
