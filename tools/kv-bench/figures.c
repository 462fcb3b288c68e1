/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What is said of cells: medians, ratios, promises. */
#include <stdio.h>
#include <string.h>

#include "tools/kv-bench/kv_bench.h"

const struct cell *group_cell(const struct bench *b, const struct group *g, enum system_kind kind,
			      unsigned depth)
{
	for (unsigned i = 0; i < g->cells; i++) {
		const struct cell *c = &g->cell[i];

		if (b->systems.one[c->system].kind == kind && c->depth == depth)
			return c;
	}
	return NULL;
}

struct spread cell_rate(const struct group *g, const struct cell *c)
{
	double v[ROUNDS_MAX];

	memcpy(v, c->per_s, sizeof(v));
	return samples_spread(v, g->rounds);
}

struct spread cell_ratio(const struct bench *b, const struct group *g, const struct cell *c)
{
	const struct cell *ours = group_cell(b, g, SYSTEM_GRACEKV, c->depth);
	double v[ROUNDS_MAX];

	return ours ? samples_ratios(ours->per_s, c->per_s, v, g->rounds) : (struct spread){ 0 };
}

enum operation cell_writes(const struct cell *c)
{
	enum operation op = OP_UPDATE;

	while (op < OPERATIONS && c->latency[op].count == 0)
		op++;
	return op;
}

double latency_us(const struct histogram *h, double q)
{
	return (double)histogram_at(h, q) / 1e3;
}

static const struct group *group_of_size(const struct bench *b, uint64_t size)
{
	for (unsigned i = 0; i < b->groups; i++) {
		const struct group *g = &b->group[i];

		if (g->kind == GROUP_SIZE && g->plan.record_len == size)
			return g;
	}
	return NULL;
}

/* The better one of @kind's in each round; a system that is not there is none. */
static bool best_of(const struct bench *b, const struct group *g, const enum system_kind kind[2],
		    double per_s[ROUNDS_MAX])
{
	bool any = false;

	for (unsigned r = 0; r < g->rounds; r++)
		per_s[r] = 0;
	for (unsigned i = 0; i < 2; i++) {
		const struct cell *c = group_cell(b, g, kind[i], 1);

		for (unsigned r = 0; c && r < g->rounds; r++)
			per_s[r] = c->per_s[r] > per_s[r] ? c->per_s[r] : per_s[r];
		any = any || c;
	}
	return any;
}

unsigned bench_promises(const struct bench *b, struct promise out[PROMISES_MAX])
{
	static const struct {
		const char *name;
		enum system_kind kind[2];
	} peer[] = { { "redis", { SYSTEM_REDIS_UNIX, SYSTEM_REDIS_TCP } },
		     { "memcached", { SYSTEM_MEMCACHED, SYSTEM_MEMCACHED } } };
	static const uint64_t size[] = { 64, 1024 };
	double theirs[ROUNDS_MAX], v[ROUNDS_MAX];
	unsigned n = 0;

	for (unsigned i = 0; i < 4; i++) {
		const struct group *g = group_of_size(b, size[i / 2]);
		struct promise *p = &out[n];
		const struct cell *ours;

		if (!b->o.wanted[peer[i % 2].kind[0]] || (!g && !b->o.check))
			continue;
		*p = (struct promise){ 0 };
		snprintf(p->name, sizeof(p->name), "GETs of %llu B, one client: gracekv / %s",
			 (unsigned long long)size[i / 2], peer[i % 2].name);
		ours = g && g->rounds ? group_cell(b, g, SYSTEM_GRACEKV, 1) : NULL;
		if (ours && best_of(b, g, peer[i % 2].kind, theirs)) {
			p->is = samples_ratios(ours->per_s, theirs, v, g->rounds);
			p->known = true;
			p->kept = p->is.median >= TIMES_FASTER;
		}
		n++;
	}
	return n;
}
