/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Taking connections apart, on the worker's thread: what has arrived is answered, what was posted
 * has completed or flushed, and only then the queue pair goes.
 */
#include "server/worker/worker_internal.h"

#include <errno.h>

#include "common/base/time.h"
#include "common/rdma/post.h"
#include "server/reclaim/qsbr.h"

#define DRAIN_NS (1 * NS_PER_S) /* for the marker after all sends of a failed queue pair */

static void conn_unlink(struct worker *w, struct conn *c)
{
	struct conn **at = worker_chain(w, c->qp.qp->qp_num);

	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
}

static bool conn_is_busy(const struct conn *c)
{
	for (unsigned i = 0; i < c->credits; i++) {
		if (c->request[i].state != REQUEST_IDLE)
			return true;
	}
	return false;
}

/*
 * Wait until everything posted on @c has completed, or flushed: sends complete in order, so when
 * the marker has come back, every send before it has.
 */
static void await_sends(struct worker *w, struct conn *c, uint64_t end)
{
	struct ibv_send_wr marker = {
		.wr_id = (uintptr_t)c | RPC_WR_MARKER,
		.opcode = IBV_WR_RDMA_WRITE, /* of no bytes: takes no receive of the peer */
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	c->drained = false;
	if (rdma_post_send(c->qp.qp, &marker, &bad))
		return; /* its queue is full of flushed sends: the polls of drain() see them */
	while (!c->drained && time_now_ns() < end) {
		worker_poll(w);
		qsbr_quiescent();
	}
}

/*
 * Answer what has arrived on @c, until nothing comes and nothing is in flight, and let the answers
 * leave; or until time is over.
 */
static void settle(struct worker *w, struct conn *c, uint64_t end)
{
	while (!c->failed && time_now_ns() < end && (worker_poll(w) > 0 || conn_is_busy(c)))
		qsbr_quiescent();
	if (!c->failed && time_now_ns() < end)
		await_sends(w, c, end);
}

/* Take what still comes of a queue pair that has failed, or was destroyed. */
static void drain(struct worker *w)
{
	/*
	 * Receives that it had taken stand in the queue, which is first in, first out: once it was
	 * empty, or as many were polled as it holds, they have come back. Other connections may
	 * keep it from ever being empty.
	 */
	for (unsigned seen = 0; seen < CQ_ENTRIES;) {
		int n = worker_poll(w);

		if (n <= 0)
			break;
		seen += (unsigned)n;
		qsbr_quiescent();
	}
}

void worker_fail(struct worker *w, struct command *cmd)
{
	struct conn *c = cmd->conn;

	settle(w, c, cmd->answer_until_ns);
	c->failed = true; /* posts nothing any more, and does not touch the life line */
	cmd->result = rdma_qp_fail(&c->qp);
}

void worker_detach(struct worker *w, struct command *cmd)
{
	struct conn *c = cmd->conn;
	bool alive;

	c->failed = true;
	alive = rdma_qp_fail(&c->qp) != 0;
	if (!alive) {
		await_sends(w, c, time_now_ns() + DRAIN_NS);
		drain(w);
	}
	conn_unlink(w, c);
	if (rdma_qp_destroy(&c->qp) && alive)
		cmd->result = -EIO;
	drain(w); /* devices that leave its completions in the queue: they name @c, so now */
	if (c->credits)
		receives_death(&w->receives, c->gave_back);
	rpc_abandon(&w->rpc, c);
	atomic_fetch_sub_explicit(&w->rpc.counters.connections, 1, memory_order_relaxed);
}
