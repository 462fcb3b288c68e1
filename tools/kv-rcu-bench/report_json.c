/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-rcu-bench/rcu_bench.h"

static double us(uint64_t ns)
{
	return (double)ns / 1e3;
}

static json_t *json_range(const double *v, unsigned n)
{
	double least = v[0], most = v[0];

	for (unsigned i = 1; i < n; i++) {
		least = v[i] < least ? v[i] : least;
		most = v[i] > most ? v[i] : most;
	}
	return json_pack("{s:f, s:f, s:f}", "min", least, "median", rcu_median(v, n), "max", most);
}

static json_t *json_cell(const struct rcu_bench *b, unsigned strategy, unsigned pause)
{
	const struct rcu_cell *c = rcu_cell(b, strategy, pause);
	const struct histogram *g = &c->grace.times, *u = &c->update_ns;
	unsigned n = (unsigned)b->o.rounds;
	double seconds = (double)b->o.duration_ns / 1e9;

	return json_pack(
		"{s:s, s:i, s:f, s:o, s:o, s:o, s:{s:I, s:f, s:f, s:f, s:f}, s:{s:I, s:I, s:I, s:I, s:I}, "
		"s:I}",
		"strategy", b->o.strategy[strategy]->name, "pause_us", (int)b->o.pause_us[pause],
		"updates", seconds * rcu_median(c->updates_per_s, n), "updates_per_s",
		json_range(c->updates_per_s, n), "reads_per_s", json_range(c->reads_per_s, n),
		"grace_periods_per_s", json_range(c->graces_per_s, n), "grace_us", "count",
		(json_int_t)g->count, "mean", rcu_grace_mean_us(&c->grace), "p50",
		us(histogram_at(g, 0.5)), "p99", us(histogram_at(g, 0.99)), "max", us(g->max_ns),
		"update_ns", "count", (json_int_t)u->count, "p50", (json_int_t)histogram_at(u, 0.5),
		"p99", (json_int_t)histogram_at(u, 0.99), "p999",
		(json_int_t)histogram_at(u, 0.999), "max", (json_int_t)u->max_ns, "waiting_max",
		(json_int_t)c->deferred);
}

static json_t *json_or_null(bool known, double v)
{
	return known ? json_real(v) : json_null();
}

static json_t *json_promise(const struct rcu_bench *b, unsigned pause)
{
	struct rcu_promise p = rcu_promise(b, pause);

	return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:b}", "pause_us",
			 (int)b->o.pause_us[pause], "gpc_over_liburcu",
			 json_or_null(p.ratio.mean > 0, p.ratio.mean), "lower95",
			 json_or_null(p.ratio_known, p.ratio.lower), "gpc_p99_ns",
			 json_or_null(p.floor_known, p.p99_ns), "floor_p99_ns",
			 json_or_null(p.floor_known, p.floor_ns), "gpc_p99_over_floor",
			 json_or_null(p.floor_known, p.times), "kept", p.kept);
}

json_t *rcu_report_json(const struct rcu_bench *b, const struct program *p)
{
	json_t *doc = program_json(p), *results = json_array(), *promises = json_array();

	for (unsigned s = 0; s < b->o.strategies; s++) {
		for (unsigned i = 0; i < b->o.pauses; i++)
			json_array_append_new(results, json_cell(b, s, i));
	}
	for (unsigned i = 0; i < b->o.pauses; i++)
		json_array_append_new(promises, json_promise(b, i));
	json_object_update_new(doc, json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:I, s:I}", "liburcu",
					      LIBURCU_VERSION, "readers", (json_int_t)b->o.readers,
					      "updaters", (json_int_t)b->o.updaters, "objects",
					      (json_int_t)b->o.objects, "rounds",
					      (json_int_t)b->o.rounds, "seconds",
					      (double)b->o.duration_ns / 1e9, "deferred_max_bytes",
					      (json_int_t)b->o.deferred_max, "object_bytes",
					      (json_int_t)sizeof(struct rcu_object)));
	json_object_set_new(doc, "remote_device", json_string(RCU_REMOTE_DEVICE));
	json_object_set_new(doc, "results", results);
	json_object_set_new(doc, "promises", promises);
	json_object_set_new(doc, "promises_kept", json_boolean(rcu_promises_kept(b)));
	return doc;
}
