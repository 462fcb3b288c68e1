/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The index: an extendible directory of segments of buckets (bucket.h) in registered memory, which
 * grows and shrinks under its readers.
 *
 * Writers take the lock of the hash (a table of locks outside of registered memory: two buckets of
 * one segment have different ones); local readers are wait-free inside an RCU read-side section
 * (liburcu, QSBR), in which the caller of everything below is; remote readers READ.
 *
 * A segment is split when its overflow buckets run out, by the writer that needs one, and merged
 * with its buddy when most of both is deleted. What a change of the shape unlinks, segments and
 * directories, goes to the caller, which retires it (reclaim.h) like a block.
 */
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/layout/bucket.h"
#include "common/layout/root.h"
#include "server/memory/memory.h"

struct index;

struct index_config {
	uint64_t slots_min; /* to begin with; 0: as few as there can be, INDEX_SLOTS_MIN */
	uint64_t server_incarnation;
};

/* What the least index has: 64 segments, 1.25 MiB. */
#define INDEX_SLOTS_MIN (64u * SEGMENT_BUCKETS * BUCKET_SLOTS)

/*
 * index_create - allocate and initialise DIR and INDEX extents. Returns 0, -ENOMEM, -EINVAL.
 * slots_min counts main buckets only; segments are split from 4/5 of it on.
 * After a failure extents may stay in @m; they go with memory_destroy().
 */
int index_create(struct index **out, struct memory *m, const struct index_config *config,
		 struct error *err);
void index_destroy(struct index *ix);

/* index_describe - fill and seal a descriptor of the directory as it is now. */
void index_describe(struct index *ix, struct root_directory *out);

/*
 * index_set_root - from now on the descriptor in the root page names the newest directory. Words
 * are stored one by one, the checksum last (release): a READ that mixes two does not verify.
 * @root stays until index_destroy(), or until the call with NULL.
 */
void index_set_root(struct index *ix, struct root_directory *root);

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
 * index_lookup - find a key. Caller is inside an RCU read-side section. Returns 0; -ENOENT;
 * -EAGAIN: a matching block was OBSOLETE or being replaced, or the shape changed time and again:
 * take the lock and look again (index_lookup_locked) before you say that it is absent. Pairs with
 * index_publish(): acquire on the slot, block before slot.
 */
int index_lookup(const struct index *ix, uint64_t hash, const void *key, uint32_t key_len,
		 struct index_hit *hit);

/*
 * index_prefetch - operations on @count hashes come next: bring what they will touch into the
 * caches, with many misses at once: the buckets, then the blocks that they name; with @write their
 * locks and counts as well, without it the begin of the values. A hint: nothing depends on it.
 * Caller is inside an RCU read-side section. @count: at most INDEX_PREFETCH_MAX.
 */
#define INDEX_PREFETCH_MAX 64u

void index_prefetch(const struct index *ix, const uint64_t *hash, unsigned count, bool write);

/* The writer lock of a hash's bucket. Held briefly: no I/O under it, and no allocation but by a
 * writer that lost its races (store/update.c). A split or merge of a segment under the hash's top 6
 * bits holds it for some 100 us. */
void index_lock(struct index *ix, uint64_t hash);
void index_unlock(struct index *ix, uint64_t hash);

/* index_lock_number - which of INDEX_LOCKS it is: the same one for ever. */
#define INDEX_LOCKS (SEGMENT_BUCKETS << 6)

unsigned index_lock_number(const struct index *ix, uint64_t hash);

/* index_lookup_locked - must hold the lock. Returns 0 or -ENOENT: the answer is final. What a slot
 * is held for (index_hold()) is not there. */
int index_lookup_locked(const struct index *ix, uint64_t hash, const void *key, uint32_t key_len,
			struct index_hit *hit);

/*
 * index_reserve - must hold the lock: make sure that publishing this key cannot fail: the slot
 * it stands in, an empty slot, or a fresh overflow bucket. Nothing has changed where it fails.
 * @last: take any overflow bucket that there is. Otherwise those of a segment that should be split.
 * Returns 0; -EAGAIN: unlock, index_split(), lock, and try again (never with @last); -ENOMEM.
 */
int index_reserve(struct index *ix, uint64_t hash, const void *key, uint32_t key_len, bool last,
		  struct index_hit *old, bool *found);

/* What a change of the shape unlinked: to be retired by the caller, for memory_free(). */
#define INDEX_RETIRED_MAX 10u

struct index_retired {
	unsigned count;
	struct {
		struct memory_place place;
		uint32_t bytes;
	} piece[INDEX_RETIRED_MAX];
};

/*
 * index_split - no lock held: split the segment of @hash, unless somebody was first. @retired is
 * set in any case. Takes 100 us, more where the directory doubles; one thread at a time.
 * Returns 0: try again; -EAGAIN: memory is growing (memory_growth_wait()); -ENOMEM; -ENOSPC: it
 * is as deep as it may be: its keys collide.
 */
int index_split(struct index *ix, uint64_t hash, struct index_retired *retired);

/*
 * index_publish - must hold the lock, after index_reserve() under the same hold: @block, whose
 * fields and checksum are final, goes LIVE; the old block, where there is one, goes OBSOLETE; then
 * the slot gets @slot by one release store. In this order (DESIGN 3: 3, 4, 5).
 * @old: as index_reserve() left it: what it found, or the place that it chose.
 * @slot: slot_make() of the hash's fingerprint, the record's size code, and where @block is.
 */
void index_publish(struct index *ix, uint64_t hash, const struct index_hit *old, bool found,
		   struct block *block, uint64_t slot);

/* index_obsolete - a LIVE block is OBSOLETE. index_publish() does it itself. */
void index_obsolete(struct block *b);

/*
 * index_remove - must hold the lock: @old goes OBSOLETE, then its slot is cleared.
 * Returns whether index_shrink() should look at its segment.
 */
bool index_remove(struct index *ix, uint64_t hash, const struct index_hit *old);

/*
 * Inserts that are decided and wait for the log hold a slot each, which names their INVALID block.
 * It moves with splits and merges like any other, and no look-up finds it.
 *
 * index_hold - must hold the lock, after index_reserve() under the same hold, which found nothing
 * and left @at: the slot is held for @block, whose fields are final but for its state.
 * index_publish_held - must hold the lock: the block whose slot is held goes LIVE. Cannot fail.
 * index_remove_hold - must hold the lock: as index_remove(), but the slot is held for the block
 * that @next names, of the same key, from then on.
 */
void index_hold(struct index *ix, uint64_t hash, const struct index_hit *at,
		const struct block *block, uint64_t slot);
void index_publish_held(struct index *ix, uint64_t hash, struct block *block, uint64_t slot);
void index_remove_hold(struct index *ix, uint64_t hash, const struct index_hit *old, uint64_t next);

/*
 * index_shrink - no lock held: merge the segment of @hash with its buddy while both are sparse, and
 * halve the directory where it has become too deep. @retired is set in any case.
 */
void index_shrink(struct index *ix, uint64_t hash, struct index_retired *retired);

/*
 * index_untidy - merges were put off, for want of memory or because there were many.
 * index_tidy - no lock held: go on with them; a few a call. Returns whether to call it again at
 * once; where not and it is untidy still, memory is short.
 */
bool index_untidy(const struct index *ix);
bool index_tidy(struct index *ix, struct index_retired *retired);

/*
 * index_soonest_expiry - ms since 1970 before which no record expires; 0: some may have, a pass of
 * index_sweep() is under way; UINT64_MAX: none ever does. Any thread, a load.
 */
uint64_t index_soonest_expiry(const struct index *ix);

/*
 * index_sweep - no lock held, one thread at a time: the next bucket of a pass over those in which
 * something is due; begins a pass where none is under way. @out: blocks that had expired by @now_ms
 * and were LIVE, readable until the caller's next quiescent state. Deletes nothing.
 * Returns false at the end of the pass.
 * index_expiry_put_back - what the caller did not delete: another pass will find it.
 */
#define INDEX_EXPIRED_MAX 64u

struct index_expired {
	unsigned count;
	const struct block *block[INDEX_EXPIRED_MAX];
};

bool index_sweep(struct index *ix, uint64_t now_ms, struct index_expired *out);
void index_expiry_put_back(struct index *ix, uint64_t hash, uint64_t ms);

/*
 * index_walk - no lock held: the records of one bucket more, in an order of the index's own. *@at:
 * 0 at first, and where to go on. @out: LIVE when they were found, readable until the caller's next
 * quiescent state; @place: where each lies; *@count of them, INDEX_WALK_MAX at most. What is
 * published from the first call to the last is seen (walk.c). Returns false, with none, after the
 * last bucket. Any thread.
 */
#define INDEX_WALK_MAX ((1 + SEGMENT_OVERFLOW) * BUCKET_SLOTS)

bool index_walk(struct index *ix, uint64_t *at, const struct block **out,
		struct memory_place *place, unsigned *count);

struct index_stats {
	uint64_t records;
	uint64_t records_expiring; /* of them, those with an expiry */
	uint64_t record_bytes; /* of them: header, key and value */
	uint64_t segments;
	uint64_t buckets; /* without overflow */
	uint64_t overflow_used;
	uint64_t slots; /* of all buckets that are linked */
	uint64_t splits, merges, doublings, halvings; /* since the start */
	uint64_t locks_bytes; /* book-keeping outside of registered memory, memory's heads aside */
	unsigned depth;
};

void index_stats_get(const struct index *ix, struct index_stats *out);
