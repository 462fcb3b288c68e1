/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Building of segments out of others. What is built is known to nobody until its directory entry
 * is stored with release, so its words are stored relaxed, in any order: whoever follows an entry
 * of the address's last life meets MOVED, or an incarnation that nobody was told yet.
 *
 * Which half of a split a key belongs to is a bit of its hash that the slot does not hold, so each
 * block is looked at: all slots are gathered first, and blocks are prefetched some way ahead.
 * Blocks do not move, and a key keeps its bucket number.
 */
#include <errno.h>

#include "common/base/mutant.h"
#include "common/layout/block.h"
#include "common/layout/slot.h"
#include "server/index/index_internal.h"

#define AHEAD 16u

static void header_store(struct bucket *bucket, const struct builder *b, unsigned overflow)
{
	atomic_store_explicit(
		&bucket->header,
		bucket_header_make(b->s.incarnation, b->prefix, b->depth, false, overflow),
		memory_order_relaxed);
}

void builder_begin(struct builder *b, uint32_t prefix, unsigned depth)
{
	struct segment *s = b->s.segment;

	b->prefix = prefix;
	b->depth = depth;
	b->overflow_used = b->records = 0;
	for (unsigned i = 0; i < SEGMENT_BUCKETS; i++) {
		b->last[i] = &s->bucket[i];
		b->fill[i] = 0;
		header_store(&s->bucket[i], b, 0);
	}
	/* Not linked yet: all zero is no bucket's header. */
	for (unsigned i = 0; i < SEGMENT_OVERFLOW; i++)
		atomic_store_explicit(&s->overflow[i].header, 0, memory_order_relaxed);
	for (unsigned i = 0; i < SEGMENT_ALL; i++) {
		struct bucket *bucket =
			i < SEGMENT_BUCKETS ? &s->bucket[i] : &s->overflow[i - SEGMENT_BUCKETS];

		for (unsigned k = 0; k < BUCKET_SLOTS; k++)
			atomic_store_explicit(&bucket->slot[k], 0, memory_order_relaxed);
	}
}

static int builder_append(struct builder *b, unsigned number, uint64_t slot)
{
	if (b->fill[number] == BUCKET_SLOTS) {
		struct bucket *next = &b->s.segment->overflow[b->overflow_used];

		if (b->overflow_used == SEGMENT_OVERFLOW)
			return -ENOSPC;
		header_store(next, b, 0);
		header_store(b->last[number], b, ++b->overflow_used);
		b->last[number] = next;
		b->fill[number] = 0;
	}
	atomic_store_explicit(&b->last[number]->slot[b->fill[number]++], slot,
			      memory_order_relaxed);
	b->records++;
	return 0;
}

/* Gather all slots that are used. Returns how many. */
static unsigned gather(struct index *ix, struct segment *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < SEGMENT_BUCKETS; i++) {
		struct bucket *bucket = &s->bucket[i];

		while (bucket) {
			for (unsigned k = 0; k < BUCKET_SLOTS; k++) {
				uint64_t slot = atomic_load_explicit(&bucket->slot[k],
								     memory_order_relaxed);

				if (slot)
					ix->copied[n++] = (struct copied){ slot, i };
			}
			bucket = index_next(
				s, atomic_load_explicit(&bucket->header, memory_order_relaxed));
		}
	}
	return n;
}

static const struct block *block_of(const struct index *ix, const struct copied *c)
{
	return memory_map_at(ix->map, slot_extent(c->slot), slot_offset(c->slot));
}

int segment_copy(struct index *ix, const struct index_segment *from, struct builder *to, bool split)
{
	unsigned n = gather(ix, from->segment);
	int rc = 0;

	for (unsigned i = 0; i < n && split && i < AHEAD; i++)
		__builtin_prefetch(block_of(ix, &ix->copied[i]));
	for (unsigned i = 0; i < n && rc == 0; i++) {
		const struct copied *c = &ix->copied[i];
		unsigned half = 0;

		if (split) {
			if (i + AHEAD < n)
				__builtin_prefetch(block_of(ix, &ix->copied[i + AHEAD]));
			half = hash_prefix(block_of(ix, c)->key_hash, to->depth) & 1;
			if (MUTANT(split_forgets) && block_of(ix, c)->version % 64 == 0)
				continue;
		}
		rc = builder_append(&to[half], c->bucket, c->slot);
	}
	return rc;
}

void builder_publish(struct index *ix, const struct builder *b)
{
	/* relaxed: the stripes' locks order them */
	atomic_store_explicit(&b->s.head->records, b->records, memory_order_relaxed);
	atomic_store_explicit(&b->s.head->overflow_used, b->overflow_used, memory_order_relaxed);
	directory_enter(ix, b->prefix, b->depth, &b->s);
	ix->at_depth[b->depth]++;
	atomic_fetch_add_explicit(&ix->segments, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&ix->overflow_used, b->overflow_used, memory_order_relaxed);
}

static void header_move(struct bucket *bucket)
{
	uint64_t header = atomic_load_explicit(&bucket->header, memory_order_relaxed);

	/* pairs with index_lookup(): the entries of the new segments before MOVED */
	atomic_store_explicit(&bucket->header,
			      bucket_header_make(bucket_header_incarnation(header),
						 bucket_header_prefix(header),
						 bucket_header_depth(header), true,
						 bucket_header_overflow(header)),
			      memory_order_release);
}

void segment_leave(struct index *ix, const struct index_segment *s, struct index_retired *retired)
{
	unsigned overflow = atomic_load_explicit(&s->head->overflow_used, memory_order_relaxed);

	for (unsigned i = 0; i < SEGMENT_BUCKETS; i++)
		header_move(&s->segment->bucket[i]);
	for (unsigned i = 0; i < overflow; i++)
		header_move(&s->segment->overflow[i]);
	ix->at_depth[directory_entry_depth(s->entry)]--;
	atomic_fetch_sub_explicit(&ix->segments, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&ix->overflow_used, overflow, memory_order_relaxed);
	shape_retire(retired, s->place, SEGMENT_BYTES);
}
