/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Sections of operations in flight that nobody polls: a section that stays open keeps the server
 * from its memory, and in the end costs the session. The housekeeper ends them where no call is
 * under way; a call that takes long, for something else, does so itself.
 */
#include "client/src/flight/async.h"

#define ASIDE_NS (10 * NS_PER_MS) /* a call that takes longer is a long one */

/* For a moment, if nobody has it. */
static bool borrow(struct gkv *h)
{
	uint32_t owner = OWNER_NONE;

	/* acquire pairs with handle_end() */
	return atomic_compare_exchange_strong_explicit(&h->call.owner, &owner, OWNER_HOUSEKEEPER,
						       memory_order_acquire, memory_order_relaxed);
}

/*
 * Of chains that have come; of all where the queue pair is lost, which the next call finds: their
 * pins, of an older connection perhaps, would hold back what is announced over this one.
 */
static unsigned end_sections(struct async *a)
{
	struct gkv *h = a->h;

	if (h->link.live)
		channel_poll(h);
	if (h->link.live && !handle_current(h))
		channel_fail(h, "the session lost its connection");
	return async_close_lanes(a, !h->link.live);
}

static unsigned tend(struct async *a, uint64_t now, uint64_t patience_ns)
{
	struct gkv *h = a->h;
	unsigned closed = 0;

	if (!borrow(h))
		return 0; /* it is in a call, and will see to it */
	if (a->polls != a->polls_seen || !a->reads) {
		a->polls_seen = a->polls;
		a->seen_ns = now;
	} else if (now - a->seen_ns >= patience_ns) {
		h->call.tended = true;
		closed = end_sections(a);
		h->call.tended = false;
		if (closed) /* some may have ended, and their queue pair's events be gone with it */
			wait_signal(a);
	}
	/* release pairs with handle_own() */
	atomic_store_explicit(&h->call.owner, OWNER_NONE, memory_order_release);
	return closed;
}

unsigned async_tend(struct gkv_session *s, uint64_t patience_ns)
{
	const uint64_t now = time_now_ns();
	unsigned closed = 0;

	pthread_mutex_lock(&s->flights->lock);
	for (unsigned i = 0; i < SESSION_HANDLES_MAX; i++) {
		if (s->flights->async[i])
			closed += tend(s->flights->async[i], now, patience_ns);
	}
	pthread_mutex_unlock(&s->flights->lock);
	return closed;
}

void async_aside(struct async *a)
{
	uint64_t now;

	if (!a->reads)
		return;
	now = time_now_ns();
	if (a->polls != a->polls_aside) {
		a->polls_aside = a->polls;
		a->aside_ns = now;
	} else if (now - a->aside_ns >= ASIDE_NS) {
		end_sections(a);
	}
}
