/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Deleted bytes: what a block held is nowhere in the extents once it was given back, and a block
 * that is taken holds nothing of what was there before.
 */
#include "server/memory/size_class.h"
#include "tests/unit/memory/recorder.h"

/* A unit of 64 B that no record is in: zeroes, but for what may be the state word of a block. */
static bool unit_is_clean(const uint64_t *word)
{
	for (unsigned i = 0; i < OFFSET_UNIT / 8; i++) {
		bool state = i == offsetof(struct block, state) / 8;

		if (state ? block_state_of(word[i]) == BLOCK_LIVE ||
				    block_state_of(word[i]) > BLOCK_OBSOLETE
			  : word[i] != 0)
			return false;
	}
	return true;
}

/* The first unit with something in it from @from on, or @bytes. */
static uint64_t dirt(const void *base, uint64_t from, uint64_t bytes)
{
	for (uint64_t i = from; i < bytes; i += OFFSET_UNIT) {
		if (!unit_is_clean((const uint64_t *)((const uint8_t *)base + i)))
			return i;
	}
	return bytes;
}

static void assert_all_clean(struct memory *m)
{
	uint64_t seen = 0;

	for (unsigned x = 0; x < EXTENTS_MAX && memory_extent_bytes(m, x); x++) {
		uint64_t bytes = memory_extent_bytes(m, x);
		uint64_t at = dirt(memory_addr(m, x, 0, bytes), 0, bytes);

		if (at != bytes)
			fail_msg("extent %u holds something at %llu", x, (unsigned long long)at);
		seen += bytes;
	}
	assert_true(seen >= 4 * MIB);
}

struct taken {
	struct memory_place place;
	struct block *block;
	uint32_t bytes;
};

static uint32_t block_length(uint32_t bytes)
{
	return bytes > SIZE_CLASS_BYTES_MAX ? size_run_slabs(bytes) * SLAB_BYTES
					    : size_class_bytes(size_class_for(bytes));
}

/* Take a block, see that it is clean, and write all of a record of @bytes. */
static int take(struct memory *m, struct memory_cache *cache, uint32_t bytes, struct taken *t)
{
	int rc = alloc_wait(m, cache, bytes, &t->place, &t->block);

	if (rc)
		return rc;
	t->bytes = bytes;
	assert_int_equal(dirt(t->block, 0, block_length(bytes)), block_length(bytes));
	memset(t->block, 0xa5, offsetof(struct block, state));
	if (bytes > offsetof(struct block, version))
		memset((uint8_t *)t->block + offsetof(struct block, version), 0xa5,
		       bytes - offsetof(struct block, version));
	return 0;
}

/* As after a DEL and its grace period, or, every other time, an aborted PUT. */
static void give(struct memory *m, struct taken *t)
{
	uint32_t incarnation = block_state_incarnation(atomic_load(&t->block->state));

	if (incarnation % 2)
		atomic_store(&t->block->state, block_state_make(incarnation, BLOCK_OBSOLETE));
	memory_free(m, t->place);
	assert_int_equal(block_state_incarnation(atomic_load(&t->block->state)), incarnation);
	t->block = NULL;
}

UNIT_TEST(every_class_and_run_is_zeroed)
{
	struct recorder r;
	struct memory *m = recorder_memory(&r, 192 * MIB);
	struct memory_cache *cache;
	struct taken t;

	assert_int_equal(memory_cache_create(&cache, m), 0);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned c = 0; c < SIZE_CLASSES; c++) {
			uint32_t bytes = size_class_bytes(c);

			/* the whole block, then one byte less than the class below ends */
			assert_int_equal(take(m, cache, bytes, &t), 0);
			give(m, &t);
			bytes = c ? size_class_bytes(c - 1) + 1 : 1;
			assert_int_equal(take(m, cache, bytes, &t), 0);
			give(m, &t);
		}
		for (unsigned slabs = 1; slabs <= 17; slabs++) {
			uint32_t bytes = slabs * SLAB_BYTES;

			assert_ok(take(m, cache,
				       bytes > RECORD_BYTES_MAX ? RECORD_BYTES_MAX : bytes, &t));
			give(m, &t);
			assert_all_clean(m);
		}
	}
	memory_cache_destroy(cache);
	recorder_end(&r, m);
}

/* What a longer record left is not after a shorter one in the same block. */
UNIT_TEST(shorter_record_shows_nothing_of_a_longer_one)
{
	const uint32_t longer[] = { 64, 1024, 1152, 65536, SIZE_CLASS_BYTES_MAX, 3 * MIB };
	struct recorder r;
	struct memory *m = recorder_memory(&r, 32 * MIB);
	struct memory_cache *cache;

	assert_int_equal(memory_cache_create(&cache, m), 0);
	for (unsigned i = 0; i < sizeof(longer) / sizeof(longer[0]); i++) {
		struct memory_place place;
		struct taken t;
		unsigned tries = 0;

		assert_int_equal(take(m, cache, longer[i], &t), 0);
		place = t.place;
		give(m, &t);
		do { /* until that very block comes again */
			assert_int_equal(take(m, cache, longer[i] - 40, &t), 0);
			assert_true(++tries < 40000);
		} while (t.place.extent != place.extent || t.place.offset != place.offset);
		assert_int_equal(((uint8_t *)t.block)[longer[i] - 41], 0xa5);
		for (uint32_t k = longer[i] - 40; k < longer[i]; k++)
			assert_int_equal(((uint8_t *)t.block)[k], 0);
	}
	memory_cache_destroy(cache);
	recorder_end(&r, m);
}

static uint32_t random_bytes(uint64_t *rng)
{
	uint64_t dice = rng_below(rng, 2000);

	if (dice == 0)
		return (uint32_t)(1 + rng_below(rng, 5 * MIB));
	return (uint32_t)(1 + rng_below(rng, dice < 40 ? 200000 : dice < 400 ? 5000 : 500));
}

/* Slabs cut for one class after another, and blocks of all sizes at once. */
UNIT_TEST(churn_leaves_nothing)
{
	static struct taken t[3000];
	struct memory_cache *cache;
	uint64_t rng = test_seed();
	struct recorder r;
	struct memory *m = recorder_memory(&r, 48 * MIB);
	unsigned taken = 0;

	memset(t, 0, sizeof(t));
	assert_int_equal(memory_cache_create(&cache, m), 0);
	for (unsigned round = 0; round < 6; round++) {
		for (unsigned i = 0; i < 60000; i++) {
			struct taken *one = &t[rng_below(&rng, 3000)];

			if (one->block)
				give(m, one);
			else
				taken += take(m, cache, random_bytes(&rng), one) == 0;
		}
		for (unsigned i = 0; i < 3000; i++) {
			if (t[i].block)
				give(m, &t[i]);
		}
		assert_all_clean(m);
	}
	assert_true(taken > 100000);
	memory_cache_destroy(cache);
	recorder_end(&r, m);
}

/* No more than the block is zeroed. */
UNIT_TEST(neighbours_keep_their_bytes)
{
	struct recorder r;
	struct memory *m = recorder_memory(&r, 16 * MIB);
	struct memory_cache *cache;
	struct taken t[200];

	assert_int_equal(memory_cache_create(&cache, m), 0);
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(take(m, cache, 700, &t[i]), 0);
	for (unsigned i = 0; i < 200; i += 2)
		give(m, &t[i]);
	for (unsigned i = 1; i < 200; i += 2) {
		const uint8_t *b = (const uint8_t *)t[i].block;

		for (unsigned k = 0; k < 700; k++)
			assert_true(b[k] == 0xa5 || k / 8 == 1);
		give(m, &t[i]);
	}
	assert_all_clean(m);
	memory_cache_destroy(cache);
	recorder_end(&r, m);
}
