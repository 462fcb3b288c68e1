/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The fastest slice of a run, whatever its length. */
#include <math.h>

#include "tests/lib/unit.h"
#include "tools/kv-bw-lat/slices.h"

static void near(double is, double wanted)
{
	if (fabs(is - wanted) > 1e-3 * wanted)
		fail_msg("%.12g is not %.12g", is, wanted);
}

/* Completions at @per_s from @from_ns to @to_ns, a hundred at a time. */
static void steady(struct slices *s, uint64_t from_ns, uint64_t to_ns, double per_s)
{
	const double step = 100 / per_s * 1e9;

	for (double at = (double)from_ns + step; at <= (double)to_ns; at += step)
		slices_add(s, (uint64_t)at, 100);
}

static uint64_t sum(const struct slices *s)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < SLICES; i++)
		all += s->count[i];
	return all;
}

UNIT_TEST(a_steady_run_has_its_average)
{
	struct slices s;

	slices_clear(&s);
	steady(&s, 0, 1000000000, 10e6);
	assert_true(slices_peak(&s, 1000000000) >= 10e6 * 0.999);
	assert_true(slices_peak(&s, 1000000000) <= 10e6 * 1.01);
}

UNIT_TEST(a_fast_tenth_shows)
{
	struct slices s;

	slices_clear(&s);
	steady(&s, 0, 500000000, 1e6);
	steady(&s, 500000000, 600000000, 5e6);
	steady(&s, 600000000, 1000000000, 1e6);
	near(slices_peak(&s, 1000000000) / 5e6, 1);
}

/* A few that come at once are no peak: a slice has 1000 operations on average. */
UNIT_TEST(a_few_at_once_are_none)
{
	struct slices s;

	slices_clear(&s);
	steady(&s, 0, 1000000000, 10000);
	slices_add(&s, 500000000, 300);
	assert_true(slices_peak(&s, 1000000000) < 10300 * 1.31);
}

UNIT_TEST(a_short_run_is_one_slice)
{
	struct slices s;

	slices_clear(&s);
	slices_add(&s, 10, 500);
	slices_add(&s, 100000, 100);
	near(slices_peak(&s, 100000), 600 / 100e-6);
	slices_clear(&s);
	near(slices_peak(&s, 100000) + 1, 1);
	near(slices_peak(&s, 0) + 1, 1);
}

/* Hours: the slices grow, and nothing is lost. */
UNIT_TEST(long_runs_fit)
{
	const uint64_t hours = 10ull * 3600 * 1000000000;
	struct slices s;

	slices_clear(&s);
	for (uint64_t at = 0; at < hours; at += hours / 1000)
		slices_add(&s, at, 1000000);
	assert_int_equal(sum(&s), 1000000000);
	assert_true(slices_peak(&s, hours) >= 1e9 / (10.0 * 3600));
}

UNIT_TEST(threads_add_up)
{
	struct slices one, two;

	slices_clear(&one);
	slices_clear(&two);
	steady(&one, 0, 1000000000, 2e6);
	steady(&two, 0, 3000000, 4e6); /* its slices are shorter */
	assert_true(two.shift < one.shift);
	slices_merge(&two, &one);
	assert_int_equal(two.shift, one.shift);
	assert_int_equal(sum(&two), 2000000 + 12000);
	slices_clear(&two);
	steady(&two, 0, 3000000, 4e6);
	slices_merge(&one, &two);
	assert_int_equal(sum(&one), 2000000 + 12000);
	assert_int_equal(one.count[0] / 1000,
			 ((2e6 + 4e6) * (double)(1u << one.shift) / 1e9) / 1000);
}
