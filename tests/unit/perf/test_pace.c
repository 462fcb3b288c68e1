/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The schedule of an open loop: who starts what, when, and since when it counts. */
#include "tests/lib/unit.h"
#include "tools/perf/pace.h"

static struct pace pace_of(unsigned number, unsigned threads, uint64_t all)
{
	return (struct pace){
		.start = 1000,
		.interval = 10,
		.number = number,
		.threads = threads,
		.count = pace_share(all, number, threads),
	};
}

/* Each of them belongs to one thread, at a place of its own on one line of time. */
static void threads_share_one_line(void **state)
{
	const unsigned threads = 3;
	const uint64_t all = 11;
	bool taken[11] = { false };
	uint64_t sum = 0;

	for (unsigned t = 0; t < threads; t++) {
		struct pace p = pace_of(t, threads, all);

		sum += p.count;
		for (uint64_t i = 0; i < p.count; i++) {
			uint64_t at = (pace_intended(&p, i) - 1000) / 10;

			assert_true(at < all);
			assert_false(taken[at]);
			taken[at] = true;
		}
	}
	assert_int_equal(sum, all);
}

static void nothing_is_due_too_early(void **state)
{
	struct pace p = pace_of(1, 2, 4); /* at 1010 and 1030 */

	assert_false(pace_due(&p, 0));
	assert_false(pace_due(&p, 1009));
	assert_true(pace_due(&p, 1010));
	assert_int_equal(pace_take(&p), 1010);
	assert_false(pace_due(&p, 1029));
	assert_true(pace_due(&p, 5000));
	assert_int_equal(pace_take(&p), 1030);
	assert_false(pace_due(&p, 5000)); /* there are no more */
}

/* What could not be started for a while counts from when it was due, all of it. */
static void a_stall_counts_for_all_that_were_due(void **state)
{
	struct pace p = pace_of(0, 1, 100);
	uint64_t late = 0, longest = 0;

	while (pace_due(&p, 1100)) {
		uint64_t waited = 1100 - pace_take(&p);

		late += waited > 0;
		longest = waited > longest ? waited : longest;
	}
	assert_int_equal(p.next, 11); /* 1000 to 1100 */
	assert_int_equal(late, 10);
	assert_int_equal(longest, 100);
}

/* As many as pace_due() would say, one by one. */
static void those_behind_are_counted(void **state)
{
	struct pace p = pace_of(1, 3, 100);

	for (uint64_t now = 0; now < 2100; now += 7) {
		struct pace ahead = p;
		uint64_t n = 0;

		for (; pace_due(&ahead, now); ahead.next++)
			n++;
		assert_int_equal(pace_behind(&p, now), n);
		if (pace_due(&p, now) && now % 2)
			pace_take(&p);
	}
	p.next = p.count;
	assert_int_equal(pace_behind(&p, UINT64_MAX), 0);
}

/* An interval that is no whole number of ticks is kept over a long run. */
static void fractions_do_not_add_up(void **state)
{
	struct pace p = pace_of(0, 1, 1u << 30);

	p.interval = 1.0 / 3;
	assert_int_equal(pace_intended(&p, 3000000) - 1000, 1000000);
	assert_int_equal(pace_intended(&p, 3000001) - 1000, 1000000);
	assert_int_equal(pace_intended(&p, 3000003) - 1000, 1000001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_share_one_line),
		cmocka_unit_test(nothing_is_due_too_early),
		cmocka_unit_test(a_stall_counts_for_all_that_were_due),
		cmocka_unit_test(those_behind_are_counted),
		cmocka_unit_test(fractions_do_not_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
