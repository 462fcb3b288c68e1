/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The send queue. A work request is executed when it is posted, straight from the caller's structs.
 * Only when the oldest cannot be executed yet (the peer has no receive posted, or its QP is not
 * ready) it and those after it are copied into the queue's ring, inline data too, and wait: later
 * posts, polls of the CQ and the service thread try again (progress.c).
 *
 * Counters since RESET: sent_polled <= executed <= posted <= sent_polled + max_send_wr. The ring
 * holds [executed, posted). As on hardware, the places of requests are free once a completion that
 * comes after them was polled, so a program that never signals gets ENOMEM.
 */
#include <errno.h>
#include <string.h>

#include "common/softrdma/path/chain.h"
#include "common/softrdma/path/execute.h"
#include "common/softrdma/path/fence.h"
#include "common/softrdma/path/progress.h"
#include "common/softrdma/path/request.h"
#include "common/softrdma/path/send.h"

#define PREFETCH 16 /* requests of a list */

static enum ibv_wc_opcode done_opcode(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	default:
		return IBV_WC_SEND;
	}
}

/* The request at the head of the queue is over. */
void soft_send_done(struct soft_qp *qp, const struct ibv_send_wr *wr, enum ibv_wc_status status,
		    uint32_t length)
{
	struct soft_done done;

	qp->executed++;
	if (status == IBV_WC_SUCCESS && !qp->sig_all && !(wr->send_flags & IBV_SEND_SIGNALED))
		return;
	done.wr_id = wr->wr_id;
	done.status = status;
	done.opcode = done_opcode(wr->opcode);
	done.byte_len = length;
	done.sent = qp->executed;
	soft_cq_push(qp->send_cq, qp, &done);
}

/* A request failed: everything stops, or, where the service is not reliable, the send queue. */
void soft_send_failed(struct soft_qp *qp)
{
	uint64_t word = atomic_load(&qp->shared->word);

	if (qp->base.qp_type == IBV_QPT_RC) {
		soft_qp_error(qp);
		return;
	}
	do {
		if (qp_word_state(word) == IBV_QPS_ERR) {
			soft_qp_error(qp);
			return;
		}
	} while (!atomic_compare_exchange_weak(&qp->shared->word, &word,
					       (word & ~(uint64_t)0xff) | IBV_QPS_SQE));
	soft_send_flush(qp);
}

/*
 * Execute @wr, the oldest that is not executed. Returns false when it has to wait.
 * On an error nothing waits after it any more: it was flushed.
 */
static bool send_execute(struct soft_qp *qp, const struct ibv_send_wr *wr)
{
	enum ibv_wc_status status;
	uint32_t length = 0;
	int result = soft_execute(qp, wr, &length);

	if (__builtin_expect(result < 0, 0)) {
		if (!soft_wait_over(qp, result, &status))
			return false;
	} else {
		status = (enum ibv_wc_status)result;
	}
	if (__builtin_expect(qp->stall != STALL_NONE, 0))
		soft_send_stall(qp, STALL_NONE);
	soft_send_done(qp, wr, status, length);
	if (__builtin_expect(status != IBV_WC_SUCCESS, 0))
		soft_send_failed(qp);
	return true;
}

/* Copy @wr into the place of number qp->posted - 1. */
static void send_keep(struct soft_qp *qp, const struct ibv_send_wr *wr)
{
	struct soft_send *send = send_slot(qp, qp->posted - 1);
	struct ibv_sge *sge = (struct ibv_sge *)(void *)send->rest;
	unsigned char *data = (unsigned char *)(sge + 1);

	send->done = false;
	send->wr = *wr;
	send->wr.next = NULL;
	if (soft_fates)
		soft_fate_draw(qp, wr, &send->fate);
	send->wr.sg_list = sge;
	if (qp->base.qp_type == IBV_QPT_UD) {
		send->ah = *soft_ah(wr->wr.ud.ah);
		send->wr.wr.ud.ah = &send->ah.base;
	}
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		if (wr->num_sge)
			memcpy(sge, wr->sg_list, (size_t)wr->num_sge * sizeof(*sge));
		return;
	}
	*sge = (struct ibv_sge){ .addr = (uintptr_t)data };
	for (int i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length)
			memcpy(data + sge->length, (void *)(uintptr_t)wr->sg_list[i].addr,
			       wr->sg_list[i].length);
		sge->length += wr->sg_list[i].length;
	}
	send->wr.num_sge = 1;
}

bool soft_send_runs(struct soft_qp *qp)
{
	enum ibv_qp_state state = qp_state(qp);

	return state == IBV_QPS_RTS || (state == IBV_QPS_SQD && qp->executed < qp->drain_to);
}

static void send_drained(struct soft_qp *qp)
{
	if (qp->drain_event && qp->executed >= qp->drain_to && qp_state(qp) == IBV_QPS_SQD) {
		qp->drain_event = false;
		soft_qp_raise(qp, IBV_EVENT_SQ_DRAINED);
	}
}

void soft_send_progress(struct soft_qp *qp)
{
	if (qp_state(qp) == IBV_QPS_ERR && !qp->flushed)
		soft_qp_error(qp);
	if (soft_fates) {
		soft_fated_progress(qp);
	} else {
		while (qp->executed < qp->posted && soft_send_runs(qp)) {
			if (!send_execute(qp, &send_slot(qp, qp->executed)->wr))
				return;
		}
	}
	if (qp->stall != STALL_NONE && (qp->executed == qp->posted || !soft_send_runs(qp)))
		soft_send_stall(qp, STALL_NONE);
	send_drained(qp);
}

/* What fated.c executed already keeps its result, up to the first request that it did not. */
void soft_send_flush(struct soft_qp *qp)
{
	bool flushed = false;

	while (qp->executed < qp->posted) {
		struct soft_send *send = send_slot(qp, qp->executed);

		flushed = flushed || !send->done || send->status != IBV_WC_SUCCESS;
		soft_send_done(qp, &send->wr, flushed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS,
			       send->length);
	}
	if (qp->stall != STALL_NONE)
		soft_send_stall(qp, STALL_NONE);
}

/* A request to a QP that executes no more. */
static void send_refuse(struct soft_qp *qp, const struct ibv_send_wr *wr)
{
	if (qp_state(qp) == IBV_QPS_ERR && !qp->flushed)
		soft_qp_error(qp);
	qp->posted++;
	soft_send_done(qp, wr, IBV_WC_WR_FLUSH_ERR, 0);
}

static int send_post(struct soft_qp *qp, const struct ibv_send_wr *wr)
{
	enum ibv_qp_state state = qp_state(qp);
	int rc = soft_request_check(qp, wr);

	if (rc)
		return rc;
	if (state < IBV_QPS_RTS)
		return EINVAL;
	/* acquire: pairs with the release in cq_poll_own() */
	if (qp->posted - atomic_load_explicit(&qp->sent_polled, memory_order_acquire) >=
	    qp->send_max)
		return ENOMEM;
	if (__builtin_expect(state == IBV_QPS_ERR || state == IBV_QPS_SQE, 0)) {
		send_refuse(qp, wr);
		return 0;
	}
	qp->posted++;
	if (qp->executed < qp->posted - 1 ||
	    __builtin_expect(state == IBV_QPS_SQD || soft_fates, 0)) {
		send_keep(qp, wr);
		return 0;
	}
	/*
	 * An error below flushes what waits, which must not be this one: it is accounted for by
	 * soft_send_done() before.
	 */
	if (!send_execute(qp, wr))
		send_keep(qp, wr);
	return 0;
}

/* READs through the kernel, many at once. Returns the first request that is not done. */
static struct ibv_send_wr *send_chain(struct soft_qp *qp, struct ibv_send_wr *wr)
{
	uint32_t length[CHAIN_MAX];
	unsigned done = 1;

	while (done && qp->chains && wr && wr->next && qp->executed == qp->posted &&
	       qp_state(qp) == IBV_QPS_RTS) {
		/* acquire: pairs with the release in cq_poll_own() */
		uint64_t room =
			qp->send_max -
			(qp->posted - atomic_load_explicit(&qp->sent_polled, memory_order_acquire));

		done = soft_execute_chain(qp, wr, room, length);
		for (unsigned i = 0; i < done; i++, wr = wr->next) {
			qp->posted++;
			soft_send_done(qp, wr, IBV_WC_SUCCESS, length[i]);
		}
	}
	return wr;
}

/* Post a list, up to the first that does not go. */
static inline int send_list(struct soft_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int rc = 0;

	for (unsigned i = 0; wr; wr = wr->next, i++) {
		if (wr->next && i % PREFETCH == 0)
			soft_prefetch(qp, wr, PREFETCH);
		if (__builtin_expect(qp->chains, 0) && !soft_fates) {
			wr = send_chain(qp, wr);
			if (!wr)
				break;
		}
		rc = send_post(qp, wr);
		if (rc) {
			*bad = wr;
			break;
		}
	}
	if (__builtin_expect(soft_fates, 0))
		soft_send_progress(qp);
	return rc;
}

int soft_post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct soft_qp *qp = soft_qp(base);
	int rc;

	if (!process_alive(qp->epoch)) {
		*bad = wr;
		return EINVAL;
	}
	lock_take(&qp->sq);
	if (__builtin_expect(qp->stall != STALL_NONE, 0))
		soft_send_progress(qp);
	rc = send_list(qp, wr, bad);
	lock_drop(&qp->sq);
	return rc;
}

int soft_post_all(struct soft_qp *qp, struct ibv_send_wr *wr, uint32_t count)
{
	struct ibv_send_wr *bad;
	uint64_t polled;
	int rc = 0;

	lock_take(&qp->sq);
	if (qp->stall != STALL_NONE)
		soft_send_progress(qp);
	/* acquire: pairs with the release in cq_poll_own() */
	polled = atomic_load_explicit(&qp->sent_polled, memory_order_acquire);
	if (qp->posted - polled + count > qp->send_max)
		rc = ENOMEM;
	for (const struct ibv_send_wr *i = wr; i && !rc; i = i->next)
		rc = soft_request_check(qp, i);
	/* now only the state can forbid the first, and nothing what comes after it */
	if (rc == 0)
		rc = send_list(qp, wr, &bad);
	lock_drop(&qp->sq);
	return rc;
}
