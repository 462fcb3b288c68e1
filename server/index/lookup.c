/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Look-ups. A reader walks the chain of the hash's bucket, compares fingerprints, and judges by
 * the full key in the block. Wait-free: a chain has at most 1 + SEGMENT_OVERFLOW buckets, and
 * never a cycle, since a bucket is linked once, after one whose link was zero.
 *
 * ORDERING. The slot is loaded with acquire, which pairs with the release store of
 * index_publish(): the block's fields, and LIVE, are seen by whoever sees the slot. The header is
 * loaded with acquire before the slots of its bucket; it pairs with the release store that linked
 * the overflow bucket (write.c).
 *
 * NO FALSE MISS. A live key never moves to another slot. If the key was there when the look-up
 * began, and is not deleted before it ends, then its slot held it all the time, and its bucket
 * was linked before its slot was written; so the look-up, which knows of that write, sees the link
 * and the slot, old value or new. A link that it does not see is of keys that came after.
 *
 * MOVED. A split or merge marks the headers of the segments that it replaced, after the new ones
 * stand in the directory and before a write is applied in them (split.c). The header is loaded
 * before the slots. Not MOVED: at that moment no write was applied elsewhere, and the slots of
 * this segment stay what they were then, or change by its own writers. So it is enough to look at
 * the first bucket's header; overflow buckets are of the same segment, whose memory stays while
 * the section is open.
 *
 * NO OLD VALUE AFTER A NEW ONE. The state is loaded after the slot. LIVE: at that moment the
 * old block was not yet OBSOLETE, hence the new one neither published nor acknowledged. OBSOLETE:
 * the answer is -EAGAIN, never -ENOENT, because a successor may be about to be published.
 *
 * WAITING INSERTS. With a log a slot may name a block that is INVALID: an insert, decided and not
 * published (write.c: HELD SLOTS). The key is not there then. Nothing else is INVALID where a slot
 * names it: a block goes back to INVALID when it is freed, which waits for this read-side section,
 * and is LIVE before its slot is stored otherwise. INVALID, loaded after the slot, says that at
 * that moment the insert was not published; and what stood in the slot before it was deleted by
 * then. So "not there" was true at that moment, and there is nothing to wait for: whoever was told
 * of the insert was told after LIVE, which orders it before a look-up of his.
 */
#include <assert.h>
#include <errno.h>

#include "common/layout/slot.h"
#include "server/index/index_internal.h"
#include "server/index/keys.h"
#include "server/index/scan.h"

/* Each one more needs a split or a merge of the same segment in the middle of the look-up. */
#define LOOKUP_ATTEMPTS 4u

static inline bool block_has_key(const struct block *b, uint64_t hash, const void *key,
				 uint32_t key_len)
{
	return b->key_hash == hash && b->key_len == key_len && keys_equal(b->data, key, key_len);
}

/* The four lines of a bucket at once, instead of one miss after the other. */
static inline void bucket_prefetch(const struct bucket *bucket)
{
	for (unsigned i = 0; i < BUCKET_BYTES / 64; i++)
		__builtin_prefetch((const uint8_t *)bucket + i * 64);
}

/* Walk one bucket. Returns 0, -EAGAIN: the key, but not LIVE; -ENOENT. */
static inline int bucket_find(const struct index *ix, struct bucket *bucket, uint64_t hash,
			      const void *key, uint32_t key_len, struct index_hit *hit)
{
	uint32_t fingerprint = slot_fingerprint_of_hash(hash);
	uint32_t match = bucket_scan(bucket, fingerprint).match;
	int rc = -ENOENT;

	for (; match; match &= match - 1) {
		unsigned i = (unsigned)__builtin_ctz(match);
		/* pairs with index_publish(): block before slot */
		uint64_t slot = atomic_load_explicit(&bucket->slot[i], memory_order_acquire);
		struct block *b;
		uint64_t state;

		if (slot_fingerprint(slot) != fingerprint || slot == 0)
			continue;
		b = memory_map_at(ix->map, slot_extent(slot), slot_offset(slot));
		if (!block_has_key(b, hash, key, key_len))
			continue;
		/* pairs with index_publish() and index_remove(): OBSOLETE before the slot's
		 * change */
		state = atomic_load_explicit(&b->state, memory_order_acquire);
		if (block_state_of(state) != BLOCK_LIVE) {
			if (block_state_of(state) == BLOCK_OBSOLETE) /* not a waiting insert */
				rc = -EAGAIN;
			continue;
		}
		*hit = (struct index_hit){ slot, b, &bucket->slot[i] };
		return 0;
	}
	return rc;
}

/* Walk the chain of @bucket, which had @header. */
static int chain_find(const struct index *ix, struct segment *s, struct bucket *bucket,
		      uint64_t header, uint64_t hash, const void *key, uint32_t key_len,
		      struct index_hit *hit)
{
	int rc, miss = -ENOENT;

	for (;;) {
		rc = bucket_find(ix, bucket, hash, key, key_len, hit);
		if (rc == 0)
			return 0;
		if (rc == -EAGAIN)
			miss = -EAGAIN;
		bucket = index_next(s, header);
		if (!bucket)
			return miss;
		/* pairs with overflow_link(): header of the next bucket before the link to it */
		header = atomic_load_explicit(&bucket->header, memory_order_acquire);
	}
}

int segment_lookup(const struct index *ix, uint64_t entry, uint64_t hash, const void *key,
		   uint32_t key_len, struct index_hit *hit)
{
	struct segment *s = index_entry_segment(ix, entry);
	struct bucket *bucket = &s->bucket[hash_bucket(hash)];
	uint64_t header;

	bucket_prefetch(bucket);
	/* pairs with segment_leave(), and with overflow_link() */
	header = atomic_load_explicit(&bucket->header, memory_order_acquire);
	if (bucket_header_moved(header))
		return -ESTALE;
	return chain_find(ix, s, bucket, header, hash, key, key_len, hit);
}

int index_lookup(const struct index *ix, uint64_t hash, const void *key, uint32_t key_len,
		 struct index_hit *hit)
{
	for (unsigned i = 0; i < LOOKUP_ATTEMPTS; i++) {
		uint64_t entry = index_entry(index_directory(ix), hash);
		int rc = segment_lookup(ix, entry, hash, key, key_len, hit);

		if (rc != -ESTALE)
			return rc;
	}
	return -EAGAIN;
}

int index_lookup_locked(const struct index *ix, uint64_t hash, const void *key, uint32_t key_len,
			struct index_hit *hit)
{
	int rc = index_lookup(ix, hash, key, key_len, hit);

	/* Under the lock the directory's entry stays, and whatever a slot names is LIVE, or
	 * waits. */
	assert(rc != -EAGAIN);
	return rc;
}

const struct bucket *index_bucket_fetch(const struct index *ix, uint64_t hash, bool write)
{
	uint64_t entry = index_entry(index_directory(ix), hash);
	const struct bucket *bucket = &index_entry_segment(ix, entry)->bucket[hash_bucket(hash)];

	bucket_prefetch(bucket);
	if (write) {
		__builtin_prefetch(index_stripe_of(ix, hash), 1);
		__builtin_prefetch(memory_segment_head(ix->memory, directory_entry_extent(entry),
						       directory_entry_segment(entry)),
				   1);
	}
	return bucket;
}

/* The blocks of all slots with the hash's fingerprint: of one, nearly always. */
static inline void prefetch_blocks(const struct index *ix, const struct bucket *bucket,
				   uint64_t hash, bool write)
{
	uint32_t match = bucket_scan(bucket, slot_fingerprint_of_hash(hash)).match;

	for (; match; match &= match - 1) {
		/* relaxed: nothing is read there */
		uint64_t slot = atomic_load_explicit(&bucket->slot[__builtin_ctz(match)],
						     memory_order_relaxed);
		const uint8_t *b;

		if (!slot)
			continue;
		b = memory_map_at(ix->map, slot_extent(slot), slot_offset(slot));
		__builtin_prefetch(b);
		if (!write && slot_size_code(slot) > 1)
			__builtin_prefetch(b + OFFSET_UNIT);
	}
}

void index_prefetch(const struct index *ix, const uint64_t *hash, unsigned count, bool write)
{
	const struct bucket *bucket[INDEX_PREFETCH_MAX];

	assert(count <= INDEX_PREFETCH_MAX);
	for (unsigned i = 0; i < count; i++)
		bucket[i] = index_bucket_fetch(ix, hash[i], write);
	for (unsigned i = 0; i < count; i++)
		prefetch_blocks(ix, bucket[i], hash[i], write);
}
