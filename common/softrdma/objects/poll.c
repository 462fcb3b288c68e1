/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Taking completions out of a CQ: from its own ring, then from those of its QPs; see cq.c. */
#include <string.h>

#include "common/base/time.h"
#include "common/softrdma/objects/cq.h"
#include "common/softrdma/process/process.h"
#include "common/softrdma/path/progress.h"
#include "common/softrdma/objects/qp.h"

#define VAIN_POLLS 1024

bool soft_cq_inbound(struct soft_cq *cq, struct soft_qp *qp, struct ibv_wc *wc)
{
	struct shared_qp *shared = qp->shared;
	uint64_t head = qp->in_head, tail;
	struct shared_cqe *cqe;

	/* acquire: pairs with the release of the producer: the entry, and the payload */
	tail = atomic_load_explicit(&shared->in_tail, memory_order_acquire);
	/* More than the ring holds: a broken peer. */
	if (head == tail || tail - head > qp->in_slots)
		return false;
	cqe = &qp->in_ring[head & (qp->in_slots - 1)];
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = atomic_load_explicit(&cqe->wr_id, memory_order_relaxed);
	wc->status = atomic_load_explicit(&cqe->status, memory_order_relaxed);
	wc->opcode = atomic_load_explicit(&cqe->opcode, memory_order_relaxed);
	wc->byte_len = atomic_load_explicit(&cqe->byte_len, memory_order_relaxed);
	wc->imm_data = atomic_load_explicit(&cqe->imm, memory_order_relaxed);
	wc->wc_flags = atomic_load_explicit(&cqe->flags, memory_order_relaxed);
	wc->qp_num = qp->base.qp_num;
	wc->src_qp = atomic_load_explicit(&shared->dest_qpn, memory_order_relaxed);
	/* release: pairs with the acquire of the producer, which may use the place again */
	atomic_store_explicit(&shared->in_head, ++qp->in_head, memory_order_release);
	atomic_fetch_sub_explicit(&cq->shared->inbound, 1, memory_order_relaxed);
	return true;
}

/* Poll the rings of the QPs of one word of the pending bits. Under the lock. */
static int cq_poll_word(struct soft_cq *cq, uint32_t word, int count, struct ibv_wc *wc)
{
	/* acquire: pairs with the release in pending_set() */
	uint64_t bits =
		atomic_exchange_explicit(&cq->shared->pending[word], 0, memory_order_acquire);
	int n = 0;

	while (bits) {
		uint32_t bit = (uint32_t)__builtin_ctzll(bits);
		struct soft_qp *qp = atomic_load(&soft_process.qps[word * 64 + bit]);

		while (qp && qp->recv_cq == cq && n < count && soft_cq_inbound(cq, qp, &wc[n])) {
			qp_receive_done(qp);
			n++;
		}
		if (n == count) {
			/* there may be more: next time */
			atomic_fetch_or(&cq->shared->pending[word], bits);
			atomic_fetch_or(&cq->shared->summary, 1ull << word);
			break;
		}
		bits &= bits - 1;
	}
	return n;
}

static int cq_poll_inbound(struct soft_cq *cq, int count, struct ibv_wc *wc)
{
	/* Words that are left at the end are marked again. */
	uint64_t words = atomic_exchange(&cq->shared->summary, 0);
	int n = 0;

	while (words && n < count) {
		uint32_t word = (uint32_t)__builtin_ctzll(words);

		words &= words - 1;
		n += cq_poll_word(cq, word, count - n, wc + n);
	}
	if (words)
		atomic_fetch_or(&cq->shared->summary, words);
	return n;
}

static int cq_poll_own(struct soft_cq *cq, int count, struct ibv_wc *wc)
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	int n = 0;

	for (; n < count && head != tail; n++, head++) {
		struct soft_cqe *cqe = &cq->ring[head & cq->mask];

		wc[n] = cqe->wc;
		/* release: pairs with the acquire in a post that finds the queue full */
		if (cqe->sent)
			atomic_store_explicit(&cqe->qp->sent_polled, cqe->sent,
					      memory_order_release);
		else
			qp_receive_done(cqe->qp);
	}
	atomic_store_explicit(&cq->head, head, memory_order_relaxed);
	cq_count_own(cq, tail - head);
	return n;
}

/*
 * A program that is answered faster than it polls always has own completions for all the room there
 * is. So receives come first every other time. Under the lock.
 */
static int cq_poll_both(struct soft_cq *cq, int count, struct ibv_wc *wc)
{
	const bool inbound_first = cq->passed_over;
	int n = inbound_first ? cq_poll_inbound(cq, count, wc) : 0;

	n += cq_poll_own(cq, count - n, wc + n);
	if (!atomic_load(&cq->shared->summary)) {
		cq->passed_over = false;
		return n;
	}
	if (n < count)
		n += cq_poll_inbound(cq, count - n, wc + n);
	cq->passed_over = n == count && !inbound_first;
	return n;
}

static bool cq_empty(struct soft_cq *cq)
{
	/* seq_cst: pairs with cq_notify(), which may just have armed */
	return atomic_load_explicit(&cq->head, memory_order_relaxed) ==
		       atomic_load_explicit(&cq->tail, memory_order_acquire) &&
	       !atomic_load(&cq->shared->summary);
}

/* Long polling keeps a core busy that the peer may need here: let it go first. */
static int cq_in_vain(struct soft_cq *cq)
{
	uint32_t polls = atomic_load_explicit(&cq->vain, memory_order_relaxed) + 1;

	atomic_store_explicit(&cq->vain, polls, memory_order_relaxed);
	if (polls % VAIN_POLLS == 0)
		time_yield();
	return 0;
}

int soft_cq_poll(struct soft_cq *cq, int count, struct ibv_wc *wc)
{
	int n;

	if (atomic_load_explicit(&cq->stalled, memory_order_relaxed))
		soft_progress_cq(cq);
	if (cq_empty(cq)) {
		if (!atomic_load_explicit(&cq->datagrams, memory_order_relaxed))
			return cq_in_vain(cq);
		soft_ud_poll(cq);
		if (cq_empty(cq))
			return cq_in_vain(cq);
	}
	lock_take(&cq->lock);
	n = cq_poll_both(cq, count, wc);
	lock_drop(&cq->lock);
	return n;
}

static int cq_poll_serial(struct soft_cq *cq, int count, struct ibv_wc *wc)
{
	int n;

	lock_take(&cq->poll);
	n = soft_cq_poll(cq, count, wc);
	lock_drop(&cq->poll);
	return n;
}

int soft_poll_cq(struct ibv_cq *base, int count, struct ibv_wc *wc)
{
	struct soft_cq *cq = soft_cq(base);

	if (!process_alive(cq->epoch))
		return -1;
	return __builtin_expect(cq->serial, 0) ? cq_poll_serial(cq, count, wc)
					       : soft_cq_poll(cq, count, wc);
}
