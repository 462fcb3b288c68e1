/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Medians, spreads and ratios of rounds. */
#include <math.h>

#include "tests/lib/unit.h"
#include "tools/lib/samples.h"

static void near(double is, double wanted)
{
	if (fabs(is - wanted) > 1e-9 * fabs(wanted))
		fail_msg("%.12g is not %.12g", is, wanted);
}

UNIT_TEST(spread_of_an_odd_number)
{
	double v[] = { 5, 1, 9, 3, 2 };
	struct spread s = samples_spread(v, 5);

	near(s.median, 3);
	near(s.min, 1);
	near(s.max, 9);
}

UNIT_TEST(spread_of_an_even_number)
{
	double v[] = { 8, 1, 4, 2 };
	struct spread s = samples_spread(v, 4);

	near(s.median, 3);
	near(s.min, 1);
	near(s.max, 8);
}

UNIT_TEST(spread_of_one_and_of_none)
{
	double v[] = { 7 };
	struct spread s = samples_spread(v, 1), none = samples_spread(v, 0);

	near(s.median, 7);
	near(s.min, 7);
	near(s.max, 7);
	assert_true(none.median == 0 && none.min == 0 && none.max == 0);
}

/* Rounds, not sides: both drift tenfold, their ratio does not; the sides keep their order. */
UNIT_TEST(ratios_are_of_rounds)
{
	const double a[] = { 30, 220, 100 }, b[] = { 10, 100, 50 };
	double ratio[3];
	struct spread s = samples_ratios(a, b, ratio, 3);

	near(s.median, 2.2);
	near(s.min, 2);
	near(s.max, 3);
	assert_true(a[0] == 30 && b[2] == 50);
}

UNIT_TEST(ratio_over_nothing_is_none)
{
	const double a[] = { 1 }, b[] = { 0 };
	double ratio[1];

	assert_true(samples_ratios(a, b, ratio, 1).max == 0);
}
