/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Shared receive queues. */
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/softrdma/device/context.h"
#include "common/softrdma/objects/rq.h"

struct soft_srq {
	struct ibv_srq base;
	uint32_t epoch, index;
	struct soft_rq rq;
	_Atomic uint32_t users; /* QPs */
	_Atomic bool retired; /* a writer was stuck in it: never use its place again */
	struct soft_async_count async;
};

static inline struct soft_srq *soft_srq(struct ibv_srq *base)
{
	return (struct soft_srq *)base;
}

int soft_post_srq_recv(struct ibv_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
