/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The two marks around what changes memory of the peer, and the look at what the peer allows again
 * after it: see fence.c. Holders of qp->sq call these.
 */
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/softrdma/objects/qp.h"

/* What was found valid before a copy. */
struct soft_found {
	enum ibv_wc_status refused; /* the status where a region has changed */
	uint64_t qp; /* word of the peer's queue pair */
	unsigned regions;
	struct {
		const struct shared_mr *mr;
		uint64_t word;
	} region[SHARED_SGES];
};

static inline void found_add(struct soft_found *found, const struct shared_mr *mr, uint64_t word)
{
	found->region[found->regions].mr = mr;
	found->region[found->regions++].word = word;
}

/*
 * soft_look_again - is everything as @found says? Returns a status: IBV_WC_RETRY_EXC_ERR where the
 * peer or its queue pair is gone, @found->refused where a region is.
 */
int soft_look_again(struct soft_qp *qp, const struct soft_found *found);

/* soft_busy_given_up - see soft_busy_end(), of an operation for which the owner waits no longer. */
int soft_busy_given_up(struct soft_qp *qp, uint64_t busy, const struct soft_found *found, int rc);

/* soft_busy_begin - memory of the peer may change from now on. Returns what _end() wants. */
static inline uint64_t soft_busy_begin(struct soft_qp *qp)
{
	uint64_t busy = atomic_load_explicit(&qp->shared->busy, memory_order_relaxed);

	busy = (busy & ~(uint64_t)(BUSY_STEP - 1)) | BUSY_RUNS;
	/* seq_cst: pairs with fence_wait(), see fence.c */
	atomic_store(&qp->shared->busy, busy);
	return busy;
}

/*
 * soft_busy_end - it does not change any more. Returns @rc, the status so far or EXECUTE_*; but of
 * a success that the owner did not wait for, what soft_look_again() says.
 */
static inline int soft_busy_end(struct soft_qp *qp, uint64_t busy, const struct soft_found *found,
				int rc)
{
	uint64_t expected = busy;

	/*
	 * seq_cst: one of this and give_up() in fence.c comes first. Release for fence_wait(): the
	 * copy.
	 */
	if (__builtin_expect(atomic_compare_exchange_strong(&qp->shared->busy, &expected,
							    busy - BUSY_RUNS + BUSY_STEP),
			     1))
		return rc;
	return soft_busy_given_up(qp, busy, found, rc);
}
