/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A completion queue has two sources. Its own ring, under a lock, takes completions that this
 * process makes: of sends, and flushed receives. Completions of receives are made by the initiator
 * in the peer, which puts them into the ring of the QP in our arena (single producer, single
 * consumer) and sets the QP's bit in the CQ. Polling takes from the own ring first and then from
 * the QPs whose bit is set; these come first next time where no room was left for them. Where
 * completions of one QP must stay in order across the two (a flush comes after what was received),
 * soft_cq_collect() moves the latter into the former.
 *
 * Arming: the poller stores "armed" and then looks for completions; a producer publishes its
 * completion and then looks for "armed"; both are seq_cst, so one of them sees the other.
 */
#include "common/softrdma/objects/cq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/softrdma/faults/fault.h"
#include "common/softrdma/objects/channel.h"
#include "common/softrdma/process/process.h"
#include "common/softrdma/path/progress.h"
#include "common/softrdma/objects/qp.h"
#include "common/softrdma/softrdma.h"

struct ibv_cq *softrdma_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				  struct ibv_comp_channel *channel, int comp_vector)
{
	struct soft_cq *cq;
	uint32_t slots;
	int rc = 0;

	if (!process_alive(soft_context(context)->epoch) || cqe < 1 || cqe > SOFT_CQE_MAX ||
	    comp_vector < 0 || comp_vector >= context->num_comp_vectors ||
	    (channel && channel->context != context))
		rc = EINVAL;
	if (rc == 0)
		rc = soft_fault(context, FAULT_CREATE_CQ);
	if (rc) {
		errno = rc;
		return NULL;
	}
	slots = round_up_pow2((uint32_t)cqe);
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	cq->ring = calloc(slots, sizeof(*cq->ring));
	cq->index = cq->ring ? soft_ids_take(&soft_process.cq_ids) : SHARED_NONE;
	if (cq->index == SHARED_NONE) {
		free(cq->ring);
		free(cq);
		errno = ENOMEM;
		return NULL;
	}
	cq->mask = slots - 1;
	cq->epoch = soft_process.epoch;
	cq->shared = &own_arena()->cq[cq->index];
	memset(cq->shared, 0, sizeof(*cq->shared));
	atomic_store(&cq->shared->cqe, (uint32_t)cqe);
	cq->base.context = context;
	cq->base.channel = channel;
	cq->base.cq_context = cq_context;
	cq->base.handle = cq->index;
	cq->base.cqe = cqe;
	pthread_mutex_init(&cq->base.mutex, NULL);
	pthread_cond_init(&cq->base.cond, NULL);
	if (channel) {
		struct soft_channel *soft = (struct soft_channel *)channel;

		atomic_store(&cq->shared->channel_id, soft->id);
		soft_channel_add(soft, cq);
	}
	atomic_fetch_add(&soft_context(context)->objects, 1);
	atomic_store(&soft_process.cqs[cq->index], cq);
	return &cq->base;
}

int softrdma_destroy_cq(struct ibv_cq *base)
{
	struct soft_cq *cq = soft_cq(base);
	uint32_t async;

	if (!process_alive(cq->epoch))
		return EINVAL;
	if (atomic_load(&cq->users))
		return EBUSY;
	lock_take(&soft_process.walk);
	atomic_store(&soft_process.cqs[cq->index], NULL);
	lock_drop(&soft_process.walk);
	if (base->channel)
		soft_channel_remove((struct soft_channel *)base->channel, cq);
	async = soft_async_retire(base->context, &cq->async);
	pthread_mutex_lock(&base->mutex);
	while (base->comp_events_completed != cq->comp_delivered ||
	       base->async_events_completed != async)
		pthread_cond_wait(&base->cond, &base->mutex);
	pthread_mutex_unlock(&base->mutex);
	soft_ids_give(&soft_process.cq_ids, cq->index);
	atomic_fetch_sub(&soft_context(base->context)->objects, 1);
	pthread_cond_destroy(&base->cond);
	pthread_mutex_destroy(&base->mutex);
	free(cq->ring);
	free(cq);
	return 0;
}

void soft_cq_overrun(struct soft_cq *cq)
{
	struct ibv_async_event event = { .element.cq = &cq->base, .event_type = IBV_EVENT_CQ_ERR };

	if (!atomic_exchange(&cq->overrun, true))
		soft_async_raise(cq->base.context, &event, &cq->async);
}

void soft_cq_notify_slow(struct shared_cq *cq, int fd, bool solicited)
{
	uint64_t seen = atomic_load(&cq->notify);

	do {
		uint64_t armed = seen & NOTIFY_ARMED;

		if (!armed || (armed == NOTIFY_SOLICITED && !solicited))
			return;
		/* release: the completion is visible to the thread that takes the event */
	} while (!atomic_compare_exchange_weak(&cq->notify, &seen,
					       (seen & ~(uint64_t)NOTIFY_ARMED) + NOTIFY_EVENT));
	if (fd >= 0)
		soft_kick(fd);
}

int soft_req_notify_cq(struct ibv_cq *base, int solicited_only)
{
	struct soft_cq *cq = soft_cq(base);

	if (!process_alive(cq->epoch))
		return EINVAL;
	/* The lock: pairs with soft_cq_push(). seq_cst: pairs with cq_notify() of initiators. */
	lock_take(&cq->lock);
	atomic_fetch_or(&cq->shared->notify, solicited_only ? NOTIFY_SOLICITED : NOTIFY_ANY);
	lock_drop(&cq->lock);
	/* seq_cst: pairs with seat_rest() */
	if (atomic_load(&cq->datagrams_resting))
		soft_ud_armed(cq);
	return 0;
}

/*
 * The next free place of the ring, or NULL: overrun. @moved: for a completion that the CQ has
 * already, in the ring of a QP, so that the room decides, and not the size (resize.c). Under the
 * lock.
 */
static struct soft_cqe *cq_place(struct soft_cq *cq, bool moved)
{
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	uint32_t own = tail - atomic_load_explicit(&cq->head, memory_order_relaxed), used = own;
	uint32_t limit = moved ? cq->mask + 1 : (uint32_t)cq->base.cqe;

	if (!moved)
		used += atomic_load_explicit(&cq->shared->inbound, memory_order_relaxed);
	if (used >= limit)
		return NULL;
	/* release: with the load in soft_cq_poll() that decides whether to look at all */
	atomic_store_explicit(&cq->tail, tail + 1, memory_order_release);
	cq_count_own(cq, own + 1);
	return &cq->ring[tail & cq->mask];
}

void soft_cq_push(struct soft_cq *cq, struct soft_qp *qp, const struct soft_done *done)
{
	struct soft_cqe *cqe;

	lock_take(&cq->lock);
	cqe = cq_place(cq, false);
	if (cqe) {
		cqe->wc.wr_id = done->wr_id;
		cqe->wc.status = done->status;
		cqe->wc.opcode = done->opcode;
		cqe->wc.vendor_err = 0;
		cqe->wc.byte_len = done->byte_len;
		cqe->wc.imm_data = 0;
		cqe->wc.qp_num = qp->base.qp_num;
		cqe->wc.src_qp = 0;
		cqe->wc.wc_flags = 0;
		cqe->wc.pkey_index = 0;
		cqe->wc.slid = 0;
		cqe->wc.sl = 0;
		cqe->wc.dlid_path_bits = 0;
		cqe->qp = qp;
		cqe->sent = done->sent;
	}
	lock_drop(&cq->lock);
	if (!cqe)
		soft_cq_overrun(cq);
	else if (cq->base.channel)
		cq_notify(cq->shared, cq->base.channel->fd, done->status != IBV_WC_SUCCESS);
}

void soft_cq_push_receive(struct soft_cq *cq, struct soft_qp *qp, const struct ibv_wc *wc,
			  bool solicited)
{
	struct soft_cqe *cqe;

	lock_take(&cq->lock);
	cqe = cq_place(cq, false);
	if (cqe) {
		cqe->wc = *wc;
		cqe->qp = qp;
		cqe->sent = 0;
	}
	lock_drop(&cq->lock);
	if (!cqe)
		soft_cq_overrun(cq);
	else if (cq->base.channel)
		cq_notify(cq->shared, cq->base.channel->fd,
			  solicited || wc->status != IBV_WC_SUCCESS);
}

void soft_cq_collect(struct soft_cq *cq, struct soft_qp *qp)
{
	struct ibv_wc wc;
	bool lost = false;

	lock_take(&cq->lock);
	/* Nobody adds to them any more, but a broken peer: so no more than the ring holds. */
	for (uint32_t i = 0; i < qp->in_slots && soft_cq_inbound(cq, qp, &wc); i++) {
		struct soft_cqe *cqe = cq_place(cq, true);

		if (!cqe) {
			lost = true;
			continue;
		}
		cqe->wc = wc;
		cqe->qp = qp;
		cqe->sent = 0;
	}
	lock_drop(&cq->lock);
	if (lost)
		soft_cq_overrun(cq);
}

void soft_cq_forget(struct soft_cq *cq, struct soft_qp *qp)
{
	uint32_t start, head, tail, kept;
	struct ibv_wc wc;

	lock_take(&cq->lock);
	start = head = kept = atomic_load_explicit(&cq->head, memory_order_relaxed);
	tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	for (; head != tail; head++) {
		struct soft_cqe *cqe = &cq->ring[head & cq->mask];

		if (cqe->qp != qp)
			cq->ring[kept++ & cq->mask] = *cqe;
		else if (!cqe->sent)
			qp_receive_done(qp);
	}
	atomic_store_explicit(&cq->tail, kept, memory_order_release);
	cq_count_own(cq, kept - start);
	for (uint32_t i = 0; i < qp->in_slots && cq == qp->recv_cq && soft_cq_inbound(cq, qp, &wc);
	     i++)
		qp_receive_done(qp);
	/*
	 * A mark that was set after its completion was polled would stay, and the CQ would look at
	 * whatever QP has the index then.
	 */
	if (cq == qp->recv_cq)
		atomic_fetch_and(&cq->shared->pending[qp->index / 64], ~(1ull << qp->index % 64));
	lock_drop(&cq->lock);
}
