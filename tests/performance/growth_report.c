/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <inttypes.h>
#include <stdio.h>

#include "common/base/table.h"
#include "common/base/time.h"
#include "tests/performance/growth_bench.h"
#include "tools/lib/samples.h"

#define RATIO_PROMISED 10.0
#define PAUSE_PROMISED 5e6 /* ns */

static const char *const kinds[GROWTH_KINDS] = { "still", "growing", "overwriting" };

struct figures {
	double ratio, ratio_overwriting; /* of p99.9 */
	struct spread rounds; /* of the ratio */
	double insert_rate, overwrite_rate; /* a second */
	double pause_ns;
	bool kept;
};

static double share(uint64_t n, uint64_t of)
{
	return of ? (double)n / (double)of : 0;
}

static void row(struct table *t, const char *name, const struct histogram *h)
{
	table_cell(t, "%s", name);
	table_cell(t, "%" PRIu64, h->count);
	table_cell(t, "%.2f", (double)histogram_at(h, 0.5) / 1e3);
	table_cell(t, "%.2f", (double)histogram_at(h, 0.99) / 1e3);
	table_cell(t, "%.2f", (double)histogram_at(h, 0.999) / 1e3);
	table_cell(t, "%.1f", (double)h->max_ns / 1e3);
}

static void print_reads(const struct growth_bench *b)
{
	static const char *const head[] = { "GETs while the writer is",
					    ">GETs",
					    ">p50 us",
					    ">p99",
					    ">p99.9",
					    ">max",
					    ">READs/GET",
					    ">refreshes",
					    ">obsolete",
					    ">torn",
					    ">asked",
					    NULL };
	struct table *t = table_new(head);

	for (unsigned i = 0; i < GROWTH_KINDS; i++) {
		const struct growth_reads *r = &b->total[i];

		row(t, kinds[i], &r->latency);
		table_cell(t, "%.4f", share(r->reads, r->gets));
		table_cell(t, "%" PRIu64, r->refreshes);
		table_cell(t, "%" PRIu64, r->obsolete);
		table_cell(t, "%" PRIu64, r->torn);
		table_cell(t, "%" PRIu64, r->asked);
	}
	table_print(t, stdout);
}

static void print_table(const struct growth_bench *b, const struct figures *f)
{
	static const char *const head[] = { "the writer's own", ">writes", ">p50 us", ">p99",
					    ">p99.9",		">max",	   NULL };
	struct table *t = table_new(head);

	printf("growth-bench %s, device %s, %" PRIu64 " to %" PRIu64 " keys, values of %" PRIu64
	       " B, %" PRIu64 " rounds of slices of %" PRIu64 " ms\n\n",
	       GRACEKV_VERSION, b->server.server.dev->name, b->o.start, b->live, b->o.value_len,
	       b->rounds, b->o.slice_ms);
	print_reads(b);
	putchar('\n');
	row(t, "inserts", &b->insert);
	row(t, "overwrites", &b->overwrite);
	table_print(t, stdout);
	printf("\np99.9 growing / still        %.2f  (promised: at most %.0f; median of the rounds "
	       "%.2f)\n",
	       f->ratio, RATIO_PROMISED, f->rounds.median);
	printf("p99.9 growing / overwriting  %.2f  (what growth adds to the load)\n",
	       f->ratio_overwriting);
	printf("p99.9 of an insert           %.3f ms  (promised: below %.0f)\n", f->pause_ns / 1e6,
	       PAUSE_PROMISED / 1e6);
	printf("inserts a second             %.0f; overwrites %.0f; waits for memory to grow "
	       "%" PRIu64 "\n",
	       f->insert_rate, f->overwrite_rate, b->grown_waits);
	printf("index                        depth %u -> %u, segments %" PRIu64 " -> %" PRIu64 "\n",
	       b->before.depth, b->after.depth, b->before.segments, b->after.segments);
	puts("\nsoft0 is a software stand-in: these are memory copies and our code, not RDMA.");
}

static json_t *latency_json(const struct histogram *h)
{
	return json_pack("{s:I, s:f, s:f, s:f, s:f}", "count", (json_int_t)h->count, "p50",
			 (double)histogram_at(h, 0.5) / 1e3, "p99",
			 (double)histogram_at(h, 0.99) / 1e3, "p999",
			 (double)histogram_at(h, 0.999) / 1e3, "max", (double)h->max_ns / 1e3);
}

static json_t *reads_json(const struct growth_reads *r)
{
	return json_pack("{s:o, s:f, s:I, s:I, s:I, s:I}", "lat_us", latency_json(&r->latency),
			 "reads_per_get", share(r->reads, r->gets), "refreshes",
			 (json_int_t)r->refreshes, "obsolete", (json_int_t)r->obsolete, "torn",
			 (json_int_t)r->torn, "asked", (json_int_t)r->asked);
}

static json_t *index_json(const struct index_stats *ix)
{
	return json_pack("{s:i, s:I, s:I}", "depth", (int)ix->depth, "segments",
			 (json_int_t)ix->segments, "records", (json_int_t)ix->records);
}

static void print_json(const struct growth_bench *b, const struct figures *f)
{
	json_t *doc = program_json(&growth_program), *reads = json_object();

	for (unsigned i = 0; i < GROWTH_KINDS; i++)
		json_object_set_new(reads, kinds[i], reads_json(&b->total[i]));
	json_object_update_new(doc, json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I}", "device",
					      b->server.server.dev->name, "software_device",
					      b->server.server.dev->software, "keys",
					      (json_int_t)b->live, "start", (json_int_t)b->o.start,
					      "value_bytes", (json_int_t)b->o.value_len, "rounds",
					      (json_int_t)b->rounds, "slice_ms",
					      (json_int_t)b->o.slice_ms));
	json_object_set_new(doc, "gets", reads);
	json_object_set_new(doc, "inserts_us", latency_json(&b->insert));
	json_object_set_new(doc, "overwrites_us", latency_json(&b->overwrite));
	json_object_update_new(
		doc,
		json_pack("{s:f, s:o, s:f, s:f, s:f, s:I, s:b}", "p999_growing_over_still",
			  f->ratio, "p999_growing_over_still_by_rounds", program_spread(&f->rounds),
			  "p999_growing_over_overwriting", f->ratio_overwriting, "inserts_per_s",
			  f->insert_rate, "overwrites_per_s", f->overwrite_rate, "growth_waits",
			  (json_int_t)b->grown_waits, "promises_kept", f->kept));
	json_object_set_new(doc, "index_before", index_json(&b->before));
	json_object_set_new(doc, "index_after", index_json(&b->after));
	program_print(doc, JSON_INDENT(2));
}

int growth_report(struct growth_bench *b)
{
	double still = (double)histogram_at(&b->total[GROWTH_STILL].latency, 0.999);
	double growing = (double)histogram_at(&b->total[GROWTH_GROWING].latency, 0.999);
	double over = (double)histogram_at(&b->total[GROWTH_OVERWRITING].latency, 0.999);
	struct figures f = {
		.ratio = still > 0 ? growing / still : 0,
		.ratio_overwriting = over > 0 ? growing / over : 0,
		.insert_rate = share(b->insert.count * NS_PER_S, b->insert_ns),
		.overwrite_rate = share(b->overwrite.count * NS_PER_S, b->overwrite_ns),
		.pause_ns = (double)histogram_at(&b->insert, 0.999),
	};

	f.rounds = samples_spread(b->round_ratio, b->ratios);
	f.kept = f.ratio > 0 && f.ratio <= RATIO_PROMISED && f.pause_ns < PAUSE_PROMISED;
	if (b->o.json)
		print_json(b, &f);
	else
		print_table(b, &f);
	if (!b->o.check || f.kept)
		return 0;
	fprintf(stderr, "growth-bench: a promise is not kept: see the figures\n");
	return 1;
}
