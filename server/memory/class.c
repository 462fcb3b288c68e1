/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The cut slabs of each size class: free blocks that no worker cache holds.
 *
 * A bit per block. A cut slab with a set bit is in one of its class's lists of partial slabs, by
 * the share of its blocks that are free. Blocks are taken from the fullest, so that the others
 * run empty. A slab whose blocks are all back goes to the pool, or waits for hints first (recut.c),
 * and is taken back from there where the class wants one meanwhile.
 *
 * The state word of a block carries its incarnation from one life to the next. Cutting sets all
 * of them to INVALID with the highest incarnation that the slab has seen (pool.c); readers that
 * still knew an address of the old cut are gone, says the caller of memory_free().
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "server/memory/memory_internal.h"

void class_init(struct size_class *class)
{
	pthread_mutex_init(&class->lock, NULL);
	for (unsigned i = 0; i < CLASS_LEVELS; i++)
		TAILQ_INIT(&class->partial[i]);
}

/*
 * must hold the class's lock. The free blocks of @slab become @free: move it to the list where it
 * belongs. One that gets emptier comes before the others of its new list, one that gets fuller
 * after them: each list is sorted well enough.
 */
static void slab_count(struct size_class *class, struct slab *slab, unsigned free)
{
	bool was_listed = slab->blocks_free != 0;
	unsigned from = slab->level, to = from;

	slab->blocks_free = (uint16_t)free;
	if (free) {
		to = (free - 1) * CLASS_LEVELS / slab->blocks;
		if (was_listed && from == to)
			return;
		slab->level = (uint8_t)to;
	}
	if (was_listed)
		TAILQ_REMOVE(&class->partial[from], slab, link);
	if (free && (!was_listed || from < to))
		TAILQ_INSERT_HEAD(&class->partial[to], slab, link);
	else if (free)
		TAILQ_INSERT_TAIL(&class->partial[to], slab, link);
}

/* must hold the class's lock. The slab to take blocks from; NULL: none has any. */
static struct slab *class_fullest(struct size_class *class)
{
	for (unsigned i = 0; class->blocks_free && i < CLASS_LEVELS; i++) {
		if (!TAILQ_EMPTY(&class->partial[i]))
			return TAILQ_FIRST(&class->partial[i]);
	}
	return NULL;
}

/* must hold the class's lock; @slab is the caller's alone */
static void slab_cut(struct memory *m, struct slab *slab, unsigned class_no)
{
	struct size_class *class = &m->class[class_no];
	uint32_t bytes = size_class_bytes(class_no);
	unsigned blocks = SLAB_BYTES / bytes;
	uint64_t state = block_state_make(slab->incarnation, BLOCK_INVALID);
	uint8_t *base = slab_base(m, slab);

	slab->use = SLAB_CUT;
	slab->class_no = (uint8_t)class_no;
	slab->blocks = (uint16_t)blocks;
	slab->blocks_free = 0;
	slab->blocks_dropped = 0;
	slab->word = 0;
	memset(slab->free, 0, SLAB_WORDS * sizeof(uint64_t));
	for (unsigned i = 0; i < blocks; i++) {
		struct block *b = (struct block *)(base + (size_t)i * bytes);

		atomic_store_explicit(&b->state, state, memory_order_relaxed);
		slab->free[i / 64] |= 1ull << (i % 64);
	}
	slab_count(class, slab, blocks);
	class->slabs++;
	class->blocks += blocks;
	class->blocks_free += blocks;
}

/* must hold the class's lock. Take one block of a partial slab: its number. */
static unsigned slab_take(struct size_class *class, struct slab *slab)
{
	unsigned bit;

	while (slab->free[slab->word] == 0)
		slab->word++;
	bit = (unsigned)__builtin_ctzll(slab->free[slab->word]);
	slab->free[slab->word] &= slab->free[slab->word] - 1;
	slab_count(class, slab, slab->blocks_free - 1u);
	return slab->word * 64u + bit;
}

int class_refill(struct memory *m, unsigned class_no, bool cut, struct memory_place *place,
		 unsigned want)
{
	struct size_class *class = &m->class[class_no];
	uint32_t bytes = size_class_bytes(class_no);
	struct slab *slab;
	uint64_t share;
	unsigned taken = 0;
	int rc;

	pthread_mutex_lock(&class->lock);
	if (class->blocks_free == 0) {
		rc = -ENOMEM;
		if (cut)
			rc = recut_take(m, class_no, 1, &slab) ? 0 : pool_take(m, 1, false, &slab);
		if (rc) {
			pthread_mutex_unlock(&class->lock);
			return rc;
		}
		slab_cut(m, slab, class_no);
	}
	/* When few are left, caches must not hoard them. */
	share = 1 + class->blocks_free / 16;
	if (want > share)
		want = (unsigned)share;
	while (taken < want) {
		slab = class_fullest(class);
		place[taken].extent = slab->extent;
		place[taken].offset =
			(uint32_t)slab->number * SLAB_BYTES + slab_take(class, slab) * bytes;
		taken++;
		class->blocks_free--;
	}
	pthread_mutex_unlock(&class->lock);
	return (int)taken;
}

/* must hold the class's lock. Where nothing of @slab is out: take it from the class. */
static bool slab_leaves(struct size_class *class, struct slab *slab)
{
	if (slab->blocks_free + slab->blocks_dropped != slab->blocks)
		return false;
	if (slab->incarnation == INCARNATION_MAX && slab->blocks_free)
		return false; /* no other cut is possible: keep it for what is left */
	class->slabs--;
	class->blocks -= slab->blocks_free;
	class->blocks_free -= slab->blocks_free;
	slab_count(class, slab, 0);
	return true;
}

void class_free(struct memory *m, struct slab *slab, uint32_t offset, uint32_t incarnation)
{
	struct size_class *class = &m->class[slab->class_no];
	uint32_t bytes = size_class_bytes(slab->class_no);
	unsigned number = offset % SLAB_BYTES / bytes;
	uint64_t mask = 1ull << (number % 64);

	assert(offset % SLAB_BYTES % bytes == 0 && number < slab->blocks);
	pthread_mutex_lock(&class->lock);
	assert((slab->free[number / 64] & mask) == 0); /* freed twice */
	if (incarnation > slab->incarnation)
		slab->incarnation = incarnation;
	if (incarnation == INCARNATION_MAX) {
		slab->blocks_dropped++;
		class->blocks--;
		atomic_fetch_add_explicit(&m->blocks_exhausted, 1, memory_order_relaxed);
	} else {
		slab->free[number / 64] |= mask;
		if (slab->word > number / 64)
			slab->word = (uint16_t)(number / 64);
		slab_count(class, slab, slab->blocks_free + 1u);
		class->blocks_free++;
	}
	/* Under the lock, so that nobody finds the slab in neither place and thinks all is full. */
	if (slab_leaves(class, slab))
		pool_give(m, slab, 1);
	pthread_mutex_unlock(&class->lock);
}
