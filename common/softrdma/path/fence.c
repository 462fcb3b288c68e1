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
 *	busy = runs        (seq_cst)		state or key = invalid  (seq_cst, full fence)
 *	read state, key    (seq_cst/acquire)	read busy               (seq_cst)
 *	valid: copy				runs: wait until it changes
 *	busy: runs -> next (seq_cst)
 *
 * In the one order of the seq_cst operations either busy = runs comes before the owner's read,
 * which then waits, and by the release sees all of the copy; or the owner's store comes before the
 * initiator's check, which then fails. The busy word counts up, so that the owner waits for one
 * operation only, however many follow.
 *
 * The owner ends the wait when the initiator is dead, as far as it can tell, or after two seconds:
 * the initiator was stopped in the middle of a copy. What is left of the copy then hits memory that
 * was taken back. That cannot be helped; the place of the QP in the arena is never used again, so
 * that only user memory can be hit. But the operation must fail, because its initiator would count
 * on a copy that the owner does not know of:
 *
 *	initiator				owner
 *	busy: runs -> next (seq_cst CAS)	busy: runs -> given up  (seq_cst CAS)
 *	given up: full fence			(return) use memory
 *	read state, keys   (seq_cst)
 *
 * 1. Both change the same word from the same value by compare-and-swap, so one of them fails. Where
 *    the initiator's succeeds, its copy was over before the owner stopped waiting, and the owner,
 *    whose own then fails, has seen it whole (release, acquire). It returns after the copy, as
 *    above: a success, although the key may be gone by now.
 * 2. Where the initiator's fails, it looks again at the queue pair and at each region, and fails if
 *    one has changed. The full fence between copy and look pairs with that between the owner's
 *    store and whatever it does next: either the look finds the store, or the owner sees the copy.
 *    So an operation that was given up for another region's sake may still succeed.
 * 3. Looking always, without 1, would be wrong the other way: an owner that polls its memory, or is
 *    told by the completion of a receive, may take back what was written at once. The message is
 *    then complete, hardware has acknowledged it, and the initiator must not fail.
 * 4. The look compares lives and not names. The word of a region holds 32 bits of generation, of
 *    which the key has 16: the same key may come again while a process is stopped, the same word
 *    does not (each turn of an index takes a registration; 2^32 of them take an hour at least).
 *    The word of a queue pair holds its life. It cannot come back at all: destroy_qp gives away no
 *    index with a writer that is stuck, and RESET refuses.
 * 5. What tells the peer of a message (its completion) comes after a look of its own, where the
 *    mark is there by then (deliver.c): a receive whose sender fails does not succeed. Between that
 *    look and the CAS the mark may still come; then the message has arrived and its sender fails,
 *    as where the acknowledgement is lost.
 * 6. A dead owner gives nothing up. So WRITEs and atomics look at its mark of death (life.c) after
 *    the copy, as READs do, and messages before they tell of themselves.
 *
 * Patience. Where an owner waits, it notes what else is under way on its queue pairs, and when it
 * saw that (seen_busy, seen_ns). An operation has had its two seconds when they are over since
 * then, whatever the owner waited for meanwhile. So a thousand queue pairs, which are fenced one
 * after the other, are waited for together where their initiators were stopped together; and an
 * operation that was waited for in vain is not waited for again: ERR comes before destroy, and
 * other regions and queue pairs go while the peer is stopped. Where a queue pair fails while the
 * thread makes progress on all of them, which holds walk, nothing is noted.
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

/* Is the initiator's operation @busy still under way? */
static bool runs(struct soft_qp *qp, uint64_t busy)
{
	/* acquire: pairs with the release at the end of the initiator's copy */
	uint64_t now = atomic_load_explicit(&qp->remote->busy, memory_order_acquire);

	return (now & ~(uint64_t)BUSY_GIVEN_UP) == busy;
}

/* Leave word that its end is not waited for. Returns false where it has ended. */
static bool give_up(struct soft_qp *qp, uint64_t busy)
{
	uint64_t now = busy;

	/* seq_cst: one of this and soft_busy_end() comes first; acquire for the latter: the copy */
	return atomic_compare_exchange_strong(&qp->remote->busy, &now, busy | BUSY_GIVEN_UP) ||
	       now == (busy | BUSY_GIVEN_UP);
}

/* What the peer has under way; 0: nothing. */
static uint64_t under_way(const struct soft_qp *qp)
{
	const uint64_t busy = atomic_load(&qp->remote->busy) & ~(uint64_t)BUSY_GIVEN_UP;

	return busy & BUSY_RUNS ? busy : 0;
}

/* Holds walk. */
static void see_all(void)
{
	for (uint32_t i = 0; i < soft_process.qps_end; i++) {
		struct soft_qp *qp = atomic_load(&soft_process.qps[i]);
		const uint64_t busy = qp && qp->peer ? under_way(qp) : 0;

		/* relaxed: written under walk */
		if (!busy || busy == atomic_load_explicit(&qp->seen_busy, memory_order_relaxed))
			continue;
		atomic_store_explicit(&qp->seen_ns, time_now_ns(), memory_order_relaxed);
		/* release pairs with had_its_time(): this time, or a later one */
		atomic_store_explicit(&qp->seen_busy, busy, memory_order_release);
	}
}

static bool had_its_time(const struct soft_qp *qp, uint64_t busy)
{
	return atomic_load_explicit(&qp->seen_busy, memory_order_acquire) == busy &&
	       time_now_ns() - atomic_load_explicit(&qp->seen_ns, memory_order_relaxed) >= FENCE_NS;
}

static bool was_given_up(const struct soft_qp *qp, uint64_t busy)
{
	return atomic_load(&qp->remote->busy) == (busy | BUSY_GIVEN_UP);
}

/* Not where walk is held: by another thread, or below us in the stack. */
static bool try_to_see_all(void)
{
	if (!lock_try(&soft_process.walk))
		return false;
	see_all();
	lock_drop(&soft_process.walk);
	return true;
}

/* Holds qp->sq, or walk and has called see_all(): @saw. */
static bool fence_wait(struct soft_qp *qp, uint64_t deadline, bool saw)
{
	unsigned spins = 0;
	uint64_t busy;

	busy = qp->peer ? under_way(qp) : 0;
	while (busy && runs(qp, busy)) {
		const bool dead = peer_dead(qp->peer);

		if (dead ||
		    (had_its_time(qp, busy) && (spins >= SPINS || was_given_up(qp, busy))) ||
		    !fence_pause(&spins, deadline))
			return give_up(qp, busy) ? dead : true;
		if (spins >= SPINS && !saw)
			saw = try_to_see_all();
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
	idle = fence_wait(qp, time_now_ns() + FENCE_NS, false);

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
	if (writers)
		see_all();
	for (uint32_t i = 0; i < soft_process.qps_end; i++) {
		struct soft_qp *qp;

		fence_own(i, deadline);
		qp = atomic_load(&soft_process.qps[i]);
		if (!qp || !writers)
			continue;
		fence_wait(qp, deadline, true); /* walk alone keeps its peer in place */
		if (qp->base.qp_type == IBV_QPT_UD)
			soft_ud_fence(qp);
	}
	lock_drop(&soft_process.walk);
}
