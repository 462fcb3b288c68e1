/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The index: an extendible directory of segments of buckets (bucket.h) in registered memory.
 *
 * Writers take the bucket's lock (a table of locks outside of registered memory, by bucket);
 * local readers are wait-free inside an RCU read-side section (liburcu, QSBR); remote readers
 * READ. Growth of the directory comes later: today it is sized at creation, and a chain whose
 * segment has no overflow bucket left answers -ENOMEM.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/layout/bucket.h"
#include "common/layout/root.h"
#include "server/memory/memory.h"

struct index;

struct index_config {
	uint64_t slots_min; /* the directory is made large enough for so many slots */
	uint64_t server_incarnation;
};

/*
 * index_create - allocate and initialise DIR and INDEX extents. Returns 0, -ENOMEM, -EINVAL.
 * slots_min counts main buckets only, so it is the number of records at an even spread. Hashes
 * spread unevenly: the first chain runs out of overflow buckets at 3/4 to 4/5 of slots_min in large
 * tables. Take 3/2 of the records expected.
 * After a failure extents may stay in @m; they go with memory_destroy().
 */
int index_create(struct index **out, struct memory *m, const struct index_config *config,
		 struct error *err);
void index_destroy(struct index *ix);

/* index_describe - fill and seal the root's directory descriptor. */
void index_describe(const struct index *ix, struct root_directory *out);

/*
 * What a look-up found. Valid until the reader's next quiescent state; as @old of the writers'
 * functions only within the hold of the lock in which it was found.
 */
struct index_hit {
	uint64_t slot;
	struct block *block;
	_Atomic uint64_t *place; /* where the slot stands; the index's own */
};

/*
 * index_lookup - find a key. Caller is inside an RCU read-side section (or holds the lock).
 * Returns 0; -ENOENT; -EAGAIN: a matching block was OBSOLETE or being replaced: take the lock
 * and look again (index_lookup_locked) before you say that it is absent.
 * Pairs with index_publish(): acquire on the slot, block before slot.
 */
int index_lookup(const struct index *ix, uint64_t hash, const void *key, uint32_t key_len,
		 struct index_hit *hit);

/* The writer lock of a hash's bucket. Held briefly: no I/O, no allocation under it. */
void index_lock(struct index *ix, uint64_t hash);
void index_unlock(struct index *ix, uint64_t hash);

/* index_lookup_locked - must hold the lock. Returns 0 or -ENOENT: the answer is final. */
int index_lookup_locked(const struct index *ix, uint64_t hash, const void *key, uint32_t key_len,
			struct index_hit *hit);

/*
 * index_reserve - must hold the lock: make sure that publishing this key cannot fail: the slot
 * it stands in, an empty slot, or a fresh overflow bucket. Returns 0 or -ENOMEM (nothing changed).
 */
int index_reserve(struct index *ix, uint64_t hash, const void *key, uint32_t key_len,
		  struct index_hit *old, bool *found);

/*
 * index_publish - must hold the lock, after index_reserve() under the same hold: @block, whose
 * fields and checksum are final, goes LIVE; the old block, where there is one, goes OBSOLETE; then
 * the slot gets @slot by one release store. In this order (DESIGN 3: 3, 4, 5).
 * @old: what index_reserve() found; not looked at where @found is false.
 * @slot: slot_make() of the hash's fingerprint, the record's size code, and where @block is.
 */
void index_publish(struct index *ix, uint64_t hash, const struct index_hit *old, bool found,
		   struct block *block, uint64_t slot);

/* index_remove - must hold the lock: @old goes OBSOLETE, then its slot is cleared. */
void index_remove(struct index *ix, uint64_t hash, const struct index_hit *old);

struct index_stats {
	uint64_t records;
	uint64_t segments;
	uint64_t buckets; /* without overflow */
	uint64_t overflow_used;
	uint64_t slots; /* of all buckets that are linked */
	unsigned depth;
};

void index_stats_get(const struct index *ix, struct index_stats *out);
