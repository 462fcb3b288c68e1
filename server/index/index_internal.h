/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Private to server/index.
 *
 * Locks, in the order in which they are taken:
 *   shape     which segments there are, which directory lists them, what root says of it. One
 *             split, merge, doubling or halving at a time.
 *   stripe[]  a bucket's header, slots and chain, hence the records in it. A stripe is chosen by
 *             the hash alone: its top STRIPE_DEPTH bits and its bucket number. The directory
 *             never has less depth, so all hashes of a bucket have one stripe, whatever the depth,
 *             and a segment has SEGMENT_BUCKETS of them, all its own but for its neighbours'
 *             under the same top bits.
 * A change of the shape holds all stripes of the segments that it replaces; the holder of a stripe
 * may rely on the directory's entries for its hashes.
 */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "server/index/index.h"

#define STRIPE_DEPTH  6u
#define INDEX_STRIPES (SEGMENT_BUCKETS << STRIPE_DEPTH)
static_assert(INDEX_STRIPES == INDEX_LOCKS, "what index.h says");

#define SEGMENT_SLOTS (SEGMENT_BUCKETS * BUCKET_SLOTS)
#define SEGMENT_ALL   (SEGMENT_BUCKETS + SEGMENT_OVERFLOW)

/*
 * A segment is split before it gives out more overflow buckets than this. With hashes that spread
 * evenly that is at 4/5 of its main slots; the rest is for the time in which it can not be split.
 */
#define SPLIT_OVERFLOW (SEGMENT_OVERFLOW / 2)

/* Two buddies are merged when both together fill no more than this: a quarter of the result. */
#define MERGE_RECORDS (SEGMENT_SLOTS / 4)

/* Looked at when a removal leaves a multiple of so many records in a segment. */
#define MERGE_LOOK 16u

/*
 * The directory is at most so much deeper than its segments would need if hashes spread evenly:
 * keys that were chosen to collide get no directory of 2^24 entries.
 */
#define DEPTH_SLACK 8u

/* Records are counted by stripe, so that writers of different buckets share no line. */
struct index_stripe {
	pthread_mutex_t lock;
	/* Written under lock, a relaxed load and a store. */
	_Atomic uint64_t records;
	_Atomic uint64_t record_bytes;
} __attribute__((aligned(64)));

/* Of a stripe, written under its lock: expiry.c. */
struct index_expiry {
	_Atomic uint64_t records; /* that expire */
	_Atomic uint64_t due_ms; /* none of them before */
};

struct index {
	struct memory *memory;
	const struct memory_map *map;
	struct index_stripe *stripe; /* INDEX_STRIPES */
	struct index_expiry *expiry; /* the same */
	_Atomic uint64_t soonest_ms; /* expiry.c */
	_Atomic bool sweeping; /* a pass is under way */
	unsigned sweep_stripe; /* where it is: the sweeper's own */
	uint64_t sweep_hash; /* in the stripe; 0: before it */
	/* The newest. Release by directory_publish(), acquire by whoever follows it. */
	_Atomic(struct directory *) directory;

	pthread_mutex_t shape;
	/* All that follows is written under shape. */
	struct memory_place directory_place;
	uint32_t directory_incarnation; /* last one given out */
	uint64_t server_incarnation;
	struct root_directory *root; /* NULL: nobody reads it yet */
	uint64_t at_depth[DEPTH_MAX + 1]; /* segments, by local depth */
	uint64_t tidy_hash; /* where index_tidy() goes on; 0: a new pass */
	struct copied *copied; /* scratch of copy.c: SEGMENT_ALL * BUCKET_SLOTS of them */

	/* Statistics: read by anyone. */
	_Atomic uint64_t segments;
	_Atomic uint64_t overflow_used; /* of all segments; writers add to it as well */
	_Atomic uint64_t splits, merges, doublings, halvings;
	uint64_t merges_failed; /* their chains did not fit into one segment */
	_Atomic bool untidy; /* segments were left unmerged, since the last pass began */
	_Atomic bool tidying; /* a pass of index_tidy() is under way */
};

/* A slot on its way from one segment to another. */
struct copied {
	uint64_t slot;
	unsigned bucket;
};

/* A segment as its directory entry names it. */
struct index_segment {
	struct segment *segment;
	struct segment_head *head;
	struct memory_place place;
	uint64_t entry;
};

static inline struct index_stripe *index_stripe_of(const struct index *ix, uint64_t hash)
{
	return &ix->stripe[hash_prefix(hash, STRIPE_DEPTH) * SEGMENT_BUCKETS + hash_bucket(hash)];
}

/* index_stripe_hash - a hash of which only stripe and bucket are chosen; the rest of it is 0. */
static inline uint64_t index_stripe_hash(unsigned stripe)
{
	return (uint64_t)(stripe / SEGMENT_BUCKETS) << (64 - STRIPE_DEPTH) |
	       (uint64_t)(stripe % SEGMENT_BUCKETS) << BUCKET_SHIFT;
}

static inline struct directory *index_directory(const struct index *ix)
{
	/* pairs with directory_publish(): the directory's words before the pointer to it */
	return atomic_load_explicit(&ix->directory, memory_order_acquire);
}

static inline uint64_t index_entry(const struct directory *d, uint64_t hash)
{
	/* pairs with directory_enter(): the segment before the entry */
	return atomic_load_explicit(&d->entry[hash_prefix(hash, d->depth)], memory_order_acquire);
}

static inline struct segment *index_entry_segment(const struct index *ix, uint64_t entry)
{
	return memory_map_at(ix->map, directory_entry_extent(entry),
			     (uint64_t)directory_entry_segment(entry) * SEGMENT_BYTES);
}

/* index_bucket_fetch - the bucket of a hash into the caches, and with @write what its writers touch
 * beside it. Returns the bucket. In a read-side section. */
const struct bucket *index_bucket_fetch(const struct index *ix, uint64_t hash, bool write);

/* index_segment_of - must hold shape, or the hash's stripe. */
static inline struct index_segment index_segment_of(const struct index *ix, uint64_t hash)
{
	uint64_t entry = index_entry(index_directory(ix), hash);
	unsigned extent = directory_entry_extent(entry), number = directory_entry_segment(entry);

	return (struct index_segment){
		.segment = index_entry_segment(ix, entry),
		.head = memory_segment_head(ix->memory, extent, number),
		.place = { extent, number * SEGMENT_BYTES },
		.entry = entry,
	};
}

/*
 * segment_lookup - as index_lookup(), in the segment that @entry names. -ESTALE: it was replaced,
 * which the directory says since before.
 */
int segment_lookup(const struct index *ix, uint64_t entry, uint64_t hash, const void *key,
		   uint32_t key_len, struct index_hit *hit);

/* index_next - the bucket after the one with @header in its chain, or NULL. */
static inline struct bucket *index_next(struct segment *s, uint64_t header)
{
	unsigned overflow = bucket_header_overflow(header);

	return overflow ? &s->overflow[overflow - 1] : NULL;
}

/* shape_retire - @place is reachable no more: for the caller of the change. */
static inline void shape_retire(struct index_retired *r, struct memory_place place, uint64_t bytes)
{
	r->piece[r->count].place = place;
	r->piece[r->count++].bytes = (uint32_t)bytes;
}

/* stripes_lock - must hold shape: all stripes of the segments under the top bits of @hash. */
void stripes_lock(struct index *ix, uint64_t hash);
void stripes_unlock(struct index *ix, uint64_t hash);

/*
 * directory_first - the first directory, of @depth, without entries. Returns 0, -EAGAIN, -ENOMEM.
 * directory_resize - must hold shape: replace it by one with twice or half as many entries.
 *	-ENOSPC: it is as deep as it may be.
 */
int directory_first(struct index *ix, unsigned depth);
int directory_resize(struct index *ix, unsigned depth, struct index_retired *retired);

/* directory_enter - must hold shape: let all entries under @prefix name @s. Releases @s. */
void directory_enter(struct index *ix, uint32_t prefix, unsigned depth,
		     const struct memory_segment *s);

/* A segment that is being filled, known to nobody else yet. */
struct builder {
	struct memory_segment s;
	struct bucket *last[SEGMENT_BUCKETS]; /* of each chain */
	uint8_t fill[SEGMENT_BUCKETS]; /* slots used in it */
	uint32_t prefix;
	unsigned depth;
	unsigned overflow_used;
	unsigned records;
};

/* builder_begin - write the headers of b->s, a segment that was just taken. */
void builder_begin(struct builder *b, uint32_t prefix, unsigned depth);

/*
 * segment_copy - must hold shape and the stripes: all slots of @from go into @to[0], or, where
 * @split is set, to the builder of whose prefix their hash is. Returns 0; -ENOSPC: a chain has no
 * overflow bucket left (never where @split is set).
 */
int segment_copy(struct index *ix, const struct index_segment *from, struct builder *to,
		 bool split);

/* builder_publish - must hold shape and the stripes: its segment stands in the directory. */
void builder_publish(struct index *ix, const struct builder *b);

/*
 * shape_is_sparse - must hold the hash's stripe: whether its segment and the buddy are to be
 * merged, and index_tidy() will not come by anyway. So that no delete takes shape for nothing.
 */
bool shape_is_sparse(const struct index *ix, uint64_t hash);

/*
 * expiry_count - must hold the hash's stripe: a record with expiry @gone_ms was replaced by one
 * with
 * @comes_ms; 0: there was none, there is none, or it does not expire.
 * expiry_records - how many do.
 */
int expiry_create(struct index *ix);
void expiry_count(struct index *ix, uint64_t hash, uint64_t gone_ms, uint64_t comes_ms);
uint64_t expiry_records(const struct index *ix);

/* segment_leave - must hold shape and the stripes: mark every header MOVED, and retire it. */
void segment_leave(struct index *ix, const struct index_segment *s, struct index_retired *retired);
