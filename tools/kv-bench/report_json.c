/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <stdio.h>

#include "tools/kv-bench/kv_bench.h"

static json_t *spread_json(struct spread s)
{
	return json_pack("{s:f, s:f, s:f}", "median", s.median, "min", s.min, "max", s.max);
}

static json_t *latencies_json(const struct cell *c)
{
	json_t *all = json_object();

	for (unsigned i = 0; i < OPERATIONS; i++) {
		const struct histogram *h = &c->latency[i];

		if (h->count)
			json_object_set_new(
				all, operation_name[i],
				json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "count",
					  (json_int_t)h->count, "p50", latency_us(h, 0.5), "p90",
					  latency_us(h, 0.9), "p99", latency_us(h, 0.99), "p999",
					  latency_us(h, 0.999), "p9999", latency_us(h, 0.9999),
					  "max", (double)h->max_ns / 1e3));
	}
	return all;
}

static json_t *cell_json(const struct bench *b, const struct group *g, const struct cell *c)
{
	double million = c->operations ? (double)c->operations / 1e6 : 1;
	struct spread ratio = cell_ratio(b, g, c);
	json_t *server = c->server_cpu_ns < 0 ? json_null()
					      : json_real((double)c->server_cpu_ns / 1e9 / million);

	return json_pack(
		"{s:s, s:s, s:i, s:I, s:s, s:i, s:I, s:o, s:o, s:o, s:o, s:f, s:I, s:I, s:I}",
		"workload", g->plan.workload->name, "system", b->systems.one[c->system].name,
		"depth", (int)c->depth, "record_bytes", (json_int_t)g->plan.record_len,
		"distribution", distribution_name[g->plan.distribution], "rounds", (int)g->rounds,
		"operations", (json_int_t)c->operations, "ops_per_s", spread_json(cell_rate(g, c)),
		"gracekv_over_it", ratio.median > 0 ? spread_json(ratio) : json_null(), "lat_us",
		latencies_json(c), "server_cpu_s_per_million", server, "client_cpu_s_per_million",
		(double)c->client_cpu_ns / 1e9 / million, "missing", (json_int_t)c->missing,
		"wrong", (json_int_t)c->wrong, "not_started", (json_int_t)c->not_started);
}

static json_t *cells_json(const struct bench *b, enum group_kind kind)
{
	json_t *all = json_array();

	for (unsigned i = 0; i < b->groups; i++) {
		const struct group *g = &b->group[i];

		for (unsigned k = 0; k < g->cells && g->rounds && g->kind == kind; k++)
			json_array_append_new(all, cell_json(b, g, &g->cell[k]));
	}
	return all;
}

static json_t *systems_json(const struct bench *b)
{
	json_t *all = json_array();

	for (unsigned i = 0; i < b->systems.count; i++) {
		const struct system *s = &b->systems.one[i];
		const struct load *l = &b->load[i];

		json_array_append_new(
			all, json_pack("{s:s, s:s, s:s, s:o}", "name", s->name, "version",
				       s->version, "reached_by", s->how, "load",
				       l->records ? json_pack("{s:I, s:f, s:f}", "records",
							      (json_int_t)l->records, "seconds",
							      l->seconds, "records_per_s",
							      l->seconds > 0 ? (double)l->records /
										       l->seconds
									     : 0.0)
						  : json_null()));
	}
	return all;
}

static json_t *parameters_json(const struct bench_options *o)
{
	json_t *workloads = json_array();

	for (unsigned i = 0; i < o->workloads; i++)
		json_array_append_new(workloads, json_string(o->workload[i]->name));
	return json_pack("{s:o, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I}", "workloads",
			 workloads, "records", (json_int_t)o->records, "fields",
			 (json_int_t)o->fields, "field_bytes", (json_int_t)o->field_len,
			 "operations", (json_int_t)o->operations, "seconds",
			 o->operations ? 0.0 : (double)o->duration_ns / 1e9, "threads",
			 (json_int_t)o->threads, "depth", (json_int_t)o->depth, "target_per_s",
			 (json_int_t)o->target, "rounds", (json_int_t)o->rounds, "seed",
			 (json_int_t)o->seed);
}

static json_t *promises_json(const struct bench *b)
{
	struct promise promise[PROMISES_MAX];
	unsigned n = bench_promises(b, promise);
	json_t *all = json_array();

	for (unsigned i = 0; i < n; i++) {
		const struct promise *p = &promise[i];

		json_array_append_new(
			all,
			json_pack("{s:s, s:s, s:f, s:o, s:o, s:o, s:b}", "name", p->name,
				  "promised", "at least", "bound", TIMES_FASTER, "median",
				  p->known ? json_real(p->is.median) : json_null(), "min",
				  p->known ? json_real(p->is.min) : json_null(), "max",
				  p->known ? json_real(p->is.max) : json_null(), "kept", p->kept));
	}
	return all;
}

json_t *report_json(const struct bench *b, const struct program *p)
{
	json_t *doc = program_json(p);
	json_t *more = json_pack(
		"{s:s, s:b, s:s, s:s, s:b, s:o, s:o, s:o, s:{s:o, s:o}, s:o}", "device",
		b->systems.device, "software_device", b->systems.software, "machine", b->machine,
		"date", b->date, "interrupted", b->interrupted, "systems", systems_json(b),
		"parameters", parameters_json(&b->o), "cells", cells_json(b, GROUP_WORKLOAD),
		"sweeps", "depths", cells_json(b, GROUP_DEPTHS), "sizes", cells_json(b, GROUP_SIZE),
		"promises", promises_json(b));

	if (!doc || !more || json_object_update_new(doc, more)) {
		json_decref(doc);
		return NULL;
	}
	return doc;
}
