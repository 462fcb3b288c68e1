/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Redis as the peer: started, loaded, asked by its own benchmark program. */
#include "tests/performance/warm_bench.h"

#include <errno.h>
#include <stdio.h>

#define TRIAL 2000u /* GETs to find out how many a slice takes */

static const struct {
	unsigned clients, pipeline;
} how[WARM_KINDS] = {
	[WARM_REDIS] = { 1, 1 },
	[WARM_REDIS_MANY] = { 50, 16 },
};

int warm_redis_start(struct warm_bench *b)
{
	struct error err;
	int rc;

	if (b->o.no_redis || b->o.cpu) {
		snprintf(b->no_redis, sizeof(b->no_redis), "%s",
			 b->o.cpu ? "--cpu-time knows our own alone" : "--no-redis");
		return 0;
	}
	rc = redis_start(&b->redis, &err);
	if (rc == -ENOENT) {
		snprintf(b->no_redis, sizeof(b->no_redis),
			 "it is not installed (Debian: redis-server, redis-tools)");
		return 0;
	}
	snprintf(b->redis_versions, sizeof(b->redis_versions), "%s; %s", b->redis.server.version,
		 b->redis.benchmark_version);
	if (rc == 0)
		rc = redis_load(&b->redis, b->o.keys, (uint32_t)b->o.value_len, &err);
	return rc ? warm_failed("Redis", err.text) : 0;
}

int warm_redis_round(struct warm_bench *b, enum warm_kind kind, double seconds, double *ns)
{
	uint64_t count = TRIAL;
	struct error err;
	double per_s = 0;
	int rc = 0;

	for (unsigned i = 0; i < 2 && rc == 0; i++) { /* a trial, then for as long as is wanted */
		rc = redis_gets(&b->redis, b->o.keys, (uint32_t)b->o.value_len, how[kind].clients,
				how[kind].pipeline, count, &per_s, &err);
		count = per_s * seconds > TRIAL ? (uint64_t)(per_s * seconds) : TRIAL;
	}
	*ns = 1e9 / per_s;
	return rc ? warm_failed("redis-benchmark", err.text) : 0;
}
