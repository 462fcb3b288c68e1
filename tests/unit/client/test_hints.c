/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Hints: found, forgotten, of another age, in a set that is full; and threads in one set. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/src/know/hints.h"
#include "common/base/hash.h"
#include "common/layout/slot.h"

#define SETS	   64u
#define THREADS	   4u
#define OPERATIONS 200000u
#define AGE_US	   20u

static int set_up(void **state)
{
	struct hints *h = aligned_alloc(alignof(struct hints), sizeof(*h));
	struct error err;

	if (!h || hints_create(h, SETS * HINT_BYTES + 100, &err))
		return -1;
	assert_int_equal(h->sets, SETS);
	*state = h;
	return 0;
}

static int tear_down(void **state)
{
	hints_destroy(*state);
	free(*state);
	return 0;
}

static uint64_t hash_of(uint64_t n)
{
	return hash_bytes(&n, sizeof(n));
}

/* Hash number @n of the first set, each with another fingerprint. */
static uint64_t in_first_set(unsigned n)
{
	return n + 1;
}

static uint64_t slot_of(uint64_t hash, uint32_t offset)
{
	return slot_make(slot_fingerprint_of_hash(hash), 2, 5, offset * OFFSET_UNIT);
}

static void remember(struct hints *h, uint64_t hash, uint32_t offset)
{
	hints_remember(h, hash, hints_age(h), slot_of(hash, offset), offset + 7);
}

static bool found(struct hints *h, uint64_t hash, uint32_t offset)
{
	struct hint hint;

	if (!hints_find(h, hash, hints_age(h), &hint))
		return false;
	assert_int_equal(hint.slot, slot_of(hash, offset));
	assert_int_equal(hint.incarnation, offset + 7);
	return true;
}

UNIT_TEST(test_what_was_remembered_is_found, set_up, tear_down)
{
	struct hints *h = *state;
	unsigned n = 0;

	assert_false(found(h, hash_of(1), 1));
	assert_int_equal(hints_count(h), 0);
	for (uint32_t i = 0; i < 60; i++)
		remember(h, hash_of(i), i);
	for (uint32_t i = 0; i < 60; i++)
		n += found(h, hash_of(i), i);
	assert_int_equal(hints_count(h), n);
	assert_true(n > 50); /* of 256 places, in sets of 4 */
	remember(h, hash_of(3), 300); /* a newer one takes the place of its own */
	assert_true(found(h, hash_of(3), 300));
	assert_int_equal(hints_count(h), n);
}

/* What is empty fits fingerprint 0, and is not taken for a hint. */
UNIT_TEST(test_an_empty_place_is_no_hint, set_up, tear_down)
{
	const uint64_t hash = 0; /* of the first set */
	struct hints *h = *state;

	assert_int_equal(slot_fingerprint_of_hash(hash), 0);
	for (unsigned i = 0; i < HINT_WAYS; i++) {
		assert_false(found(h, hash, 1));
		remember(h, in_first_set(i), i);
	}
	remember(h, hash, 1); /* where nothing is empty */
	assert_true(found(h, hash, 1));
}

UNIT_TEST(test_what_led_nowhere_is_forgotten_once, set_up, tear_down)
{
	struct hints *h = *state;
	struct hint hint;

	remember(h, hash_of(1), 1);
	assert_true(hints_find(h, hash_of(1), hints_age(h), &hint));
	remember(h, hash_of(1), 2);
	hints_forget(h, hash_of(1), &hint); /* it is not there any more */
	assert_true(found(h, hash_of(1), 2));
	assert_true(hints_find(h, hash_of(1), hints_age(h), &hint));
	hints_forget(h, hash_of(1), &hint);
	assert_false(found(h, hash_of(1), 2));
	assert_int_equal(hints_count(h), 0);
}

UNIT_TEST(test_an_age_ends_at_once, set_up, tear_down)
{
	struct hints *h = *state;
	uint32_t before = hints_age(h);
	struct hint hint;

	for (uint32_t i = 0; i < 20; i++)
		remember(h, hash_of(i), i);
	hints_drop_all(h);
	assert_true(hints_age(h) != before && hints_age(h));
	assert_int_equal(hints_count(h), 0);
	for (uint32_t i = 0; i < 20; i++)
		assert_false(found(h, hash_of(i), i));
	/* what an older section found comes too late */
	hints_remember(h, hash_of(1), before, slot_of(hash_of(1), 1), 8);
	assert_false(found(h, hash_of(1), 1));
	remember(h, hash_of(2), 2);
	assert_true(found(h, hash_of(2), 2));
	assert_false(hints_find(h, hash_of(2), before, &hint));
	atomic_store(&h->age, UINT32_MAX);
	hints_drop_all(h);
	assert_int_equal(hints_age(h), 1); /* fresh memory has age 0 */
}

UNIT_TEST(test_what_is_used_stays, set_up, tear_down)
{
	struct hints *h = *state;
	struct hint hint;

	for (uint32_t i = 0; i < HINT_WAYS; i++)
		remember(h, in_first_set(i), i);
	for (uint32_t i = 0; i < 3; i++) {
		assert_true(hints_find(h, in_first_set(i), hints_age(h), &hint));
		hints_used(h, in_first_set(i), &hint);
	}
	/* as many new ones as there are others: those go */
	for (uint32_t i = 0; i < HINT_WAYS - 3; i++)
		remember(h, in_first_set(100 + i), i);
	for (uint32_t i = 0; i < HINT_WAYS; i++)
		assert_int_equal(found(h, in_first_set(i), i), i < 3);
	/* passed over once, not for ever */
	for (uint32_t i = 0; i < 2 * HINT_WAYS; i++)
		remember(h, in_first_set(200 + i), i);
	for (uint32_t i = 0; i < HINT_WAYS; i++)
		assert_false(found(h, in_first_set(i), i));
}

UNIT_TEST(test_none_are_kept_without_memory)
{
	struct hints none;
	struct error err;
	struct hint hint;

	(void)state;
	assert_int_equal(hints_create(&none, HINT_BYTES - 1, &err), 0);
	hints_prefetch(&none, 7);
	hints_remember(&none, 7, hints_age(&none), slot_of(7, 1), 1);
	assert_false(hints_find(&none, 7, hints_age(&none), &hint));
	assert_int_equal(hints_count(&none), 0);
	hints_destroy(&none);
	assert_int_equal(hints_create(&none, 1ull << 62, &err), -ENOMEM);
	assert_non_null(strstr(err.text, "hint_bytes"));
}

/*
 * Threads that use one set, and one that ends ages. Of a hint that is found slot and incarnation
 * belong together, and its slot was written in the age that was asked for: offsets say which.
 */
static atomic_bool over;
static _Atomic unsigned wrong, finds;

static uint32_t offset_in(uint32_t age, uint32_t i)
{
	return (age & 0xffff) << 4 | (i & 15);
}

static void *use(void *arg)
{
	struct hints *h = arg;
	for (uint32_t i = 0; i < OPERATIONS; i++) {
		uint32_t age = hints_age(h), offset = offset_in(age, i);
		uint64_t hash = in_first_set(i % 13);
		struct hint hint;

		if (i % 4 == 0)
			hints_remember(h, hash, age, slot_of(hash, offset), offset + 7);
		if (!hints_find(h, hash, age, &hint))
			continue;
		atomic_fetch_add(&finds, 1);
		offset = slot_offset(hint.slot) / OFFSET_UNIT;
		if (hint.incarnation != offset + 7 || offset >> 4 != (age & 0xffff))
			atomic_fetch_add(&wrong, 1);
		if (i % 64 == 0)
			hints_forget(h, hash, &hint);
		else
			hints_used(h, hash, &hint);
	}
	return NULL;
}

static void *end_ages(void *arg)
{
	while (!atomic_load(&over)) {
		hints_drop_all(arg);
		usleep(AGE_US);
	}
	return NULL;
}

UNIT_TEST(test_threads_in_one_set, set_up, tear_down)
{
	pthread_t thread[THREADS], ager;

	assert_int_equal(pthread_create(&ager, NULL, end_ages, *state), 0);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, use, *state), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	atomic_store(&over, true);
	pthread_join(ager, NULL);
	assert_int_equal(atomic_load(&wrong), 0);
	assert_true(atomic_load(&finds) > 0);
}
