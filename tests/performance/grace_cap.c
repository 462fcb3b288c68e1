/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Clients that beat and yet hold back memory, while others overwrite as fast as they can.
 *
 * Rounds alternate: the workers write with no other client there but the one that asks for
 * statistics; they write while two clients hold a section open, each fenced when the limit of
 * deferred bytes was reached for a lease, and back at once with another one. What is deferred is
 * asked all along. On a busy machine writers may need longer for that limit: a round with stuck
 * clients goes on until one of them was fenced, within reason.
 */
#include <time.h>

#include "common/base/time.h"
#include "tests/performance/grace_bench.h"

#define SAMPLE_NS (2 * NS_PER_MS)
#define LEASES	  6u /* of a round */
#define ROUND_MS  2000u /* at least */
#define PATIENCE  10u /* times as long, for the first fence */

static uint64_t writers_ops(const struct grace_bench *b, uint64_t *least, const uint64_t *from)
{
	uint64_t sum = 0;

	*least = UINT64_MAX;
	for (unsigned i = 0; i < b->o.workers; i++) {
		uint64_t ops = atomic_load(&b->shared->client[i].ops);

		sum += ops;
		if (from && ops - from[i] < *least)
			*least = ops - from[i];
	}
	return sum;
}

/* Writers and those in the way begin or end with what they do. */
static int order_all(struct grace_bench *b, enum grace_order writers, enum grace_order stuck)
{
	int rc = 0;

	for (unsigned i = 0; i < GRACE_STUCK && rc == 0; i++)
		rc = grace_order(b, (unsigned)b->o.workers + i, stuck);
	for (unsigned i = 0; i < b->o.workers && rc == 0; i++)
		rc = grace_order(b, i, writers);
	return rc;
}

static int sample(struct grace_bench *b, bool stuck, uint64_t *fences)
{
	static const char *const names[] = { "deferred_bytes", "deferred_bytes_max",
					     "sessions_fenced_stuck" };
	uint64_t values[3];
	int rc = grace_stats(b, names, values, 3);

	if (rc)
		return rc;
	if (values[0] > b->cap.deferred_most[stuck])
		b->cap.deferred_most[stuck] = values[0];
	b->cap.deferred_max = values[1];
	b->cap.samples[stuck]++;
	*fences = values[2];
	return 0;
}

static int counters(struct grace_bench *b, uint64_t out[2])
{
	static const char *const names[] = { "sessions_fenced_stuck", "deferred_refused" };

	return grace_stats(b, names, out, 2);
}

static int one_round(struct grace_bench *b, bool stuck, unsigned number)
{
	uint64_t span = LEASES * b->o.lease_ms * NS_PER_MS, before[2], after[2], ops, start, least;
	uint64_t fences = 0, took = 0;
	const struct timespec nap = { 0, SAMPLE_NS };
	uint64_t from[GRACE_WORKERS_MAX];
	struct grace_cap *c = &b->cap;
	int rc = counters(b, before);

	if (span < ROUND_MS * NS_PER_MS)
		span = ROUND_MS * NS_PER_MS;
	if (rc == 0)
		rc = order_all(b, GRACE_WRITE, stuck ? GRACE_HOLD : GRACE_CLOSED);
	for (unsigned i = 0; i < b->o.workers; i++)
		from[i] = atomic_load(&b->shared->client[i].ops);
	ops = writers_ops(b, &least, NULL);
	start = time_now_ns();
	while (rc == 0 &&
	       (took < span || (stuck && fences == before[0] && took < PATIENCE * span))) {
		rc = sample(b, stuck, &fences);
		nanosleep(&nap, NULL);
		took = time_now_ns() - start;
	}
	c->rate[stuck][number] = (double)(writers_ops(b, &least, from) - ops) * 1e9 /
				 (double)(time_now_ns() - start);
	if (least < c->least_puts)
		c->least_puts = least;
	for (unsigned i = 0; i < b->o.workers; i++) {
		uint64_t longest = atomic_load(&b->shared->client[i].longest_ns);

		if (longest > c->longest_ns[stuck])
			c->longest_ns[stuck] = longest;
	}
	if (rc == 0)
		rc = counters(b, after);
	if (rc == 0 && stuck) {
		c->fences += after[0] - before[0];
		c->refused += after[1] - before[1];
	}
	return rc ? rc : order_all(b, GRACE_CLOSED, GRACE_CLOSED);
}

int grace_measure_cap(struct grace_bench *b)
{
	int rc = 0;

	b->cap.least_puts = UINT64_MAX;
	for (unsigned i = 0; i < b->o.rounds && rc == 0; i++) {
		rc = one_round(b, i % 2, i);
		if (rc == 0)
			rc = one_round(b, !(i % 2), i);
		b->cap.rounds += rc == 0;
	}
	return rc;
}
