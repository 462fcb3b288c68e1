/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A ring with one producer, the owner, and any number of takers in other processes.
 *
 * Invariant: head <= tail <= head + slots; slots in [head, tail) hold posted receives and do not
 * change. A taker copies slot `head` and then moves head by compare-and-swap. The owner writes a
 * slot again only after head has passed it, so that a copy that was overwritten halfway belongs to
 * a head that has moved, and the compare-and-swap fails: counters of 64 bits do not come back.
 * A taker that stops or dies anywhere leaves the queue as good as it was; one that dies right after
 * its compare-and-swap takes one receive along.
 *
 * The owner counts a receive as outstanding until its completion is polled, as hardware does.
 */
#include "common/softrdma/objects/rq.h"

#include <errno.h>

#include "common/softrdma/process/process.h"

int soft_rq_init(struct soft_rq *rq, struct shared_rq *shared, uint32_t wr_max, uint32_t sge_max,
		 uint32_t pd)
{
	uint32_t slots = round_up_pow2(wr_max);
	uint64_t ring = soft_arena_alloc(&soft_process.arena, slots * recv_slot_size(sge_max));

	if (!ring)
		return -ENOMEM;
	rq->shared = shared;
	rq->wr_max = wr_max;
	rq->sge_max = sge_max;
	rq->slots = slots;
	rq->ring = ring;
	atomic_store(&shared->ring, ring);
	atomic_store(&shared->slots, slots);
	atomic_store(&shared->sges_max, sge_max);
	atomic_store(&shared->pd, pd);
	soft_rq_clear(rq);
	return 0;
}

void soft_rq_destroy(struct soft_rq *rq)
{
	struct shared_rq *shared = rq->shared;

	if (!shared)
		return;
	soft_arena_free(&soft_process.arena, rq->ring, rq->slots * recv_slot_size(rq->sge_max));
	atomic_store(&shared->slots, 0);
}

void soft_rq_clear(struct soft_rq *rq)
{
	atomic_store(&rq->shared->tail, 0);
	atomic_store(&rq->shared->head, 0);
	atomic_store(&rq->shared->limit, 0);
	atomic_store(&rq->shared->limit_hit, 0);
	atomic_store(&rq->shared->waited, 0);
	rq->posted = 0;
	atomic_store(&rq->polled, 0);
}

/* The slot of number @at, of @sges entries; NULL where the ring does not lie in @arena. */
static struct shared_recv *rq_slot(struct shared_arena *arena, uint64_t ring, uint32_t slots,
				   uint32_t sges, uint64_t at)
{
	unsigned char *base;

	if (!slots || (slots & (slots - 1)) || sges > SHARED_SGES || ring % SHARED_LINE)
		return NULL;
	base = arena_at(arena, ring, slots * recv_slot_size(sges));
	if (!base)
		return NULL;
	return (struct shared_recv *)(void *)(base + (at & (slots - 1)) * recv_slot_size(sges));
}

int soft_rq_post(struct soft_rq *rq, const struct ibv_recv_wr *wr)
{
	struct shared_recv *slot;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->sge_max)
		return EINVAL;
	/* acquire: pairs with the release of the poller: the slot's former life is over */
	if (rq->posted - atomic_load_explicit(&rq->polled, memory_order_acquire) >= rq->wr_max)
		return ENOMEM;
	slot = rq_slot(own_arena(), rq->ring, rq->slots, rq->sge_max, rq->posted);
	atomic_store_explicit(&slot->wr_id, wr->wr_id, memory_order_relaxed);
	atomic_store_explicit(&slot->sges, (uint32_t)wr->num_sge, memory_order_relaxed);
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		atomic_store_explicit(&slot->sge[i].addr, sge->addr, memory_order_relaxed);
		atomic_store_explicit(&slot->sge[i].length, sge->length, memory_order_relaxed);
		atomic_store_explicit(&slot->sge[i].lkey, sge->lkey, memory_order_relaxed);
	}
	/* release: pairs with the acquire of tail in soft_rq_take(): the slot */
	atomic_store_explicit(&rq->shared->tail, ++rq->posted, memory_order_release);
	return 0;
}

/* Copy the receive of number @head, if there is one. It counts only if the head has not moved. */
static bool rq_read(struct shared_arena *arena, struct shared_rq *rq, uint64_t head,
		    struct soft_recv *out)
{
	/* once: what is checked is what is used */
	uint32_t sges_max = atomic_load_explicit(&rq->sges_max, memory_order_relaxed);
	struct shared_recv *slot =
		rq_slot(arena, atomic_load_explicit(&rq->ring, memory_order_relaxed),
			atomic_load_explicit(&rq->slots, memory_order_relaxed), sges_max, head);

	/* acquire: pairs with the release in soft_rq_post() */
	if (!slot || head >= atomic_load_explicit(&rq->tail, memory_order_acquire))
		return false;
	out->wr_id = atomic_load_explicit(&slot->wr_id, memory_order_relaxed);
	out->sges = atomic_load_explicit(&slot->sges, memory_order_relaxed);
	if (out->sges > sges_max)
		out->sges = sges_max;
	for (uint32_t i = 0; i < out->sges; i++) {
		struct shared_sge *sge = &slot->sge[i];

		out->sge[i].addr = atomic_load_explicit(&sge->addr, memory_order_relaxed);
		out->sge[i].length = atomic_load_explicit(&sge->length, memory_order_relaxed);
		out->sge[i].lkey = atomic_load_explicit(&sge->lkey, memory_order_relaxed);
	}
	return true;
}

bool soft_rq_peek(struct shared_arena *arena, struct shared_rq *rq, struct soft_recv *out)
{
	/* acquire: pairs with the compare-and-swap of the taker before us */
	return rq_read(arena, rq, atomic_load_explicit(&rq->head, memory_order_acquire), out);
}

bool soft_rq_take(struct shared_arena *arena, struct shared_rq *rq, struct soft_recv *out)
{
	/* acquire: pairs with the compare-and-swap of the taker before us */
	uint64_t head = atomic_load_explicit(&rq->head, memory_order_acquire);

	for (;;) {
		if (!rq_read(arena, rq, head, out))
			return false;
		/* release: the copy is done before the owner may overwrite the slot */
		if (atomic_compare_exchange_weak_explicit(
			    &rq->head, &head, head + 1, memory_order_acq_rel, memory_order_acquire))
			return true;
	}
}
