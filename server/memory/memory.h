/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Extents, slabs and size classes: all registered memory that clients may READ, but for the root.
 *
 * An extent is a memfd mapping of one kind (root.h), registered once through the hooks, and listed
 * in the extent table. It stays while the server lives (I6), but for DATA extents without a block
 * in use whose room the index needs (release.c); their numbers are not used again. DATA extents are
 * cut into slabs of SLAB_BYTES, slabs into blocks of one size class; a record above a quarter of a
 * slab takes a run of consecutive slabs. INDEX extents are cut into segments, DIR extents hold
 * directories of any size.
 *
 * Book-keeping (free lists, heads of slabs and segments) lies outside of registered memory.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/layout/block.h"
#include "common/layout/bucket.h"
#include "common/layout/root.h"

/* What the transport knows of a registered range. */
struct memory_region {
	void *handle;
	uint32_t lkey;
	uint32_t rkey;
};

/*
 * How ranges are registered (by common/rdma in the server, by a recorder in tests). Called at
 * start and by the growth thread, one at a time, never on the data path. No caller may reach the
 * range any more when unregister_region is called; the mapping goes after it.
 * register_region: @fd backs [addr, addr + len). Returns 0 or a negative errno with @err set.
 * unregister_region: returns 0, or a negative errno where the key may still be alive: then the
 * mapping stays as it is while the process lives (I6).
 * stopping: the process was told to end, so that taking memory is not worth while any more; asked
 * between pieces of a few milliseconds, by several threads at once. NULL: never.
 * elsewhere: how many bytes of a range lie on another NUMA node than they should. NULL: none.
 */
struct memory_hooks {
	int (*register_region)(void *ctx, int fd, void *addr, size_t len, struct memory_region *out,
			       struct error *err);
	int (*unregister_region)(void *ctx, struct memory_region *region);
	void *ctx;
	bool (*stopping)(void *ctx);
	uint64_t (*elsewhere)(void *ctx, const void *addr, size_t bytes);
};

struct memory_config {
	uint64_t bytes_max; /* over all extents; at least 8 MiB, checked against RAM */
	uint64_t extent_bytes_max; /* what the device registers at once; 0, or more: any extent */
	struct memory_hooks hooks;
	bool hints; /* clients may remember addresses: empty slabs wait for memory_recut() */
};

struct memory; /* shared by all threads */
struct memory_cache; /* of one worker */

struct memory_place {
	uint32_t extent;
	uint32_t offset; /* bytes */
};

/*
 * Where extents begin, by number: for whoever follows a slot or a directory entry that the server
 * wrote itself, and so needs no bounds checked. NULL: there is none (any more).
 */
struct memory_map {
	_Atomic(uint8_t *) base[EXTENTS_MAX];
};

/*
 * What is kept of one segment outside of registered memory. While it is given out, @records and
 * @overflow_used are its owner's (the index); the rest is memory's.
 */
struct segment_head {
	_Atomic uint32_t records;
	_Atomic uint32_t overflow_used; /* at most SEGMENT_OVERFLOW */
	uint32_t incarnation; /* of the segment that stands here now, or stood last; 0: none yet */
	uint32_t next; /* free ones */
};

/* A segment that was given out. */
struct memory_segment {
	struct memory_place place;
	struct segment *segment;
	struct segment_head *head;
	uint32_t incarnation; /* never used at this address before */
};

/*
 * memory_create - map the extent table and start the growth thread; no extent yet.
 * Returns 0; -EINVAL: bytes_max too small or beyond the RAM of the machine; -ENOMEM and what the
 * hooks return. @err says which limit it was and what to set.
 */
int memory_create(struct memory **out, const struct memory_config *config, struct error *err);

/* memory_destroy - stop the thread, unregister and unmap all. No session may be left. */
void memory_destroy(struct memory *m);

/*
 * memory_goal - @bytes over all extents are about to be added, before anybody can be served: the
 * log tells every two seconds how far it is.
 */
void memory_goal(struct memory *m, uint64_t bytes);

/*
 * memory_fill - have the growth thread add extents for records up to the store's size, but for what
 * the index may need (fill.c), and tell the log likewise. It takes seconds and returns at once.
 */
void memory_fill(struct memory *m);

/* The extent table (EXTENT_TABLE_BYTES) and its registration, for the root. */
const void *memory_extent_table(const struct memory *m);
const struct memory_region *memory_extent_table_region(const struct memory *m);

/*
 * memory_extent_add - map (hugepages where there are any), commit and register a new extent of
 * @kind of at least @bytes_min, enter it into the table, and give it to the pool of its kind. For
 * INDEX and DIR, DATA extents that hold nothing are released where bytes_max leaves no room. Not on
 * the data path. Returns 0; -ENOMEM: the system has no memory; -ENOSPC: bytes_max or EXTENTS_MAX
 * is reached; -EINVAL: @bytes_min over extent_bytes_max; -ECANCELED: the process is stopping; or
 * what the hook returns. Then nothing was added.
 */
int memory_extent_add(struct memory *m, enum extent_kind kind, uint64_t bytes_min, unsigned *extent,
		      struct error *err);

/* memory_extent_most - bytes of the largest extent that the device registers; constant. */
uint64_t memory_extent_most(const struct memory *m);

/*
 * memory_addr - the local address of @offset in @extent, or NULL where the extent does not exist
 * or ends before @offset + @bytes. Any thread, wait-free.
 */
void *memory_addr(const struct memory *m, unsigned extent, uint64_t offset, uint64_t bytes);

/* memory_map - constant while the memory lives. */
const struct memory_map *memory_map(const struct memory *m);

/* memory_map_at - the address of a place. relaxed: whoever knows the place knows its extent. */
static inline void *memory_map_at(const struct memory_map *map, unsigned extent, uint64_t offset)
{
	return atomic_load_explicit(&map->base[extent], memory_order_relaxed) + offset;
}

/* memory_extent_region - registration of an extent, for a holder of a block in it; NULL: it does
 * not exist. Wait-free. */
const struct memory_region *memory_extent_region(const struct memory *m, unsigned extent);

/* memory_extent_bytes - length of an extent, 0 where it does not exist. Wait-free. */
uint64_t memory_extent_bytes(const struct memory *m, unsigned extent);

/* memory_cache_create - block lists of one worker. Destroyed before memory_destroy(). */
int memory_cache_create(struct memory_cache **out, struct memory *m);
void memory_cache_destroy(struct memory_cache *cache);

/*
 * memory_alloc - take a block for a record of @bytes (block_bytes()).
 * On success the block's state is INVALID under an incarnation never used at this address before,
 * made visible before any later store of the caller (release fence, DESIGN 3.1).
 * Returns 0; -EAGAIN: growth is under way, call memory_growth_wait() and try again;
 * -ENOMEM: the store is full; -E2BIG: no block is that large.
 * One thread per cache.
 */
int memory_alloc(struct memory_cache *cache, uint32_t bytes, struct memory_place *place,
		 struct block **block);

/*
 * memory_growth_ahead - records come as fast as memory can be had for them, until it is called with
 * false: growth begins an extent's length before it is needed, not shortly before. Any thread.
 */
void memory_growth_ahead(struct memory *m, bool ahead);

/* memory_growth_wait - until one of the growths under way has ended either way; at most @ms. */
void memory_growth_wait(struct memory *m, unsigned ms);

/*
 * memory_segment_alloc - take @count segments, all or none. What stands in them is of their last
 * lives. Segments are added in the background before the last one is taken.
 * @spare: only where enough are left; nothing is added for it.
 * Returns 0; -EAGAIN: growth is under way; -ENOMEM. Any thread; takes a lock briefly.
 */
int memory_segment_alloc(struct memory *m, bool spare, unsigned count, struct memory_segment *out);

/* memory_segment_head - of a segment that a directory entry names. Wait-free. */
struct segment_head *memory_segment_head(const struct memory *m, unsigned extent, unsigned number);

/*
 * memory_directory_alloc - room for a directory of @depth, 64 B aligned; what stands there is of
 * former lives. Room for one of twice the size is ordered along with it.
 * Returns 0; -EAGAIN: growth is under way; -ENOMEM. Any thread; takes a lock briefly.
 */
int memory_directory_alloc(struct memory *m, unsigned depth, struct memory_place *place,
			   struct directory **out);

/*
 * memory_free - give a block, a segment or a directory back. The caller guarantees that no local or
 * remote reader can still reach it (reclaim.h), or that it never was published. A block's state
 * is not LIVE (asserted). Any thread.
 */
void memory_free(struct memory *m, struct memory_place place);

/*
 * memory_recut_wanted - @epoch: E now, above that of all that was freed. Slabs that fell empty
 * since the last call have done so in it. Returns the epoch of the last one that waits, 0: none
 * does. One thread.
 */
uint64_t memory_recut_wanted(struct memory *m, uint64_t epoch);

/* memory_recut - no hint from before @passed is held: slabs that fell empty until then are free.
 * Returns whether others wait. */
bool memory_recut(struct memory *m, uint64_t passed);

/* memory_recut_waits - whether any slab does. Any thread. */
bool memory_recut_waits(struct memory *m);

/* memory_slabs_few - growth would be ordered now. Any thread. */
bool memory_slabs_few(struct memory *m);

struct memory_class_stats {
	uint32_t block_bytes;
	uint64_t slabs;
	uint64_t blocks_used; /* taken and not freed, those in worker caches not counted */
	uint64_t blocks_free; /* those in worker caches included */
};

struct memory_stats {
	uint64_t bytes_max;
	uint64_t extent_bytes[4]; /* by enum extent_kind */
	unsigned extents; /* numbers used so far, of EXTENTS_MAX; those of released ones included */
	uint64_t extents_released;
	uint64_t elsewhere_bytes; /* of the extents, on another NUMA node than the device */
	uint64_t stuck_bytes; /* registered, and never used again: see release.c */
	uint64_t slabs_used; /* cut, or part of a run */
	uint64_t slabs_free;
	uint64_t slabs_waiting; /* neither: they fell empty, hints may lead into them: recut.c */
	uint64_t slabs_dead; /* nor these: all that is left of them are exhausted addresses */
	uint64_t run_slabs; /* of slabs_used */
	uint64_t blocks_exhausted; /* addresses whose incarnations are used up */
	uint64_t segments_used;
	uint64_t segments_free;
	uint64_t segments_exhausted; /* addresses whose incarnations are used up */
	uint64_t directory_bytes_used;
	uint64_t heads_bytes; /* of segments: book-keeping outside of registered memory */
	bool hugepages; /* whether there are any: */
	uint64_t hugepage_bytes; /* of the extents, what is in explicit hugepages */
	unsigned classes;
	struct memory_class_stats class[96];
};

/* memory_stats_get - a snapshot, not atomic as a whole. Any thread; takes the locks briefly. */
void memory_stats_get(struct memory *m, struct memory_stats *out);
