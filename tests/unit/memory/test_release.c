/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* DATA extents that hold nothing are given back, when the index needs room and in no other case. */
#include "tests/unit/memory/watcher.h"

static struct held helds[2]; /* empty between tests */

UNIT_TEST(the_index_gets_what_data_does_not_need)
{
	/* an odd size, so that the last one is not in hugepages */
	struct memory *m = watch_begin(127 * MIB);
	struct held *held = &helds[0];
	struct memory_stats before, after;
	struct memory_cache *cache;
	unsigned full;

	assert_int_equal(memory_cache_create(&cache, m), 0);
	hold_all(cache, held, MIB);
	full = held->count;
	before = consistent();
	assert_int_equal(budget_used(&before), 127 * MIB);
	assert_true(take_segments(8 * MIB) <= 4 * MIB);
	drop_all(held);
	assert_int_equal(consistent().extents_released, 0); /* not before it is needed */

	assert_true(take_segments(6 * MIB) >= 6 * MIB);
	after = consistent();
	/* The last one, of a slab, and the one before it. */
	assert_int_equal(after.extents_released, 2);
	assert_int_equal(watcher.last, before.extents - 2);
	assert_int_equal(memory_extent_bytes(m, before.extents - 1), 0);
	assert_true(pages_have_gone(before.extents - 1));
	assert_true(after.extents > before.extents);

	/* What the index did not take is there for records. */
	hold_all(cache, held, MIB);
	after = consistent();
	assert_int_equal(budget_used(&after), 127 * MIB);
	assert_int_equal(after.slabs_free, 0);
	assert_true(held->count >= full - 8);
	for (unsigned i = 0; i < held->count; i++)
		assert_true(held->place[i].extent < before.extents - 2 ||
			    held->place[i].extent >= before.extents);
	drop_all(held);
	memory_cache_destroy(cache);
	watch_end();
}

UNIT_TEST(directories_get_room_as_well)
{
	struct memory *m = watch_begin(128 * MIB);
	struct held *held = &helds[0];
	struct memory_cache *cache;
	struct memory_place place;
	struct memory_stats s;
	struct directory *d;
	int rc;

	assert_int_equal(memory_cache_create(&cache, m), 0);
	hold_all(cache, held, MIB);
	assert_int_equal(memory_directory_alloc(m, 22, &place, &d), -ENOMEM); /* 32 MiB */
	drop_all(held);
	watcher.claimed = cache;
	while ((rc = memory_directory_alloc(m, 22, &place, &d)) == -EAGAIN)
		memory_growth_wait(m, 1000);
	assert_int_equal(rc, 0);
	memory_growth_wait(m, 5000);
	watcher.claimed = NULL;
	s = consistent();
	assert_true(s.extents_released >= 1);
	assert_true(s.extent_bytes[EXTENT_DIR] >= 32 * MIB);
	memory_cache_destroy(cache);
	watch_end();
}

/* Fill the store with records of @bytes, and keep one in each extent. */
static void keep_one_each(struct memory_cache *cache, uint32_t bytes, struct held *kept)
{
	struct held *held = &helds[0];
	bool has[EXTENTS_MAX] = { false };

	hold_all(cache, held, bytes);
	for (unsigned i = 0; i < held->count; i++) {
		struct memory_place p = held->place[i];

		if (has[p.extent])
			continue;
		has[p.extent] = true;
		kept->place[kept->count++] = p;
		held->place[i--] = held->place[--held->count];
	}
	drop_all(held);
}

/* One block that is out keeps its extent: a run, or one of a slab. */
UNIT_TEST(an_extent_with_a_block_stays)
{
	const uint32_t sizes[] = { MIB, 200 << 10, 8000 };

	for (unsigned k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		struct memory *m = watch_begin(64 * MIB);
		struct held *kept = &helds[1];
		struct memory_cache *cache;

		assert_int_equal(memory_cache_create(&cache, m), 0);
		keep_one_each(cache, sizes[k], kept);
		assert_true(kept->count >= 3);
		assert_true(take_segments(8 * MIB) <= 4 * MIB);
		assert_int_equal(consistent().extents_released, 0);
		for (unsigned i = 0; i < kept->count; i++)
			assert_non_null(
				memory_addr(m, kept->place[i].extent, kept->place[i].offset, 1));
		drop_all(kept);
		memory_cache_destroy(cache);
		consistent();
		assert_true(take_segments(8 * MIB) > 4 * MIB); /* now it goes */
		consistent();
		watch_end();
	}
}

/* So do addresses whose incarnations are used up: nothing could count them for the next extent. */
UNIT_TEST(an_extent_with_a_dead_slab_stays)
{
	struct memory *m = watch_begin(64 * MIB);
	struct held *kept = &helds[1];
	struct memory_cache *cache;
	struct memory_stats s;
	unsigned dead;

	assert_int_equal(memory_cache_create(&cache, m), 0);
	keep_one_each(cache, MIB, kept);
	dead = kept->count;
	for (unsigned i = 0; i < dead; i++) {
		struct block *b = memory_addr(m, kept->place[i].extent, kept->place[i].offset, 64);

		atomic_store(&b->state, block_state_make(UINT32_MAX, BLOCK_OBSOLETE));
	}
	drop_all(kept);
	assert_true(take_segments(8 * MIB) <= 4 * MIB);
	s = consistent();
	assert_int_equal(s.slabs_dead, dead);
	assert_int_equal(s.extents_released, 0);
	memory_cache_destroy(cache);
	watch_end();
}

/* A block in a worker's cache is free, but its slab is not. */
UNIT_TEST(an_extent_with_a_cached_block_stays)
{
	struct memory *m = watch_begin(64 * MIB);
	struct held *held = &helds[0];
	struct memory_cache *cache;
	struct memory_place first;
	struct memory_stats s;

	assert_int_equal(memory_cache_create(&cache, m), 0);
	hold_all(cache, held, MIB);
	drop_all(held);
	assert_int_equal(hold(cache, held, 8000), 0);
	first = held->place[0];
	drop_all(held);
	take_segments(64 * MIB);
	s = consistent();
	assert_true(s.extents_released > 0);
	assert_int_equal(s.extent_bytes[EXTENT_DATA], memory_extent_bytes(m, first.extent));
	assert_int_equal(hold(cache, held, 8000), 0); /* one of those */
	assert_int_equal(held->place[0].extent, first.extent);
	drop_all(held);
	memory_cache_destroy(cache);
	watch_end();
}

/* Numbers are not used again, and the last quarter of them is not spent on this. */
UNIT_TEST(numbers_are_spent_once)
{
	struct memory *m = watch_begin(128 * MIB);
	struct held *held = &helds[0];
	bool gone[EXTENTS_MAX] = { false };
	struct memory_cache *cache;
	struct memory_stats s;

	assert_int_equal(memory_cache_create(&cache, m), 0);
	for (unsigned round = 0; round < 6; round++) {
		hold_all(cache, held, MIB);
		for (unsigned i = 0; i < held->count; i++)
			assert_false(gone[held->place[i].extent]);
		drop_all(held);
		assert_true(take_segments(8 * MIB) >= 8 * MIB);
		s = consistent();
		for (unsigned i = 0; i < s.extents; i++) {
			assert_false(gone[i] && memory_extent_bytes(m, i));
			gone[i] = !memory_extent_bytes(m, i);
		}
		assert_true(s.extents_released > round);
	}
	hold_all(cache, held, MIB);
	drop_all(held);
	memory_test_extents(m, EXTENTS_MAX / 4 * 3);
	s = consistent();
	assert_true(take_segments(64 * MIB) < 64 * MIB);
	assert_int_equal(consistent().extents_released, s.extents_released);
	memory_cache_destroy(cache);
	watch_end();
}

/* DATA leaves 1/64 to the index, with what the index has. */
UNIT_TEST(the_index_has_a_reserve)
{
	struct memory *m = watch_begin(512 * MIB);
	struct held *held = &helds[0];
	struct memory_cache *cache;
	struct memory_stats s;

	assert_int_equal(memory_cache_create(&cache, m), 0);
	hold_all(cache, held, 16 * MIB);
	hold_all(cache, held, MIB);
	s = consistent();
	assert_int_equal(s.slabs_free, 0);
	assert_int_equal(s.extent_bytes[EXTENT_DATA], (512 - 8) * MIB);
	assert_true(take_segments(7 * MIB) >= 7 * MIB);
	s = consistent();
	assert_int_equal(s.extent_bytes[EXTENT_INDEX], 8 * MIB);
	assert_int_equal(s.extents_released, 0);
	drop_all(held);
	memory_cache_destroy(cache);
	watch_end();
}

/* A key that did not die may be used by a READ: its memory stays as it was, and serves nobody. */
UNIT_TEST(memory_whose_key_lives_is_not_touched_again)
{
	struct memory *m = watch_begin(128 * MIB);
	struct held *held = &helds[0];
	struct memory_stats before, after;
	struct memory_cache *cache;
	uint8_t *base[64] = { NULL }, *stuck;
	unsigned full, calls;
	uint64_t bytes;

	assert_int_equal(memory_cache_create(&cache, m), 0);
	hold_all(cache, held, MIB);
	full = held->count;
	drop_all(held);
	before = consistent();
	assert_true(before.extents <= 64);
	for (unsigned i = 0; i < before.extents; i++)
		base[i] = memory_addr(m, i, 0, 1);

	watcher.recorder.keys_stay = true;
	assert_true(take_segments(8 * MIB) <= 4 * MIB); /* nothing was won for the index */
	memory_stats_get(m, &after);
	calls = watcher.recorder.unregistered;
	assert_int_equal(calls, 1); /* one extent is enough to learn it */
	stuck = base[watcher.last];
	bytes = watcher.region[watcher.last + 1].len;
	assert_int_equal(after.stuck_bytes, bytes);
	assert_int_equal(after.extents_released, 0);
	assert_int_equal(budget_used(&after), budget_used(&before) - bytes);
	assert_false(pages_have_gone(watcher.last)); /* nor unmapped: the next line may read */
	memset(stuck, 0x5a, bytes);

	watcher.recorder.keys_stay = false; /* a device that kept one is not asked again */
	assert_true(take_segments(8 * MIB) <= 4 * MIB);
	assert_int_equal(watcher.recorder.unregistered, calls);
	hold_all(cache, held, MIB);
	assert_true(held->count + bytes / MIB <= full); /* the budget still has it */
	for (unsigned i = 0; i < held->count; i++)
		assert_int_not_equal(held->place[i].extent, watcher.last);
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(stuck[i], 0x5a);
	drop_all(held);
	memory_cache_destroy(cache);
	watch_end();
}
