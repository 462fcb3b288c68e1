/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What happens to queue pairs between the calls of their users: see progress.c. */
#include <infiniband/verbs.h>
#include <stdbool.h>

#include "common/softrdma/process/process.h"

/* soft_progress_cq - try again what waits in the send queues that complete to @cq. */
void soft_progress_cq(struct soft_cq *cq);

/* soft_progress_posted_slow - see soft_progress_posted(). */
void soft_progress_posted_slow(struct shared_rq *rq);

/* soft_progress_posted - receives were posted to @rq: wake waiting senders. Holds no lock. */
static inline void soft_progress_posted(struct shared_rq *rq)
{
	/* full fence: pairs with the one in take() of deliver.c */
	fence_full();
	if (atomic_load_explicit(&rq->waited, memory_order_relaxed))
		soft_progress_posted_slow(rq);
}

/* soft_progress_srq_limit - raise the limit event, if it is due. Holds no lock. */
void soft_progress_srq_limit(struct soft_srq *srq);

/*
 * soft_progress_all - service thread: waiting sends, and what peers drew attention to.
 * Returns false when a lock was not to be had: call again soon.
 */
bool soft_progress_all(void);

/* soft_progress_break - service thread: put the queue pairs of @context into ERR. Without locks. */
void soft_progress_break(const struct ibv_context *context);

/* soft_progress_peer_died - service thread: finish what a dead peer may have left half done. */
void soft_progress_peer_died(void);
