/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <inttypes.h>
#include <stdio.h>

#include "common/base/table.h"
#include "tests/performance/warm_bench.h"

#define FEW_READS  1.02 /* for each GET, where hints of all keys have room */
#define MANY_READS 1.2

/* What is promised of times: of one kind over another, round by round. */
static const struct promise {
	const char *name, *key;
	enum warm_kind of, over;
	double most, least; /* 0: not promised */
} promises[] = {
	{ "GET / raw READ, time", "get_over_raw_read", WARM_GET, WARM_RAW, .most = 2 },
	{ "mget of 32 / raw READs of 32, rate", "mget_rate_over_raw_reads", WARM_RAW_CHAIN,
	  WARM_MGET, 0, 0 },
	{ "32 in flight / raw READs of 32, rate", "get_depth_rate_over_raw_reads", WARM_RAW_CHAIN,
	  WARM_ASYNC, .least = 0.6 },
	{ "GET / redis-benchmark -c 1, rate", "get_rate_over_redis", WARM_REDIS, WARM_GET,
	  .least = 25 },
	{ "mget of 32 / -c 50 -P 16, rate", "mget_rate_over_redis", WARM_REDIS_MANY, WARM_MGET,
	  .least = 5 },
	{ "32 in flight / -c 50 -P 16, rate", "get_depth_rate_over_redis", WARM_REDIS_MANY,
	  WARM_ASYNC, .least = 5 },
};

#define PROMISES (sizeof(promises) / sizeof(promises[0]))

/* One line of the figures. */
struct figure {
	char name[60], key[48];
	struct spread is;
	double most, least;
	bool kept;
};

struct figures {
	struct figure one[PROMISES + 2];
	unsigned count;
};

static void add(struct figures *f, struct figure one)
{
	one.kept = (one.most <= 0 || one.is.median <= one.most) &&
		   (one.least <= 0 || one.is.median >= one.least);
	f->one[f->count++] = one;
}

static void work_out(const struct warm_bench *b, struct figures *f)
{
	double v[WARM_ROUNDS_MAX];

	for (unsigned i = 0; i < PROMISES; i++) {
		const struct promise *p = &promises[i];
		struct figure one = { .most = p->most, .least = p->least };

		if (!b->wanted[p->of] || !b->wanted[p->over])
			continue;
		snprintf(one.name, sizeof(one.name), "%s", p->name);
		snprintf(one.key, sizeof(one.key), "%s", p->key);
		one.is = samples_ratios(b->ns[p->of], b->ns[p->over], v, b->o.rounds);
		add(f, one);
	}
	for (unsigned i = 0; i < b->zipfs; i++) {
		struct figure one = { .most = i ? MANY_READS : FEW_READS };

		for (unsigned r = 0; r < b->o.rounds; r++)
			v[r] = b->zipf[i].reads[r];
		snprintf(one.name, sizeof(one.name), "READs per GET, zipf 0.99, %" PRIu64 " keys",
			 b->zipf[i].keys);
		snprintf(one.key, sizeof(one.key), "zipf_reads_per_get_%s", i ? "many" : "few");
		one.is = samples_spread(v, b->o.rounds);
		add(f, one);
	}
}

static void print_times(const struct warm_bench *b)
{
	static const char *const head[] = { "operation", ">ns min", ">ns median",
					    ">ns max",	 ">Kops/s", NULL };
	struct table *t = table_new(head);
	double v[WARM_ROUNDS_MAX];

	for (unsigned k = 0; k < WARM_KINDS; k++) {
		struct spread s;

		if (!b->wanted[k])
			continue;
		for (unsigned r = 0; r < b->o.rounds; r++)
			v[r] = b->ns[k][r];
		s = samples_spread(v, b->o.rounds);
		table_cell(t, "%s", warm_kind[k].name);
		table_cell(t, "%.0f", s.min);
		table_cell(t, "%.0f", s.median);
		table_cell(t, "%.0f", s.max);
		table_cell(t, "%.0f", 1e6 / s.median);
	}
	table_print(t, stdout);
	if (b->gets)
		printf("READs for each of our GETs: %.4f\n", (double)b->reads / (double)b->gets);
	putchar('\n');
}

static void print_zipf(const struct warm_bench *b)
{
	static const char *const head[] = { ">keys",	  ">warm-up GETs", ">READs, first round",
					    ">GETs then", ">by a hint",	   ">stale",
					    ">hints",	  ">retries",	   ">asked",
					    NULL };
	struct table *t = table_new(head);

	for (unsigned i = 0; i < b->zipfs; i++) {
		const struct warm_zipf *z = &b->zipf[i];

		table_cell(t, "%" PRIu64, z->keys);
		table_cell(t, "%" PRIu64, z->warm_gets);
		table_cell(t, "%.3f", z->cold);
		table_cell(t, "%" PRIu64, z->gets);
		table_cell(t, "%.2f %%", 100 * z->hit_rate);
		table_cell(t, "%.4f %%", 100 * z->stale_rate);
		table_cell(t, "%" PRIu64, z->hints);
		table_cell(t, "%" PRIu64, z->retries);
		table_cell(t, "%" PRIu64, z->fallbacks);
	}
	table_print(t, stdout);
	putchar('\n');
}

static void print_figures(const struct figures *f)
{
	static const char *const head[] = { "figure", ">median", ">min", ">max", "promised", NULL };
	struct table *t = table_new(head);

	for (unsigned i = 0; i < f->count; i++) {
		const struct figure *one = &f->one[i];

		table_cell(t, "%s", one->name);
		table_cell(t, "%.3f", one->is.median);
		table_cell(t, "%.3f", one->is.min);
		table_cell(t, "%.3f", one->is.max);
		if (one->most > 0 || one->least > 0)
			table_cell(t, "at %s %g%s", one->most > 0 ? "most" : "least",
				   one->most > 0 ? one->most : one->least,
				   one->kept ? "" : "; NOT KEPT");
		else
			table_cell(t, "%s", "");
	}
	table_print(t, stdout);
}

static uint64_t area(const struct warm_bench *b)
{
	return b->o.keys * b->block_len;
}

static void print(const struct warm_bench *b, const struct figures *f)
{
	bool much = b->o.hint_bytes >= 1 << 20;

	printf("warm-bench %s, device %s, %" PRIu64 " rounds, %" PRIu64 " %s of hints\n",
	       GRACEKV_VERSION, b->device, b->o.rounds,
	       (uint64_t)(b->o.hint_bytes >> (much ? 20 : 0)), much ? "MiB" : "bytes");
	if (b->block_len)
		printf("%" PRIu64 " keys of %u B, values of %" PRIu64
		       " B: blocks of %u B in %" PRIu64 " MB; %.2f s for each round%s\n",
		       b->o.keys, WARM_KEY_LEN, b->o.value_len, b->block_len,
		       (uint64_t)(area(b) / 1000000), (double)b->o.seconds / (double)b->o.rounds,
		       b->o.cpu ? "; CPU time of our thread" : "");
	if (b->redis_versions[0])
		printf("%s\n", b->redis_versions);
	putchar('\n');
	if (b->block_len)
		print_times(b);
	if (b->zipfs)
		print_zipf(b);
	print_figures(f);
	if (b->no_redis[0])
		printf("\nNothing is said about Redis: %s.\n", b->no_redis);
	if (b->block_len && area(b) < WARM_AREA)
		puts("\nThe blocks take less than 64 MiB: caches hold them. Give more --keys.");
	if (b->software)
		puts("\nsoft0 is a software stand-in: these are memory copies and our code, not RDMA.");
}

static json_t *zipf_json(const struct warm_zipf *z)
{
	return json_pack("{s:I, s:I, s:I, s:f, s:I, s:f, s:f, s:I, s:I, s:I, s:I}", "keys",
			 (json_int_t)z->keys, "warm_up_gets", (json_int_t)z->warm_gets,
			 "warm_up_rounds", (json_int_t)z->warm_rounds, "first_round_reads_per_get",
			 z->cold, "gets", (json_int_t)z->gets, "hint_hit_rate", z->hit_rate,
			 "hint_stale_rate", z->stale_rate, "hints", (json_int_t)z->hints,
			 "hint_bytes", (json_int_t)z->hint_bytes, "retries", (json_int_t)z->retries,
			 "rpc_fallbacks", (json_int_t)z->fallbacks);
}

static json_t *figure_json(const struct figure *one)
{
	json_t *doc = program_spread(&one->is);

	if (one->most > 0 || one->least > 0)
		json_object_update_new(
			doc, json_pack("{s:s, s:f, s:b}", "promised",
				       one->most > 0 ? "at most" : "at least", "bound",
				       one->most > 0 ? one->most : one->least, "kept", one->kept));
	return doc;
}

static void print_json(const struct warm_bench *b, const struct figures *f)
{
	json_t *doc = program_json(&warm_program), *times = json_object();
	json_t *zipf = json_array(), *all = json_object();
	double v[WARM_ROUNDS_MAX];

	json_object_update_new(
		doc,
		json_pack("{s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:f, s:s, s:s}", "device",
			  b->device, "software_device", b->software, "cpu_time", b->o.cpu, "rounds",
			  (json_int_t)b->o.rounds, "hint_bytes", (json_int_t)b->o.hint_bytes,
			  "keys", (json_int_t)b->o.keys, "value_bytes", (json_int_t)b->o.value_len,
			  "block_bytes", (json_int_t)b->block_len, "reads_per_get",
			  b->gets ? (double)b->reads / (double)b->gets : 0.0, "redis",
			  b->redis_versions, "no_redis", b->no_redis));
	for (unsigned k = 0; k < WARM_KINDS; k++) {
		struct spread s;

		for (unsigned r = 0; r < b->o.rounds; r++)
			v[r] = b->ns[k][r];
		s = samples_spread(v, b->o.rounds);
		if (b->wanted[k])
			json_object_set_new(times, warm_kind[k].key, program_spread(&s));
	}
	for (unsigned i = 0; i < b->zipfs; i++)
		json_array_append_new(zipf, zipf_json(&b->zipf[i]));
	for (unsigned i = 0; i < f->count; i++)
		json_object_set_new(all, f->one[i].key, figure_json(&f->one[i]));
	json_object_set_new(doc, "ns", times);
	json_object_set_new(doc, "zipf", zipf);
	json_object_set_new(doc, "figures", all);
	program_print(doc, JSON_INDENT(2));
}

int warm_report(struct warm_bench *b)
{
	struct figures f = { 0 };
	int status = 0;

	work_out(b, &f);
	if (b->o.json)
		print_json(b, &f);
	else
		print(b, &f);
	for (unsigned i = 0; i < f.count && b->o.check; i++) {
		if (f.one[i].kept)
			continue;
		fprintf(stderr, "warm-bench: not kept: %s is %.3f, promised at %s %g\n",
			f.one[i].name, f.one[i].is.median, f.one[i].most > 0 ? "most" : "least",
			f.one[i].most > 0 ? f.one[i].most : f.one[i].least);
		status = 1;
	}
	return status;
}
