/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Giving way: often, where others give the core back at once; seldom, where one keeps it. */
#include "tests/lib/unit.h"

#include "tests/lib/fake_clock.h"

static uint64_t away_ns; /* by one yield */
static unsigned yields;

int __wrap_sched_yield(void);

int __wrap_sched_yield(void)
{
	yields++;
	atomic_fetch_add(&fake_clock.now_ns, away_ns);
	return 0;
}

static int set_up(void **state)
{
	fake_clock_begin(true);
	yields = 0;
	return 0;
}

static int tear_down(void **state)
{
	fake_clock_end();
	return 0;
}

UNIT_TEST(yields_that_are_cheap_are_done, set_up, tear_down)
{
	away_ns = 20000;
	for (unsigned i = 0; i < 1000; i++)
		assert_true(time_yield());
	assert_int_equal(yields, 1000);
}

/* What takes the core now and then is no thread that computes. */
UNIT_TEST(one_yield_that_took_long_tells_nothing, set_up, tear_down)
{
	for (unsigned i = 0; i < 10; i++) {
		away_ns = 4 * NS_PER_MS;
		assert_true(time_yield());
		away_ns = 1000;
		for (unsigned k = 0; k < 1000; k++)
			assert_true(time_yield());
		fake_clock_ahead(400);
	}
}

/* Nor is one that computes for a millisecond in ten, as a snapshot's does beside clients. */
UNIT_TEST(a_thread_that_computes_a_little_is_given_way, set_up, tear_down)
{
	for (unsigned i = 0; i < 100; i++) {
		away_ns = NS_PER_MS;
		assert_true(time_yield());
		fake_clock_ahead(9);
		away_ns = 1000;
		assert_true(time_yield());
	}
}

/* A thread that computes has the core for 4 ms each time: within a second that is 24 ms. */
UNIT_TEST(a_yield_that_took_long_is_not_repeated_soon, set_up, tear_down)
{
	uint64_t end_ns = time_now_ns() + NS_PER_S;

	away_ns = 4 * NS_PER_MS;
	assert_true(time_yield());
	while (time_now_ns() < end_ns) {
		bool yielded = time_yield();

		assert_int_equal(time_yield(), false);
		if (!yielded)
			atomic_fetch_add(&fake_clock.now_ns, 1000);
	}
	assert_in_range(yields, 5, 6);
	away_ns = 0; /* the other one has gone: that is found out */
	fake_clock_ahead(200);
	for (unsigned i = 0; i < 1000; i++)
		assert_true(time_yield());
}
