/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What a unit test includes instead of cmocka. Tests print the seed of their random numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/*
 * UNIT_TEST(name) { ... } is a test, and all tests of a program run in the order of their lines.
 * UNIT_TEST(name, set_up, tear_down) calls these two before and after it; either may be missing or
 * NULL. UNIT_ALSO runs a test once more, with other fixtures.
 */
#define UNIT_TEST(name, ...)            \
	static void name(void **state); \
	UNIT_ALSO(name, __VA_ARGS__)    \
	static void name(void **state)

#define UNIT_ALSO(name, ...)	 UNIT_AT(name, __LINE__, __VA_ARGS__)
#define UNIT_AT(name, line, ...) UNIT_ADD(name, line, __VA_ARGS__)
#define UNIT_ADD(name, line, ...)                                                         \
	__attribute__((constructor)) static void add_##name##_##line(void)                \
	{                                                                                 \
		unit_add(line, #name, name, (const CMFixtureFunction[2]){ __VA_ARGS__ }); \
	}

/* unit_add - what UNIT_TEST does before main(). */
void unit_add(unsigned line, const char *name, CMUnitTestFunction test,
	      const CMFixtureFunction *fixtures);

/*
 * unit_run - run the tests; @set_up and @tear_down, or NULL, are called before and after them all.
 * Returns what main() should. A program that has no main() of its own gets one that calls this
 * with the fixtures of UNIT_GROUP.
 */
int unit_run(CMFixtureFunction set_up, CMFixtureFunction tear_down);

/* UNIT_GROUP(set_up, tear_down); names what is called once before and after all tests. */
extern const CMFixtureFunction unit_group[2];
#define UNIT_GROUP(set_up, tear_down) const CMFixtureFunction unit_group[2] = { set_up, tear_down }

/*
 * A program or its helper may define this: that main() calls it first, with argv[1] or NULL. Where
 * none does, argv[1] names the tests that run.
 */
void unit_begin(const char *argument);

/* UNIT_LESS - @n; under a sanitizer, which looks at each access and is slow, one of @part of that:
 * rare moments are sought without. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNIT_LESS(n, part) ((n) / (part))
#else
#define UNIT_LESS(n, part) (n)
#endif

/* assert_ok - the call returned 0. */
#define assert_ok(call) assert_int_equal(call, 0)

/*
 * unit_seed - a fixture for UNIT_GROUP: seeds unit_below() by $TEST_SEED, or else by time and
 * process, and prints it. unit_below - a number below @bound, which is not 0. One thread.
 */
extern uint64_t unit_state;
int unit_seed(void **state);

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static inline uint64_t unit_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static inline uint64_t unit_below(uint64_t bound)
{
	return unit_random(&unit_state) % bound;
}
