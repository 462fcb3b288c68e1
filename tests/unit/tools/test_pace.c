/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The schedule of an open loop: what starts where, when, and since when it counts. */
#include "tests/lib/unit.h"

#include "common/base/time.h"
#include "tools/lib/pace.h"

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
UNIT_TEST(threads_share_one_line)
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

UNIT_TEST(nothing_is_due_too_early)
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
UNIT_TEST(a_stall_counts_for_all_that_were_due)
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
UNIT_TEST(those_behind_are_counted)
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
UNIT_TEST(fractions_do_not_add_up)
{
	struct pace p = pace_of(0, 1, 1u << 30);

	p.interval = 1.0 / 3;
	assert_int_equal(pace_intended(&p, 3000000) - 1000, 1000000);
	assert_int_equal(pace_intended(&p, 3000001) - 1000, 1000000);
	assert_int_equal(pace_intended(&p, 3000003) - 1000, 1000001);
}

/* A day later it is still right, and after thirty years to a microsecond. */
UNIT_TEST(long_runs_do_not_drift)
{
	struct pace p = { .start = 1000, .interval = 1e6, .threads = 1, .count = UINT64_MAX };
	const uint64_t years = 1000000000ull * NS_PER_S;

	assert_int_equal(pace_intended(&p, 86400000), 1000 + 86400ull * NS_PER_S);
	p.interval = (double)NS_PER_S / 3;
	assert_in_range(pace_intended(&p, 3000000000ull), years, years + 2000);
}

/* All that are due are counted once, whoever's they are. */
UNIT_TEST(due_is_what_lies_before_the_end)
{
	const uint64_t rates[] = { 1, 7, 1000, 333333 }, end = 5000 + 2 * NS_PER_S;

	for (unsigned i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		uint64_t sum = 0;

		for (unsigned t = 0; t < 3; t++) {
			struct pace p = { 5000,	     (double)NS_PER_S / (double)rates[i], t, 3, 0,
					  UINT64_MAX };
			uint64_t n = pace_behind(&p, end - 1);

			assert_true(pace_intended(&p, n) >= end);
			assert_true(n == 0 || pace_intended(&p, n - 1) < end);
			assert_int_equal(pace_behind(&p, 4999), 0);
			sum += n;
		}
		assert_int_equal(sum, 2 * rates[i]);
	}
}
