/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Queues of posted receives, of a QP or an SRQ. */
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/softrdma/shared/lock.h"
#include "common/softrdma/shared/shared.h"

/* The owner's side. */
struct soft_rq {
	struct lock lock; /* protects posted and the production */
	struct shared_rq *shared;
	/* constant, and not believed from the arena, which others can change */
	uint32_t wr_max, sge_max, slots;
	uint64_t ring;
	uint64_t posted;
	_Atomic uint64_t polled; /* of those: their completions were polled, or they are void */
};

/* A receive that was taken off a queue. */
struct soft_recv {
	uint64_t wr_id;
	uint32_t sges;
	struct ibv_sge sge[SHARED_SGES];
};

/* soft_rq_init - fill in @shared, with a ring of our arena. Returns 0 or -ENOMEM. */
int soft_rq_init(struct soft_rq *rq, struct shared_rq *shared, uint32_t wr_max, uint32_t sge_max,
		 uint32_t pd);
void soft_rq_destroy(struct soft_rq *rq);

/* soft_rq_post - under rq->lock. Returns 0, or a positive errno: EINVAL, ENOMEM when it is full. */
int soft_rq_post(struct soft_rq *rq, const struct ibv_recv_wr *wr);

/* soft_rq_clear - forget all. No initiator is there any more. */
void soft_rq_clear(struct soft_rq *rq);

/*
 * soft_rq_take - take the oldest receive, from any process. Returns false where there is none.
 * Lock-free: a failed attempt means that another taker succeeded.
 */
bool soft_rq_take(struct shared_arena *arena, struct shared_rq *rq, struct soft_recv *out);

/*
 * soft_rq_peek - what soft_rq_take() would take. It is that which will be taken if nobody else
 * takes from the queue. Returns false where there is none.
 */
bool soft_rq_peek(struct shared_arena *arena, struct shared_rq *rq, struct soft_recv *out);

/* recv_size - the bytes that a message may have. */
static inline uint64_t recv_size(const struct soft_recv *recv)
{
	uint64_t size = 0;

	for (uint32_t i = 0; i < recv->sges; i++)
		size += recv->sge[i].length;
	return size;
}

static inline uint64_t rq_count(struct shared_rq *rq)
{
	uint64_t head = atomic_load(&rq->head), tail = atomic_load(&rq->tail);

	return head < tail ? tail - head : 0;
}
