/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Requests that are waited for: a window is stepped and polled until it is empty. */
#include "client/src/call/rpc_run.h"

#include <errno.h>

#include "client/src/flight/async.h"
#include "client/src/request/fill.h"

/* Nothing can go on now. Returns 0; -ETIMEDOUT: the time is over; -ECONNRESET. */
static int wait_more(struct window *w, struct waiter *waiter)
{
	struct gkv *h = w->h;
	unsigned paused;
	uint64_t due;

	if (h->async) /* the server may wait for a section of ours */
		async_aside(h->async);
	if (!h->link.live)
		return -ECONNRESET;
	due = window_due(w, &paused);
	if (paused == w->count) { /* none waits for the server */
		backoff_sleep(due, handle_deadline(h));
		return time_now_ns() < handle_deadline(h) ? 0 : -ETIMEDOUT;
	}
	if (h->async) /* one of those may have what is waited for */
		window_step(&h->async->asks);
	waiter->patience_ns = window_sending(w) ? channel_patience(h, RPC_REQUEST_MAX) : 0;
	return channel_progress(h, waiter);
}

/* Over another connection. Returns 0, or why there is none. */
static int again(struct window *w)
{
	int rc = time_now_ns() < handle_deadline(w->h) ? handle_ready(w->h) : -ECONNRESET;

	if (rc == 0)
		window_again(w);
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

/* Until all have ended. Returns 0, or why that was early. */
static int run(struct window *w, bool writes)
{
	struct waiter waiter = { 0 };
	struct gkv *h = w->h;
	unsigned changes = 0;
	bool expired = false;
	int rc;

	rpc_note(h, writes);
	rc = handle_ready(h);
	while (rc == 0) {
		window_fill(w);
		if (!w->count)
			return 0;
		if (window_step(w))
			continue;
		if (w->changes != changes) /* the wait starts over */
			waiter = (struct waiter){ 0 };
		changes = w->changes;
		rc = wait_more(w, &waiter);
		expired = rc == -ETIMEDOUT;
		if (rc == -ECONNRESET) /* ours alone: replies have other codes */
			rc = again(w);
	}
	while (w->count) {
		struct rpc_call *c = &w->call[0];
		int status = expired ? rpc_expired(h, c) : cut(h, c, rc);

		c->reply = NULL;
		window_end(w, c, status);
	}
	return rc;
}

static void keep_status(void *arg, struct rpc_call *c, int status)
{
	(void)c;
	*(int *)arg = status;
}

int rpc_run(struct gkv *h, struct rpc_call *c)
{
	int status = 0;
	struct window w = { .h = h, .call = c, .count = 1, .done = keep_status, .arg = &status };

	run(&w, rpc_is_write(c));
	return status;
}

int rpc_run_many(struct gkv *h, bool (*next)(void *arg, struct rpc_call *c),
		 void (*done)(void *arg, struct rpc_call *c, int status), void *arg)
{
	struct rpc_call call[HANDLE_CREDITS];
	struct window w = { .h = h, .call = call, .next = next, .done = done, .arg = arg };

	return run(&w, true);
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
