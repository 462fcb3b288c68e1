/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* report.md, results.json, and the plots. */
#include <errno.h>
#include <string.h>

#include "tools/kv-bench/kv_bench.h"
#include "tools/lib/report.h"
#include "tools/lib/svg.h"

#define NOTE_MAX 240
#define MARKS	 5u

_Static_assert(2 * SYSTEMS <= SVG_SERIES_MAX, "reads and writes of each system");

struct folder {
	const struct bench *b;
	const struct program *program;
	const struct group *group; /* of a plot that is of one */
	unsigned depth; /* likewise */
};

static int write_markdown(const void *ctx, FILE *out)
{
	report_text(((const struct folder *)ctx)->b, out, true);
	fputs("\nAll figures: `results.json`.\n", out);
	return 0;
}

static int write_json(const void *ctx, FILE *out)
{
	const struct folder *f = ctx;
	json_t *doc = report_json(f->b, f->program);
	int rc = doc ? json_dumpf(doc, out, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : -1;

	json_decref(doc);
	fputc('\n', out);
	return rc ? -EIO : 0;
}

/* What a plot must not be taken for where it stands without its report. */
static const char *note(const struct folder *f, char text[NOTE_MAX])
{
	const struct bench *b = f->b;

	snprintf(text, NOTE_MAX, "gracekv on %s%s; the others over sockets of the same machine",
		 b->systems.device,
		 b->systems.software ? ", a software stand-in: memory copies, not RDMA" : "");
	return text;
}

/* Each system has its colour in all plots. */
static struct svg_series series_of(const struct system *s, const double *y)
{
	return (struct svg_series){ .name = s->name, .y = y, .colour = 1 + s->kind };
}

/* Percentiles on an axis of nines; of those that PLOT_BEYOND operations are beyond. */
static int write_latencies(const void *ctx, FILE *out)
{
	static const double x[MARKS] = { 2, 10, 100, 1000, 10000 };
	static const char *const mark[MARKS] = { "50", "90", "99", "99.9", "99.99" };
	const struct folder *f = ctx;
	const struct workload *w = f->group->plan.workload;
	double y[2 * SYSTEMS][MARKS];
	char name[2 * SYSTEMS][48], title[128], notes[NOTE_MAX];
	struct svg_series series[2 * SYSTEMS];
	unsigned n = 0;

	for (unsigned i = 0; i < f->group->cells; i++) {
		const struct cell *c = &f->group->cell[i];

		for (enum operation op = 0; op < OPERATIONS && c->depth == 1; op++) {
			const struct histogram *h = &c->latency[op];

			if (!h->count)
				continue;
			for (unsigned m = 0; m < MARKS; m++)
				y[n][m] = (double)h->count >= PLOT_BEYOND * x[m]
						  ? latency_us(h, 1 - 1 / x[m])
						  : 0;
			snprintf(name[n], sizeof(name[n]), "%s, %s",
				 f->b->systems.one[c->system].name, operation_name[op]);
			series[n] =
				(struct svg_series){ .name = name[n],
						     .y = y[n],
						     .colour =
							     1 + f->b->systems.one[c->system].kind,
						     .dashed = op != OP_READ };
			n++;
		}
	}
	snprintf(title, sizeof(title), "Latency, workload %s: %s, one by one", w->name, w->words);
	svg_lines(out,
		  &(struct svg_text){ .title = title,
				      .note = note(f, notes),
				      .x = "percentile",
				      .y = "us",
				      .mark = mark },
		  x, MARKS, series, n);
	return 0;
}

/* A bar of each system for every workload, at a depth. */
static int write_throughput(const void *ctx, FILE *out)
{
	const struct folder *f = ctx;
	const struct bench *b = f->b;
	double y[SYSTEMS][WORKLOADS_MAX] = { 0 };
	const char *group[WORKLOADS_MAX];
	struct svg_series series[SYSTEMS];
	char title[128], notes[NOTE_MAX];
	unsigned n = 0;

	for (unsigned i = 0; i < b->groups; i++) {
		const struct group *g = &b->group[i];

		if (g->kind != GROUP_WORKLOAD || !g->rounds)
			continue;
		for (unsigned k = 0; k < g->cells; k++) {
			if (g->cell[k].depth == f->depth)
				y[g->cell[k].system][n] = cell_rate(g, &g->cell[k]).median;
		}
		group[n++] = g->plan.workload->name;
	}
	for (unsigned s = 0; s < b->systems.count; s++)
		series[s] = series_of(&b->systems.one[s], y[s]);
	if (f->depth == 1)
		snprintf(title, sizeof(title), "Throughput, one operation at a time");
	else
		snprintf(title, sizeof(title), "Throughput, %u operations in flight", f->depth);
	svg_bars(out,
		 &(struct svg_text){ .title = title,
				     .note = note(f, notes),
				     .x = "YCSB workload",
				     .y = "operations a second" },
		 group, n, series, b->systems.count);
	return 0;
}

static int write_depths(const void *ctx, FILE *out)
{
	const struct folder *f = ctx;
	const struct bench *b = f->b;
	double x[POINTS_MAX], y[SYSTEMS][POINTS_MAX];
	struct svg_series series[SYSTEMS];
	char notes[NOTE_MAX];

	for (unsigned i = 0; i < b->o.depths; i++)
		x[i] = (double)b->o.depth_at[i];
	for (unsigned s = 0; s < b->systems.count; s++) {
		for (unsigned i = 0; i < b->o.depths; i++)
			y[s][i] =
				cell_rate(f->group, group_cell(b, f->group, b->systems.one[s].kind,
							       (unsigned)b->o.depth_at[i]))
					.median;
		series[s] = series_of(&b->systems.one[s], y[s]);
	}
	svg_lines(
		out,
		&(struct svg_text){ .title = "Throughput against depth, workload C, one connection",
				    .note = note(f, notes),
				    .x = "operations in flight",
				    .y = "operations a second" },
		x, b->o.depths, series, b->systems.count);
	return 0;
}

static int write_sizes(const void *ctx, FILE *out)
{
	const struct folder *f = ctx;
	const struct bench *b = f->b;
	double x[POINTS_MAX], y[SYSTEMS][POINTS_MAX];
	char text[POINTS_MAX][16], notes[NOTE_MAX];
	const char *mark[POINTS_MAX];
	struct svg_series series[SYSTEMS];
	unsigned n = 0;

	for (unsigned i = 0; i < b->groups; i++) {
		const struct group *g = &b->group[i];
		size_t bytes = g->plan.record_len;

		if (g->kind != GROUP_SIZE || !g->rounds)
			continue;
		x[n] = (double)bytes;
		snprintf(text[n], sizeof(text[n]), bytes % 1024 ? "%zu" : "%zuK",
			 bytes % 1024 ? bytes : bytes / 1024);
		mark[n] = text[n];
		for (unsigned s = 0; s < b->systems.count; s++)
			y[s][n] = cell_rate(g, &g->cell[s]).median;
		n++;
	}
	for (unsigned s = 0; s < b->systems.count; s++)
		series[s] = series_of(&b->systems.one[s], y[s]);
	svg_lines(out,
		  &(struct svg_text){
			  .title = "GETs by size of the value, one connection, one by one",
			  .note = note(f, notes),
			  .x = "bytes of a value",
			  .y = "GETs a second",
			  .mark = mark },
		  x, n, series, b->systems.count);
	return 0;
}

static int one_file(const struct folder *f, const char *name,
		    int (*write)(const void *ctx, FILE *out), struct error *err)
{
	const struct report_file file[] = { { name, write }, { NULL } };

	return report_write(f->b->o.report, file, f, err);
}

static int plots_of_groups(struct folder *f, struct error *err)
{
	bool sizes = false, workloads = false;
	char name[32];
	int rc = 0;

	for (unsigned i = 0; i < f->b->groups && rc == 0; i++) {
		const struct group *g = f->group = &f->b->group[i];

		if (!g->rounds)
			continue;
		sizes = sizes || g->kind == GROUP_SIZE;
		workloads = workloads || g->kind == GROUP_WORKLOAD;
		snprintf(name, sizeof(name), "latency-%c.svg", g->plan.workload->name[0] | 0x20);
		if (g->kind == GROUP_WORKLOAD)
			rc = one_file(f, name, write_latencies, err);
		else if (g->kind == GROUP_DEPTHS)
			rc = one_file(f, "depths.svg", write_depths, err);
	}
	if (sizes && rc == 0)
		rc = one_file(f, "sizes.svg", write_sizes, err);
	f->depth = 1;
	if (workloads && rc == 0)
		rc = one_file(f, "throughput-1.svg", write_throughput, err);
	f->depth = (unsigned)f->b->o.depth;
	if (workloads && f->depth > 1 && rc == 0)
		rc = one_file(f, "throughput-many.svg", write_throughput, err);
	return rc;
}

int report_folder(const struct bench *b, const struct program *p, struct error *err)
{
	static const struct report_file files[] = { { "report.md", write_markdown },
						    { "results.json", write_json },
						    { NULL } };
	struct folder f = { .b = b, .program = p };
	int rc = report_write(b->o.report, files, &f, err);

	return rc ? rc : plots_of_groups(&f, err);
}
