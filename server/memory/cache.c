/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Worker caches, and taking and freeing of blocks.
 *
 * A worker takes blocks from its own cache without a lock and refills it in bulk, under the lock
 * of one size class. Blocks that are freed go straight to their slab: it is the reclaimer that
 * frees, not a worker.
 *
 * BOUND. Of each class a cache holds fewer than 64 blocks and less than 64 KiB, and a refill takes
 * at most 1/16 of what the class has free and one more. So when memory_alloc() answers -ENOMEM, a
 * block that would have fitted is free only in the caches of other workers, per cache and class at
 * most min(63 blocks, 64 KiB), 3 MiB over all classes; or in slabs that were something else and
 * wait for hints (recut.c).
 * Before that answer the worker's own cache is emptied, so that slabs fall empty and are free, or
 * begin to wait, and larger classes are asked.
 *
 * ORDERING. The state word of a new life goes INVALID with the next incarnation, then comes a
 * release fence, then the caller's stores to the body. Readers that reached the old life lawfully
 * are gone, says the caller of memory_free(). A reader that follows a stray or outdated address and
 * fetches bytes of the new body, then looks at the state word, does not find the old incarnation.
 *
 * ZEROES. Every extent begins as zeroes, and memory_free() zeroes the whole block but for its state
 * word, whatever was written of it. So a free block, the rest of a slab after its last block, and
 * the bytes after a record that is shorter than its block hold nothing but zeroes and state words
 * (those of older cuts stay where they are, one in a unit of 64 B at offset 8: no byte of a record,
 * and never LIVE). The zeroes are stored while the block is nobody's: after its state word went
 * OBSOLETE and the grace period passed, or while it still is INVALID; before the class's lock or
 * pool_lock is taken to give it back, hence before the next life. A reader that had no right to be
 * there sees a word that is not LIVE; one that fetched the word while it was LIVE and bytes after
 * they were zeroed has a checksum that is wrong. No lock is held meanwhile: a run takes a while.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mutant.h"
#include "server/memory/memory_internal.h"

#define PREFETCH_AHEAD 4u /* blocks */

/* Pairs with the reader's check of state and incarnation: state word before body. */
static void fence_state_before_body(void)
{
#ifndef __SANITIZE_THREAD__ /* does not know fences; no local reader depends on this one */
	atomic_thread_fence(memory_order_release);
#endif
}

static unsigned refill_blocks(unsigned class_no)
{
	unsigned blocks = CACHE_BYTES / size_class_bytes(class_no);

	if (blocks > CACHE_BLOCKS)
		return CACHE_BLOCKS;
	return blocks ? blocks : 1;
}

int memory_cache_create(struct memory_cache **out, struct memory *m)
{
	struct memory_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return -ENOMEM;
	cache->memory = m;
	pthread_mutex_lock(&m->pool_lock);
	LIST_INSERT_HEAD(&m->caches, cache, link);
	growth_consider(m); /* a worker comes: it will want blocks */
	pthread_mutex_unlock(&m->pool_lock);
	*out = cache;
	return 0;
}

static struct block *place_block(struct memory *m, struct memory_place place)
{
	return (struct block *)(m->extent[place.extent].base + place.offset);
}

/* Give all that the cache holds to the classes. Returns whether there was anything. */
static bool cache_flush(struct memory_cache *cache)
{
	struct memory *m = cache->memory;
	bool any = false;

	for (unsigned c = 0; c < SIZE_CLASSES; c++) {
		struct cache_class *cc = &cache->class[c];
		unsigned count = atomic_load_explicit(&cc->count, memory_order_relaxed);

		atomic_store_explicit(&cc->count, 0, memory_order_relaxed);
		while (count-- > 0) {
			struct memory_place p = cc->place[count];

			/* Incarnation 0: this stay outside used none. */
			class_free(m, &m->extent[p.extent].slab[p.offset / SLAB_BYTES], p.offset,
				   0);
			any = true;
		}
	}
	return any;
}

void memory_cache_destroy(struct memory_cache *cache)
{
	struct memory *m = cache->memory;

	cache_flush(cache);
	pthread_mutex_lock(&m->pool_lock);
	LIST_REMOVE(cache, link);
	pthread_mutex_unlock(&m->pool_lock);
	free(cache);
}

/* Refill a class of the cache. Returns the count, at least 1, -EAGAIN or -ENOMEM. */
static int cache_refill(struct memory_cache *cache, unsigned class_no, struct memory_place *place)
{
	return class_refill(cache->memory, class_no, true, place, refill_blocks(class_no));
}

/* The store looks full for this class: what else would do. */
static int alloc_last_resort(struct memory_cache *cache, unsigned class_no,
			     struct memory_place *place)
{
	if (cache_flush(cache)) {
		int rc = class_refill(cache->memory, class_no, true, place, 1);

		if (rc != -ENOMEM)
			return rc < 0 ? rc : 0;
	}
	for (unsigned c = class_no + 1; c < SIZE_CLASSES; c++) {
		if (class_refill(cache->memory, c, false, place, 1) == 1)
			return 0;
	}
	return -ENOMEM;
}

/*
 * A block that will be taken soon, for writing: its first lines. Otherwise the writer's next atomic
 * operation, a lock's, waits until they have come from memory.
 */
static void block_prefetch(const struct memory *m, struct memory_place place)
{
	const uint8_t *b = m->extent[place.extent].base + place.offset;

	__builtin_prefetch(b, 1);
	__builtin_prefetch(b + CACHE_LINE, 1);
}

static int alloc_class(struct memory_cache *cache, unsigned class_no, struct memory_place *place)
{
	struct cache_class *cc = &cache->class[class_no];
	unsigned count = atomic_load_explicit(&cc->count, memory_order_relaxed);
	int rc;

	if (count == 0) {
		rc = cache_refill(cache, class_no, cc->place);
		if (rc == -ENOMEM)
			return alloc_last_resort(cache, class_no, place);
		if (rc < 0)
			return rc;
		count = (unsigned)rc;
		for (unsigned i = 1; i <= PREFETCH_AHEAD && i <= count; i++)
			block_prefetch(cache->memory, cc->place[count - i]);
	}
	if (count > PREFETCH_AHEAD)
		block_prefetch(cache->memory, cc->place[count - 1 - PREFETCH_AHEAD]);
	*place = cc->place[--count];
	atomic_store_explicit(&cc->count, count, memory_order_relaxed);
	return 0;
}

int memory_alloc(struct memory_cache *cache, uint32_t bytes, struct memory_place *place,
		 struct block **block)
{
	struct memory *m = cache->memory;
	uint32_t incarnation;
	uint64_t state;
	int rc;

	assert(bytes > 0);
	if (bytes > RECORD_BYTES_MAX)
		return -E2BIG;
	if (bytes > SIZE_CLASS_BYTES_MAX) {
		rc = run_alloc(m, size_run_slabs(bytes), place, block);
		if (rc == -ENOMEM && cache_flush(cache))
			rc = run_alloc(m, size_run_slabs(bytes), place, block);
	} else {
		rc = alloc_class(cache, size_class_for(bytes), place);
		if (rc == 0)
			*block = place_block(m, *place);
	}
	if (rc)
		return rc;
	/* This thread owns the block: nobody else stores to it. */
	state = atomic_load_explicit(&(*block)->state, memory_order_relaxed);
	incarnation = block_state_incarnation(state);
	assert(incarnation < INCARNATION_MAX && block_state_of(state) != BLOCK_LIVE);
	atomic_store_explicit(&(*block)->state, block_state_make(incarnation + 1, BLOCK_INVALID),
			      memory_order_relaxed);
	fence_state_before_body();
	return 0;
}

/* See ZEROES. The caller owns the block: nobody else stores to it. */
static void block_zero(struct block *b, size_t bytes)
{
	const size_t body = offsetof(struct block, version);

	b->checksum = 0;
	memset((uint8_t *)b + body, 0, bytes - body);
}

static void block_free(struct memory *m, struct memory_place place)
{
	struct block *b;
	uint64_t state;
	struct slab *slab;

	slab = &m->extent[place.extent].slab[place.offset / SLAB_BYTES];
	b = place_block(m, place);
	state = atomic_load_explicit(&b->state, memory_order_relaxed);
	if (MUTANT(resurrect) && block_state_of(state) == BLOCK_LIVE) {
		state = block_state_make(block_state_incarnation(state), BLOCK_OBSOLETE);
		atomic_store_explicit(&b->state, state, memory_order_release);
	}
	assert(block_state_of(state) != BLOCK_LIVE); /* still published */
	if (slab->use == SLAB_CUT) {
		block_zero(b, size_class_bytes(slab->class_no));
		class_free(m, slab, place.offset, block_state_incarnation(state));
	} else {
		assert(slab->use == SLAB_RUN && place.offset % SLAB_BYTES == 0);
		block_zero(b, (size_t)slab->blocks * SLAB_BYTES);
		run_free(m, slab, block_state_incarnation(state));
	}
}

void memory_free(struct memory *m, struct memory_place place)
{
	assert(memory_addr(m, place.extent, place.offset, OFFSET_UNIT));
	switch (m->extent[place.extent].kind) {
	case EXTENT_INDEX:
		segment_free(m, place);
		break;
	case EXTENT_DIR:
		directory_free(m, place);
		break;
	default:
		block_free(m, place);
		break;
	}
}
