/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The document: docs of its fields are in README.md beside this file. */
#include <jansson.h>

#include "tools/kv-bw-lat/perf.h"

static double average(const struct perf_figures *f)
{
	return f->duration_ns ? (double)f->ops * 1e9 / (double)f->duration_ns : 0;
}

static json_t *latencies(const struct perf_figures *f)
{
	const struct histogram *h = &f->lat;

	return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "min", f->moments.min / 1e3, "p50",
			 (double)histogram_at(h, 0.5) / 1e3, "avg", moments_mean(&f->moments) / 1e3,
			 "stdev", moments_stdev(&f->moments) / 1e3, "p99",
			 (double)histogram_at(h, 0.99) / 1e3, "p999",
			 (double)histogram_at(h, 0.999) / 1e3, "max", f->moments.max / 1e3);
}

static json_t *floor_of(const struct perf *p, const struct perf_result *r)
{
	const struct perf_figures *f = &r->floor;

	return json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:o}", "op",
			 r->raw == PERF_RAW_SEND ? "send"
			 : perf_cold(&p->o)	 ? "reads"
						 : "read",
			 "bytes", (json_int_t)r->raw_bytes, "iterations", (json_int_t)f->ops,
			 "duration_s", (double)f->duration_ns / 1e9, "ops_per_s", average(f),
			 "bw_avg_Bps", average(f) * r->raw_bytes, "lat_us", latencies(f));
}

/* [us, how many, percent up to here] */
static json_t *histogram(const struct histogram *h)
{
	json_t *list = json_array();
	uint64_t sum = 0;

	for (unsigned i = 0; i < HISTOGRAM_CELLS; i++) {
		if (!h->cell[i])
			continue;
		sum += h->cell[i];
		json_array_append_new(list, json_pack("[f, I, f]", (double)histogram_end(i) / 1e3,
						      (json_int_t)h->cell[i],
						      100 * (double)sum / (double)h->count));
	}
	return list;
}

static json_t *counts(const struct perf_result *r)
{
	const struct gkv_stats *s = &r->stats;
	double gets = (double)(s->gets ? s->gets : 1);

	return json_pack("{s:f, s:f, s:{s:I, s:I, s:I, s:I}}", "reads_per_get",
			 (double)s->reads / gets, "hint_hit_rate", (double)s->hint_hits / gets,
			 "retries", "obsolete", (json_int_t)s->retry_obsolete, "checksum",
			 (json_int_t)s->retry_checksum, "stale_directory",
			 (json_int_t)s->retry_directory, "rpc_fallback",
			 (json_int_t)s->rpc_fallbacks);
}

static json_t *result(const struct perf *p, const struct perf_result *r)
{
	const struct perf_figures *f = &r->op;
	const double bytes = (double)(r->size * p->o.group); /* of an operation */
	char op[32];
	json_t *doc = json_pack(
		"{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:o, s:f}", "op",
		perf_op_name(&p->o, op), "size_bytes", (json_int_t)r->size, "block_bytes",
		(json_int_t)r->block_bytes, "keys", (json_int_t)r->keys, "tx_depth",
		(json_int_t)r->depth, "iterations", (json_int_t)f->ops, "missed",
		(json_int_t)f->missed, "duration_s", (double)f->duration_ns / 1e9, "ops_per_s",
		average(f), "bw_peak_Bps", slices_peak(&f->slices, f->duration_ns) * bytes,
		"bw_avg_Bps", average(f) * bytes, "msg_rate_Mpps", average(f) / 1e6, "lat_us",
		latencies(f), "client_cpu_s", f->client_cpu_s);

	json_object_update_new(doc, counts(r));
	json_object_set_new(doc, "server_cpu_s", json_real(f->server_cpu_s));
	if (r->raw && r->floor.ops) {
		json_object_set_new(doc, "raw", floor_of(p, r));
		json_object_set_new(doc, "over_raw", json_real(r->over_raw.median));
		json_object_set_new(doc, "over_raw_by_rounds", program_spread(&r->over_raw));
	}
	if (p->o.idle_seconds > 0)
		json_object_set_new(doc, "idle",
				    json_pack("{s:f, s:f}", "duration_s", r->idle_s, "server_cpu_s",
					      r->idle_cpu_s));
	if (p->o.histogram)
		json_object_set_new(doc, "histogram", histogram(&f->lat));
	if (r->kept)
		json_object_set(doc, "unsorted_us", r->kept);
	return doc;
}

json_t *perf_json_kept(const struct perf *p)
{
	json_t *list = json_array();

	for (unsigned t = 0; t < p->o.threads; t++) {
		for (uint64_t i = 0; i < p->thread[t].kept_count; i++)
			json_array_append_new(list, json_real((double)p->thread[t].kept[i] / 1e3));
	}
	return list;
}

static json_t *parameters(const struct perf *p)
{
	const struct perf_options *o = &p->o;
	const struct gkv *kv = p->handle[0].kv;
	char op[32];

	return json_pack(
		"{s:s, s:I, s:s, s:f, s:b, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:b, s:b, "
		"s:b, s:i, s:i, s:I, s:I, s:I}",
		"op", perf_op_name(o, op), "keys", (json_int_t)o->keys, "dist",
		o->theta > 0 ? "zipf" : "uniform", "theta", o->theta, "hints", !o->no_hints,
		"iterations", (json_int_t)o->iterations, "duration_s", o->seconds, "qps",
		(json_int_t)o->qps, "threads", (json_int_t)o->threads, "tx_depth",
		(json_int_t)o->depth, "post_list", (json_int_t)o->post_list, "cq_mod",
		(json_int_t)o->moderation, "rounds", (json_int_t)o->rounds, "rate_per_s", o->rate,
		"events", o->events, "rdma_cm", o->cm, "raw", o->raw, "inline_max",
		(int)kv->link.qp.inline_max, "read_depth", (int)kv->link.qp.rd_initiator,
		"pkey_index", (json_int_t)o->pkey_index, "service_level",
		(json_int_t)o->service_level, "traffic_class", (json_int_t)o->traffic_class);
}

static json_t *server(const struct perf *p)
{
	const struct rpc_measured *m = &p->server;

	return json_pack("{s:s, s:s, s:b, s:s, s:i, s:I}", "address", p->o.address, "device",
			 m->device, "software_device", (int)m->software, "version", m->version,
			 "workers", (int)m->workers, "memory_bytes_max", (json_int_t)m->memory_max);
}

json_t *perf_json(const struct perf *p)
{
	const struct gkv *kv = p->handle[0].kv;
	json_t *doc = program_json(perf_program(&p->o)), *results = json_array();

	if (!doc || !results)
		return NULL;
	for (unsigned i = 0; i < p->results; i++)
		json_array_append_new(results, result(p, &p->result[i]));
	json_object_update_new(
		doc,
		json_pack("{s:s, s:b, s:o, s:i, s:s, s:b, s:o, s:o, s:o}", "device",
			  p->device->rdma->name, "software_device", p->software, "gid_index",
			  kv->link.qp.source.has_gid ? json_integer(kv->link.qp.source.gid_index)
						     : json_null(),
			  "mtu", (int)rdma_mtu_bytes(kv->link.qp.mtu), "transport", "RC",
			  "complete", p->complete, "server", server(p), "parameters", parameters(p),
			  "results", results));
	return doc;
}
