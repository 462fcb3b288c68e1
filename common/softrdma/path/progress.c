/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Sends that wait are tried again by whoever polls their CQ, by later posts, and by the service
 * thread: every millisecond, and at once when the peer kicks us because it has posted receives.
 *
 * Peers draw attention to an object of ours by a mark in the arena and a kick: a QP that they put
 * into ERR or ask for an atomic, a CQ that overran, an SRQ below its limit. The service thread
 * attends to it.
 *
 * All of this runs under walk, so that no object disappears, and only tries the locks of QPs.
 */
#include "common/softrdma/path/progress.h"

#include "common/softrdma/path/atomic.h"
#include "common/softrdma/objects/cq.h"
#include "common/softrdma/objects/qp.h"
#include "common/softrdma/objects/srq.h"

/* Returns false when the QP is in use right now. */
static bool progress_qp(struct soft_qp *qp)
{
	if (!lock_try(&qp->sq))
		return false;
	soft_send_progress(qp);
	lock_drop(&qp->sq);
	return true;
}

/* Try all QPs of a bit set that complete to @cq, or all where it is NULL. Holds walk. */
static bool progress_stalled(struct soft_cq *cq)
{
	bool done = true;

	for (uint32_t word = 0; word < SHARED_QPS / 64; word++) {
		uint64_t bits = atomic_load_explicit(&soft_process.stalled_bits[word],
						     memory_order_relaxed);

		for (; bits; bits &= bits - 1) {
			uint32_t index = word * 64 + (uint32_t)__builtin_ctzll(bits);
			struct soft_qp *qp = atomic_load(&soft_process.qps[index]);

			if (qp && (!cq || qp->send_cq == cq))
				done = progress_qp(qp) && done;
		}
	}
	return done;
}

void soft_progress_posted_slow(struct shared_rq *rq)
{
	lock_take(&soft_process.walk);
	atomic_store(&rq->waited, 0);
	for (uint32_t i = 0; i < soft_process.qps_end; i++) {
		struct soft_qp *qp = atomic_load(&soft_process.qps[i]);

		/* seq_cst: pairs with the stores in take() of deliver.c */
		if (qp && qp_rq(qp)->shared == rq && qp->peer &&
		    atomic_exchange(&qp->shared->waiter, 0))
			soft_kick(qp->peer->kick_fd);
	}
	lock_drop(&soft_process.walk);
}

void soft_progress_srq_limit(struct soft_srq *srq)
{
	struct ibv_async_event event = { .element.srq = &srq->base,
					 .event_type = IBV_EVENT_SRQ_LIMIT_REACHED };
	struct shared_rq *rq = srq->rq.shared;
	uint32_t limit = atomic_load(&rq->limit);

	if (limit && rq_count(rq) < limit && atomic_compare_exchange_strong(&rq->limit, &limit, 0))
		atomic_store(&rq->limit_hit, 1);
	if (atomic_exchange(&rq->limit_hit, 0))
		soft_async_raise(srq->base.context, &event, &srq->async);
}

/* A peer has put it into ERR, or asks for an atomic. Returns false when it is in use right now. */
static bool attend_qp(struct soft_qp *qp)
{
	if (!lock_try(&qp->sq))
		return false;
	soft_atomic_attend(qp);
	soft_send_progress(qp);
	lock_drop(&qp->sq);
	return true;
}

static bool attend_qps(void)
{
	bool done = true;

	if (!atomic_load(&own_arena()->qp_attention) ||
	    !atomic_exchange(&own_arena()->qp_attention, 0))
		return true;
	for (uint32_t word = 0; word < SHARED_QPS / 64; word++) {
		uint64_t bits = atomic_exchange(&own_arena()->qp_bits[word], 0);

		for (; bits; bits &= bits - 1) {
			uint32_t bit = (uint32_t)__builtin_ctzll(bits);
			struct soft_qp *qp = atomic_load(&soft_process.qps[word * 64 + bit]);

			if (!qp || attend_qp(qp))
				continue;
			atomic_fetch_or(&own_arena()->qp_bits[word], 1ull << bit);
			atomic_store(&own_arena()->qp_attention, 1);
			done = false;
		}
	}
	return done;
}

void soft_progress_cq(struct soft_cq *cq)
{
	if (!lock_try(&soft_process.walk))
		return; /* somebody else is at it */
	attend_qps(); /* two that ask each other and poll: the service threads hardly get walk */
	progress_stalled(cq);
	lock_drop(&soft_process.walk);
}

static void attend_queues(void)
{
	if (!atomic_load(&own_arena()->attention) || !atomic_exchange(&own_arena()->attention, 0))
		return;
	for (uint32_t i = 0; i < SHARED_CQS; i++) {
		struct soft_cq *cq = atomic_load(&soft_process.cqs[i]);

		if (cq && atomic_exchange(&cq->shared->overrun, 0))
			soft_cq_overrun(cq);
	}
	for (uint32_t i = 0; i < SHARED_SRQS; i++) {
		struct soft_srq *srq = atomic_load(&soft_process.srqs[i]);

		if (srq)
			soft_progress_srq_limit(srq);
	}
}

bool soft_progress_all(void)
{
	bool done;

	if (!lock_try(&soft_process.walk))
		return false;
	done = attend_qps();
	attend_queues();
	if (atomic_load(&soft_process.stalled))
		progress_stalled(NULL); /* what is busy now is tried again at the next tick */
	lock_drop(&soft_process.walk);
	return done;
}

/* Returns whether it was in a state in which it could be used. */
static bool break_qp(struct soft_qp *qp)
{
	uint64_t word = atomic_load(&qp->shared->word);

	do {
		if (qp_word_state(word) == IBV_QPS_RESET || qp_word_state(word) == IBV_QPS_ERR)
			return false;
		/* release: pairs with qp_state() */
	} while (!atomic_compare_exchange_weak(&qp->shared->word, &word,
					       (word & ~(uint64_t)0xff) | IBV_QPS_ERR));
	return true;
}

void soft_progress_break(const struct ibv_context *context)
{
	lock_take(&soft_process.walk);
	for (uint32_t i = 0; i < soft_process.qps_end; i++) {
		struct soft_qp *qp = atomic_load(&soft_process.qps[i]);

		if (!qp || qp->base.context != context || !break_qp(qp))
			continue;
		atomic_fetch_or(&own_arena()->qp_bits[i / 64], 1ull << i % 64);
		atomic_store(&own_arena()->qp_attention, 1);
	}
	lock_drop(&soft_process.walk);
}

/*
 * A peer may have died after it put a completion into a ring and before it marked the QP or woke
 * the sleeper. So mark and wake for all QPs whose peer is dead. A sleeper that is woken for
 * nothing looks and sleeps again.
 */
void soft_progress_peer_died(void)
{
	lock_take(&soft_process.walk);
	for (uint32_t i = 0; i < soft_process.qps_end; i++) {
		struct soft_qp *qp = atomic_load(&soft_process.qps[i]);
		struct ibv_comp_channel *channel;

		if (!qp || !qp->peer || !peer_dead(qp->peer))
			continue;
		channel = qp->recv_cq->base.channel;
		if (atomic_load(&qp->shared->in_head) != atomic_load(&qp->shared->in_tail)) {
			pending_set(qp->recv_cq->shared, qp->index);
			if (channel)
				cq_notify(qp->recv_cq->shared, channel->fd, true);
		}
		if (channel && atomic_load(&qp->recv_cq->shared->notify) >= NOTIFY_EVENT)
			soft_kick(channel->fd);
	}
	lock_drop(&soft_process.walk);
}
