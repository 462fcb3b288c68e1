/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <errno.h>

#include "tools/kv-rcu-bench/rcu_bench.h"
#include "tools/lib/report.h"
#include "tools/lib/svg.h"

_Static_assert(STRATEGIES_MAX <= SVG_SERIES_MAX, "a colour for each strategy");

#define TITLE_MAX 128

struct folder {
	const struct rcu_bench *b;
	const struct program *program;
};

static int write_text(const void *ctx, FILE *out)
{
	const struct folder *f = ctx;
	fputs("# kv-rcu-bench\n\n```\n", out);
	rcu_report_text(f->b, out);
	fputs("```\n\n![updates against the pause between them](updates.svg)\n\n"
	      "![99th percentile of an update](update-p99.svg)\n\n"
	      "![grace periods](grace-periods.svg)\n\n"
	      "All figures: `results.json`.\n",
	      out);
	return 0;
}

static int write_json(const void *ctx, FILE *out)
{
	const struct folder *f = ctx;
	json_t *doc = rcu_report_json(f->b, f->program);
	int rc = doc ? json_dumpf(doc, out, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : -1;

	json_decref(doc);
	fputc('\n', out);
	return rc ? -EIO : 0;
}

/* One line a strategy over the pauses; @value: of a cell's rounds. */
static void write_lines(const struct folder *f, FILE *out, const struct svg_text *text,
			double (*value)(const struct rcu_cell *c, unsigned rounds))
{
	const struct rcu_options *o = &f->b->o;
	double x[PAUSES_MAX], y[STRATEGIES_MAX][PAUSES_MAX];
	struct svg_series series[STRATEGIES_MAX];

	for (unsigned p = 0; p < o->pauses; p++)
		x[p] = o->pause_us[p];
	for (unsigned s = 0; s < o->strategies; s++) {
		for (unsigned p = 0; p < o->pauses; p++)
			y[s][p] = value(rcu_cell(f->b, s, p), (unsigned)o->rounds);
		series[s] = (struct svg_series){ .name = o->strategy[s]->name, .y = y[s] };
	}
	svg_lines(out, text, x, o->pauses, series, o->strategies);
}

/* @title, and what the plot must not be taken for where it stands without its report. */
static const char *titled(const struct folder *f, const char *title, char text[TITLE_MAX])
{
	bool remote = false;

	for (unsigned s = 0; s < f->b->o.strategies; s++)
		remote = remote || f->b->o.strategy[s] == &rcu_remote;
	snprintf(text, TITLE_MAX, "%s%s", title, remote ? " (remote: on soft0, not RDMA)" : "");
	return text;
}

static double updates(const struct rcu_cell *c, unsigned rounds)
{
	return rcu_median(c->updates_per_s, rounds);
}

static double update_p99(const struct rcu_cell *c, unsigned rounds)
{
	return rcu_median(c->update_p99_ns, rounds);
}

static int write_updates(const void *ctx, FILE *out)
{
	const struct folder *f = ctx;
	char title[TITLE_MAX];
	const struct svg_text text = { .title = titled(f, "Updates a second, by strategy", title),
				       .x = "pause between updates, us",
				       .y = "updates a second" };

	write_lines(f, out, &text, updates);
	return 0;
}

static int write_update_p99(const void *ctx, FILE *out)
{
	const struct folder *f = ctx;
	char title[TITLE_MAX];
	const struct svg_text text = {
		.title = titled(f, "Time of an update without its pause, 99th percentile", title),
		.x = "pause between updates, us",
		.y = "ns",
	};

	write_lines(f, out, &text, update_p99);
	return 0;
}

static int write_graces(const void *ctx, FILE *out)
{
	const struct folder *f = ctx;
	char title[TITLE_MAX];
	const struct svg_text text = { .title = titled(f, "Grace periods, by strategy, all pauses",
						       title),
				       .x = "time, us",
				       .y = "" };
	static struct rcu_summary s; /* too large for a stack */
	struct svg_range range[STRATEGIES_MAX];
	unsigned count = f->b->o.strategies;

	for (unsigned i = 0; i < count; i++) {
		rcu_summarize(f->b, i, &s);
		range[i] = (struct svg_range){
			.name = f->b->o.strategy[i]->name,
			.p50 = (double)histogram_at(&s.grace.times, 0.5) / 1e3,
			.mean = rcu_grace_mean_us(&s.grace),
			.p99 = (double)histogram_at(&s.grace.times, 0.99) / 1e3,
			.max = (double)s.grace.times.max_ns / 1e3,
		};
	}
	svg_ranges(out, &text, range, count);
	return 0;
}

int rcu_report_folder_make(const struct rcu_bench *b, struct error *err)
{
	return report_folder_make(b->o.report, err);
}

int rcu_report_folder(const struct rcu_bench *b, const struct program *p, struct error *err)
{
	static const struct report_file files[] = {
		{ "report.md", write_text },	       { "results.json", write_json },
		{ "updates.svg", write_updates },      { "update-p99.svg", write_update_p99 },
		{ "grace-periods.svg", write_graces }, { NULL },
	};
	const struct folder f = { b, p };

	return report_write(b->o.report, files, &f, err);
}
