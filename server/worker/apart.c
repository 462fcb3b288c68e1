/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Taking connections apart: the worker's part. The queue-pair thread makes the verbs calls, which
 * may wait for the device; the worker posts, polls and forgets. In order:
 *
 *	1. ANSWER, where the server stops: what has arrived is answered, for a while. Nothing is,
 *	   nor may a marker be written to the client, on one without credits.
 *	2. The queue-pair thread says so (conn_fail()): `doomed`, and the queue pair goes to ERR.
 *	   What breaks on it from then on is no news.
 *	3. DRAIN, when the device has said that the last receive came back, or that has taken too
 *	   long (receives.c): nothing is posted on it any more, nor is the life line touched. Sends
 *	   complete in order, so when a marker after them has come back, all have. Receives that it
 *	   had taken stand in the completion queue, which is first in, first out: once a poll has
 *	   emptied it, or as many were polled as it holds, they have come back. Then the table
 *	   forgets it, so that another queue pair may have its number.
 *	4. The queue-pair thread destroys the queue pair (conn_destroy()).
 *	5. DETACH: what of it is still in the completion queue names the connection, so it is waited
 *	   for in the same way, and what its requests held is released.
 *
 * The worker answers others all the time: a marker, an answer, and what stands in the completion
 * queue is waited for between polls, never in a loop of its own. While others keep that queue from
 * being empty such a loop takes as long as all that they have asked for, and the commands that
 * would end them wait behind it. A connection whose marker does not come is given up after a
 * second: its queue pair goes all the same.
 */
#include "server/worker/worker_internal.h"

#include "common/base/time.h"
#include "common/rdma/post.h"

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

/* After everything that was posted on @c: its completion sets c->drained. */
static void post_marker(struct conn *c)
{
	struct ibv_send_wr marker = {
		.wr_id = (uintptr_t)c | RPC_WR_MARKER,
		.opcode = IBV_WR_RDMA_WRITE, /* of no bytes: takes no receive of the peer */
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	/* where it finds no place, the queue is full of flushed sends: polls see them */
	c->drained = rdma_post_send(c->qp.qp, &marker, &bad) != 0;
	c->marked = true;
}

static void add_leaving(struct worker *w, struct conn *c)
{
	c->next_leaving = w->leaving;
	w->leaving = c;
}

void worker_answer(struct worker *w, struct conn *c)
{
	c->marked = false;
	add_leaving(w, c);
}

void worker_drain(struct worker *w, struct conn *c)
{
	c->failed = true;
	c->until_ns = time_now_ns() + DRAIN_NS;
	c->drained = true;
	c->sweeps = false;
	if (!c->alive)
		post_marker(c);
	add_leaving(w, c);
}

/* From now on, what stands in the completion queue is waited for. */
static void sweep(const struct worker *w, struct conn *c)
{
	c->sweeps = true;
	c->emptied = w->emptied;
	c->polled = w->polled;
}

/* Whether all of it was polled since. */
static bool swept(const struct worker *w, const struct conn *c)
{
	return w->emptied != c->emptied || w->polled - c->polled >= CQ_ENTRIES;
}

/* Whether all that was posted on it has come back, and was polled. */
static bool is_drained(const struct worker *w, struct conn *c, uint64_t now)
{
	if (c->sweeps)
		return swept(w, c);
	if (c->drained || now >= c->until_ns)
		sweep(w, c); /* and not before: its last completion may have come just now */
	return false;
}

/* Whether what has arrived was answered and the answers have left. @n: as worker_leave(). */
static bool answered(struct conn *c, int n, uint64_t now)
{
	if (c->failed || !c->credits || now >= c->until_ns)
		return true;
	if (!c->marked && n <= 0 && !conn_is_busy(c))
		post_marker(c);
	return c->marked && c->drained;
}

void worker_detach(struct worker *w, struct conn *c)
{
	sweep(w, c);
	add_leaving(w, c);
}

static void forget(struct worker *w, struct conn *c)
{
	if (c->credits)
		receives_death(&w->receives, c->gave_back);
	rpc_abandon(&w->rpc, c);
	atomic_fetch_sub_explicit(&w->rpc.counters.connections, 1, memory_order_relaxed);
}

/* Go on with the command of @c. Returns whether it is done. */
static bool leave(struct worker *w, struct conn *c, int n, uint64_t now)
{
	const enum conn_command command = c->command;

	if (command == CONN_ANSWER)
		return answered(c, n, now);
	if (command == CONN_DRAIN && is_drained(w, c, now)) {
		conn_unlink(w, c);
		return true;
	}
	if (command == CONN_DETACH && swept(w, c)) {
		forget(w, c);
		return true;
	}
	return false;
}

void worker_leave(struct worker *w, int n)
{
	const uint64_t now = time_now_ns();
	struct conn *c;

	for (struct conn **at = &w->leaving; (c = *at);) {
		if (leave(w, c, n, now)) {
			*at = c->next_leaving;
			worker_obeyed(w, c, 0);
		} else {
			at = &c->next_leaving;
		}
	}
}
