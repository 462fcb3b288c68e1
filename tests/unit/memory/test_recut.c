/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Slabs that fell empty: what they serve while hints may lead into them, and what they do not. */
#include "server/memory/memory_test.h"
#include "server/memory/size_class.h"
#include "tests/unit/memory/recorder.h"

#define STORE	 (16u * MIB)
#define DATA	 (8u * MIB)
#define UNITS	 (EXTENT_BYTES_MAX / OFFSET_UNIT)
#define EXTENTS	 8u
#define HELD_MAX 40000u

static struct recorder recorder;
static struct memory *m;
static struct memory_cache *cache;

struct held {
	struct memory_place place;
	uint32_t bytes;
	uint32_t incarnation;
};

static struct held held[HELD_MAX];
static unsigned count;

static int begin(void **state)
{
	const struct memory_config config = {
		.bytes_max = STORE,
		.hooks = { recorder_register, recorder_unregister, &recorder },
		.hints = true,
	};
	struct error err;
	unsigned extent;

	memset(&recorder, 0, sizeof(recorder));
	count = 0;
	return memory_create(&m, &config, &err) ||
	       memory_extent_add(m, EXTENT_DATA, DATA, &extent, &err) ||
	       memory_cache_create(&cache, m);
}

static int end(void **state)
{
	memory_cache_destroy(cache);
	recorder_end(&recorder, m);
	return 0;
}

static int take(uint32_t bytes)
{
	struct held *h = &held[count];
	struct block *b;
	int rc = alloc_wait(m, cache, bytes, &h->place, &b);

	if (rc == 0) {
		assert_true(count + 1 < HELD_MAX);
		h->bytes = bytes;
		h->incarnation = block_state_incarnation(atomic_load(&b->state));
		count++;
	}
	return rc;
}

static void give(unsigned i)
{
	memory_free(m, held[i].place);
	held[i] = held[--count];
}

/* All that there is. Returns how many. */
static unsigned fill(uint32_t bytes)
{
	unsigned before = count;
	int rc;

	while ((rc = take(bytes)) == 0)
		;
	assert_int_equal(rc, -ENOMEM);
	return count - before;
}

static void empty(void)
{
	while (count)
		give(count - 1);
}

static struct memory_stats stats(void)
{
	struct memory_stats s;

	memory_stats_get(m, &s);
	return s;
}

static uint32_t *incarnations(void)
{
	static uint32_t all[EXTENTS][UNITS];

	return all[0];
}

static uint32_t *incarnation_of(const struct held *h)
{
	assert_true(h->place.extent < EXTENTS);
	return &incarnations()[h->place.extent * UNITS + h->place.offset / OFFSET_UNIT];
}

static void serves_its_own(uint32_t bytes, const uint32_t *others)
{
	unsigned n = fill(bytes);

	memset(incarnations(), 0, EXTENTS * UNITS * sizeof(uint32_t));
	for (unsigned i = 0; i < n; i++)
		*incarnation_of(&held[i]) = held[i].incarnation;
	for (unsigned round = 0; round < 3; round++) {
		empty();
		assert_true(stats().slabs_waiting > stats().slabs_free);
		for (unsigned i = 0; others[i]; i++)
			assert_int_equal(take(others[i]), -ENOMEM);
		assert_int_equal(fill(bytes), n); /* with no hint gone */
		assert_int_equal(stats().slabs_waiting, 0);
		for (unsigned i = 0; i < n; i++) {
			assert_true(held[i].incarnation > *incarnation_of(&held[i]));
			assert_true(*incarnation_of(&held[i]));
			*incarnation_of(&held[i]) = held[i].incarnation;
		}
	}
	empty();
	memory_recut_wanted(m, 7);
	assert_false(memory_recut(m, 7));
	assert_int_equal(stats().slabs_used + stats().slabs_waiting, 0);
	for (unsigned i = 0; others[i]; i++)
		assert_int_equal(take(others[i]), 0); /* now they may */
	empty();
}

UNIT_TEST(a_class_has_its_slabs_back, begin, end)
{
	serves_its_own(900, (const uint32_t[]){ 64, 1024, 200000, 2 * MIB, 0 });
}

UNIT_TEST(a_class_of_large_blocks_has_its_slabs_back, begin, end)
{
	serves_its_own(250000, (const uint32_t[]){ 64, 2000, 65000, 300000, 0 });
}

UNIT_TEST(a_run_is_run_again, begin, end)
{
	serves_its_own(2 * MIB, (const uint32_t[]){ 2 * MIB + 1, 3 * MIB, 0 });
}

UNIT_TEST(a_run_of_one_slab_is_run_again, begin, end)
{
	serves_its_own(MIB, (const uint32_t[]){ 64, 250000, 2 * MIB, 0 });
}

/* What was empty, used again and empty once more waits for what was learnt meanwhile as well. */
UNIT_TEST(it_waits_anew, begin, end)
{
	unsigned slabs;

	fill(1024);
	empty();
	slabs = (unsigned)stats().slabs_waiting;
	assert_int_equal(memory_recut_wanted(m, 5), 5);
	assert_int_equal(take(1024), 0);
	assert_int_equal(stats().slabs_waiting, slabs - 1);
	empty();
	memory_cache_destroy(cache); /* it has the others of the slab */
	assert_int_equal(memory_cache_create(&cache, m), 0);
	assert_int_equal(stats().slabs_waiting, slabs);
	assert_true(memory_recut(m, 5));
	assert_int_equal(stats().slabs_waiting, 1);
	assert_int_equal(memory_recut_wanted(m, 9), 9);
	assert_true(memory_recut(m, 8));
	assert_int_equal(stats().slabs_waiting, 1);
	assert_false(memory_recut(m, 9));
	assert_int_equal(stats().slabs_waiting, 0);
}

/* An address that is used up can begin no other run. */
UNIT_TEST(what_is_used_up_is_not_taken, begin, end)
{
	unsigned n;

	fill(MIB); /* so that the store has grown to its end */
	empty();
	memory_recut_wanted(m, 1);
	assert_false(memory_recut(m, 1));
	memory_test_incarnation(m, UINT32_MAX - 1, UINT32_MAX);
	n = fill(MIB);
	empty();
	assert_int_equal(fill(MIB), 0);
	memory_recut_wanted(m, 2);
	assert_false(memory_recut(m, 2));
	assert_int_equal(stats().slabs_dead, n);
}

/* Where hints may lead: the block that began there last, and the epoch in which it went. */
struct trace {
	uint32_t begins, bytes;
	uint64_t gone; /* 0: it is there still */
};

static struct trace trace[EXTENTS][UNITS];

static uint32_t format_bytes(uint32_t bytes)
{
	return bytes > SIZE_CLASS_BYTES_MAX ? size_run_slabs(bytes) * SLAB_BYTES
					    : size_class_bytes(size_class_for(bytes));
}

/*
 * A block was taken. No hint may lead into the middle of it: whatever stood where it stands now
 * began where it begins, unless it went before @passed.
 */
static void check_trace(const struct held *h, uint64_t passed)
{
	uint32_t first = h->place.offset / OFFSET_UNIT, bytes = format_bytes(h->bytes);

	for (uint32_t i = 0; i < bytes / OFFSET_UNIT; i++) {
		struct trace *t = &trace[h->place.extent][first + i];

		if (t->bytes && t->gone >= passed) {
			assert_int_equal(t->begins, h->place.offset);
			continue;
		}
		*t = (struct trace){ h->place.offset, bytes, 0 };
	}
}

static void trace_goes(const struct held *h, uint64_t epoch)
{
	struct trace *t = &trace[h->place.extent][h->place.offset / OFFSET_UNIT];

	for (uint32_t i = 0, units = t->bytes / OFFSET_UNIT; i < units; i++)
		t[i].gone = epoch;
}

UNIT_TEST(no_hint_is_misled, begin, end)
{
	static const uint32_t sizes[] = { 64, 100, 1000, 60000, 250000, 300000, MIB, 2 * MIB };
	uint64_t rng = test_seed(), epoch = 1, passed = 0, taken = 0, refused = 0;

	for (unsigned i = 0; i < 300000; i++) {
		/* for a while one size is wanted, so that slabs fall empty of others */
		uint32_t bytes = sizes[(i / 5000 + (rng_below(&rng, 8) == 0)) % 8];
		bool shrinks = i / 2500 % 2;

		if (count && rng_below(&rng, 8) < (shrinks ? 7u : 1u)) {
			unsigned which = (unsigned)rng_below(&rng, count);

			trace_goes(&held[which], epoch);
			give(which);
		} else if (take(bytes) == 0) {
			taken++;
			check_trace(&held[count - 1], passed);
		} else {
			refused++;
		}
		if (rng_below(&rng, 500) == 0)
			memory_recut_wanted(m, ++epoch);
		if (rng_below(&rng, 2000) == 0) {
			passed += rng_below(&rng, epoch - passed + 1);
			memory_recut(m, passed);
		}
	}
	printf("%llu taken, %llu refused\n", (unsigned long long)taken,
	       (unsigned long long)refused);
	assert_true(taken > 10000);
	empty();
}
