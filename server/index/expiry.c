/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Which records have expired.
 *
 * Each stripe has a count of its records that expire at all, and `due`: none of them expires
 * before. The index has `soonest`, none of all stripes' before. So a pass of the sweeper looks at
 * stripes in which something is due, and begins when something is; where nothing expires it is one
 * load.
 *
 * A PASS goes from stripe to stripe. In one that is due it sets `due` to never and walks the
 * stripe's buckets, in the order of the hashes, one hold of the lock for each bucket; what is found
 * and stays lowers `due` again, as does what is published meanwhile.
 *
 * WHY `due` IS TRUE. It is written under the stripe's lock. A record that stands in the stripe when
 * the walk begins has a hash that the walk comes to: where it stands is the range of hashes that a
 * segment has, all of which is seen in one hold, and the walk goes on after the range that the
 * segment has in that hold. Splits and merges change which range that is, but move no record to
 * another hash, nor to another stripe. So each such record is seen, or is replaced first, and then
 * it is published. A caller that takes an expired record from the walk and does not delete it gives
 * it back (index_expiry_put_back()).
 *
 * WHY `soonest` IS. A pass sets it to never, then looks at the stripes; a writer that publishes
 * lowers its stripe's `due`, then looks at `soonest`. Both are sequentially consistent, so one of
 * the two sees the other; at its end the pass lowers `soonest` to the least `due`.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/layout/slot.h"
#include "server/index/index_internal.h"

#define NEVER UINT64_MAX

int expiry_create(struct index *ix)
{
	ix->expiry = calloc(INDEX_STRIPES, sizeof(*ix->expiry));
	if (!ix->expiry)
		return -ENOMEM;
	for (unsigned i = 0; i < INDEX_STRIPES; i++)
		atomic_init(&ix->expiry[i].due_ms, NEVER);
	atomic_init(&ix->soonest_ms, NEVER);
	return 0;
}

static void lower_soonest(struct index *ix, uint64_t ms)
{
	/* seq_cst, as the exchange of index_sweep(): see above */
	uint64_t soonest = atomic_load_explicit(&ix->soonest_ms, memory_order_seq_cst);

	while (ms < soonest &&
	       !atomic_compare_exchange_weak_explicit(&ix->soonest_ms, &soonest, ms,
						      memory_order_seq_cst, memory_order_seq_cst))
		;
}

/* must hold the lock */
static void lower_due(struct index_expiry *e, uint64_t ms)
{
	if (ms < atomic_load_explicit(&e->due_ms, memory_order_relaxed))
		atomic_store_explicit(&e->due_ms, ms, memory_order_seq_cst); /* see above */
}

void expiry_count(struct index *ix, uint64_t hash, uint64_t gone_ms, uint64_t comes_ms)
{
	struct index_expiry *e;

	if (!gone_ms && !comes_ms)
		return;
	e = &ix->expiry[index_stripe_of(ix, hash) - ix->stripe];
	/* relaxed: written under the lock */
	atomic_store_explicit(&e->records,
			      atomic_load_explicit(&e->records, memory_order_relaxed) -
				      (gone_ms != 0) + (comes_ms != 0),
			      memory_order_relaxed);
	if (comes_ms) {
		lower_due(e, comes_ms);
		lower_soonest(ix, comes_ms);
	}
}

void index_expiry_put_back(struct index *ix, uint64_t hash, uint64_t ms)
{
	index_lock(ix, hash);
	lower_due(&ix->expiry[index_stripe_of(ix, hash) - ix->stripe], ms);
	lower_soonest(ix, ms);
	index_unlock(ix, hash);
}

uint64_t index_soonest_expiry(const struct index *ix)
{
	if (atomic_load_explicit(&ix->sweeping, memory_order_relaxed))
		return 0;
	return atomic_load_explicit(&ix->soonest_ms, memory_order_relaxed);
}

/* must hold the lock. Add what has expired to @out; what has not lowers the stripe's `due`. */
static void look_at(struct index *ix, const struct bucket *bucket, struct index_expiry *e,
		    uint64_t now_ms, struct index_expired *out)
{
	const struct block *block[BUCKET_SLOTS];
	unsigned n = 0;

	for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
		/* relaxed: the lock */
		uint64_t slot = atomic_load_explicit(&bucket->slot[i], memory_order_relaxed);

		if (!slot)
			continue;
		block[n] = memory_map_at(ix->map, slot_extent(slot), slot_offset(slot));
		__builtin_prefetch(block[n++]);
	}
	for (unsigned i = 0; i < n; i++) {
		uint64_t ms = block[i]->expiry_ms;

		/* relaxed: the lock. An insert that waits is counted when it is published */
		if (block_state_of(atomic_load_explicit(&block[i]->state, memory_order_relaxed)) !=
		    BLOCK_LIVE)
			continue;
		if (ms && ms <= now_ms && out->count < INDEX_EXPIRED_MAX)
			out->block[out->count++] = block[i];
		else if (ms)
			lower_due(e, ms);
	}
}

/* The bucket of @hash and what hangs on it. Returns the first hash after its segment. */
static uint64_t look_at_chain(struct index *ix, uint64_t hash, struct index_expiry *e, bool first,
			      uint64_t now_ms, struct index_expired *out)
{
	struct index_segment seg;
	struct bucket *bucket;
	uint64_t behind;

	index_lock(ix, hash);
	seg = index_segment_of(ix, hash);
	if (first)
		atomic_store_explicit(&e->due_ms, NEVER, memory_order_seq_cst); /* see above */
	bucket = &seg.segment->bucket[hash_bucket(hash)];
	while (bucket) {
		look_at(ix, bucket, e, now_ms, out);
		bucket = index_next(seg.segment,
				    atomic_load_explicit(&bucket->header, memory_order_relaxed));
	}
	behind = (hash | UINT64_MAX >> directory_entry_depth(seg.entry)) + 1;
	index_unlock(ix, hash);
	return behind;
}

/* The next stripe in which something is due, from the present one on. False: there is none. */
static bool find_due(struct index *ix, uint64_t now_ms)
{
	while (ix->sweep_stripe < INDEX_STRIPES) {
		/* seq_cst: see above */
		if (atomic_load_explicit(&ix->expiry[ix->sweep_stripe].due_ms,
					 memory_order_seq_cst) <= now_ms)
			return true;
		ix->sweep_stripe++;
	}
	return false;
}

static void end_pass(struct index *ix)
{
	uint64_t least = NEVER;

	for (unsigned i = 0; i < INDEX_STRIPES; i++) {
		uint64_t due = atomic_load_explicit(&ix->expiry[i].due_ms, memory_order_seq_cst);

		least = due < least ? due : least;
	}
	lower_soonest(ix, least);
	ix->sweep_stripe = 0;
	atomic_store_explicit(&ix->sweeping, false, memory_order_relaxed);
}

bool index_sweep(struct index *ix, uint64_t now_ms, struct index_expired *out)
{
	uint64_t hash, behind;

	out->count = 0;
	if (!atomic_load_explicit(&ix->sweeping, memory_order_relaxed)) {
		atomic_store_explicit(&ix->sweeping, true, memory_order_relaxed);
		atomic_exchange_explicit(&ix->soonest_ms, NEVER, memory_order_seq_cst);
	}
	if (!ix->sweep_hash && !find_due(ix, now_ms)) {
		end_pass(ix);
		return false;
	}
	hash = index_stripe_hash(ix->sweep_stripe);
	behind = look_at_chain(ix, hash | ix->sweep_hash, &ix->expiry[ix->sweep_stripe],
			       !ix->sweep_hash, now_ms, out);
	ix->sweep_hash = behind & UINT64_MAX >> STRIPE_DEPTH;
	if (!ix->sweep_hash)
		ix->sweep_stripe++;
	return true;
}

uint64_t expiry_records(const struct index *ix)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < INDEX_STRIPES; i++)
		n += atomic_load_explicit(&ix->expiry[i].records, memory_order_relaxed);
	return n;
}
