/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The order of things. All systems are started, and filled with the same records. Cells of a group,
 * a workload on each system at each depth, take turns: a round is one run of each of them, in one
 * order and in the next round in the other, after a round that warms up and does not count. What
 * disturbs the machine for some seconds so disturbs all of them; ratios are of rounds.
 *
 * A cell starts with the records that were loaded: what it inserts is deleted when it is over,
 * outside of its time; it is over as well when there are twice as many records as were loaded.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/time.h"
#include "tools/kv-bench/kv_bench.h"
#include "tools/lib/stop.h"
#include "tools/lib/machine.h"
#include "tools/lib/progress.h"

#define MIB	   (1ull << 20)
#define SWEEP_NS   (NS_PER_S / 2) /* of a cell of a sweep, at most */
#define SWEEP_BASE (1ull << 40) /* numbers of their records begin here */
#define HANDLING   16u /* in flight while a store is filled or emptied, at least */

static struct run_plan plan_of(const struct bench *b, const struct workload *w)
{
	const struct bench_options *o = &b->o;

	return (struct run_plan){
		.workload = w,
		.distribution = o->distribution < DISTRIBUTIONS ? o->distribution : w->distribution,
		.zipf = &b->zipf,
		.records = o->records,
		.inserts = w->share[OP_INSERT] > 0 ? o->records : 0,
		.record_len = o->record_len,
		.operations = o->operations,
		.duration_ns = o->operations ? 0 : o->duration_ns,
		.target = (double)o->target,
		.threads = (unsigned)o->threads,
	};
}

static int add_group(struct bench *b, enum group_kind kind, struct run_plan plan,
		     const uint64_t *depth, unsigned depths)
{
	struct group *g = &b->group[b->groups];

	*g = (struct group){ .kind = kind, .plan = plan };
	g->cell = calloc((size_t)depths * b->systems.count, sizeof(*g->cell));
	if (!g->cell)
		return -ENOMEM;
	b->groups++;
	for (unsigned d = 0; d < depths; d++) {
		for (unsigned s = 0; s < b->systems.count; s++) {
			g->cell[g->cells].system = s;
			g->cell[g->cells++].depth = (unsigned)depth[d];
		}
	}
	return 0;
}

/* Sweeps are of one thread, in a closed loop, and short. */
static struct run_plan sweep_of(const struct bench *b, const struct workload *w)
{
	struct run_plan p = plan_of(b, w);

	p.distribution = w->distribution;
	p.target = 0;
	p.threads = 1;
	p.duration_ns = p.duration_ns < SWEEP_NS ? p.duration_ns : SWEEP_NS;
	return p;
}

static int plan_groups(struct bench *b)
{
	const struct bench_options *o = &b->o;
	const uint64_t depths[2] = { 1, o->depth }, one = 1;
	int rc = 0;

	b->group = calloc(o->workloads + o->sizes + 1, sizeof(*b->group));
	if (!b->group)
		return -ENOMEM;
	for (unsigned i = 0; i < o->workloads && rc == 0; i++)
		rc = add_group(b, GROUP_WORKLOAD, plan_of(b, o->workload[i]), depths,
			       o->depth > 1 ? 2 : 1);
	if (o->depths && rc == 0)
		rc = add_group(b, GROUP_DEPTHS, sweep_of(b, workload_find("C", NULL)), o->depth_at,
			       o->depths);
	for (unsigned i = 0; i < o->sizes && rc == 0; i++) {
		struct run_plan p = sweep_of(b, &workload_gets);

		p.base = SWEEP_BASE;
		p.record_len = o->size[i];
		p.records = sweep_records(o, o->size[i]);
		rc = add_group(b, GROUP_SIZE, p, &one, 1);
	}
	return rc;
}

/* Whatever is read is looked at, also where it is not measured. */
static int run_on(struct bench *b, const struct run_plan *p, struct run_result *r,
		  struct error *err)
{
	int rc = run(p, r, err);

	b->missing += r->missing;
	b->wrong += r->wrong;
	if (!b->trouble[0])
		memcpy(b->trouble, r->trouble, sizeof(b->trouble));
	return rc;
}

/* A store gets the records of a plan, or loses those after them. */
static int handle(struct bench *b, const struct run_plan *of, unsigned system,
		  const struct workload *w, uint64_t inserts, struct run_result *r,
		  struct error *err)
{
	struct run_plan p = *of;

	p.system = &b->systems.one[system];
	p.workload = w;
	p.distribution = DIST_UNIFORM;
	p.zipf = NULL;
	p.records = w == &workload_load ? 0 : of->records;
	p.inserts = inserts;
	p.operations = 0;
	p.duration_ns = 0;
	p.target = 0;
	p.threads = (unsigned)b->o.threads;
	p.depth = b->o.depth > HANDLING ? (unsigned)b->o.depth : HANDLING;
	while (p.depth > 1 && (uint64_t)p.depth * p.threads * p.record_len > IN_FLIGHT)
		p.depth /= 2;
	return run_on(b, &p, r, err);
}

static int fill(struct bench *b, const struct run_plan *of, struct load load[SYSTEMS],
		struct run_result *r, struct error *err)
{
	int rc = 0;

	for (unsigned s = 0; s < b->systems.count && rc == 0 && !stop_wanted(); s++) {
		const struct system *to = &b->systems.one[s];

		if (to->filled_by_another || to->keeps_nothing)
			continue;
		progress_show("loading", s, b->systems.count);
		rc = handle(b, of, s, &workload_load, of->records, r, err);
		if (load)
			load[s] = (struct load){ r->operations, (double)r->ns / 1e9 };
	}
	return rc;
}

static void add_result(struct group *g, struct cell *c, const struct run_result *r)
{
	c->per_s[g->rounds] = r->ns ? (double)r->operations * 1e9 / (double)r->ns : 0;
	c->operations += r->operations;
	c->missing += r->missing;
	c->wrong += r->wrong;
	c->not_started += r->not_started;
	c->client_cpu_ns += r->client_cpu_ns;
	c->server_cpu_ns = r->server_cpu_ns < 0 ? -1 : c->server_cpu_ns + r->server_cpu_ns;
	for (unsigned i = 0; i < OPERATIONS; i++)
		histogram_merge(&c->latency[i], &r->latency[i]);
}

/* @warm: shorter, and its figures are not kept. */
static int run_cell(struct bench *b, struct group *g, struct cell *c, bool warm,
		    struct run_result *r, struct error *err)
{
	struct run_plan p = g->plan;
	uint64_t inserted;
	int rc;

	p.system = &b->systems.one[c->system];
	p.depth = c->depth;
	/* all systems the same operations; what is written is of this cell alone */
	p.seed = b->o.seed + (uint64_t)g->rounds * THREADS_MAX + (warm ? 1u << 20 : 0) +
		 ((uint64_t)c->depth << 32);
	if (warm) {
		p.operations = (p.operations + 1) / 2;
		p.duration_ns /= 2;
	}
	rc = run_on(b, &p, r, err);
	if (rc)
		return rc;
	if (!warm && !stop_wanted())
		add_result(g, c, r);
	inserted = r->inserted;
	if (inserted)
		rc = handle(b, &p, c->system, &workload_delete, inserted, r, err);
	return rc;
}

static int run_group(struct bench *b, struct group *g, unsigned *done, unsigned all,
		     struct run_result *r, struct error *err)
{
	char words[64];
	int rc = 0;

	snprintf(words, sizeof(words), "%s %s", g->plan.workload->name,
		 g->kind == GROUP_WORKLOAD ? ""
		 : g->kind == GROUP_SIZE   ? "by size"
					   : "by depth");
	if (g->kind == GROUP_SIZE)
		rc = fill(b, &g->plan, NULL, r, err);
	for (uint64_t round = 0; round <= b->o.rounds && rc == 0; round++) {
		for (unsigned i = 0; i < g->cells && rc == 0 && !stop_wanted(); i++) {
			/* there and back: what follows what changes */
			unsigned k = round % 2 ? g->cells - 1 - i : i;

			progress_show(words, (*done)++, all);
			rc = run_cell(b, g, &g->cell[k], round == 0, r, err);
		}
		if (rc || stop_wanted())
			break;
		g->rounds = (unsigned)round;
	}
	return rc;
}

static int run_all(struct bench *b, struct run_result *r, struct error *err)
{
	struct run_plan ycsb = plan_of(b, &workload_load);
	unsigned done = 0, all = 0;
	int rc = 0;

	zipf_init(&b->zipf, b->o.records, 0.99);
	if (plan_groups(b))
		return error_set(err, -ENOMEM, "no memory for figures");
	for (unsigned i = 0; i < b->groups; i++)
		all += b->group[i].cells * ((unsigned)b->o.rounds + 1);
	if (b->o.workloads || b->o.depths)
		rc = fill(b, &ycsb, b->load, r, err);
	for (unsigned i = 0; i < b->groups && rc == 0 && !stop_wanted(); i++)
		rc = run_group(b, &b->group[i], &done, all, r, err);
	progress_clear();
	b->interrupted = stop_wanted();
	return rc;
}

static int enough_memory(const struct bench_options *o, struct error *err)
{
	uint64_t stores = 1u + o->wanted[SYSTEM_REDIS_UNIX] + o->wanted[SYSTEM_MEMCACHED];
	uint64_t wants = stores * options_memory(o), has = machine_memory();

	if (!has || wants <= has)
		return 0;
	return error_set(err, -ENOMEM,
			 "%" PRIu64 " stores with these records take up to %" PRIu64
			 " MiB, there are %" PRIu64 " (give fewer --records)",
			 stores, (uint64_t)(wants / MIB), (uint64_t)(has / MIB));
}

int bench_measure(struct bench *b, struct error *err)
{
	const struct bench_options *o = &b->o;
	struct systems_options how = { .server = o->server,
				       .binary = o->binary,
				       .host = o->host,
				       .device = o->device,
				       .connect = o->connect,
				       .timeout_ms = o->timeout_ms,
				       .memory = options_memory(o) };
	struct run_result *r = malloc(sizeof(*r));
	time_t now = time(NULL);
	struct error stop = { 0 };
	struct tm tm;
	int rc;

	machine_describe(b->machine);
	strftime(b->date, sizeof(b->date), "%Y-%m-%d", gmtime_r(&now, &tm));
	how.value_max = o->record_len;
	if (o->sizes && o->size[o->sizes - 1] > how.value_max)
		how.value_max = o->size[o->sizes - 1];
	memcpy(how.wanted, o->wanted, sizeof(how.wanted));
	rc = enough_memory(o, err);
	if (rc == 0 && !r)
		rc = error_set(err, -ENOMEM, "no memory");
	if (rc == 0)
		rc = systems_start(&b->systems, &how, err);
	if (rc == 0)
		rc = run_all(b, r, err);
	free(r);
	if (systems_stop(&b->systems, &stop) && rc == 0) {
		*err = stop;
		rc = stop.code;
	}
	return rc;
}

void bench_free(struct bench *b)
{
	for (unsigned i = 0; i < b->groups; i++)
		free(b->group[i].cell);
	free(b->group);
}
