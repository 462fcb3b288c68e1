/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * After destroy_qp, modify_qp to ERR or RESET and dereg_mr return, no peer changes our memory, and
 * no READ that succeeds returns what we write from then on.
 *
 * Writers (WRITE, SEND, atomics on mapped words). Each initiator QP has a word `busy` in its own
 * arena, which only it writes. Atomics on other words are executed here: see atomic.c.
 *
 *	initiator				owner
 *	busy = odd         (seq_cst)		state or key = invalid  (seq_cst, full fence)
 *	read state, key    (seq_cst/acquire)	read busy               (seq_cst)
 *	valid: copy				odd: wait until it changes
 *	busy = even        (release)
 *
 * In the one order of the seq_cst operations either busy = odd comes before the owner's read, which
 * then waits, and by the release sees all of the copy; or the owner's store comes before the
 * initiator's check, which then fails. The busy word counts up, so that the owner waits for one
 * operation only, however many follow. It ends the wait when the initiator is dead: then nobody
 * copies any more. An initiator that is stopped in the middle of a copy ends it after two seconds:
 * the place of the QP in the arena is then never used again, so that only user memory can be hit.
 *
 * Readers (READ) mark nothing. They check state and key, copy, and check again:
 *
 *	initiator				owner
 *	copy					state or key = invalid
 *	acquire fence				full fence
 *	read state, key				(return) write data
 *
 * A copy that contains data written after the fence has synchronised with it by the acquire fence,
 * so the second check sees the invalid state, and the READ fails.
 *
 * Datagrams are received by the owner itself, under a lock: ud.c.
 */
#include "common/softrdma/path/fence.h"

#include "common/base/time.h"
#include "common/softrdma/process/process.h"
#include "common/softrdma/objects/qp.h"

#define FENCE_NS (2 * NS_PER_S)
#define SPINS	 200
#define PAUSE_NS 50000

/* Spin for a moment, then sleep. Returns false when @deadline has passed. */
static bool fence_pause(unsigned *spins, uint64_t deadline)
{
	if (++*spins < SPINS) {
		time_relax();
		return true;
	}
	time_sleep(PAUSE_NS);
	return time_now_ns() < deadline;
}

/*
 * An owner that has waited for an operation in vain does not wait for it again: ERR comes before
 * destroy, and other regions and queue pairs go while the peer is stopped.
 */
static bool fence_wait(struct soft_qp *qp, uint64_t deadline)
{
	uint64_t busy, from_ns;
	unsigned spins = 0;

	if (!qp->peer)
		return true;
	busy = atomic_load(&qp->remote->busy);
	if (!(busy & 1))
		return true;
	/* relaxed, all of stuck_busy: one wait more or less */
	if (busy == atomic_load_explicit(&qp->stuck_busy, memory_order_relaxed))
		deadline = 0;
	from_ns = time_now_ns();
	/* acquire: pairs with the release at the end of the initiator's copy */
	while (atomic_load_explicit(&qp->remote->busy, memory_order_acquire) == busy) {
		if (peer_dead(qp->peer))
			return true;
		if (!fence_pause(&spins, deadline)) {
			/* not where waiting for another one took the time */
			if (time_now_ns() - from_ns > FENCE_NS / 2)
				atomic_store_explicit(&qp->stuck_busy, busy, memory_order_relaxed);
			return false;
		}
	}
	return true;
}

bool soft_fence_qp(struct soft_qp *qp)
{
	bool idle;

	if (qp->ud) {
		soft_ud_fence(qp);
		return true;
	}
	idle = fence_wait(qp, time_now_ns() + FENCE_NS);

	if (!idle) {
		qp->writer_stuck = true;
		if (qp->srq)
			atomic_store(&qp->srq->retired, true);
	}
	return idle;
}

/*
 * Wait until the sq lock of the QP of @index was seen free: what it was executing is over. Holds
 * walk, but not while it waits: a holder of the sq lock may wait for walk. A QP that is gone
 * meanwhile has been fenced by its destruction.
 */
static void fence_own(uint32_t index, uint64_t deadline)
{
	struct soft_qp *qp;
	unsigned spins = 0;

	while ((qp = atomic_load(&soft_process.qps[index])) != NULL && !lock_try(&qp->sq)) {
		bool again;

		lock_drop(&soft_process.walk);
		again = fence_pause(&spins, deadline);
		lock_take(&soft_process.walk);
		if (!again)
			return;
	}
	if (qp)
		lock_drop(&qp->sq);
}

void soft_fence_all(bool writers)
{
	uint64_t deadline = time_now_ns() + FENCE_NS;

	lock_take(&soft_process.walk);
	for (uint32_t i = 0; i < soft_process.qps_end; i++) {
		struct soft_qp *qp;

		fence_own(i, deadline);
		qp = atomic_load(&soft_process.qps[i]);
		if (!qp || !writers)
			continue;
		fence_wait(qp, deadline); /* walk alone keeps its peer in place */
		if (qp->base.qp_type == IBV_QPT_UD)
			soft_ud_fence(qp);
	}
	lock_drop(&soft_process.walk);
}
