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
 * comes after them was polled, so who never signals gets ENOMEM.
 */
#include <errno.h>
#include <string.h>

#include "common/base/time.h"
#include "common/softrdma/execute.h"
#include "common/softrdma/fence.h"
#include "common/softrdma/progress.h"
#include "common/softrdma/request.h"

#define TIMEOUT_UNIT_NS 4096ull
#define RNR_FOR_EVER	7
#define PREFETCH	16 /* requests of a list */
#define ROOM_NS		(100 * NS_PER_MS) /* until a datagram that finds no room is lost */

/* IBTA's encoding of min_rnr_timer, in units of 10 us. */
static const uint32_t rnr_10us[] = { 65536, 1,	  2,	3,     4,     6,     8,	    12,
				     16,    24,	  32,	48,    64,    96,    128,   192,
				     256,   384,  512,	768,   1024,  1536,  2048,  3072,
				     4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152 };

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
static void send_done(struct soft_qp *qp, const struct ibv_send_wr *wr, enum ibv_wc_status status,
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

static void send_stall(struct soft_qp *qp, enum soft_stall stall)
{
	uint64_t bit = 1ull << qp->index % 64;

	if (qp->stall == STALL_NONE && stall != STALL_NONE) {
		atomic_fetch_or(&soft_process.stalled_bits[qp->index / 64], bit);
		atomic_fetch_add(&qp->send_cq->stalled, 1);
		/* the service thread may be asleep without a timer */
		if (atomic_fetch_add(&soft_process.stalled, 1) == 0)
			soft_kick(soft_process.kick_fd);
	} else if (qp->stall != STALL_NONE && stall == STALL_NONE) {
		atomic_fetch_and(&soft_process.stalled_bits[qp->index / 64], ~bit);
		atomic_fetch_sub(&qp->send_cq->stalled, 1);
		atomic_fetch_sub(&soft_process.stalled, 1);
	}
	qp->stall = stall;
}

static uint64_t rnr_interval(struct soft_qp *qp)
{
	uint32_t timer = atomic_load_explicit(&qp->remote->min_rnr_timer, memory_order_relaxed);

	return rnr_10us[timer % (sizeof(rnr_10us) / sizeof(rnr_10us[0]))] * 10000ull;
}

/* How long to wait for a peer that does not answer; 0: for ever. */
static uint64_t peer_patience(const struct soft_qp *qp)
{
	if (!qp->attr.timeout)
		return 0;
	return (TIMEOUT_UNIT_NS << qp->attr.timeout) * (qp->attr.retry_cnt + 1u);
}

static enum soft_stall stall_of(int result)
{
	switch (result) {
	case EXECUTE_RNR:
		return STALL_RNR;
	case EXECUTE_ASKED:
		return STALL_ASKED;
	case EXECUTE_ROOM:
		return STALL_ROOM;
	default:
		return STALL_PEER;
	}
}

/* Begin to wait. Returns IBV_WC_SUCCESS, or the status of a request that may not. */
static enum ibv_wc_status wait_begin(struct soft_qp *qp, enum soft_stall stall, uint64_t now)
{
	switch (stall) {
	case STALL_RNR:
		if (qp->attr.rnr_retry == 0)
			return IBV_WC_RNR_RETRY_EXC_ERR;
		qp->stall_left = qp->attr.rnr_retry;
		qp->stall_ns = now + rnr_interval(qp);
		break;
	case STALL_ROOM:
		qp->stall_ns = now + ROOM_NS;
		break;
	default:
		qp->stall_ns = peer_patience(qp) ? now + peer_patience(qp) : UINT64_MAX;
		break;
	}
	send_stall(qp, stall);
	return IBV_WC_SUCCESS;
}

/*
 * The oldest request could not be executed: @result is EXECUTE_*. Begin to wait or go on waiting.
 * Returns false to wait. Otherwise *@status is that with which patience ends.
 */
static bool wait_over(struct soft_qp *qp, int result, enum ibv_wc_status *status)
{
	enum soft_stall stall = stall_of(result);
	uint64_t now = time_now_ns();

	if (qp->stall != stall) {
		*status = wait_begin(qp, stall, now);
		return *status != IBV_WC_SUCCESS;
	}
	if (now < qp->stall_ns)
		return false;
	switch (stall) {
	case STALL_RNR:
		*status = IBV_WC_RNR_RETRY_EXC_ERR;
		if (qp->attr.rnr_retry != RNR_FOR_EVER && --qp->stall_left == 0)
			return true;
		qp->stall_ns = now + rnr_interval(qp);
		return false;
	case STALL_ROOM:
		*status = IBV_WC_SUCCESS; /* lost on the way, which its sender never learns */
		return true;
	default:
		*status = IBV_WC_RETRY_EXC_ERR;
		return true;
	}
}

/* A request failed: everything stops, or, where the service is not reliable, the send queue. */
static void send_failed(struct soft_qp *qp)
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
 * On an error nothing waits behind it any more: it was flushed.
 */
static bool send_execute(struct soft_qp *qp, const struct ibv_send_wr *wr)
{
	enum ibv_wc_status status;
	uint32_t length = 0;
	int result = soft_execute(qp, wr, &length);

	if (__builtin_expect(result < 0, 0)) {
		if (!wait_over(qp, result, &status))
			return false;
	} else {
		status = (enum ibv_wc_status)result;
	}
	if (__builtin_expect(qp->stall != STALL_NONE, 0))
		send_stall(qp, STALL_NONE);
	send_done(qp, wr, status, length);
	if (__builtin_expect(status != IBV_WC_SUCCESS, 0))
		send_failed(qp);
	return true;
}

static struct soft_send *send_slot(struct soft_qp *qp, uint64_t at)
{
	return (struct soft_send *)(void *)(qp->sends +
					    (at & (qp->send_slots - 1)) * qp->send_size);
}

/* Copy @wr into the place of number qp->posted - 1. */
static void send_keep(struct soft_qp *qp, const struct ibv_send_wr *wr)
{
	struct soft_send *send = send_slot(qp, qp->posted - 1);
	struct ibv_sge *sge = (struct ibv_sge *)(void *)send->rest;
	unsigned char *data = (unsigned char *)(sge + 1);

	send->wr = *wr;
	send->wr.next = NULL;
	send->wr.sg_list = sge;
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

/* May the oldest waiting request be executed in the present state? */
static bool send_runs(struct soft_qp *qp)
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
	while (qp->executed < qp->posted && send_runs(qp)) {
		if (!send_execute(qp, &send_slot(qp, qp->executed)->wr))
			return;
	}
	if (qp->stall != STALL_NONE)
		send_stall(qp, STALL_NONE);
	send_drained(qp);
}

void soft_send_flush(struct soft_qp *qp)
{
	while (qp->executed < qp->posted)
		send_done(qp, &send_slot(qp, qp->executed)->wr, IBV_WC_WR_FLUSH_ERR, 0);
	if (qp->stall != STALL_NONE)
		send_stall(qp, STALL_NONE);
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
		if (state == IBV_QPS_ERR && !qp->flushed)
			soft_qp_error(qp);
		qp->posted++;
		send_done(qp, wr, IBV_WC_WR_FLUSH_ERR, 0);
		return 0;
	}
	qp->posted++;
	if (qp->executed < qp->posted - 1 || __builtin_expect(state == IBV_QPS_SQD, 0)) {
		send_keep(qp, wr);
		return 0;
	}
	/*
	 * An error below flushes what waits, which must not be this one: it is accounted for by
	 * send_done() before.
	 */
	if (!send_execute(qp, wr))
		send_keep(qp, wr);
	return 0;
}

/* Post a list, up to the first that does not go. */
static inline int send_list(struct soft_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int rc = 0;

	for (unsigned i = 0; wr; wr = wr->next, i++) {
		if (wr->next && i % PREFETCH == 0)
			soft_prefetch(qp, wr, PREFETCH);
		rc = send_post(qp, wr);
		if (rc) {
			*bad = wr;
			break;
		}
	}
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
