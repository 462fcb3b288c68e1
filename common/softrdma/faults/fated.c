/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The send queue where requests have fates (fate.h): as unkind as IBTA allows, or worse.
 *
 * Every request is copied into the ring when it is posted. Posts, polls of the CQ and the service
 * thread's tick drive it; each time, requests whose time has come are executed and completions
 * whose time has come are shown. Requests complete in the order in which they were posted.
 *
 * They are executed in that order too, but for what IBTA's table of ordering (9.5, "work request
 * operation ordering") leaves to IBV_SEND_FENCE: a request that is not a READ and carries no fence
 * may be executed before READs and atomics in front of it. Atomics stay in order among each other.
 * A request that was lost on its way holds up all that come after it, as packet numbers do; one
 * whose answer was lost does not.
 *
 * A READ that goes twice, or whose answer was lost, is executed again while nobody may look at its
 * buffer: before its completion shows. What the last execution fetched is what the caller gets.
 *
 * An error of a request that overtook others is reported in its turn; the READs that it overtook
 * then fail before it, because their responder is in ERR by then.
 */
#include <unistd.h>

#include "common/base/time.h"
#include "common/softrdma/device/port.h"
#include "common/softrdma/faults/cut.h"
#include "common/softrdma/path/execute.h"
#include "common/softrdma/path/send.h"

#define WINDOW 64 /* requests that one may overtake */

static bool is_atomic(const struct soft_send *send)
{
	return send->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       send->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_read(const struct soft_send *send)
{
	return send->wr.opcode == IBV_WR_RDMA_READ;
}

/* Does it need a receive of the peer? */
static bool takes_receive(const struct soft_send *send)
{
	return send->wr.opcode == IBV_WR_SEND || send->wr.opcode == IBV_WR_SEND_WITH_IMM ||
	       send->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* May @send, which is not executed, be overtaken by @later? */
static bool may_pass(const struct soft_send *send, const struct soft_send *later)
{
	bool on_its_way = send->fate.lost < send->fate.drops && !send->fate.answer_lost;

	if (!(soft_weak & WEAK_REORDER) || on_its_way || is_read(later) ||
	    (later->wr.send_flags & IBV_SEND_FENCE))
		return false;
	return is_read(send) || (is_atomic(send) && !is_atomic(later));
}

static void done(struct soft_send *send, enum ibv_wc_status status)
{
	send->done = true;
	send->status = status;
	send->fate.shows_ns = send->fate.defer_ns ? time_now_ns() + send->fate.defer_ns : 0;
}

static void wait_until(struct soft_send *send, uint64_t now, uint64_t interval)
{
	send->fate.begins_ns = interval == UINT64_MAX ? interval : now + interval;
}

/* It, or its answer, is lost, and it will be sent again, if it may. */
static void lose(struct soft_qp *qp, struct soft_send *send, uint64_t now)
{
	int result = IBV_WC_SUCCESS;

	if (qp->base.qp_type != IBV_QPT_RC) {
		done(send, IBV_WC_SUCCESS); /* its sender never learns */
		return;
	}
	if (send->fate.answer_lost)
		result = soft_execute(qp, &send->wr, &send->length);
	if (result > IBV_WC_SUCCESS)
		done(send, (enum ibv_wc_status)result);
	else if (++send->fate.lost > qp->attr.retry_cnt)
		done(send, IBV_WC_RETRY_EXC_ERR);
	else
		wait_until(send, now, soft_timeout(qp));
}

/* Its peer claims to have no receive. */
static void find_none(struct soft_qp *qp, struct soft_send *send, uint64_t now)
{
	if (qp->attr.rnr_retry != RNR_FOR_EVER && send->fate.rnr_seen >= qp->attr.rnr_retry) {
		done(send, IBV_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	send->fate.rnr_seen++;
	wait_until(send, now, soft_rnr_interval(qp));
}

static void execute(struct soft_qp *qp, struct soft_send *send, bool oldest)
{
	enum ibv_wc_status status;
	int result;

	qp->shuffle = send->fate.shuffle;
	result = soft_execute(qp, &send->wr, &send->length);
	if (result >= 0)
		status = (enum ibv_wc_status)result;
	else if (!oldest || !soft_wait_over(qp, result, &status))
		return;
	if (oldest && qp->stall != STALL_NONE)
		soft_send_stall(qp, STALL_FATE); /* no longer for a receive, say */
	done(send, status);
}

/* The way to its peer is cut, or the way back: then it is executed, but for one that would take a
 * receive each time that it comes. */
static bool is_cut(const struct soft_qp *qp, struct soft_send *send)
{
	const pid_t own = getpid();

	if (!soft_cuts() || !qp->peer)
		return false;
	if (soft_cut(own, qp->peer->pid))
		return true;
	if (!soft_cut(qp->peer->pid, own))
		return false;
	send->fate.answer_lost |= is_read(send) || send->wr.opcode == IBV_WR_RDMA_WRITE;
	return true;
}

/* Execute @send, if its fate allows it now. */
static void attempt(struct soft_qp *qp, struct soft_send *send, bool oldest)
{
	uint64_t now = time_now_ns();

	if (now < send->fate.begins_ns)
		return;
	if (is_cut(qp, send) || send->fate.lost < send->fate.drops || soft_port_down()) {
		lose(qp, send, now);
	} else if (send->fate.rnr_seen < send->fate.rnrs && takes_receive(send) && qp->peer &&
		   qp->base.qp_type == IBV_QPT_RC) {
		find_none(qp, send, now);
	} else if (send->fate.breaks) {
		soft_qp_raise(qp, IBV_EVENT_QP_FATAL);
		done(send, IBV_WC_LOC_QP_OP_ERR);
	} else {
		execute(qp, send, oldest);
	}
}

/* May request number @at be executed, for all that those in front of it care? */
static bool passable(struct soft_qp *qp, uint64_t at)
{
	struct soft_send *later = send_slot(qp, at);

	for (uint64_t i = qp->executed; i < at; i++) {
		struct soft_send *send = send_slot(qp, i);

		/* The fence waits until a READ has been executed for the last time. */
		if (send->done ? send->fate.twice && (later->wr.send_flags & IBV_SEND_FENCE)
			       : !may_pass(send, later))
			return false;
	}
	return true;
}

/* The end of the requests that may be executed now. */
static uint64_t round_end(struct soft_qp *qp)
{
	uint64_t end = qp->executed + WINDOW;

	if (end > qp->posted)
		end = qp->posted;
	if (qp_state(qp) == IBV_QPS_SQD && end > qp->drain_to)
		end = qp->drain_to;
	return end;
}

/* Execute what can be, as far as the first request that failed or that nothing may overtake. */
static void execute_round(struct soft_qp *qp)
{
	uint64_t end = round_end(qp);
	bool oldest = true;

	for (uint64_t at = qp->executed; at < end; at++) {
		struct soft_send *send = send_slot(qp, at);

		if (!send->done && passable(qp, at))
			attempt(qp, send, oldest);
		if (send->done ? send->status != IBV_WC_SUCCESS
			       : !is_read(send) && !is_atomic(send))
			return;
		oldest = oldest && send->done;
	}
}

/* Execute @send, a READ, once more. Returns its status. */
static enum ibv_wc_status again(struct soft_qp *qp, struct soft_send *send)
{
	uint32_t length;
	int result;

	send->fate.twice = false;
	qp->shuffle = ~send->fate.shuffle;
	result = soft_execute(qp, &send->wr, &length);
	return result < 0 ? IBV_WC_RETRY_EXC_ERR : (enum ibv_wc_status)result;
}

/* The oldest request failed and is completed: whatever became of those after it, they are
 * flushed. */
static void fail(struct soft_qp *qp)
{
	for (uint64_t at = qp->executed; at < qp->posted; at++)
		send_slot(qp, at)->done = false;
	soft_send_failed(qp);
}

/* Show completions. Returns false when the QP has failed. */
static bool complete_round(struct soft_qp *qp)
{
	uint64_t now = time_now_ns();

	while (qp->executed < qp->posted) {
		struct soft_send *send = send_slot(qp, qp->executed);

		if (!send->done || now < send->fate.shows_ns)
			return true;
		if (send->status == IBV_WC_SUCCESS && send->fate.twice)
			send->status = again(qp, send);
		soft_send_done(qp, &send->wr, send->status, send->length);
		if (send->status != IBV_WC_SUCCESS) {
			fail(qp);
			return false;
		}
	}
	return true;
}

void soft_fated_progress(struct soft_qp *qp)
{
	if (qp->executed == qp->posted || !soft_send_runs(qp))
		return;
	execute_round(qp);
	if (complete_round(qp) && qp->stall == STALL_NONE && qp->executed < qp->posted)
		soft_send_stall(qp, STALL_FATE);
}
