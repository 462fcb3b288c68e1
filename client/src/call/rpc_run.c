/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Requests that are waited for: one, or a window of many. */
#include "client/src/call/rpc_run.h"

#include <errno.h>
#include <string.h>

#include "client/src/call/ready.h"
#include "client/src/flight/async.h"
#include "client/src/request/fill.h"

/* Calls under way; one of them ends later than the others began. */
struct run {
	struct gkv *h;
	struct rpc_call *call;
	unsigned count;
	struct waiter waiter;
};

/* Whether the transport still has a SEND: when it took that longer than patience, it is stuck. */
static bool send_due(const struct run *run)
{
	for (unsigned i = 0; i < run->count; i++) {
		const struct rpc_call *c = &run->call[i];

		if (c->state == RPC_SENT && run->h->slot[c->slot].send_due)
			return true;
	}
	return false;
}

/* When the first of them may go on; 0: some wait for the server. */
static uint64_t resume_ns(const struct run *run)
{
	uint64_t first = UINT64_MAX;

	for (unsigned i = 0; i < run->count; i++) {
		if (run->call[i].state != RPC_PAUSED)
			return 0;
		if (run->call[i].resume_ns < first)
			first = run->call[i].resume_ns;
	}
	return first;
}

/* Nothing can go on now. Returns 0; -ETIMEDOUT: the time is over; -ECONNRESET. */
static int run_wait(struct run *run)
{
	struct gkv *h = run->h;
	uint64_t resume;

	if (h->async) /* the server may wait for a section of ours */
		async_aside(h->async);
	if (!h->live)
		return -ECONNRESET;
	resume = resume_ns(run);
	if (resume) {
		backoff_sleep(resume, handle_deadline(h));
		return time_now_ns() < handle_deadline(h) ? 0 : -ETIMEDOUT;
	}
	if (h->async) /* one of those may have what is waited for */
		async_calls_step(h->async);
	run->waiter.patience_ns = send_due(run) ? channel_patience(h, RPC_REQUEST_MAX) : 0;
	return channel_progress(h, &run->waiter);
}

/* Over another connection. Returns 0, or why there is none. */
static int run_again(struct run *run)
{
	struct gkv *h = run->h;
	int rc;

	if (time_now_ns() >= handle_deadline(h))
		return -ECONNRESET;
	rc = handle_ready(h);
	for (unsigned i = 0; i < run->count && rc == 0; i++)
		rpc_again(h, &run->call[i]);
	run->waiter = (struct waiter){ 0 };
	return rc;
}

/* A step that changed something makes the wait start over. */
static int run_step(struct run *run, unsigned i)
{
	struct rpc_call *c = &run->call[i];
	const enum rpc_state state = c->state;
	const uint64_t sequence = c->sequence;
	int rc = rpc_step(run->h, c);

	if (rc != -EINPROGRESS || c->state != state || c->sequence != sequence)
		run->waiter = (struct waiter){ 0 };
	return rc;
}

/*
 * The connection is lost for the rest of the time: a write that may be applied is told as such, and
 * where no server was met again until the end, as one that may be applied later still.
 */
static int cut(struct gkv *h, struct rpc_call *c, int rc)
{
	if (c->posted && rpc_is_write(c) && time_now_ns() >= handle_deadline(h))
		rc = -ETIMEDOUT;
	return rpc_cut(h, c, rc);
}

int rpc_run(struct gkv *h, struct rpc_call *c)
{
	struct run run = { .h = h, .call = c, .count = 1 };
	int rc;

	rpc_note(h, rpc_is_write(c));
	rc = handle_ready(h);
	if (rc)
		return rpc_cut(h, c, rc);
	for (;;) {
		rc = run_step(&run, 0);
		if (rc != -EINPROGRESS) {
			rpc_end(h, c);
			return rc;
		}
		rc = run_wait(&run);
		if (rc == -ETIMEDOUT)
			return rpc_expired(h, c);
		if (rc == -ECONNRESET) /* ours alone: replies have other codes */
			rc = run_again(&run);
		if (rc)
			return cut(h, c, rc);
	}
}

/* Take calls in until the window is full. */
static void fill(struct run *run, const struct rpc_window *w, size_t *item, size_t count,
		 size_t *next)
{
	while (run->count < HANDLE_CREDITS && *next < count) {
		struct rpc_call *c = &run->call[run->count];
		size_t i = (*next)++;
		int rc;

		memset(c, 0, sizeof(*c));
		rc = w->make(w->arg, i, c);
		if (rc)
			w->done(w->arg, i, NULL, rc);
		else
			item[run->count++] = i;
	}
}

static void leave(struct run *run, const struct rpc_window *w, size_t *item, unsigned at,
		  int status)
{
	struct rpc_call *c = &run->call[at];

	w->done(w->arg, item[at], c, status);
	rpc_end(run->h, c);
	run->count--;
	*c = run->call[run->count];
	item[at] = item[run->count];
}

/* Returns whether any has ended. */
static bool step_all(struct run *run, const struct rpc_window *w, size_t *item)
{
	bool ended = false;

	for (unsigned i = 0; i < run->count && run->h->live;) {
		int rc = run_step(run, i);

		if (rc == -EINPROGRESS) {
			i++;
			continue;
		}
		leave(run, w, item, i, rc);
		ended = true;
	}
	return ended;
}

int rpc_window(struct gkv *h, const struct rpc_window *w, size_t count)
{
	struct rpc_call call[HANDLE_CREDITS];
	size_t item[HANDLE_CREDITS], next = 0;
	struct run run = { .h = h, .call = call };
	int rc;

	rpc_note(h, true);
	rc = handle_ready(h);
	while (rc == 0) {
		fill(&run, w, item, count, &next);
		if (!run.count)
			return 0;
		if (step_all(&run, w, item))
			continue;
		rc = run_wait(&run);
		if (rc == -ECONNRESET)
			rc = run_again(&run);
	}
	while (run.count) {
		int status = rc == -ETIMEDOUT ? rpc_expired(h, call) : cut(h, call, rc);

		call[0].reply = NULL;
		leave(&run, w, item, 0, status);
	}
	return rc;
}

int rpc_lookup(struct gkv *h, struct lookup *l, uint32_t age)
{
	struct rpc_call c = {
		.op = RPC_GET,
		.key = l->key,
		.key_len = l->key_len,
		.room = rpc_spare(h),
	};
	int rc;

	h->reader.stats.rpc_fallbacks++;
	rc = rpc_run(h, &c);
	if (rc == -ENOENT) {
		l->state = LOOKUP_ABSENT;
		return 0;
	}
	return rc ? rc : rpc_found(h, &c, l, age);
}
