/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What kv-rcu-bench says of its figures: ratios with their bound, and which promise is kept. */
#include <math.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "tools/kv-rcu-bench/rcu_bench.h"

static void near(double is, double wanted)
{
	if (fabs(is - wanted) > 1e-9 * wanted)
		fail_msg("%.12g is not %.12g", is, wanted);
}

UNIT_TEST(ratio_of_equal_pairs_has_no_width)
{
	const double a[] = { 110, 220, 330, 440 }, b[] = { 100, 200, 300, 400 };
	struct rcu_ratio r = rcu_ratio(a, b, 4);

	near(r.mean, 1.1);
	near(r.lower, 1.1);
}

/* Pairs, not sides: each side drifts fourfold, their ratio does not. */
UNIT_TEST(ratio_is_of_pairs)
{
	const double a[] = { 100, 220, 360 }, b[] = { 100, 200, 400 };
	struct rcu_ratio r = rcu_ratio(a, b, 3);

	/* exp(m), exp(m - 2.920 * s / sqrt(3)) of ln 1, ln 1.1, ln 0.9 */
	near(r.mean, cbrt(0.99));
	near(r.lower, 0.8414973267550757);
	assert_true(r.lower < r.mean);
}

UNIT_TEST(ratio_of_many_uses_the_last_quantile)
{
	double a[60], b[60];
	struct rcu_ratio r;

	for (unsigned i = 0; i < 60; i++) {
		b[i] = 7;
		a[i] = 7 * (i % 2 ? exp(0.1) : exp(-0.1));
	}
	r = rcu_ratio(a, b, 60);
	near(r.mean, 1);
	near(r.lower, exp(-1.697 * 0.1 / sqrt(59)));
}

UNIT_TEST(one_pair_or_nothing_bounds_nothing)
{
	const double a[] = { 3, 0 }, b[] = { 2, 5 };

	near(rcu_ratio(a, b, 1).mean, 1.5);
	assert_true(rcu_ratio(a, b, 1).lower == 0);
	assert_true(rcu_ratio(a, b, 2).mean == 0 && rcu_ratio(a, b, 2).lower == 0);
	assert_true(rcu_ratio(b, a, 2).lower == 0);
	assert_true(rcu_ratio(a, b, 0).mean == 0);
}

UNIT_TEST(median_leaves_the_order)
{
	const double v[] = { 5, 1, 4, 2, 3 };

	near(rcu_median(v, 5), 3);
	near(v[0], 5);
	near(rcu_median(v, 1), 5);
	near(rcu_median(v, 2), 3); /* of 5 and 1: between them */
	near(rcu_median(v, 4), 3);
}

/* gpc, liburcu and floor at two pauses, three rounds. */
struct figures {
	struct rcu_bench bench;
	struct rcu_cell cell[6];
};

static struct figures *figures(void)
{
	static struct figures f;

	memset(&f, 0, sizeof(f));
	f.bench.cell = f.cell;
	f.bench.o.strategy[0] = &rcu_gpc;
	f.bench.o.strategy[1] = &rcu_liburcu;
	f.bench.o.strategy[2] = &rcu_floor;
	f.bench.o.strategies = 3;
	f.bench.o.pauses = 2;
	f.bench.o.rounds = 3;
	f.bench.o.duration_ns = 2000000000;
	for (unsigned i = 0; i < 6; i++) {
		for (unsigned r = 0; r < 3; r++) {
			f.cell[i].updates_per_s[r] = 1000;
			f.cell[i].reads_per_s[r] = 100 * (i + 1);
			f.cell[i].update_p99_ns[r] = 100;
		}
	}
	return &f;
}

static void set_updates(struct figures *f, unsigned strategy, unsigned pause, double v)
{
	for (unsigned r = 0; r < 3; r++)
		rcu_cell(&f->bench, strategy, pause)->updates_per_s[r] = v;
}

UNIT_TEST(promises_are_judged_at_each_pause)
{
	struct figures *f = figures();

	assert_true(rcu_promises_kept(&f->bench));
	set_updates(f, 0, 1, 971);
	assert_true(rcu_promises_kept(&f->bench));
	set_updates(f, 0, 1, 969);
	assert_true(rcu_promise(&f->bench, 0).kept);
	assert_false(rcu_promise(&f->bench, 1).kept);
	assert_false(rcu_promises_kept(&f->bench));
}

/* The mean is above, the bound is not. */
UNIT_TEST(promise_is_of_the_bound)
{
	struct figures *f = figures();

	rcu_cell(&f->bench, 0, 0)->updates_per_s[0] = 1300;
	assert_true(rcu_promise(&f->bench, 0).ratio.mean > 1);
	assert_true(rcu_promise(&f->bench, 0).ratio.lower < RATIO_MIN);
	assert_false(rcu_promises_kept(&f->bench));
}

UNIT_TEST(promise_of_an_update_is_of_the_median)
{
	struct figures *f = figures();
	double *p99 = rcu_cell(&f->bench, 0, 0)->update_p99_ns;

	p99[0] = 100000; /* one round does not count */
	p99[1] = 499;
	assert_true(rcu_promise(&f->bench, 0).kept);
	near(rcu_promise(&f->bench, 0).times, 4.99);
	p99[1] = 500;
	assert_false(rcu_promise(&f->bench, 0).kept);
}

UNIT_TEST(what_was_not_run_is_not_judged)
{
	struct figures *f = figures();

	f->bench.o.rounds = 1;
	set_updates(f, 0, 0, 1);
	assert_false(rcu_promise(&f->bench, 0).ratio_known);
	assert_true(rcu_promise(&f->bench, 0).kept);
	f->bench.o.strategies = 1;
	assert_false(rcu_promise(&f->bench, 0).floor_known);
	assert_false(rcu_promise(&f->bench, 0).kept);
	assert_false(rcu_promises_kept(&f->bench));
}

UNIT_TEST(who_did_nothing_kept_no_promise)
{
	struct figures *f = figures();

	rcu_cell(&f->bench, 0, 0)->updates_per_s[1] = 0;
	assert_false(rcu_promise(&f->bench, 0).ratio_known);
	assert_false(rcu_promise(&f->bench, 0).kept);
	assert_true(rcu_promise(&f->bench, 1).kept);
	assert_false(rcu_promises_kept(&f->bench));
}

UNIT_TEST(summary_is_of_all_pauses)
{
	static struct rcu_summary s;
	struct figures *f = figures();

	rcu_grace_add(&rcu_cell(&f->bench, 1, 0)->grace, 1000);
	rcu_grace_add(&rcu_cell(&f->bench, 1, 1)->grace, 3000);
	rcu_cell(&f->bench, 1, 1)->deferred = 7;
	rcu_summarize(&f->bench, 1, &s);
	near(s.reads, 2 * (300 + 400) / 2.0);
	near(rcu_grace_mean_us(&s.grace), 2);
	assert_int_equal(s.deferred, 7);
	rcu_summarize(&f->bench, 0, &s);
	assert_true(rcu_grace_mean_us(&s.grace) == 0);
}
