/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A size: warm up, then rounds of operations, and of the device alone where that is wanted, in
 * turns: what disturbs a round disturbs its neighbour. A ratio is the median of the rounds' ratios.
 */
#include <stdlib.h>
#include <unistd.h>

#include "tools/lib/progress.h"
#include "tools/kv-bw-lat/perf.h"

#define WARM_OPS   1000u /* of a handle, at most */
#define WARM_NS	   (200 * NS_PER_MS) /* likewise */
#define REST_US	   10000 /* between two looks whether it is to go on */
#define AHEAD_NS   1e6 /* threads are awake when the first operation of an open loop is due */
#define LATE_TIMES 2 /* an open loop ends after so many times what was planned, */
#define LATE_NS	   NS_PER_S /* and this */

static double cpu_seconds(void)
{
	return (double)time_cpu_ns() / NS_PER_S;
}

static void join(struct perf *p, struct perf_figures *f)
{
	static struct histogram lat; /* of this round */
	uint64_t begun = UINT64_MAX, ended = 0, ops = 0, ns;

	lat = (struct histogram){ 0 };
	for (unsigned i = 0; i < p->o.threads; i++) {
		const struct perf_tally *y = &p->thread[i].tally;

		begun = y->begun < begun ? y->begun : begun;
		ended = y->ended > ended ? y->ended : ended;
		ops += y->ops;
		f->missed += y->missed;
		histogram_merge(&lat, &y->lat);
		moments_merge(&f->moments, &y->moments);
		slices_merge(&f->slices, &y->slices);
	}
	histogram_merge(&f->lat, &lat);
	ns = ticks_ns(ended - begun);
	f->ops += ops;
	f->duration_ns += ns;
	f->rate[f->rounds] = ns ? (double)ops * 1e9 / (double)ns : 0;
	f->p50_ns[f->rounds++] = (double)histogram_at(&lat, 0.5);
}

/* The first of the threads' errors. */
static int thread_error(struct perf *p)
{
	for (unsigned i = 0; i < p->o.threads; i++) {
		if (!p->thread[i].error.code)
			continue;
		p->error = p->thread[i].error;
		return p->error.code;
	}
	return 0;
}

/* All threads through the round that p->round says. @f: NULL: a warm-up. */
static int go(struct perf *p, struct perf_figures *f)
{
	int rc = f ? perf_tell(p, p->loader, MEASURE_LOOK) : 0;
	uint64_t server_ns = p->server.cpu_ns;
	double cpu;

	if (rc)
		return rc;
	cpu = cpu_seconds();
	p->round.before_ns = f ? f->duration_ns : 0;
	p->round.kept = f && p->round.kind == PERF_OPERATION;
	pthread_barrier_wait(&p->barrier);
	pthread_barrier_wait(&p->barrier);
	if (f) {
		f->client_cpu_s += cpu_seconds() - cpu;
		join(p, f);
	}
	pthread_barrier_wait(&p->barrier);
	rc = thread_error(p);
	if (rc == 0 && f)
		rc = perf_tell(p, p->loader, MEASURE_LOOK);
	if (rc == 0 && f)
		f->server_cpu_s += (double)(p->server.cpu_ns - server_ns) / 1e9;
	return rc;
}

/* Of @all, the part of round @i. */
static uint64_t part(const struct perf *p, uint64_t all, unsigned i)
{
	uint64_t rounds = p->o.rounds;

	return all / rounds + (i < all % rounds);
}

/* An open loop's round: what is due in it, and when it ends at the latest. */
static void pace(struct perf *p, unsigned i)
{
	const struct perf_options *o = &p->o;
	uint64_t all = o->seconds > 0 ? (uint64_t)(o->rate * o->seconds) : o->iterations * o->qps;
	uint64_t ops = part(p, all, i), start = ticks_now() + ticks_of_ns(AHEAD_NS);

	p->round.paced = true;
	p->round.ns = (uint64_t)((double)ops / o->rate * 1e9) * LATE_TIMES + LATE_NS;
	for (unsigned t = 0; t < o->threads; t++)
		p->thread[t].pace = (struct pace){
			.start = start,
			.interval = 1e9 / o->rate * ticks.per_ns,
			.number = t,
			.threads = (unsigned)o->threads,
			.count = pace_share(ops, t, (unsigned)o->threads),
		};
}

static int one_round(struct perf *p, struct perf_result *r, enum perf_kind kind, unsigned i)
{
	const struct perf_options *o = &p->o;
	struct perf_figures *f = kind == PERF_OPERATION ? &r->op : &r->floor;

	p->round = (struct perf_round){ .kind = kind, .bytes = r->raw_bytes };
	if (o->seconds > 0) {
		p->round.ops = UINT64_MAX;
		p->round.ns = (uint64_t)(o->seconds * 1e9 / (double)o->rounds);
	} else {
		p->round.ops = part(p, o->iterations, i);
	}
	if (kind == PERF_OPERATION && o->rate > 0)
		pace(p, i);
	if (kind == PERF_RAW_READ && (perf_keys_find(p) || perf_buckets_find(p)))
		return p->error.code;
	return go(p, f);
}

static int warm_up(struct perf *p, const struct perf_result *r, enum perf_kind kind)
{
	const struct perf_options *o = &p->o;

	p->round = (struct perf_round){ .kind = kind, .bytes = r->raw_bytes, .ns = WARM_NS };
	p->round.ops = o->iterations && o->iterations < WARM_OPS ? o->iterations : WARM_OPS;
	if (o->warm_seconds > 0 && kind == PERF_OPERATION) {
		p->round.ns = (uint64_t)(o->warm_seconds * 1e9);
		p->round.ops = UINT64_MAX;
	}
	if (kind == PERF_RAW_READ && perf_buckets_find(p))
		return p->error.code;
	return go(p, NULL);
}

/* --idle: what the server takes while it is asked for nothing. */
static int rest(struct perf *p, struct perf_result *r)
{
	uint64_t start = time_now_ns(), end = start + (uint64_t)(p->o.idle_seconds * 1e9), cpu_ns;
	int rc = p->o.idle_seconds > 0 ? perf_tell(p, p->loader, MEASURE_LOOK) : 0;

	cpu_ns = p->server.cpu_ns;
	while (rc == 0 && !stop_wanted() && time_now_ns() < end)
		usleep(REST_US);
	r->idle_s = (double)(time_now_ns() - start) / 1e9;
	if (rc == 0 && p->o.idle_seconds > 0)
		rc = perf_tell(p, p->loader, MEASURE_LOOK);
	r->idle_cpu_s = (double)(p->server.cpu_ns - cpu_ns) / 1e9;
	return rc;
}

static void add_stats(struct perf *p, struct gkv_stats *sum, int sign)
{
	/* counters, one after the other */
	uint64_t *to = (uint64_t *)sum;

	for (unsigned i = 0; i < p->opened; i++) {
		struct gkv_stats one;
		const uint64_t *from = (const uint64_t *)&one;

		gkv_stats_get(p->handle[i].kv, &one);
		for (size_t n = 0; n < sizeof(one) / sizeof(*to); n++)
			to[n] += sign > 0 ? from[n] : -from[n];
	}
}

/* What the device is to do alone, and with how many bytes. */
static void choose_floor(const struct perf *p, struct perf_result *r)
{
	r->raw = PERF_OPERATION;
	if (!p->o.raw)
		return;
	r->raw = PERF_RAW_READ;
	r->raw_bytes = r->block_bytes;
	if (perf_cold(&p->o))
		r->raw_bytes += BUCKET_BYTES;
	if (p->o.op == PERF_GET)
		return;
	r->raw_bytes = (uint32_t)r->size; /* as the server pulls it */
	if (r->size > RPC_EAGER_MAX)
		return;
	r->raw = PERF_RAW_SEND;
	r->raw_bytes = p->keys.key_len + (uint32_t)r->size; /* a PING's payload has a limit */
	if (r->raw_bytes > RPC_EAGER_MAX)
		r->raw_bytes = RPC_EAGER_MAX;
	r->raw_bytes += RPC_REQUEST_BYTES;
}

static void conclude(const struct perf *p, struct perf_result *r)
{
	const bool latency = p->o.latency;
	unsigned n = r->op.rounds < r->floor.rounds ? r->op.rounds : r->floor.rounds;
	double ratio[PERF_ROUNDS_MAX];

	r->over_raw = samples_ratios(latency ? r->op.p50_ns : r->op.rate,
				     latency ? r->floor.p50_ns : r->floor.rate, ratio, n);
}

int perf_measure(struct perf *p, struct perf_result *r)
{
	int rc;

	r->size = p->keys.size;
	r->keys = p->keys.count;
	r->block_bytes = p->keys.block_bytes;
	choose_floor(p, r);
	rc = perf_prepare_handles(p);
	if (rc)
		return rc;
	r->depth = p->depth;
	p->get_below = p->o.op == PERF_PUT     ? 0
		       : p->o.op == PERF_MIXED ? (uint32_t)(p->o.get_share * (1 << 24))
					       : 1 << 24;
	if (p->o.theta > 0)
		zipf_init(&p->zipf, p->keys.count, p->o.theta);
	rc = perf_begin(p);
	if (rc)
		return rc;
	slices_clear(&r->op.slices);
	slices_clear(&r->floor.slices);
	for (unsigned i = 0; i < p->o.threads; i++)
		p->thread[i].kept_count = 0;
	rc = warm_up(p, r, PERF_OPERATION);
	if (rc == 0 && r->raw)
		rc = warm_up(p, r, r->raw);
	if (rc == 0)
		rc = rest(p, r);
	add_stats(p, &r->stats, -1);
	for (unsigned i = 0; i < p->o.rounds && rc == 0 && !stop_wanted(); i++) {
		progress_show("measuring", i, p->o.rounds);
		/* there and back: what follows what changes */
		rc = one_round(p, r, i % 2 && r->raw ? r->raw : PERF_OPERATION, i);
		if (rc == 0 && r->raw && !stop_wanted())
			rc = one_round(p, r, i % 2 ? PERF_OPERATION : r->raw, i);
	}
	progress_clear();
	add_stats(p, &r->stats, 1);
	conclude(p, r);
	return rc;
}
