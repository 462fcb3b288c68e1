/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Changes, all under the lock of the bucket.
 *
 * ORDER OF A WRITE (DESIGN 3): new block LIVE, old block OBSOLETE, slot. Each is a release store,
 * so no reader that sees one of them misses an earlier one: a reader of the new block through the
 * slot finds it LIVE and whole; and once the new value can be reached, no reader accepts the old
 * block any more, by whatever way it came to it.
 *
 * OVERFLOW BUCKETS. A segment's overflow buckets are given out in order by an atomic counter,
 * because chains of one segment have different locks. A fresh one is all zero but for its header,
 * which is written first; then one release store of the predecessor's header links it. A remote
 * reader learns its number only from a completed READ of that header, and posts the READ of the
 * overflow bucket after it: it finds the header, and a slot is either zero or published. It never
 * comes off the chain again while the segment lives, and no other chain uses it: a reader cannot
 * be led astray. That the link and the slots before it are fetched by one READ in any order does
 * no harm: a header without the link was fetched before any key stood after the link.
 *
 * HELD SLOTS. With a log an insert is decided now and published later, and must not fail in between
 * for want of room. So its slot is stored at the decision, while its block is INVALID: readers see
 * it, and look past it (lookup.c). Splits and merges copy it as they copy any slot, so it has its
 * room wherever the key belongs. Publishing it is one store, of the block's state: a reader in a
 * segment that was replaced meanwhile sees it as well as one in the new segment. The segment's
 * count of records, which merges go by, has held slots in it; the stripe's, which is of records,
 * has not. A key has one slot at most, held or of a published record.
 */
#include <assert.h>
#include <errno.h>

#include "common/base/mutant.h"
#include "common/layout/size_code.h"
#include "common/layout/slot.h"
#include "server/index/index_internal.h"
#include "server/index/scan.h"

void index_lock(struct index *ix, uint64_t hash)
{
	pthread_mutex_lock(&index_stripe_of(ix, hash)->lock);
}

void index_unlock(struct index *ix, uint64_t hash)
{
	pthread_mutex_unlock(&index_stripe_of(ix, hash)->lock);
}

unsigned index_lock_number(const struct index *ix, uint64_t hash)
{
	return (unsigned)(index_stripe_of(ix, hash) - ix->stripe);
}

/* must hold the lock. First empty slot of the chain; NULL, and the chain's @last bucket. */
static _Atomic uint64_t *chain_empty(const struct index *ix, uint64_t hash, struct bucket **last)
{
	struct segment *s = index_entry_segment(ix, index_entry(index_directory(ix), hash));
	struct bucket *bucket = &s->bucket[hash_bucket(hash)];

	while (bucket) {
		uint32_t empty = bucket_scan(bucket, 0).empty;

		if (empty)
			return &bucket->slot[__builtin_ctz(empty)];
		*last = bucket;
		bucket = index_next(s, atomic_load_explicit(&bucket->header, memory_order_relaxed));
	}
	return NULL;
}

/* must hold the lock. Hang a fresh bucket after @last. Returns 0, -EAGAIN or -ENOMEM. */
static int overflow_link(struct index *ix, const struct index_segment *seg, struct bucket *behind,
			 unsigned limit)
{
	uint64_t header = atomic_load_explicit(&behind->header, memory_order_relaxed);
	uint32_t incarnation = bucket_header_incarnation(header);
	uint32_t prefix = bucket_header_prefix(header);
	unsigned depth = bucket_header_depth(header);
	unsigned n = atomic_load_explicit(&seg->head->overflow_used, memory_order_relaxed);

	do {
		if (n >= limit)
			return limit == SEGMENT_OVERFLOW ? -ENOMEM : -EAGAIN;
		/* relaxed: only the number counts; nothing was ever written to bucket n */
	} while (!atomic_compare_exchange_weak_explicit(
		&seg->head->overflow_used, &n, n + 1, memory_order_relaxed, memory_order_relaxed));
	atomic_fetch_add_explicit(&ix->overflow_used, 1, memory_order_relaxed);
	atomic_store_explicit(&seg->segment->overflow[n].header,
			      bucket_header_make(incarnation, prefix, depth, false, 0),
			      memory_order_relaxed);
	/* pairs with index_lookup(): the new header before the link to it */
	atomic_store_explicit(&behind->header,
			      bucket_header_make(incarnation, prefix, depth, false, n + 1),
			      memory_order_release);
	return 0;
}

int index_reserve(struct index *ix, uint64_t hash, const void *key, uint32_t key_len, bool last,
		  struct index_hit *old, bool *found)
{
	struct index_segment seg;
	struct bucket *behind = NULL;
	int rc;

	*found = index_lookup_locked(ix, hash, key, key_len, old) == 0;
	if (*found)
		return 0;
	*old = (struct index_hit){ .place = chain_empty(ix, hash, &behind) };
	if (old->place)
		return 0;
	seg = index_segment_of(ix, hash);
	rc = overflow_link(ix, &seg, behind, last ? SEGMENT_OVERFLOW : SPLIT_OVERFLOW);
	if (rc == 0)
		old->place = chain_empty(ix, hash, &behind);
	return rc;
}

/* must hold the lock */
static void stripe_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static uint64_t bytes_of(const struct block *b)
{
	return block_bytes(b->key_len, b->value_len);
}

/* must hold the lock. @n slots more are in use. Returns how many the segment has now. */
static unsigned segment_add(struct index *ix, uint64_t hash, int n)
{
	struct index_segment seg = index_segment_of(ix, hash);

	return atomic_fetch_add_explicit(&seg.head->records, (uint32_t)n, memory_order_relaxed) +
	       (unsigned)n;
}

static void state_change(struct block *b, enum block_state from, enum block_state to)
{
	uint64_t state = atomic_load_explicit(&b->state, memory_order_relaxed);

	assert(block_state_of(state) == from);
	/* pairs with the reader's load of the state: all earlier stores, see ORDER OF A WRITE */
	atomic_store_explicit(&b->state, block_state_make(block_state_incarnation(state), to),
			      memory_order_release);
}

void index_obsolete(struct block *b)
{
	state_change(b, BLOCK_LIVE, BLOCK_OBSOLETE);
}

static inline bool slot_names(const struct index *ix, uint64_t hash, uint64_t slot,
			      const struct block *block)
{
	return slot && slot_size_code(slot) &&
	       slot_fingerprint(slot) == slot_fingerprint_of_hash(hash) &&
	       memory_addr(ix->memory, slot_extent(slot), slot_offset(slot),
			   size_code_bytes(slot_size_code(slot))) == block;
}

void index_publish(struct index *ix, uint64_t hash, const struct index_hit *old, bool found,
		   struct block *block, uint64_t slot)
{
	assert(slot_names(ix, hash, slot, block));
	/* index_reserve() has seen to it; where nothing was found, old->slot is 0 */
	assert(atomic_load_explicit(old->place, memory_order_relaxed) == old->slot);
	state_change(block, BLOCK_INVALID, BLOCK_LIVE);
	if (MUTANT(linger))
		mutant_linger(MUTANT_LINGER_US);
	if (found && !MUTANT(publish_first) && !MUTANT(acknowledge_first))
		index_obsolete(old->block);
	if (!found) {
		stripe_add(&index_stripe_of(ix, hash)->records, 1);
		segment_add(ix, hash, 1);
	}
	stripe_add(&index_stripe_of(ix, hash)->record_bytes,
		   bytes_of(block) - (found ? bytes_of(old->block) : 0));
	expiry_count(ix, hash, found ? old->block->expiry_ms : 0, block->expiry_ms);
	/* pairs with index_lookup(): block before slot */
	atomic_store_explicit(old->place, slot, memory_order_release);
	if (found && MUTANT(publish_first)) {
		mutant_linger(MUTANT_LINGER_US);
		index_obsolete(old->block);
	}
}

/* must hold the lock. @old goes OBSOLETE, and is counted no more, but for its slot. */
static void unpublish(struct index *ix, uint64_t hash, const struct index_hit *old)
{
	assert(atomic_load_explicit(old->place, memory_order_relaxed) == old->slot);
	if (!MUTANT(resurrect)) /* then memory_free() does it */
		index_obsolete(old->block);
	stripe_add(&index_stripe_of(ix, hash)->records, UINT64_MAX);
	stripe_add(&index_stripe_of(ix, hash)->record_bytes, -bytes_of(old->block));
	expiry_count(ix, hash, old->block->expiry_ms, 0);
}

bool index_remove(struct index *ix, uint64_t hash, const struct index_hit *old)
{
	unsigned left;

	unpublish(ix, hash, old);
	left = segment_add(ix, hash, -1);
	/* pairs with index_lookup(): OBSOLETE before the slot is empty */
	atomic_store_explicit(old->place, 0, memory_order_release);
	return left <= MERGE_RECORDS && left % MERGE_LOOK == 0 && shape_is_sparse(ix, hash);
}

void index_remove_hold(struct index *ix, uint64_t hash, const struct index_hit *old, uint64_t next)
{
	assert(next && slot_fingerprint(next) == slot_fingerprint_of_hash(hash));
	unpublish(ix, hash, old);
	/* pairs with index_lookup(): OBSOLETE, and all of the next block, before the slot */
	atomic_store_explicit(old->place, next, memory_order_release);
}

static bool is_invalid(const struct block *b)
{
	return block_state_of(atomic_load_explicit(&b->state, memory_order_relaxed)) ==
	       BLOCK_INVALID;
}

void index_hold(struct index *ix, uint64_t hash, const struct index_hit *at,
		const struct block *block, uint64_t slot)
{
	assert(slot_names(ix, hash, slot, block) && is_invalid(block));
	assert(atomic_load_explicit(at->place, memory_order_relaxed) == 0);
	segment_add(ix, hash, 1);
	/* pairs with index_lookup(): the block's key and state before the slot */
	atomic_store_explicit(at->place, slot, memory_order_release);
}

/* must hold the lock. Whether the chain of @hash has that slot. */
static bool chain_has(const struct index *ix, uint64_t hash, uint64_t slot)
{
	struct segment *s = index_entry_segment(ix, index_entry(index_directory(ix), hash));
	struct bucket *bucket = &s->bucket[hash_bucket(hash)];

	while (bucket) {
		uint32_t match = bucket_scan(bucket, slot_fingerprint(slot)).match;

		for (; match; match &= match - 1) {
			if (atomic_load_explicit(&bucket->slot[__builtin_ctz(match)],
						 memory_order_relaxed) == slot)
				return true;
		}
		bucket = index_next(s, atomic_load_explicit(&bucket->header, memory_order_relaxed));
	}
	return false;
}

void index_publish_held(struct index *ix, uint64_t hash, struct block *block, uint64_t slot)
{
	assert(chain_has(ix, hash, slot));
	stripe_add(&index_stripe_of(ix, hash)->records, 1);
	stripe_add(&index_stripe_of(ix, hash)->record_bytes, bytes_of(block));
	expiry_count(ix, hash, 0, block->expiry_ms);
	state_change(block, BLOCK_INVALID, BLOCK_LIVE);
}
