/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "weakness.h"

#include <stdlib.h>

static void set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

static void connect_to(struct end *end, uint32_t dest, const struct weakness *w)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = w->timeout,
				    .retry_cnt = w->retry_cnt,
				    .rnr_retry = w->rnr_retry,
				    .max_rd_atomic = 16 };

	assert_ok(end_init(end));
	assert_ok(end_rtr(end, dest));
	assert_ok(softrdma_modify_qp(end->qp, &attr,
				     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
					     IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					     IBV_QP_MAX_QP_RD_ATOMIC));
}

void weakness_open(const struct weakness *w, struct end *a, struct end *b)
{
	struct end_options options = { .mapped = w->mapped, .rnr_timer = 1, .send_wr = 256 };

	set("SOFTRDMA_WEAK", w->weak);
	set("SOFTRDMA_FAULT", w->fault);
	end_open(a, &options);
	end_open(b, &options);
	connect_to(a, b->qp->qp_num, w);
	connect_to(b, a->qp->qp_num, w);
}

void weakness_close(struct end *a, struct end *b)
{
	pair_close(a, b);
	set("SOFTRDMA_WEAK", NULL);
	set("SOFTRDMA_FAULT", NULL);
}

int weak_read(struct end *a, struct end *b, uint64_t wr_id, uint32_t length, unsigned flags)
{
	return end_rdma(a, IBV_WR_RDMA_READ, wr_id, 0, length, (uintptr_t)b->mem, b->mr->rkey,
			flags);
}

int weak_write(struct end *a, struct end *b, uint64_t wr_id, size_t from, uint32_t length,
	       unsigned flags)
{
	return end_rdma(a, IBV_WR_RDMA_WRITE, wr_id, from, length, (uintptr_t)b->mem, b->mr->rkey,
			flags);
}

uint64_t word_get(const struct end *end, size_t offset)
{
	return __atomic_load_n((uint64_t *)(void *)(end->mem + offset), __ATOMIC_ACQUIRE);
}

void word_put(struct end *end, size_t offset, uint64_t value)
{
	__atomic_store_n((uint64_t *)(void *)(end->mem + offset), value, __ATOMIC_RELEASE);
}
