/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The data path: inline wrappers over the verbs data calls, with negative errno values. One thread
 * at a time for each queue. Completions carry acquire ordering: what the operation brought into
 * memory is visible after the poll (verbs: ibv_poll_cq).
 */
#include <errno.h>

#include <infiniband/verbs.h>

static inline int rdma_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
				 struct ibv_send_wr **bad)
{
	return -ibv_post_send(qp, wr, bad);
}

static inline int rdma_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad;

	return -ibv_post_recv(qp, wr, &bad);
}

static inline int rdma_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad;

	return -ibv_post_srq_recv(srq, wr, &bad);
}

/* rdma_poll - returns completions taken, or a negative errno. */
static inline int rdma_poll(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	int n = ibv_poll_cq(cq, entries, wc);

	return n < 0 ? -EIO : n;
}
