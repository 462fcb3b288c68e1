/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The table, in the manner of perftest: its headings at its columns, so that what reads the one
 * reads the other; a row that is not numbers alone is one that perftest has not.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/kv-bw-lat/perf.h"

#define LINE_WIDTH 103
#define MIB	   1048576.0
#define INDENT	   12

static void rule(void)
{
	for (unsigned i = 0; i < LINE_WIDTH; i++)
		putchar('-');
	putchar('\n');
}

static const char *unit_of_time(const struct perf *p)
{
	return p->o.cycles ? "cycles" : "usec";
}

/* How much of it a nanosecond is. */
static double time_unit(const struct perf *p)
{
	return p->o.cycles ? ticks.per_ns : 1e-3;
}

static void pair(const char *a, const char *av, const char *b, const char *bv)
{
	printf(" %-15s : %-22s", a, av);
	if (b)
		printf(" %-15s : %s", b, bv);
	putchar('\n');
}

static const char *number(char text[32], uint64_t value)
{
	snprintf(text, 32, "%" PRIu64, value);
	return text;
}

static const char *length(const struct perf_options *o, char text[32])
{
	if (o->seconds > 0)
		snprintf(text, 32, "%g s", o->seconds);
	else
		snprintf(text, 32, "%" PRIu64 " per QP", o->iterations);
	return text;
}

static const char *rate(const struct perf_options *o, char text[32])
{
	if (o->rate > 0)
		snprintf(text, 32, "%g per second", o->rate);
	else
		snprintf(text, 32, "closed loop");
	return text;
}

static const char *keys(const struct perf_options *o, char text[32])
{
	if (o->theta > 0)
		snprintf(text, 32, "%" PRIu64 ", zipf:%g", o->keys, o->theta);
	else
		snprintf(text, 32, "%" PRIu64 ", uniform", o->keys);
	return text;
}

/* A column: its heading, and the room before it; a place in it begins where the heading does. */
struct column {
	const char *title;
	unsigned gap;
};

/* perftest's. %s is the unit. */
static const struct column bandwidth_columns[] = { { "#bytes", 1 },	   { "#iterations", 5 },
						   { "BW peak[%s]", 4 },   { "BW average[%s]", 4 },
						   { "MsgRate[Mpps]", 3 }, { NULL, 0 } };
static const struct column latency_columns[] = {
	{ "#bytes", 1 },      { "#iterations", 1 },	    { "t_min[%s]", 4 },
	{ "t_max[%s]", 4 },   { "t_typical[%s]", 2 },	    { "t_avg[%s]", 4 },
	{ "t_stdev[%s]", 4 }, { "99%% percentile[%s]", 3 }, { "99.9%% percentile[%s]", 3 },
	{ NULL, 0 }
};

/* A line that is being written, place by place. */
struct line {
	const struct column *column; /* the next one */
	const char *unit;
	unsigned at; /* where it begins */
	unsigned end; /* of what was printed */
};

static struct line line_of(const struct perf *p)
{
	return (struct line){
		.column = p->o.latency ? latency_columns : bandwidth_columns,
		.unit = p->o.latency ? unit_of_time(p)
			: p->o.gbits ? "Gb/sec"
				     : "MiB/sec",
	};
}

/* @text stands in the next column, or after what stands too far already. */
static void place(struct line *l, const char *text)
{
	char title[48];
	unsigned len = (unsigned)strlen(text), at = l->at + l->column->gap;

	/* a count stands a place further: there are sizes as long as their heading */
	l->at = at + (unsigned)snprintf(title, sizeof(title), l->column->title, l->unit);
	at += l->column->title[1] == 'i';
	if (l->end && at <= l->end)
		at = l->end + 1;
	printf("%*s%s", (int)(at - l->end), "", text);
	l->end = at + len;
	l->column++;
}

static void heading(const struct perf *p)
{
	struct line l = line_of(p);

	for (; l.column->title; l.column++) {
		char title[48];

		snprintf(title, sizeof(title), l.column->title, l.unit);
		printf("%*s%s", (int)l.column->gap, "", title);
	}
	putchar('\n');
}

void perf_table_head(const struct perf *p)
{
	const struct perf_options *o = &p->o;
	const struct gkv *kv = p->handle[0].kv;
	char a[32], b[32], op[32];
	bool ethernet = p->device->rdma->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET;

	rule();
	printf("%20s%s %s Test of a kv-server\n", "", perf_op_name(o, op),
	       o->latency ? "Latency" : "BW");
	pair("Device", p->device->rdma->name, "Transport type",
	     p->software ? "software"
	     : ethernet	 ? "RoCE"
			 : "IB");
	pair("Number of qps", number(a, o->qps), "Connection type", "RC");
	pair("Threads", number(b, o->threads), "rdma_cm QPs", o->cm ? "ON" : "OFF");
	if (!o->latency) {
		pair("TX depth", number(a, o->depth), "CQ Moderation", number(b, o->moderation));
		pair("Post list", number(a, o->post_list), "Completions",
		     o->events ? "events" : "polled");
	} else {
		pair("TX depth", "1", "Completions", o->events ? "events" : "polled");
	}
	pair("Mtu", number(a, rdma_mtu_bytes(kv->link.qp.mtu)), "Max inline data",
	     number(b, kv->link.qp.inline_max));
	pair("GID index",
	     kv->link.qp.source.has_gid ? number(a, (uint64_t)kv->link.qp.source.gid_index) : "-",
	     "Outstand reads", number(b, kv->link.qp.rd_initiator));
	pair("Keys", keys(o, a), "Hints", o->no_hints ? "OFF" : "ON");
	pair("Length", length(o, a), "Rate", rate(o, b));
	pair("Server", o->address, "its device", p->server.device);
	if (p->software)
		printf(" %s is a software device: what follows is copies of memory and our code, "
		       "not RDMA.\n",
		       p->device->rdma->name);
	rule();
	heading(p);
	fflush(stdout);
}

void perf_table_end(const struct perf *p)
{
	rule();
}

/* Bandwidth, of @ops operations per second. */
static void bandwidth(const struct perf *p, char text[32], uint64_t bytes, double ops)
{
	double value = ops * (double)bytes / (p->o.gbits ? 1e9 / 8 : MIB);

	snprintf(text, 32, value < 0.1 ? "%.6f" : "%.2f", value);
}

static double average(const struct perf_figures *f)
{
	return f->duration_ns ? (double)f->ops * 1e9 / (double)f->duration_ns : 0;
}

static void place_time(struct line *l, const struct perf *p, double ns)
{
	char text[32];

	snprintf(text, sizeof(text), "%.2f", ns * time_unit(p));
	place(l, text);
}

static void figures(const struct perf *p, const struct perf_figures *f, uint64_t bytes)
{
	const struct histogram *h = &f->lat;
	struct line l = line_of(p);
	char text[32];

	place(&l, number(text, bytes));
	place(&l, number(text, f->ops));
	if (p->o.latency) {
		place_time(&l, p, f->moments.min);
		place_time(&l, p, f->moments.max);
		place_time(&l, p, (double)histogram_at(h, 0.5));
		place_time(&l, p, moments_mean(&f->moments));
		place_time(&l, p, moments_stdev(&f->moments));
		place_time(&l, p, (double)histogram_at(h, 0.99));
		place_time(&l, p, (double)histogram_at(h, 0.999));
		return;
	}
	bandwidth(p, text, bytes, slices_peak(&f->slices, f->duration_ns));
	place(&l, text);
	bandwidth(p, text, bytes, average(f));
	place(&l, text);
	snprintf(text, sizeof(text), "%.6f", average(f) / 1e6);
	place(&l, text);
}

static void floor_row(const struct perf *p, const struct perf_result *r)
{
	char op[32];

	figures(p, &r->floor, r->raw_bytes);
	perf_op_name(&p->o, op);
	printf(p->o.latency ? "   raw %s: %s takes %.2f times as long\n"
			    : "   raw %s: %s is %.2f of it\n",
	       r->raw == PERF_RAW_SEND ? "SEND"
	       : perf_cold(&p->o)      ? "READs of bucket and block"
				       : "READ",
	       op, r->over_raw.median);
}

static void causes(const struct gkv_stats *s)
{
	uint64_t all = s->retry_obsolete + s->retry_checksum + s->retry_directory;

	printf("READs per GET %.3f, hint hits %.1f %%, ", (double)s->reads / (double)s->gets,
	       100 * (double)s->hint_hits / (double)s->gets);
	if (!all && !s->rpc_fallbacks)
		printf("no retries; ");
	else
		printf("retries: %" PRIu64 " obsolete, %" PRIu64 " checksum, %" PRIu64
		       " stale directory, %" PRIu64 " by RPC; ",
		       s->retry_obsolete, s->retry_checksum, s->retry_directory, s->rpc_fallbacks);
}

/* What perftest lacks, on lines that no reader of its tables takes for a row. */
static void details(const struct perf *p, const struct perf_result *r)
{
	const struct perf_figures *f = &r->op;
	const double unit = time_unit(p);

	printf("%*s", INDENT, "");
	if (r->stats.gets)
		causes(&r->stats);
	printf("CPU: client %.6f s, server %.6f s, in %.6f s\n", f->client_cpu_s, f->server_cpu_s,
	       (double)f->duration_ns / 1e9);
	if (!p->o.latency)
		printf("%*slatency p50 %.2f, p99 %.2f, p99.9 %.2f, max %.2f %s\n", INDENT, "",
		       (double)histogram_at(&f->lat, 0.5) * unit,
		       (double)histogram_at(&f->lat, 0.99) * unit,
		       (double)histogram_at(&f->lat, 0.999) * unit, f->moments.max * unit,
		       unit_of_time(p));
	if (p->o.idle_seconds > 0)
		printf("%*sbefore the run, asked for nothing: server %.6f s in %.6f s\n", INDENT,
		       "", r->idle_cpu_s, r->idle_s);
	if (r->keys < p->o.keys || r->depth < p->o.depth)
		printf("%*skept small: %" PRIu64 " keys, a quarter of the server's free memory; "
		       "%" PRIu64 " in flight\n",
		       INDENT, "", r->keys, r->depth);
	if (f->missed)
		printf("%*s%" PRIu64 " were due and given up: the rate is too high, or the server "
		       "stood still\n",
		       INDENT, "", f->missed);
}

static void histogram(const struct perf *p, const struct perf_figures *f)
{
	const double unit = time_unit(p);
	uint64_t sum = 0;

	printf("#%s, count, cumulative %%\n", unit_of_time(p));
	for (unsigned i = 0; i < HISTOGRAM_CELLS; i++) {
		if (!f->lat.cell[i])
			continue;
		sum += f->lat.cell[i];
		printf("%.3f, %" PRIu64 ", %.4f\n", (double)histogram_end(i) * unit, f->lat.cell[i],
		       100 * (double)sum / (double)f->lat.count);
	}
}

static void unsorted(const struct perf *p)
{
	const double unit = time_unit(p);
	uint64_t n = 0;

	printf("#, %s\n", unit_of_time(p));
	for (unsigned t = 0; t < p->o.threads; t++) {
		for (uint64_t i = 0; i < p->thread[t].kept_count; i++)
			printf("%" PRIu64 ", %.3f\n", ++n, (double)p->thread[t].kept[i] * unit);
	}
}

void perf_table_row(const struct perf *p, const struct perf_result *r)
{
	figures(p, &r->op, r->size);
	putchar('\n');
	if (r->raw && r->floor.ops)
		floor_row(p, r);
	details(p, r);
	if (p->o.histogram)
		histogram(p, &r->op);
	if (p->o.unsorted)
		unsorted(p);
	fflush(stdout);
}
