/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Memory that is short: how much may be deferred, and which sessions hold it back.
 *
 * THE BOUND (I5). The budget is what may still be deferred, 15/16 of deferred_max at first; the
 * rest is for pieces of the index, so that records that wait leave room for splits. A worker that
 * is about to unlink a block takes its bytes off the budget first, a share at a time, so that
 * workers hardly ever meet; the reclaimer gives back what it frees. So what was retired and not
 * freed is at most what was taken. Beyond it pass: a record larger than half of the budget, while
 * nothing else is deferred and the budget was not overdrawn; a directory that was doubled, and what
 * merges replace, each of which only follows a split or a delete that had room. How long a client
 * has waited is its own word (wire_rpc.h): one that lies can delete, and have expired records
 * deleted, beyond the bound.
 *
 * A CLIENT THAT IS REFUSED asks again for as long as the section limit and a bit
 * (reclaim_patience_over()). Within that time the sessions that hold the oldest batch back
 * announce, or are fenced for it: reclaim_stuck() names their epoch to the clock thread. So are
 * those that were asked to drop hints for as long and have not, whether memory was short all the
 * time or is only now: a client that was asked needs milliseconds, and gets what it needs (grace.c)
 * at all times.
 */
#include "common/base/time.h"
#include "server/reclaim/reclaim_internal.h"

#define RESERVE_SHARE 256 /* of the budget, that a worker reserves at once */
#define CHARGE_NS     (100 * NS_PER_MS) /* between two counts of what each session holds back */
#define WANTED_NS     (50 * NS_PER_MS) /* memory is short this long after a request in vain */
#define PATIENCE_MORE 500u /* ms after the section limit: for fencing, and for freeing */
#define PATIENCE_MIN  1000u /* ms */

/* A record as large as the budget would never find it whole: workers keep what they reserved. */
static bool passes_alone(struct reclaim *r, uint64_t bytes, int64_t left)
{
	struct reclaim_stats stats;

	if ((int64_t)bytes <= budget_full(r) / 2 || left <= 0) /* or another one passes already */
		return false;
	reclaim_stats_get(r, &stats);
	return stats.deferred_blocks == 0;
}

/* Take @bytes off the budget, down to @least. relaxed, all of it: a number that orders nothing */
static bool reserve(struct reclaim_worker *w, uint64_t bytes, int64_t least)
{
	struct reclaim *r = w->reclaim;
	const int64_t share = budget_full(r) / RESERVE_SHARE;
	int64_t need = (int64_t)bytes - w->allowance, grant, left;

	if (need <= 0)
		return true;
	left = atomic_load_explicit(&r->budget, memory_order_relaxed);
	do {
		grant = need > share ? need : share;
		if (left - grant < least)
			grant = need;
		if (left - grant < least && !passes_alone(r, bytes, left)) {
			atomic_fetch_add_explicit(&r->refused, 1, memory_order_relaxed);
			return false;
		}
	} while (!atomic_compare_exchange_weak_explicit(
		&r->budget, &left, left - grant, memory_order_relaxed, memory_order_relaxed));
	w->allowance += grant;
	return true;
}

bool reclaim_reserve(struct reclaim_worker *w, uint64_t bytes)
{
	return reserve(w, bytes, 0);
}

bool reclaim_reserve_index(struct reclaim_worker *w, uint64_t bytes)
{
	return reserve(w, bytes, -(int64_t)(w->reclaim->config.deferred_max / 16));
}

/* Of what was not reserved the allowance goes below 0: the next reservation takes that as well. */
void reclaim_set_aside(struct reclaim_worker *w, uint64_t bytes)
{
	w->allowance -= (int64_t)bytes;
}

void reclaim_give_back(struct reclaim_worker *w, uint64_t bytes)
{
	w->allowance += (int64_t)bytes;
}

bool reclaim_ample(const struct reclaim_worker *w, uint64_t bytes)
{
	const int64_t need = (int64_t)bytes - w->allowance;

	/* overdrawn, the budget still has what this worker reserved before; relaxed: as above */
	return need <= 0 || need <= atomic_load_explicit(&w->reclaim->budget, memory_order_relaxed);
}

bool reclaim_full(struct reclaim_worker *w, uint64_t bytes)
{
	struct reclaim *r = w->reclaim;

	if (reclaim_ample(w, bytes) ||
	    passes_alone(r, bytes, atomic_load_explicit(&r->budget, memory_order_relaxed)))
		return false;
	atomic_fetch_add_explicit(&r->refused, 1, memory_order_relaxed);
	return true;
}

void reclaim_charge(struct reclaim_worker *w, uint32_t bytes)
{
	w->allowance -= bytes;
	if (w->allowance >= 0)
		return;
	atomic_fetch_add_explicit(&w->reclaim->budget, w->allowance, memory_order_relaxed);
	w->allowance = 0;
}

bool reclaim_short_at(const struct reclaim *r, uint64_t now_ns)
{
	/* relaxed: a time that orders nothing */
	uint64_t wanted_ns = atomic_load_explicit(&r->wanted_ns, memory_order_relaxed);

	return wanted_ns && now_ns < wanted_ns + WANTED_NS;
}

bool reclaim_wanting(struct reclaim *r)
{
	struct reclaim_stats stats;

	/* relaxed, both: read again and again by the reclaimer and by the clock thread */
	atomic_store_explicit(&r->wanted_ns, time_now_ns(), memory_order_relaxed);
	atomic_store_explicit(&r->short_of, true, memory_order_relaxed);
	reclaim_kick(r);
	reclaim_stats_get(r, &stats);
	return stats.deferred_blocks || memory_recut_waits(r->memory);
}

bool reclaim_short(const struct reclaim *r)
{
	return atomic_load_explicit(&r->short_of, memory_order_relaxed); /* as above */
}

bool reclaim_roomy(const struct reclaim *r)
{
	return atomic_load_explicit(&r->budget, memory_order_relaxed) >= budget_full(r) / 2;
}

bool reclaim_patience_over(const struct reclaim *r, uint32_t waited_ms)
{
	unsigned ms = r->config.limit_ms + r->config.limit_ms / 4 + PATIENCE_MORE;

	return waited_ms && waited_ms >= (ms > PATIENCE_MIN ? ms : PATIENCE_MIN);
}

struct grace_stuck reclaim_stuck(const struct reclaim *r, uint64_t now_ns)
{
	const uint64_t limit_ns = r->config.limit_ms * NS_PER_MS;

	if (!reclaim_short_at(r, now_ns))
		return (struct grace_stuck){ 0 };
	return (struct grace_stuck){
		.epoch = told(&r->oldest_ns, &r->oldest_stamp, now_ns, limit_ns),
		.hints = told(&r->behind_ns, &r->behind_asked, now_ns, limit_ns),
	};
}

/* What one session holds back, into its account: as many steps as batches that it does. */
static void charge_session(void *ctx, struct epoch_session *s)
{
	const struct reclaim *r = ctx;
	const struct batch *batch;

	s->deferred_bytes = 0;
	TAILQ_FOREACH_REVERSE(batch, &r->held, batch_list, link)
	{
		if (!s->waited || batch->stamp < grace_session_reach(s))
			break;
		s->deferred_bytes += batch->bytes;
	}
}

void reclaim_tell(struct reclaim *r)
{
	uint64_t now_ns = time_now_ns();
	const struct batch *first = TAILQ_FIRST(&r->held);

	told_set(&r->oldest_ns, &r->oldest_stamp, first ? first->stamp : 0,
		 first ? first->since_ns : 0);
	/* relaxed: as in reclaim_wanting() */
	atomic_store_explicit(&r->short_of, reclaim_short_at(r, now_ns), memory_order_relaxed);
	if (now_ns < r->charge_ns && (first || !r->charged))
		return;
	r->charge_ns = now_ns + CHARGE_NS;
	r->charged = first;
	grace_each(&r->grace, charge_session, r);
}
