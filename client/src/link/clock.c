/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The server's wall clock, as a client knows it. Only records that expire ask for it.
 *
 * A sample is what the clock said, less our monotonic clock when the READ or the request that
 * brought it was posted. That difference is good alone, at any later time, so it is shared without
 * a lock: the time of the sample beside it only says how fresh it is, and which of two is newer.
 * A handle keeps the samples of its own replies. Those of the root are kept in the world, which is
 * one life of a server: the housekeeper takes one with each round, for all handles. The newer one
 * counts. A handle READs the root itself where none is younger than CLOCK_FRESH_MS: its session has
 * no thread and nobody ticks, or the pace is slower than that (a lease of more than 20 s).
 *
 * Ahead. The server looked at its clock after the posting, so the estimate may be ahead of it by
 * what the READ or the request took. That costs a question to the server, which decides: nothing is
 * missed before its time. The other way round (the time of the completion) it would never be ahead,
 * and late by all that delays a completion, which has no bound: a thread that does not get to run,
 * a reply that is polled an hour later.
 *
 * Late. With S the server's clock, c the sample, posted at p, looked at by the server at q >= p,
 * and an estimate e at t of c + (t - p):
 *	a reply:	c = S(q)		so e(t) >= S(q) + (t - q) = S(t)
 *	the root:	c >= S(q) - R		so e(t) >= S(t) - R
 * where R is how old the root's word may be: the server writes it every CLOCK_PERIOD_MS at most.
 * How long the READ took is not in it, nor how far apart the rounds are, as our clock goes on. So
 * GKV_EXPIRY_LATE_MS is
 *	CLOCK_PERIOD_MS	100 ms
 *	drift		  5 ms: one part in a thousand of CLOCK_FRESH_MS
 *	whole ms	  3 ms: c, p and t are cut
 *	and what is left, 42 ms, for the server's clock thread to get to run.
 * A clock thread, or a whole server, that does not run for longer does not write its clock. A
 * word that has not changed since the last look is no sample, so the first sight of it counts, and
 * our clock goes on from there: a server that is stopped makes nothing later than that, but by
 * drift.
 *
 * Back. A sample of the root may be late by R, and one of a reply is not, so a newer sample may put
 * the estimate back, behind what a reply has told. To a handle that would bring back what had
 * expired: of two looks at a record, both under way, the first asks the server, which deletes the
 * record, and the second takes what it has READ before. So an estimate is never below the latest
 * time that a reply has told, by which the server has judged, unless by more than a sample may be
 * late: then the clock was set.
 *
 * Jumps. Where the server's wall clock is set, records expire by what it says then. A client comes
 * to know with the next reply or round: a quarter of the lease later at most, or CLOCK_FRESH_MS
 * where nobody makes rounds. Until then it is late by a jump forward, and after a jump back it asks
 * the server about what seems to have expired.
 */
#include "client/src/link/clock.h"

#include <stddef.h>

#include "client/src/link/handle.h"

static_assert(CLOCK_PERIOD_MS + CLOCK_FRESH_MS / 1000 + 3 < GKV_EXPIRY_LATE_MS, "bound");

struct sample {
	uint64_t at_ns; /* 0: there is none */
	uint64_t ahead_ms; /* of our clock, modulo 2^64 */
};

static uint64_t ahead_of(uint64_t posted_ns, uint64_t clock_ms)
{
	return clock_ms - posted_ns / NS_PER_MS;
}

void clock_reply(struct gkv *h, uint64_t clock_ms, uint64_t posted_ns)
{
	if (clock_ms > h->call.clock_floor_ms)
		h->call.clock_floor_ms = clock_ms;
	if (!clock_ms || posted_ns < h->call.clock_at_ns) /* nothing, or an earlier call's, late */
		return;
	h->call.clock_at_ns = posted_ns;
	h->call.clock_ahead_ms = ahead_of(posted_ns, clock_ms);
}

void clock_root(struct world *w, uint64_t clock_ms, uint64_t posted_ns)
{
	/* relaxed: one word, and of two that are stored at once either is good */
	if (!clock_ms ||
	    atomic_exchange_explicit(&w->clock_ms, clock_ms, memory_order_relaxed) == clock_ms)
		return;
	atomic_store_explicit(&w->clock_ahead_ms, ahead_of(posted_ns, clock_ms),
			      memory_order_relaxed);
	/* release pairs with newest(): with the time comes this difference, or a later one */
	atomic_store_explicit(&w->clock_at_ns, posted_ns, memory_order_release);
}

static struct sample newest(struct gkv *h)
{
	const struct sample own = { h->call.clock_at_ns, h->call.clock_ahead_ms };
	struct world *w = h->reader.world;
	struct sample roots;

	/* acquire pairs with clock_root() */
	roots.at_ns = atomic_load_explicit(&w->clock_at_ns, memory_order_acquire);
	roots.ahead_ms = atomic_load_explicit(&w->clock_ahead_ms, memory_order_relaxed);
	return own.at_ns > roots.at_ns ? own : roots;
}

/* Returns the estimate by @s; not known: 0. */
static uint64_t tell(const struct gkv *h, const struct sample *s)
{
	const uint64_t floor_ms = h->call.clock_floor_ms;
	uint64_t ms;

	if (!s->at_ns)
		return 0;
	ms = time_now_ns() / NS_PER_MS + s->ahead_ms;
	return ms < floor_ms && floor_ms - ms <= GKV_EXPIRY_LATE_MS ? floor_ms : ms;
}

uint64_t clock_estimate(void *ctx)
{
	struct gkv *h = ctx;
	const struct world *w = h->reader.world;
	struct sample s = newest(h); /* before the clock is read: it is not of the future */
	uint64_t now_ns = time_now_ns();
	struct read_op op;

	if (s.at_ns && now_ns - s.at_ns < CLOCK_FRESH_MS * NS_PER_MS)
		return tell(h, &s);
	op = reader_scratch_op(&h->reader, 0, w->root_addr + offsetof(struct root, clock_ms),
			       w->root_rkey, sizeof(uint64_t));
	if (reader_read(&h->reader, &op, 1))
		return 0; /* the server is asked, over a new connection */
	clock_root(h->reader.world, *(const uint64_t *)h->reader.scratch, now_ns);
	s = newest(h);
	return tell(h, &s);
}
