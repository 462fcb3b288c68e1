/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/performance/warm_bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/time.h"
#include "tools/lib/progress.h"
#include "tools/lib/store.h"

#define STEPS_MIN    (1u << 20) /* the list is longer than caches are */
#define STRETCH	     2048u /* operations between two looks at the clock */
#define HINTS_A_BYTE 16u /* bytes for each hint: enough that hardly a set overflows */

const struct warm_kind_name warm_kind[WARM_KINDS] = {
	[WARM_RAW] = { "raw READ, one by one", "raw_read" },
	[WARM_GET] = { "GET, one by one", "get" },
	[WARM_RAW_CHAIN] = { "raw READ and XXH3, chains of 32", "raw_read_depth_32" },
	[WARM_MGET] = { "mget of 32", "mget_32" },
	[WARM_ASYNC] = { "GETs, 32 in flight", "get_depth_32" },
	[WARM_REDIS] = { "redis-benchmark -c 1", "redis_c1" },
	[WARM_REDIS_MANY] = { "redis-benchmark -c 50 -P 16", "redis_c50_p16" },
};

static int fill_steps(struct warm_bench *b)
{
	uint64_t misses = 0;

	for (uint64_t i = 0; i < b->steps;) {
		struct warm_step *s = &b->step[i];

		warm_key(&b->keys, bench_random(&b->seed) % b->keys.count, s->key);
		if (raw_place_of(b->kv, s->key, b->keys.key_len, &s->place))
			i++;
		else if (++misses > b->steps)
			return warm_failed("places", "hints of most keys are missing");
	}
	return 0;
}

int warm_places(struct warm_bench *b)
{
	char why[ERROR_TEXT_MAX];
	uint64_t bytes = 1 << 20;
	int rc;

	for (b->steps = STEPS_MIN; b->steps < b->keys.count;)
		b->steps *= 2;
	while (bytes < b->keys.count * 2 * HINTS_A_BYTE)
		bytes *= 2;
	b->step = calloc(b->steps, sizeof(*b->step));
	if (!b->step)
		return warm_failed("memory", "out of it");
	rc = warm_connect(b, bytes);
	if (rc == 0 && warm_load(b->session, &b->keys, 0, why, sizeof(why)))
		rc = warm_failed("loading", why);
	if (rc == 0 && warm_read_all(b->kv, &b->keys, why, sizeof(why)))
		rc = warm_failed("reading", why);
	if (rc == 0)
		rc = fill_steps(b);
	bench_store_close(b->session, b->kv);
	b->session = NULL;
	b->kv = NULL;
	return rc;
}

static int raw_reads(struct warm_bench *b, unsigned count)
{
	int rc = 0;

	for (unsigned i = 0; i < count && rc == 0; i++) {
		const struct warm_step *s = warm_next_step(b);

		rc = raw_read(&b->raw, s->place.addr, s->place.rkey, b->block_len);
	}
	return rc;
}

static int gets(struct warm_bench *b, unsigned count)
{
	char value[WARM_VALUE_MAX];
	size_t len;
	int rc = 0;

	for (unsigned i = 0; i < count && rc == 0; i++) {
		rc = gkv_get(b->kv, warm_next_step(b)->key, WARM_KEY_LEN, value, sizeof(value),
			     &len);
		if (rc == 0 && len != b->keys.value_len)
			rc = -EBADMSG;
	}
	return rc;
}

static int raw_chain(struct warm_bench *b, unsigned count)
{
	struct raw_place at[WARM_DEPTH];
	uint64_t sum = 0;
	int rc;

	for (unsigned i = 0; i < WARM_DEPTH; i++)
		at[i] = warm_next_step(b)->place;
	rc = raw_read_chain(&b->raw, at, WARM_DEPTH, b->block_len);
	for (unsigned i = 0; i < WARM_DEPTH && rc == 0; i++)
		sum += hash_bytes(b->raw.to + (size_t)i * b->block_len, b->block_len);
	__asm__ __volatile__("" ::"r"(sum));
	return rc;
}

static int mget(struct warm_bench *b, unsigned count)
{
	static char value[WARM_DEPTH][WARM_VALUE_MAX];
	struct gkv_item item[WARM_DEPTH];
	int rc;

	for (unsigned i = 0; i < WARM_DEPTH; i++) {
		item[i].key = warm_next_step(b)->key;
		item[i].key_len = WARM_KEY_LEN;
		item[i].value = value[i];
		item[i].cap = sizeof(value[i]);
	}
	rc = gkv_mget(b->kv, item, WARM_DEPTH);
	for (unsigned i = 0; i < WARM_DEPTH && rc == 0; i++)
		rc = item[i].status			? item[i].status
		     : item[i].len == b->keys.value_len ? 0
							: -EBADMSG;
	return rc;
}

struct operation {
	int (*run)(struct warm_bench *b, unsigned count);
	unsigned count; /* of one run */
};

static const struct operation operation[WARM_KINDS] = {
	[WARM_RAW] = { raw_reads, STRETCH },	      [WARM_GET] = { gets, STRETCH },
	[WARM_RAW_CHAIN] = { raw_chain, WARM_DEPTH }, [WARM_MGET] = { mget, WARM_DEPTH },
	[WARM_ASYNC] = { warm_async, STRETCH },
};

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static int slice(struct warm_bench *b, const struct operation *op, double seconds, double *ns)
{
	uint64_t start = time_now_ns(), cpu = cpu_ns(), n = 0, now;
	int rc = 0;

	do {
		for (unsigned i = 0; i < STRETCH && rc == 0; i += op->count)
			rc = op->run(b, op->count);
		n += STRETCH;
		now = time_now_ns();
	} while (rc == 0 && (double)(now - start) < seconds * 1e9);
	*ns = (double)(b->o.cpu ? cpu_ns() - cpu : now - start) / (double)n;
	return rc;
}

static int one(struct warm_bench *b, enum warm_kind kind, double seconds, double *ns)
{
	struct gkv_stats before, after;
	int rc;

	if (!operation[kind].run)
		return warm_redis_round(b, kind, seconds, ns);
	gkv_stats_get(b->kv, &before);
	rc = slice(b, &operation[kind], seconds, ns);
	gkv_stats_get(b->kv, &after);
	b->gets += after.gets - before.gets;
	b->reads += after.reads - before.reads;
	return rc ? warm_failed(warm_kind[kind].name, gkv_strerror(rc)) : 0;
}

static void choose(struct warm_bench *b)
{
	bool redis = b->redis.server.pid > 0;

	b->wanted[WARM_RAW] = warm_part(b, "sync");
	b->wanted[WARM_RAW_CHAIN] = warm_part(b, "depth");
	b->wanted[WARM_GET] = b->wanted[WARM_RAW] || redis;
	b->wanted[WARM_MGET] = b->wanted[WARM_ASYNC] = b->wanted[WARM_RAW_CHAIN] || redis;
	b->wanted[WARM_REDIS] = b->wanted[WARM_REDIS_MANY] = redis;
}

int warm_measure(struct warm_bench *b)
{
	double seconds = (double)b->o.seconds / (double)b->o.rounds, unused;
	int rc = 0;

	b->raw = raw_reads_of(b->floor);
	choose(b);
	for (unsigned k = 0; k < WARM_KINDS && rc == 0; k++)
		rc = b->wanted[k] ? one(b, k, seconds / 2, &unused) : 0; /* warm up */
	b->gets = b->reads = 0;
	for (uint64_t r = 0; r < b->o.rounds && rc == 0; r++) {
		progress_show("measuring", r, b->o.rounds);
		/* there and back: what follows what changes */
		for (unsigned i = 0; i < WARM_KINDS && rc == 0; i++) {
			unsigned k = r % 2 ? WARM_KINDS - 1 - i : i;

			rc = b->wanted[k] ? one(b, k, seconds, &b->ns[k][r]) : 0;
		}
	}
	progress_clear();
	return rc;
}
