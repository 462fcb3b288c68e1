/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/performance/get_bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/table.h"
#include "tools/lib/samples.h"

static uint64_t stat_of(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, name, len) == 0 && p[len] == ' ')
			return strtoull(p + len, NULL, 10);
	}
	return 0;
}

struct report {
	double floor, get, ratio;
	uint64_t records, slab_bytes, index_bytes;
};

static void report_table(const struct get_bench *b, const struct report *r)
{
	static const char *const head[] = { "operation", ">ns min", ">ns median", ">p50",
					    ">p99",	 ">p99.9",  ">Kops/s",	  NULL };
	const double *ns[] = { b->floor_ns, b->get_ns }, *lat[] = { b->floor_lat, b->get_lat };
	struct table *t = table_new(head);

	for (unsigned i = 0; i < 2; i++) {
		double median = samples_median(ns[i], b->o.rounds);

		table_cell(t, i ? "GET" : "raw READs (%u + %u B)", BUCKET_BYTES, b->block_len);
		table_cell(t, "%.0f", ns[i][0]);
		table_cell(t, "%.0f", median);
		table_cell(t, "%.0f", samples_at(lat[i], b->o.ops, 0.5));
		table_cell(t, "%.0f", samples_at(lat[i], b->o.ops, 0.99));
		table_cell(t, "%.0f", samples_at(lat[i], b->o.ops, 0.999));
		table_cell(t, "%.0f", 1e6 / median);
	}
	printf("get-bench %s, device %s, %" PRIu64 " keys of %u B, values of %" PRIu64
	       " B, %" PRIu64 " rounds of %" PRIu64 "\n\n",
	       GRACEKV_VERSION, b->session->dev->name, b->o.keys, KEY_LEN, b->o.value_len,
	       b->o.rounds, b->o.ops);
	table_print(t, stdout);
	printf("\nGET / raw READs      %.2f  (medians; promised: at most 3; by rounds %.2f to %.2f)\n",
	       r->ratio, b->ratio.min, b->ratio.max);
	printf("READs per GET        %.3f\n", b->reads_per_get);
	if (b->server.pid && b->o.seconds)
		printf("server CPU           %.3f %% of a core idle, %.3f %% over %" PRIu64
		       " GETs (promised: idle below 0.5, difference below 1)\n",
		       100 * b->idle_cpu, 100 * b->busy_cpu, b->busy_gets);
	printf("memory               %.1f MB slabs + %.1f MB index for %" PRIu64
	       " records, %.0f B each\n",
	       (double)r->slab_bytes / 1e6, (double)r->index_bytes / 1e6, r->records,
	       (double)(r->slab_bytes + r->index_bytes) / (double)(r->records ? r->records : 1));
	if (b->session->dev->software)
		puts("\nsoft0 is a software stand-in: these are memory copies and our code, not RDMA.");
}

static void report_json(const struct get_bench *b, const struct report *r)
{
	json_t *doc = program_json(&get_program);

	json_object_update_new(
		doc, json_pack("{s:s, s:b, s:I, s:I, s:I}", "device", b->session->dev->name,
			       "software_device", b->session->dev->software, "keys",
			       (json_int_t)b->o.keys, "value_bytes", (json_int_t)b->o.value_len,
			       "rounds", (json_int_t)b->o.rounds));
	json_object_set_new(doc, "raw_reads_ns", json_real(r->floor));
	json_object_set_new(doc, "get_ns", json_real(r->get));
	json_object_set_new(doc, "get_over_raw_reads", json_real(r->ratio));
	json_object_set_new(doc, "get_over_raw_reads_by_rounds", program_spread(&b->ratio));
	json_object_set_new(doc, "reads_per_get", json_real(b->reads_per_get));
	json_object_set_new(doc, "server_cpu_idle", json_real(b->idle_cpu));
	json_object_set_new(doc, "server_cpu_gets", json_real(b->busy_cpu));
	json_object_set_new(doc, "records", json_integer((json_int_t)r->records));
	json_object_set_new(doc, "slab_bytes", json_integer((json_int_t)r->slab_bytes));
	json_object_set_new(doc, "index_bytes", json_integer((json_int_t)r->index_bytes));
	program_print(doc, JSON_INDENT(2));
}

int get_report(struct get_bench *b)
{
	struct report r = { .floor = samples_median(b->floor_ns, b->o.rounds),
			    .get = samples_median(b->get_ns, b->o.rounds) };
	char *text;

	if (gkv_server_stats(b->kv, &text))
		return program_failed(&get_program, "statistics", gkv_error(b->kv));
	r.ratio = r.get / r.floor;
	r.records = stat_of(text, "records");
	r.slab_bytes = stat_of(text, "memory_slab_bytes_used");
	r.index_bytes = stat_of(text, "index_segments") * SEGMENT_BYTES;
	free(text);
	if (b->o.json)
		report_json(b, &r);
	else
		report_table(b, &r);
	return 0;
}
