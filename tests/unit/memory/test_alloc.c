/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Blocks against a map of the owner of each 64-byte unit: no two overlap, not even within the READ
 * that their size code stands for, and no address repeats an incarnation.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "common/layout/size_code.h"
#include "server/memory/memory_test.h"
#include "server/memory/size_class.h"
#include "tests/unit/memory/recorder.h"

#define EXTENTS 16u

struct live {
	struct memory_place place;
	struct block *block;
	uint32_t bytes;
	uint64_t id;
};

struct world {
	struct recorder recorder;
	struct memory *memory;
	_Atomic uint32_t *owner[EXTENTS]; /* of each unit; 0: nobody */
	_Atomic uint32_t *incarnation[EXTENTS]; /* last one of a block that began here */
};

static void world_begin(struct world *w, uint64_t bytes_max)
{
	w->memory = recorder_memory(&w->recorder, bytes_max);
	for (unsigned i = 0; i < EXTENTS; i++) {
		w->owner[i] = calloc(EXTENT_BYTES_MAX / OFFSET_UNIT, 4);
		w->incarnation[i] = calloc(EXTENT_BYTES_MAX / OFFSET_UNIT, 4);
	}
}

static void world_end(struct world *w, uint64_t dead)
{
	struct memory_stats stats;

	memory_stats_get(w->memory, &stats);
	check(stats.slabs_used == 0 && stats.run_slabs == 0 && stats.slabs_dead == dead);
	check(stats.slabs_free + dead == stats.extent_bytes[EXTENT_DATA] / SLAB_BYTES);
	for (unsigned c = 0; c < stats.classes; c++)
		check(stats.class[c].blocks_used == 0 && stats.class[c].slabs == 0);
	recorder_end(&w->recorder, w->memory);
	for (unsigned i = 0; i < EXTENTS; i++) {
		free(w->owner[i]);
		free(w->incarnation[i]);
	}
}

static void world_mark(struct world *w, const struct live *l, uint32_t from, uint32_t to)
{
	uint32_t units = size_code_bytes(size_code_for(l->bytes)) / OFFSET_UNIT;

	check(l->place.extent < EXTENTS);
	for (uint32_t i = 0; i < units; i++)
		check(atomic_exchange_explicit(
			      &w->owner[l->place.extent][l->place.offset / OFFSET_UNIT + i], to,
			      memory_order_relaxed) == from);
}

static int world_alloc(struct world *w, struct memory_cache *cache, uint32_t bytes, uint64_t id,
		       struct live *l)
{
	int rc = alloc_wait(w->memory, cache, bytes, &l->place, &l->block);
	_Atomic uint32_t *last;
	uint64_t state;

	if (rc)
		return rc;
	check(l->place.offset % OFFSET_UNIT == 0);
	check(memory_addr(w->memory, l->place.extent, l->place.offset,
			  size_code_bytes(size_code_for(bytes))) == l->block);
	l->bytes = bytes;
	l->id = id;
	state = atomic_load(&l->block->state);
	check(block_state_of(state) == BLOCK_INVALID);
	last = &w->incarnation[l->place.extent][l->place.offset / OFFSET_UNIT];
	check(block_state_incarnation(state) > atomic_load(last));
	atomic_store(last, block_state_incarnation(state));
	world_mark(w, l, 0, (uint32_t)id);
	/* Scribble over all of it, but for the state word. */
	l->block->checksum = id;
	memset((uint8_t *)l->block + 16, (int)(id & 0xff), bytes > 16 ? bytes - 16 : 0);
	return 0;
}

static void world_free(struct world *w, struct live *l)
{
	const uint8_t *byte = (const uint8_t *)l->block;

	check(l->block->checksum == l->id);
	check(l->bytes <= 16 || byte[16] == (l->id & 0xff));
	check(l->bytes <= 16 || byte[l->bytes - 1] == (l->id & 0xff));
	world_mark(w, l, (uint32_t)l->id, 0);
	if (l->id % 3 == 0) /* as if it had been published and unlinked */
		atomic_store(
			&l->block->state,
			block_state_make(block_state_incarnation(atomic_load(&l->block->state)),
					 BLOCK_OBSOLETE));
	memory_free(w->memory, l->place);
	l->block = NULL;
}

static uint32_t random_bytes(uint64_t *rng)
{
	uint64_t dice = rng_below(rng, 10000);

	if (dice < 2)
		return (uint32_t)(1 + rng_below(rng, RECORD_BYTES_MAX));
	if (dice < 50)
		return (uint32_t)(1 + rng_below(rng, 256 << 10));
	if (dice < 1000)
		return (uint32_t)(1 + rng_below(rng, 8192));
	return (uint32_t)(1 + rng_below(rng, 700));
}

struct churn {
	struct world *world;
	uint64_t rng;
	unsigned operations;
	unsigned lives;
	unsigned number; /* of the thread */
	unsigned full;
	/* Blocks that another thread frees. */
	pthread_mutex_t *lock;
	struct live *hand;
};

static void *churn_run(void *arg)
{
	struct churn *c = arg;
	struct live *live = calloc(c->lives, sizeof(*live));
	struct memory_cache *cache;
	uint64_t id = c->number;

	check(memory_cache_create(&cache, c->world->memory) == 0);
	for (unsigned i = 0; i < c->operations; i++) {
		struct live *l = &live[rng_below(&c->rng, c->lives)];

		/* Now and then all of a stretch goes, so that slabs run empty and are re-cut. */
		if (rng_below(&c->rng, 200000) == 0) {
			for (unsigned k = 0; k < c->lives; k++) {
				if (live[k].block)
					world_free(c->world, &live[k]);
			}
		}
		if (c->hand && rng_below(&c->rng, 8) == 0) {
			struct live other;

			pthread_mutex_lock(c->lock);
			other = *c->hand;
			*c->hand = *l;
			pthread_mutex_unlock(c->lock);
			*l = other;
		}
		if (l->block) {
			world_free(c->world, l);
			continue;
		}
		id += 4;
		if (world_alloc(c->world, cache, random_bytes(&c->rng), id, l))
			c->full++;
	}
	for (unsigned k = 0; k < c->lives; k++) {
		if (live[k].block)
			world_free(c->world, &live[k]);
	}
	memory_cache_destroy(cache);
	free(live);
	return NULL;
}

UNIT_TEST(random_churn)
{
	struct world w;
	struct churn c = {
		.world = &w, .rng = test_seed(), .operations = 3000000, .lives = 20000, .number = 1
	};

	world_begin(&w, 192 * MIB);
	churn_run(&c);
	printf("full %u times\n", c.full);
	world_end(&w, 0);
}

UNIT_TEST(random_churn_when_tight)
{
	struct world w;
	struct churn c = { .world = &w,
			   .rng = test_seed() + 1,
			   .operations = 1000000,
			   .lives = 60000,
			   .number = 1 };

	world_begin(&w, 24 * MIB);
	churn_run(&c);
	assert_true(c.full > 0); /* or the test is not what it says */
	world_end(&w, 0);
}

UNIT_TEST(random_churn_of_threads)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint64_t seed = test_seed();
	struct live hand = { 0 };
	struct churn c[3];
	pthread_t thread[3];
	struct world w;

	world_begin(&w, 160 * MIB);
	for (unsigned i = 0; i < 3; i++) {
		c[i] = (struct churn){ .world = &w,
				       .rng = seed + i,
				       .operations = 700000,
				       .lives = 8000,
				       .number = i + 1,
				       .lock = &lock,
				       .hand = &hand };
		pthread_create(&thread[i], NULL, churn_run, &c[i]);
	}
	for (unsigned i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	if (hand.block)
		world_free(&w, &hand);
	world_end(&w, 0);
}

static unsigned fill(struct world *w, struct memory_cache *cache, uint32_t bytes, struct live *live,
		     unsigned max)
{
	unsigned n = 0;

	while (n < max && world_alloc(w, cache, bytes, n + 1, &live[n]) == 0)
		n++;
	assert_true(n < max);
	return n;
}

UNIT_TEST(full_store_recovers)
{
	static struct live live[140000];
	struct memory_cache *a, *b;
	struct world w;
	unsigned n;

	world_begin(&w, 8 * MIB);
	assert_int_equal(memory_cache_create(&a, w.memory), 0);
	assert_int_equal(memory_cache_create(&b, w.memory), 0);
	for (unsigned round = 0; round < 3; round++) {
		const uint32_t bytes[] = { 64, 300, 100000, 256 << 10, 1 << 20 };

		for (unsigned k = 0; k < 5; k++) {
			uint32_t block = bytes[k] > SIZE_CLASS_BYTES_MAX
						 ? SLAB_BYTES
						 : size_class_bytes(size_class_for(bytes[k]));

			n = fill(&w, a, bytes[k], live, 140000);
			/* Nothing is left over: the worker's own cache is used up as well. */
			assert_int_equal(n, 8 * (SLAB_BYTES / block));
			assert_int_equal(memory_alloc(b, bytes[k], &live[n].place, &live[n].block),
					 -ENOMEM);
			/* One goes, one comes, for the other worker too. */
			world_free(&w, &live[n - 1]);
			assert_int_equal(world_alloc(&w, b, bytes[k], n, &live[n - 1]), 0);
			while (n)
				world_free(&w, &live[--n]);
		}
	}
	assert_int_equal(memory_alloc(a, RECORD_BYTES_MAX + 1, &live[0].place, &live[0].block),
			 -E2BIG);
	assert_int_equal(memory_alloc(a, RECORD_BYTES_MAX, &live[0].place, &live[0].block),
			 -ENOMEM);
	memory_cache_destroy(a);
	memory_cache_destroy(b);
	world_end(&w, 0);
}

/* Where a class has nothing left, a block of a larger one does. */
UNIT_TEST(larger_class_is_a_last_resort)
{
	struct live big[8], rest[2000];
	struct memory_cache *cache;
	struct world w;
	unsigned n;

	world_begin(&w, 8 * MIB);
	assert_int_equal(memory_cache_create(&cache, w.memory), 0);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(world_alloc(&w, cache, 240 << 10, 4000 + i, &big[i]), 0);
	/* 2 slabs of 256 KiB blocks (4 each); now 6 slabs of 8 KiB, then the free 256 KiB ones. */
	world_free(&w, &big[7]);
	world_free(&w, &big[0]);
	n = fill(&w, cache, 8192, rest, 2000);
	assert_int_equal(n, 6 * 128 + 2);
	while (n)
		world_free(&w, &rest[--n]);
	for (unsigned i = 1; i < 7; i++)
		world_free(&w, &big[i]);
	memory_cache_destroy(cache);
	world_end(&w, 0);
}

/* Slabs that only the worker's own cache holds are no reason to be full. */
UNIT_TEST(own_hoard_gives_way)
{
	const uint32_t small[] = { 64, 128, 500, 1000, 2000, 4000, 9000, 17000 };
	struct live live[40], one;
	struct memory_cache *cache;
	struct world w;
	unsigned n;

	world_begin(&w, 8 * MIB);
	assert_int_equal(memory_cache_create(&cache, w.memory), 0);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 8; i++) {
			assert_int_equal(world_alloc(&w, cache, small[i], 1000 + i, &one), 0);
			world_free(&w, &one);
		}
		n = fill(&w, cache, round ? SLAB_BYTES : 256 << 10, live, 40);
		assert_int_equal(n, round ? 8 : 32);
		while (n)
			world_free(&w, &live[--n]);
	}
	memory_cache_destroy(cache);
	world_end(&w, 0);
}

/* What idle workers hoard is bounded as cache.c says. */
UNIT_TEST(caches_hoard_little)
{
	static struct live live[140000];
	struct memory_cache *idle[4], *busy;
	struct memory_stats stats;
	struct live one[4];
	struct world w;
	unsigned n;

	world_begin(&w, 8 * MIB);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(memory_cache_create(&idle[i], w.memory), 0);
		assert_int_equal(world_alloc(&w, idle[i], 64, 200000 + i, &one[i]), 0);
	}
	assert_int_equal(memory_cache_create(&busy, w.memory), 0);
	n = fill(&w, busy, 64, live, 140000);
	assert_true(n + 4 + 4 * 63 >= 8 * SIZE_CLASS_BLOCKS_MAX);
	memory_stats_get(w.memory, &stats);
	assert_int_equal(stats.class[0].blocks_used, n + 4);
	assert_int_equal(stats.class[0].blocks_free, 8 * SIZE_CLASS_BLOCKS_MAX - n - 4);
	for (unsigned i = 0; i < 4; i++) {
		world_free(&w, &one[i]);
		memory_cache_destroy(idle[i]);
	}
	while (n)
		world_free(&w, &live[--n]);
	memory_cache_destroy(busy);
	world_end(&w, 0);
}

/* world_alloc() asserts that no incarnation repeats; here they end. */
UNIT_TEST(exhausted_addresses_are_dropped)
{
	struct memory_cache *cache;
	struct memory_stats stats;
	struct live live = { 0 };
	struct world w;
	struct error err;
	unsigned x, lives = 0;

	world_begin(&w, 8 * MIB);
	assert_int_equal(memory_extent_add(w.memory, EXTENT_DATA, 8 * MIB, &x, &err), 0);
	memory_test_incarnation(w.memory, UINT32_MAX - 2, UINT32_MAX);
	assert_int_equal(memory_cache_create(&cache, w.memory), 0);
	/* A run first: its head is used up, the other slabs of it go on. */
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(world_alloc(&w, cache, 3 * MIB, 9, &live), 0);
		assert_int_equal(live.place.offset, 5 * MIB); /* from the high end */
		world_free(&w, &live);
	}
	memory_stats_get(w.memory, &stats);
	assert_int_equal(stats.blocks_exhausted, 1);
	assert_int_equal(stats.slabs_dead, 1);
	assert_int_equal(stats.slabs_free, 7);
	while (lives < 1000 && world_alloc(&w, cache, 256 << 10, lives + 1, &live) == 0) {
		world_free(&w, &live);
		lives++;
	}
	memory_stats_get(w.memory, &stats);
	assert_int_equal(stats.blocks_exhausted, 1 + 7 * 4);
	assert_int_equal(lives, 7 * 5); /* the first block of each slab lives twice */
	memory_cache_destroy(cache);
	world_end(&w, 8);
}
