/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Resizing a completion queue. Its size is a limit, told to the peers in the arena, and its own
 * ring has at least as many places. Growing makes a larger ring and moves the completions over,
 * under the lock; the counters go on, and so do the rings of the QPs, which have room for all that
 * the QPs can receive. Shrinking moves the limit only: a peer that read the old one a moment ago
 * may still put a completion into the ring of its QP, so that the CQ holds more than its size for a
 * while, and if the QP fails that completion needs a place in the ring (soft_cq_collect()). It has
 * one there.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/softrdma/objects/cq.h"
#include "common/softrdma/process/process.h"
#include "common/softrdma/softrdma.h"

/* Put @ring of @slots places, more than before, in the place of the old one. Returns that. */
static struct soft_cqe *resize_ring(struct soft_cq *cq, struct soft_cqe *ring, uint32_t slots)
{
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	struct soft_cqe *old = cq->ring;

	for (uint32_t i = atomic_load_explicit(&cq->head, memory_order_relaxed); i != tail; i++)
		ring[i & (slots - 1)] = old[i & cq->mask];
	cq->ring = ring;
	cq->mask = slots - 1;
	return old;
}

int softrdma_resize_cq(struct ibv_cq *base, int cqe)
{
	struct soft_cq *cq = soft_cq(base);
	struct soft_cqe *ring = NULL;
	uint32_t slots, used;
	int rc = 0;

	if (!process_alive(cq->epoch) || cqe < 1 || cqe > SOFT_CQE_MAX)
		return EINVAL;
	slots = round_up_pow2((uint32_t)cqe);
	ring = calloc(slots, sizeof(*ring)); /* costs no memory until it is used */
	if (!ring)
		return ENOMEM;
	lock_take(&cq->lock);
	used = atomic_load_explicit(&cq->tail, memory_order_relaxed) -
	       atomic_load_explicit(&cq->head, memory_order_relaxed) +
	       atomic_load_explicit(&cq->shared->inbound, memory_order_relaxed);
	if (used > (uint32_t)cqe) {
		rc = EINVAL;
	} else {
		if (slots > cq->mask + 1)
			ring = resize_ring(cq, ring, slots);
		base->cqe = cqe;
		/* relaxed: whoever sees it late keeps to the old limit, see above */
		atomic_store_explicit(&cq->shared->cqe, (uint32_t)cqe, memory_order_relaxed);
	}
	lock_drop(&cq->lock);
	free(ring);
	return rc;
}
