/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Expired records that nobody asks for: one of the workers goes over the index (index/expiry.c) and
 * deletes them, each as its finder would, so no reader can tell.
 *
 * WHICH WORKER. The worker that first sees that something is due becomes the sweeper, for one pass.
 * Where nothing expires a worker's share is a load; where nothing is due, it looks once a second.
 *
 * PACE. A slice of 100 us, at most one bucket longer, every 2 ms: 5 % of a core. While memory is
 * short, every 300 us. A slice ends early where half of what may wait for grace periods does, as
 * the other half is for writes of clients: what was found is given back to a later pass. So is a
 * record of which a write is pending.
 */

#include "common/base/time.h"
#include "server/store/store_internal.h"

#define SLICE_NS 100000u
#define PAUSE_NS 1900000u
#define SHORT_NS 200000u /* instead of any pause, while memory is short */
#define PASS_NS	 (100 * NS_PER_MS) /* between two passes */
#define LOOK_NS	 (1 * NS_PER_S) /* at most: clocks are set, others sweep */

/* Delete what one bucket had. False: it can not be deleted now. */
static bool delete_all(struct store_worker *w, uint64_t now_ms, const struct index_expired *found)
{
	const struct store_terms terms = { .now_ms = now_ms };
	struct store_result ignored;
	unsigned i = 0;

	for (; i < found->count; i++) {
		const struct block *b = found->block[i];

		if (!reclaim_roomy(w->store->reclaim))
			break;
		if (store_delete_expired(w, b->key_hash, b->data, b->key_len, &terms, &ignored) < 0)
			index_expiry_put_back(w->store->index, b->key_hash, b->expiry_ms);
	}
	for (unsigned k = i; k < found->count; k++)
		index_expiry_put_back(w->store->index, found->block[k]->key_hash,
				      found->block[k]->expiry_ms);
	return i == found->count;
}

/* Returns whether the pass has ended. */
static bool slice(struct store_worker *w, uint64_t now_ms)
{
	const uint64_t end_ns = time_now_ns() + SLICE_NS;
	struct index_expired found;

	do {
		if (!index_sweep(w->store->index, now_ms, &found))
			return true;
	} while (delete_all(w, now_ms, &found) && time_now_ns() < end_ns);
	return false;
}

static bool become_sweeper(struct store_worker *w)
{
	struct store_worker *sweeper = NULL;

	/* acquire pairs with stop_sweeping(): where the last pass is */
	return atomic_compare_exchange_strong_explicit(&w->store->sweeper, &sweeper, w,
						       memory_order_acquire,
						       memory_order_relaxed) ||
	       sweeper == w;
}

static void stop_sweeping(struct store_worker *w)
{
	atomic_store_explicit(&w->store->sweeper, NULL, memory_order_release); /* see above */
}

/* Nanoseconds until there is something to do. */
static uint64_t sweep(struct store_worker *w, uint64_t soonest_ms)
{
	uint64_t now_ms = store_now_ns(w->store) / NS_PER_MS;

	if (soonest_ms > now_ms)
		return soonest_ms - now_ms < LOOK_NS / NS_PER_MS ? (soonest_ms - now_ms) * NS_PER_MS
								 : LOOK_NS;
	if (!become_sweeper(w))
		return LOOK_NS;
	if (!slice(w, now_ms))
		return PAUSE_NS;
	stop_sweeping(w);
	return PASS_NS;
}

uint64_t store_sweep(struct store_worker *w, uint64_t now_ns)
{
	uint64_t soonest_ms = index_soonest_expiry(w->store->index), wait_ns, due_ns;
	bool in_need;

	if (soonest_ms == UINT64_MAX)
		return UINT64_MAX;
	in_need = reclaim_short(w->store->reclaim);
	due_ns = in_need ? w->sweep_short_ns : w->sweep_ns;
	if (now_ns < due_ns)
		return due_ns - now_ns;
	wait_ns = sweep(w, soonest_ms);
	now_ns = time_now_ns();
	w->sweep_ns = now_ns + wait_ns;
	w->sweep_short_ns = now_ns + (wait_ns < SHORT_NS ? wait_ns : SHORT_NS);
	return in_need && wait_ns > SHORT_NS ? SHORT_NS : wait_ns;
}

bool store_sweeps(struct store *store)
{
	uint64_t soonest_ms = index_soonest_expiry(store->index);

	return soonest_ms != UINT64_MAX && soonest_ms <= store_now_ns(store) / NS_PER_MS;
}

void store_sweep_leave(struct store_worker *w)
{
	/* relaxed: it is this thread's own value, if any */
	if (atomic_load_explicit(&w->store->sweeper, memory_order_relaxed) == w)
		stop_sweeping(w);
}
