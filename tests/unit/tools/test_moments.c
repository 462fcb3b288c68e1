/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Mean and deviation of streams, and the clock that the tools count with. */
#include <math.h>
#include <unistd.h>

#include "tests/lib/unit.h"
#include "tools/lib/moments.h"
#include "tools/lib/ticks.h"

static void near(double is, double wanted)
{
	if (fabs(is - wanted) > 1e-9 * fabs(wanted))
		fail_msg("%.12g is not %.12g", is, wanted);
}

static struct moments of(const double *v, unsigned n)
{
	struct moments m = { 0 };

	for (unsigned i = 0; i < n; i++)
		moments_add(&m, v[i]);
	return m;
}

UNIT_TEST(mean_and_deviation)
{
	const double v[] = { 2, 4, 4, 4, 5, 5, 7, 9 };
	struct moments m = of(v, 8), none = { 0 };

	near(moments_mean(&m), 5);
	near(moments_stdev(&m), 2);
	near(m.min, 2);
	near(m.max, 9);
	assert_true(moments_mean(&none) == 0 && moments_stdev(&none) == 0);
	m = of(v, 1);
	assert_true(moments_stdev(&m) == 0);
}

/* As one after the other. */
UNIT_TEST(the_same_many_times)
{
	const double v[] = { 3, 3, 3, 8, 1, 1 };
	struct moments one = of(v, 6), many = { 0 };

	moments_add_many(&many, 3, 3);
	moments_add_many(&many, 8, 1);
	moments_add_many(&many, 1, 2);
	assert_int_equal(many.count, 6);
	near(moments_mean(&many), moments_mean(&one));
	near(moments_stdev(&many), moments_stdev(&one));
	near(many.min, 1);
	near(many.max, 8);
}

/* Of less than one, beside a mean of a billion: not truncated, not lost. */
UNIT_TEST(a_small_deviation)
{
	struct moments m = { 0 };

	for (unsigned i = 0; i < 1000000; i++)
		moments_add(&m, 1e9 + (i % 2 ? 0.25 : -0.25));
	near(moments_stdev(&m), 0.25);
}

/* Joined in any order they are what one stream had said. */
UNIT_TEST(merged)
{
	struct moments all = { 0 }, part[3] = { { 0 } }, none = { 0 };

	for (unsigned i = 0; i < 999; i++) {
		double v = 1e6 + 100 * sin(i);

		moments_add(&all, v);
		moments_add(&part[i % 2 ? 0 : i % 3], v);
	}
	moments_merge(&none, &part[1]);
	moments_merge(&none, &part[0]);
	moments_merge(&none, &part[2]);
	moments_merge(&none, &(struct moments){ 0 });
	assert_int_equal(none.count, all.count);
	near(moments_mean(&none), moments_mean(&all));
	near(moments_stdev(&none), moments_stdev(&all));
	near(none.min, all.min);
	near(none.max, all.max);
	moments_add(&none, 5);
	moments_add(&all, 5);
	near(moments_stdev(&none), moments_stdev(&all));
}

UNIT_TEST(flags_of_a_sound_counter)
{
	assert_true(ticks_invariant("flags\t\t: fpu constant_tsc pae nonstop_tsc\n"));
	assert_true(ticks_invariant("nonstop_tsc constant_tsc"));
	assert_false(ticks_invariant("flags : fpu constant_tsc tsc\n"));
	assert_false(ticks_invariant("flags : nonstop_tsc tsc\n"));
	assert_false(ticks_invariant("flags : constant_tsc_x nonstop_tsc x_constant_tsc\n"));
	assert_false(ticks_invariant(""));
}

/* Against the clock of the system, loosely: other threads may have the core. */
UNIT_TEST(ticks_are_time)
{
	uint64_t ns, start, count;

	ticks_init();
	assert_true(ticks.per_ns > 0);
	start = ticks_now();
	ns = time_now_ns();
	usleep(50000);
	ns = time_now_ns() - ns;
	count = ticks_now() - start;
	assert_true(ticks_ns(count) > ns * 8 / 10);
	assert_true(ticks_ns(ticks_of_ns(1e9)) > 999999000 &&
		    ticks_ns(ticks_of_ns(1e9)) < 1000001000);
}
