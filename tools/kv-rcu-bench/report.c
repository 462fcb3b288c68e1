/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <inttypes.h>

#include "common/base/table.h"
#include "tools/kv-rcu-bench/rcu_bench.h"

#define HEADING_MAX 32

static void table_strategies(const struct rcu_bench *b, FILE *out)
{
	static const char *const after[] = { ">reads",	">grace periods", ">mean us",
					     ">p99 us", ">update p99 ns", ">most waiting",
					     NULL };
	static struct rcu_summary s; /* too large for a stack */
	char at[PAUSES_MAX][HEADING_MAX];
	const char *head[TABLE_COLUMNS_MAX + 1] = { "strategy" };
	double seconds = (double)b->o.duration_ns / 1e9;
	unsigned columns = 1;
	struct table *t;

	for (unsigned p = 0; p < b->o.pauses; p++) {
		snprintf(at[p], HEADING_MAX, ">at %u us", b->o.pause_us[p]);
		head[columns++] = at[p];
	}
	for (unsigned i = 0; after[i]; i++)
		head[columns++] = after[i];
	t = table_new(head);
	for (unsigned i = 0; i < b->o.strategies; i++) {
		bool timed;

		rcu_summarize(b, i, &s);
		timed = s.grace.times.count > 0;
		table_cell(t, "%s", b->o.strategy[i]->name);
		for (unsigned p = 0; p < b->o.pauses; p++)
			table_cell(t, "%.0f",
				   seconds * rcu_median(rcu_cell(b, i, p)->updates_per_s,
							(unsigned)b->o.rounds));
		table_cell(t, "%.2e", s.reads);
		table_cell(t, "%.0f", s.graces);
		table_cell(t, timed ? "%.1f" : "-", rcu_grace_mean_us(&s.grace));
		table_cell(t, timed ? "%.1f" : "-",
			   (double)histogram_at(&s.grace.times, 0.99) / 1e3);
		table_cell(t, "%" PRIu64, histogram_at(&s.update_ns, 0.99));
		table_cell(t, "%" PRIu64, s.deferred);
	}
	table_print(t, out);
}

static const char *verdict(const struct rcu_promise *p)
{
	if (p->kept)
		return "";
	return (p->ratio_known && p->ratio.lower < RATIO_MIN) ||
			       (p->floor_known && p->times >= FLOOR_TIMES)
		       ? "; NOT KEPT"
		       : "; NOT KNOWN";
}

static void table_promises(const struct rcu_bench *b, FILE *out)
{
	static const char *const head[] = { ">pause us",     ">gpc / liburcu",
					    ">95 % above",   ">gpc p99 ns",
					    ">floor p99 ns", ">gpc / floor",
					    "promised",	     NULL };
	struct table *t = table_new(head);

	for (unsigned i = 0; i < b->o.pauses; i++) {
		struct rcu_promise p = rcu_promise(b, i);

		table_cell(t, "%u", b->o.pause_us[i]);
		table_cell(t, p.ratio.mean > 0 ? "%.3f" : "-", p.ratio.mean);
		table_cell(t, p.ratio_known ? "%.3f" : "-", p.ratio.lower);
		table_cell(t, p.floor_known ? "%.0f" : "-", p.p99_ns);
		table_cell(t, p.floor_known ? "%.0f" : "-", p.floor_ns);
		table_cell(t, p.floor_known ? "%.2f" : "-", p.times);
		table_cell(t, "at least %g; below %g%s", RATIO_MIN, FLOOR_TIMES, verdict(&p));
	}
	table_print(t, out);
}

void rcu_report_text(const struct rcu_bench *b, FILE *out)
{
	struct rcu_promise first = rcu_promise(b, 0);

	fprintf(out,
		"kv-rcu-bench %s: readers %" PRIu64 ", updaters %" PRIu64
		", shared pointers %" PRIu64 ", rounds %" PRIu64 " of %g s, liburcu %s\n\n",
		GRACEKV_VERSION, b->o.readers, b->o.updaters, b->o.objects, b->o.rounds,
		(double)b->o.duration_ns / 1e9, LIBURCU_VERSION);
	fprintf(out,
		"Updates in %g s at each pause between updates: medians of the rounds. Reads and grace\n"
		"periods: likewise, mean over the pauses. Times: of all pauses and rounds.\n\n",
		(double)b->o.duration_ns / 1e9);
	table_strategies(b, out);
	fputc('\n', out);
	for (unsigned i = 0; i < b->o.strategies; i++)
		fprintf(out, "  %-8s %s\n", b->o.strategy[i]->name, b->o.strategy[i]->how);
	fputs("\nA grace period: synchronize_rcu() for floor, sync, delay, batch and gpc; for liburcu\n"
	      "from call_rcu() to the callback, 10 ms of gathering included; for hazard one look at\n"
	      "all hazards; for epoch from the last object of an epoch to the epoch in which it is\n"
	      "freed; for remote, by a probe, from retirement to reuse, up to 5 ms in a batch included.\n"
	      "remote runs on soft0, the software device: its reads are copies of memory, not RDMA.\n",
	      out);
	if (!(first.ratio.mean > 0) && !first.floor_known)
		return;
	fputs("\ngpc against liburcu: geometric mean of the rounds' ratios of updates, and what it is\n"
	      "above with 95 % confidence (one-sided, Student's t over the logarithms of the paired\n"
	      "ratios). Against the floor, malloc and exchange: p99 of an update, medians of the "
	      "rounds.\n",
	      out);
	if (!first.ratio_known || !first.floor_known)
		fputs("-: not known; one round bounds nothing, nor do rounds without an update of one of "
		      "them.\n",
		      out);
	fputs("\n", out);
	table_promises(b, out);
}
