/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A walk over all records, while writers and changes of the shape go on: for snapshots.
 *
 * ORDER. Stripe by stripe, and in each the buckets in the order of their hashes, one hold of the
 * lock for each bucket, as a pass of the sweeper goes (expiry.c).
 *
 * NOTHING IS MISSED. A record has a hash, and the walk comes to it: what is seen in one hold is all
 * of the stripe's hashes that the segment has in that hold, and the walk goes on with the hash
 * behind these. Splits and merges change which hashes a segment has, but move no record to another
 * hash, nor to another stripe. So the records of each hash are seen in a hold, whole. A record that
 * is published all the time is LIVE then, in its slot. One segment after the other would not do: a
 * merge in the middle of one would bring records of the next behind the walk.
 *
 * Where a segment was merged after half of it had been seen, nothing is seen twice, since the walk
 * goes on with a hash and not with a segment: but the bucket it comes to has the earlier half in
 * it. So records may be seen twice.
 */
#include "common/layout/slot.h"
#include "server/index/index_internal.h"

/*
 * *at: the stripe, then the upper bits of the hash in it, without those that choose the stripe: as
 * many as the deepest directory has.
 */
#define SUB_BITS (DEPTH_MAX - STRIPE_DEPTH)

static_assert(SEGMENT_BUCKETS << STRIPE_DEPTH <= 1u << 16 && SUB_BITS <= 48, "fits into a word");

/* must hold the lock. What is LIVE in one bucket goes to @out and @place; returns how many. */
static unsigned look_at(const struct index *ix, const struct bucket *bucket,
			const struct block **out, struct memory_place *place)
{
	unsigned n = 0, live = 0;

	for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
		/* relaxed: the lock */
		uint64_t slot = atomic_load_explicit(&bucket->slot[i], memory_order_relaxed);

		if (!slot)
			continue;
		place[n] = (struct memory_place){ slot_extent(slot), slot_offset(slot) };
		out[n] = memory_map_at(ix->map, slot_extent(slot), slot_offset(slot));
		__builtin_prefetch(out[n++]);
	}
	for (unsigned i = 0; i < n; i++) {
		/* relaxed: the lock */
		uint64_t state = atomic_load_explicit(&out[i]->state, memory_order_relaxed);

		if (block_state_of(state) == BLOCK_LIVE) {
			place[live] = place[i];
			out[live++] = out[i];
		}
	}
	return live;
}

#define AHEAD 4u /* buckets: what is fetched has come when the walk does */

/* The lock is not held. What the walk will come to, if segments there are as deep as this one: the
 * bucket twice AHEAD from here, and the blocks of the one in between, which was fetched by then. */
static void fetch_ahead(const struct index *ix, uint64_t hash, unsigned depth)
{
	const uint64_t step = (UINT64_MAX >> depth) + 1;
	const struct bucket *bucket = index_bucket_fetch(ix, hash + AHEAD * step, false);

	index_bucket_fetch(ix, hash + 2 * AHEAD * step, false);
	for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
		/* relaxed: nothing is read there */
		uint64_t slot = atomic_load_explicit(&bucket->slot[i], memory_order_relaxed);
		const uint8_t *b;

		if (!slot)
			continue;
		b = memory_map_at(ix->map, slot_extent(slot), slot_offset(slot));
		__builtin_prefetch(b);
		if (slot_size_code(slot) > 1)
			__builtin_prefetch(b + OFFSET_UNIT);
	}
}

bool index_walk(struct index *ix, uint64_t *at, const struct block **out,
		struct memory_place *place, unsigned *count)
{
	unsigned stripe = (unsigned)(*at >> SUB_BITS), n = 0;
	uint64_t hash = (*at & ((1ull << SUB_BITS) - 1)) << (64 - DEPTH_MAX), behind;
	struct index_segment seg;
	struct bucket *bucket;
	unsigned depth;

	*count = 0;
	if (stripe >= INDEX_STRIPES)
		return false;
	hash |= index_stripe_hash(stripe);
	index_lock(ix, hash);
	seg = index_segment_of(ix, hash);
	bucket = &seg.segment->bucket[hash_bucket(hash)];
	while (bucket) {
		n += look_at(ix, bucket, out + n, place + n);
		/* relaxed: the lock */
		bucket = index_next(seg.segment,
				    atomic_load_explicit(&bucket->header, memory_order_relaxed));
	}
	depth = directory_entry_depth(seg.entry);
	behind = (hash | UINT64_MAX >> depth) + 1;
	index_unlock(ix, hash);
	fetch_ahead(ix, hash, depth);
	behind = (behind & UINT64_MAX >> STRIPE_DEPTH) >> (64 - DEPTH_MAX);
	*at = (uint64_t)(stripe + !behind) << SUB_BITS | behind;
	*count = n;
	return true;
}
