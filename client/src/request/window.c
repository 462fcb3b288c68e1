/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Calls under way together: the one driver of requests. A call that waits polls, and steps the
 * window until it is empty; operations in flight step it with each gkv_poll(). What differs, the
 * wait and another connection, is theirs.
 *
 *	next() --> in the window --> done(), then the reply's slot is free
 *
 * Order: calls are taken in as they come, and may end in any order. At most HANDLE_CREDITS are in
 * it, more than a server grants perhaps; those wait in it for a slot (rpc.c).
 *
 * Ownership: the window, its calls and what they point to are the thread's that has the handle. A
 * call moves to another place when one before it ends, so only window and callbacks point to it;
 * its item says whose it is. In done() the call is in the window still, and the queue pair may be
 * lost there: then window_again() meets it as well, which does no harm to one that has ended.
 */
#include "client/src/request/window.h"

#include <errno.h>
#include <string.h>

void window_end(struct window *w, struct rpc_call *c, int status)
{
	w->done(w->arg, c, status);
	rpc_end(w->h, c);
	w->count--;
	if (c != &w->call[w->count])
		*c = w->call[w->count];
}

bool window_step(struct window *w)
{
	bool ended = false;

	for (unsigned i = 0; i < w->count && w->h->link.live;) {
		struct rpc_call *c = &w->call[i];
		const enum rpc_state state = c->state;
		const uint64_t sequence = c->sequence;
		int rc = rpc_step(w->h, c);

		w->changes += rc != -EINPROGRESS || c->state != state || c->sequence != sequence;
		if (rc == -EINPROGRESS) {
			i++;
			continue;
		}
		window_end(w, c, rc);
		ended = true;
	}
	return ended;
}

bool window_fill(struct window *w)
{
	const unsigned before = w->count;

	while (w->next && w->count < HANDLE_CREDITS) {
		struct rpc_call *c = &w->call[w->count];

		memset(c, 0, sizeof(*c));
		if (!w->next(w->arg, c))
			break;
		w->count++;
	}
	return w->count > before;
}

void window_again(struct window *w)
{
	for (unsigned i = 0; i < w->count; i++)
		rpc_again(w->h, &w->call[i]);
	w->changes++;
}

bool window_sending(const struct window *w)
{
	for (unsigned i = 0; i < w->count; i++) {
		const struct rpc_call *c = &w->call[i];

		if (c->state == RPC_SENT && w->h->slot[c->slot].send_due)
			return true;
	}
	return false;
}

uint64_t window_due(const struct window *w, unsigned *paused)
{
	uint64_t first = UINT64_MAX;

	*paused = 0;
	for (unsigned i = 0; i < w->count; i++) {
		const struct rpc_call *c = &w->call[i];

		*paused += c->state == RPC_PAUSED;
		if (c->state == RPC_PAUSED && c->resume_ns < first)
			first = c->resume_ns;
	}
	return first;
}
