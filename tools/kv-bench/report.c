/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The tables, for a terminal and as Markdown. */
#include <inttypes.h>
#include <string.h>

#include "tools/kv-bench/kv_bench.h"

struct page {
	const struct bench *b;
	FILE *out;
	bool markdown;
};

static void heading(const struct page *p, const char *text)
{
	fprintf(p->out, p->markdown ? "\n## %s\n\n" : "\n%s\n\n", text);
}

static void end_table(const struct page *p, struct table *t)
{
	(p->markdown ? table_print_markdown : table_print)(t, p->out);
}

static void plot(const struct page *p, const char *words, const char *file)
{
	if (p->markdown)
		fprintf(p->out, "\n![%s](%s)\n", words, file);
}

static void systems(const struct page *p)
{
	static const char *const head[] = { "system", "version",   "reached by", ">records loaded",
					    ">in s",  ">a second", NULL };
	struct table *t = table_new(head);

	for (unsigned i = 0; i < p->b->systems.count; i++) {
		const struct system *s = &p->b->systems.one[i];
		const struct load *l = &p->b->load[i];

		table_cell(t, "%s", s->name);
		table_cell(t, "%s", s->version);
		table_cell(t, "%s", s->how);
		table_cell(t, l->records ? "%" PRIu64 : "-", l->records);
		table_cell(t, l->records ? "%.2f" : "-", l->seconds);
		table_cell(t, l->seconds > 0 ? "%.0f" : "-",
			   l->seconds > 0 ? (double)l->records / l->seconds : 0);
	}
	heading(p, "Systems, and the load phase");
	end_table(p, t);
}

static void latency_cells(struct table *t, const struct histogram *h, bool last_too)
{
	static const double at[] = { 0.5, 0.99, 0.999 };

	for (unsigned i = 0; i < (last_too ? 3u : 2u); i++)
		table_cell(t, h && h->count ? "%.1f" : "-", h ? latency_us(h, at[i]) : 0);
}

static double per_million(int64_t ns, uint64_t operations)
{
	return operations ? (double)ns / 1e9 * 1e6 / (double)operations : 0;
}

static void cell_row(const struct page *p, const struct group *g, const struct cell *c,
		     struct table *t)
{
	const struct system *s = &p->b->systems.one[c->system];
	enum operation writes = cell_writes(c);
	struct spread rate = cell_rate(g, c), ratio = cell_ratio(p->b, g, c);

	table_cell(t, "%s", s->name);
	table_cell(t, "%u", c->depth);
	table_cell(t, "%.0f", rate.median);
	table_cell(t, "%.0f", rate.min);
	table_cell(t, "%.0f", rate.max);
	table_cell(t, ratio.median > 0 ? "%.2f" : "-", ratio.median);
	latency_cells(t, &c->latency[OP_READ], true);
	if (g->plan.workload->share[OP_READ] < 1)
		latency_cells(t, writes < OPERATIONS ? &c->latency[writes] : NULL, true);
	table_cell(t, c->server_cpu_ns >= 0 ? "%.2f" : "-",
		   per_million(c->server_cpu_ns, c->operations));
	table_cell(t, "%.2f", per_million(c->client_cpu_ns, c->operations));
	table_cell(t, "%" PRIu64, c->missing + c->wrong);
}

static const char *writes_of(const struct workload *w)
{
	return w->share[OP_RMW] > 0	 ? ">rmw p50"
	       : w->share[OP_INSERT] > 0 ? ">insert p50"
					 : ">update p50";
}

static void workload(const struct page *p, const struct group *g)
{
	const struct workload *w = g->plan.workload;
	const char *const with[] = { "system",	    ">depth",	   ">ops/s",	">min",
				     ">max",	    ">gracekv /",  ">read p50", ">p99",
				     ">p99.9",	    writes_of(w),  ">p99",	">p99.9",
				     ">server CPU", ">client CPU", ">errors",	NULL };
	const char *const without[] = { "system", ">depth",	 ">ops/s",	">min",
					">max",	  ">gracekv /",	 ">read p50",	">p99",
					">p99.9", ">server CPU", ">client CPU", ">errors",
					NULL };
	struct table *t = table_new(w->share[OP_READ] < 1 ? with : without);
	char text[160], file[64];
	uint64_t late = 0;

	for (unsigned i = 0; i < g->cells; i++) {
		cell_row(p, g, &g->cell[i], t);
		late += g->cell[i].not_started;
	}
	snprintf(text, sizeof(text), "Workload %s: %s, %s", w->name, w->words,
		 distribution_name[g->plan.distribution]);
	heading(p, text);
	end_table(p, t);
	if (late)
		fprintf(p->out,
			"\n%" PRIu64
			" operations were due and had not begun when their cells were over: "
			"a system was slower than --target.\n",
			late);
	snprintf(file, sizeof(file), "latency-%c.svg", w->name[0] | 0x20);
	plot(p, text, file);
}

/* Systems in columns; rows are depths of a group, or groups of a size. */
static struct table *sweep_table(const struct bench *b, const char *first)
{
	char name[SYSTEMS][24];
	const char *head[2 + SYSTEMS] = { first };

	for (unsigned i = 0; i < b->systems.count; i++) {
		snprintf(name[i], sizeof(name[i]), ">%s", b->systems.one[i].name);
		head[1 + i] = name[i];
	}
	return table_new(head);
}

static void sweep_row(const struct bench *b, const struct group *g, unsigned depth, struct table *t)
{
	for (unsigned i = 0; i < b->systems.count; i++) {
		const struct cell *c = group_cell(b, g, b->systems.one[i].kind, depth);

		table_cell(t, c ? "%.0f" : "-", c ? cell_rate(g, c).median : 0);
	}
}

static void depths(const struct page *p, const struct group *g)
{
	struct table *t = sweep_table(p->b, ">in flight");

	for (unsigned i = 0; i < p->b->o.depths; i++) {
		table_cell(t, "%" PRIu64, p->b->o.depth_at[i]);
		sweep_row(p->b, g, (unsigned)p->b->o.depth_at[i], t);
	}
	heading(p, "Throughput against depth: workload C, one connection, operations a second");
	end_table(p, t);
	plot(p, "throughput against depth", "depths.svg");
}

static void sizes(const struct page *p)
{
	struct table *t = NULL;

	for (unsigned i = 0; i < p->b->groups; i++) {
		const struct group *g = &p->b->group[i];

		if (g->kind != GROUP_SIZE || !g->rounds)
			continue;
		if (!t)
			t = sweep_table(p->b, ">bytes");
		table_cell(t, "%zu", g->plan.record_len);
		sweep_row(p->b, g, 1, t);
	}
	if (!t)
		return;
	heading(p, "GETs by size of the value: one connection, one by one, operations a second");
	end_table(p, t);
	plot(p, "GETs by size", "sizes.svg");
}

static void promises(const struct page *p)
{
	static const char *const head[] = { "figure",	">median", ">min", ">max",
					    "promised", "kept",	   NULL };
	struct promise promise[PROMISES_MAX];
	unsigned n = bench_promises(p->b, promise);
	struct table *t;

	if (!n)
		return;
	t = table_new(head);
	for (unsigned i = 0; i < n; i++) {
		const struct promise *one = &promise[i];

		table_cell(t, "%s", one->name);
		table_cell(t, one->known ? "%.1f" : "-", one->is.median);
		table_cell(t, one->known ? "%.1f" : "-", one->is.min);
		table_cell(t, one->known ? "%.1f" : "-", one->is.max);
		table_cell(t, "at least %g", TIMES_FASTER);
		table_cell(t, "%s", one->kept ? "yes" : one->known ? "NO" : "not measured");
	}
	heading(p,
		"Promised and measured (of Redis the faster one of Unix socket and TCP, by round)");
	end_table(p, t);
}

static void how(const struct page *p)
{
	const struct bench_options *o = &p->b->o;
	FILE *out = p->out;

	fprintf(out, "%skv-bench %s, %s, %s\n%s", p->markdown ? "# " : "", GRACEKV_VERSION,
		p->b->systems.device, p->b->date, p->markdown ? "\n" : "");
	if (p->b->systems.software)
		fprintf(out,
			"%s%s is a software stand-in: what gracekv does here is memory copies and our "
			"code, not RDMA.%s\n%s",
			p->markdown ? "**" : "", p->b->systems.device, p->markdown ? "**" : "",
			p->markdown ? "\n" : "");
	fprintf(out,
		"%s. %" PRIu64 " records of %" PRIu64 " fields of %" PRIu64 " B; %" PRIu64
		" thread%s; depth: operations in flight for each. Rounds that take turns: %" PRIu64
		", each cell ",
		p->b->machine, o->records, o->fields, o->field_len, o->threads,
		o->threads > 1 ? "s" : "", o->rounds);
	if (o->operations)
		fprintf(out, "%" PRIu64 " operations", o->operations);
	else
		fprintf(out, "%g s", (double)o->duration_ns / 1e9);
	fprintf(out, " in each%s.\n", p->b->interrupted ? "; interrupted" : "");
	if (o->target)
		fprintf(out,
			"An open loop of %" PRIu64
			" operations a second: latencies count from the intended start.\n",
			o->target);
}

static void legend(const struct page *p)
{
	fputs("\nops/s: median, least and most of the rounds. gracekv /: its rate over that row's at the\n"
	      "same depth, median of the rounds' ratios. Latencies in us, of all rounds. CPU: seconds for a\n"
	      "million operations, of the server's process and of ours. errors: records that were missing\n"
	      "or not what was written.\n",
	      p->out);
	if (p->markdown)
		fprintf(p->out,
			"Plots of latencies have the percentiles that at least %u operations lie beyond.\n",
			PLOT_BEYOND);
}

void report_text(const struct bench *b, FILE *out, bool markdown)
{
	const struct page p = { b, out, markdown };
	bool any = false;

	how(&p);
	systems(&p);
	for (unsigned i = 0; i < b->groups; i++) {
		const struct group *g = &b->group[i];

		if (g->kind != GROUP_WORKLOAD || !g->rounds)
			continue;
		workload(&p, g);
		any = true;
	}
	if (any) {
		legend(&p);
		plot(&p, "throughput, one by one", "throughput-1.svg");
		if (b->o.depth > 1)
			plot(&p, "throughput, several in flight", "throughput-many.svg");
	}
	for (unsigned i = 0; i < b->groups; i++) {
		if (b->group[i].kind == GROUP_DEPTHS && b->group[i].rounds)
			depths(&p, &b->group[i]);
	}
	sizes(&p);
	promises(&p);
	if (b->systems.software && !markdown)
		fprintf(out,
			"\n%s is a software stand-in: these are memory copies and our code, not RDMA.\n",
			b->systems.device);
}
