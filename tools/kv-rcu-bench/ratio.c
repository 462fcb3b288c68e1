/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Figures of figures: ratios with their bound, promises, rows. */
#include <math.h>
#include <string.h>

#include "tools/lib/samples.h"
#include "tools/kv-rcu-bench/rcu_bench.h"

/* Student's t for 95 %, one-sided, by degrees of freedom from 1; beyond the last, the last. */
static const double student[] = { 6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860,
				  1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753, 1.746,
				  1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714, 1.711,
				  1.708, 1.706, 1.703, 1.701, 1.699, 1.697 };

#define STUDENTS (sizeof(student) / sizeof(student[0]))

struct rcu_ratio rcu_ratio(const double *a, const double *b, unsigned n)
{
	double sum = 0, squares = 0, mean, t;
	struct rcu_ratio out = { 0 };

	for (unsigned i = 0; i < n; i++) {
		if (!(a[i] > 0) || !(b[i] > 0))
			return out; /* somebody did nothing: nothing is known */
		sum += log(a[i] / b[i]);
	}
	if (!n)
		return out;
	mean = sum / n;
	out.mean = exp(mean);
	if (n < 2)
		return out;
	for (unsigned i = 0; i < n; i++)
		squares += pow(log(a[i] / b[i]) - mean, 2);
	t = student[n - 2 < STUDENTS ? n - 2 : STUDENTS - 1];
	out.lower = exp(mean - t * sqrt(squares / (n - 1) / n));
	return out;
}

double rcu_median(const double *v, unsigned n)
{
	double sorted[ROUNDS_MAX];

	memcpy(sorted, v, n * sizeof(*v));
	samples_sort(sorted, n);
	return samples_median(sorted, n);
}

static const struct rcu_cell *cell_of(const struct rcu_bench *b, const struct rcu_strategy *s,
				      unsigned pause)
{
	for (unsigned i = 0; i < b->o.strategies; i++) {
		if (b->o.strategy[i] == s)
			return rcu_cell(b, i, pause);
	}
	return NULL;
}

struct rcu_promise rcu_promise(const struct rcu_bench *b, unsigned pause)
{
	const struct rcu_cell *gpc = cell_of(b, &rcu_gpc, pause);
	const struct rcu_cell *liburcu = cell_of(b, &rcu_liburcu, pause);
	const struct rcu_cell *floor = cell_of(b, &rcu_floor, pause);
	unsigned n = (unsigned)b->o.rounds;
	struct rcu_promise p = { .kept = true };

	if (gpc && liburcu) {
		p.ratio = rcu_ratio(gpc->updates_per_s, liburcu->updates_per_s, n);
		p.ratio_known = p.ratio.lower > 0;
		p.kept = n < 2 || p.ratio.lower >= RATIO_MIN;
	}
	if (gpc && floor) {
		p.p99_ns = rcu_median(gpc->update_p99_ns, n);
		p.floor_ns = rcu_median(floor->update_p99_ns, n);
		p.times = p.floor_ns > 0 ? p.p99_ns / p.floor_ns : 0;
		p.floor_known = p.floor_ns > 0;
		p.kept = p.kept && p.floor_known && p.times < FLOOR_TIMES;
	}
	p.kept = p.kept && (p.ratio_known || p.floor_known);
	return p;
}

bool rcu_promises_kept(const struct rcu_bench *b)
{
	bool kept = true;

	for (unsigned p = 0; p < b->o.pauses; p++)
		kept = kept && rcu_promise(b, p).kept;
	return kept;
}

void rcu_summarize(const struct rcu_bench *b, unsigned strategy, struct rcu_summary *out)
{
	double seconds = (double)b->o.duration_ns / 1e9;
	unsigned n = (unsigned)b->o.rounds;

	memset(out, 0, sizeof(*out));
	for (unsigned p = 0; p < b->o.pauses; p++) {
		const struct rcu_cell *c = rcu_cell(b, strategy, p);

		out->reads += rcu_median(c->reads_per_s, n) * seconds / b->o.pauses;
		out->graces += rcu_median(c->graces_per_s, n) * seconds / b->o.pauses;
		histogram_merge(&out->grace.times, &c->grace.times);
		histogram_merge(&out->update_ns, &c->update_ns);
		out->grace.total_ns += c->grace.total_ns;
		out->deferred = c->deferred > out->deferred ? c->deferred : out->deferred;
	}
}

double rcu_grace_mean_us(const struct rcu_grace *g)
{
	return g->times.count ? (double)g->total_ns / (double)g->times.count / 1e3 : 0;
}
