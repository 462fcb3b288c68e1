/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* How long the oldest request of a send queue waits, and for what. All of it holds qp->sq. */
#include "common/base/time.h"
#include "common/softrdma/path/atomic.h"
#include "common/softrdma/path/execute.h"
#include "common/softrdma/path/send.h"

#define TIMEOUT_UNIT_NS 4096ull
#define ROOM_NS		NS_PER_S /* until a datagram that finds no room is lost */

/* IBTA's encoding of min_rnr_timer, in units of 10 us. */
static const uint32_t rnr_10us[] = { 65536, 1,	  2,	3,     4,     6,     8,	    12,
				     16,    24,	  32,	48,    64,    96,    128,   192,
				     256,   384,  512,	768,   1024,  1536,  2048,  3072,
				     4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152 };

void soft_send_stall(struct soft_qp *qp, enum soft_stall stall)
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
	if (stall == STALL_NONE || (qp->stall == STALL_ASKED && stall != STALL_ASKED))
		soft_atomic_withdraw(qp); /* given up */
	qp->stall = stall;
}

uint64_t soft_rnr_interval(struct soft_qp *qp)
{
	uint32_t timer = atomic_load_explicit(&qp->remote->min_rnr_timer, memory_order_relaxed);

	return rnr_10us[timer % (sizeof(rnr_10us) / sizeof(rnr_10us[0]))] * 10000ull;
}

uint64_t soft_timeout(const struct soft_qp *qp)
{
	return qp->attr.timeout ? TIMEOUT_UNIT_NS << qp->attr.timeout : UINT64_MAX;
}

/* Until when to wait for a peer that does not answer. */
static uint64_t patience_end(const struct soft_qp *qp, uint64_t now)
{
	uint64_t timeout = soft_timeout(qp);

	return timeout == UINT64_MAX ? timeout : now + timeout * (qp->attr.retry_cnt + 1u);
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
		qp->stall_ns = now + soft_rnr_interval(qp);
		break;
	case STALL_ROOM:
		qp->stall_ns = now + ROOM_NS;
		break;
	default:
		qp->stall_ns = patience_end(qp, now);
		break;
	}
	soft_send_stall(qp, stall);
	return IBV_WC_SUCCESS;
}

/*
 * The oldest request could not be executed: @result is EXECUTE_*. Begin to wait or go on waiting.
 * Returns false to wait. Otherwise *@status is that with which patience ends.
 */
bool soft_wait_over(struct soft_qp *qp, int result, enum ibv_wc_status *status)
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
		qp->stall_ns = now + soft_rnr_interval(qp);
		return false;
	case STALL_ROOM:
		*status = IBV_WC_SUCCESS; /* lost on the way, which its sender never learns */
		return true;
	default:
		*status = IBV_WC_RETRY_EXC_ERR;
		return true;
	}
}
