/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The writer, straight into the store of the server in this process: a thread as the workers are.
 *
 * A round has three slices of the same length, in an order that turns: it inserts new keys as fast
 * as it can or at the rate asked for; it does nothing; it overwrites as many keys, at random and
 * evenly spread over the slice, as it inserted in the last one. The table is the same, but for
 * the slice's own inserts, so the three differ only in what the writer does.
 *
 * Each write is timed from the first try to take memory to the published slot, waits included:
 * that is how long a writer stands still.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "common/base/time.h"
#include "server/reclaim/qsbr.h"
#include "tests/performance/growth_bench.h"
#include "tools/lib/samples.h"

#define LOOP_OPS     16u
#define GROWTH_MS    50u
#define WAITS_MAX    600u
#define SETTLE_NS    (10 * NS_PER_MS) /* for the reclaimer to be through with the last slice */
#define ANSWER_NS    (60 * NS_PER_S)
#define MEMORY_WORDS "the store is full: give more --memory or fewer --keys"

void growth_key(uint64_t i, char key[GROWTH_KEY_LEN])
{
	for (unsigned n = 0; n < GROWTH_KEY_LEN; n++, i >>= 4)
		key[GROWTH_KEY_LEN - 1 - n] = "0123456789abcdef"[i & 15];
}

static int die(const char *what, const char *why)
{
	return program_failed(&growth_program, what, why);
}

static bool wait_for_growth(struct growth_bench *b, unsigned *waits)
{
	if (++*waits > WAITS_MAX)
		return false;
	b->grown_waits++;
	qsbr_offline();
	memory_growth_wait(b->server.server.store.memory, GROWTH_MS);
	qsbr_online();
	return true;
}

static int write_key(struct growth_bench *b, uint64_t i, struct histogram *latency)
{
	uint64_t start = time_now_ns();
	struct store_result result;
	char key[GROWTH_KEY_LEN];
	struct store_put put;
	unsigned waits = 0;
	int rc;

	growth_key(i, key);
	do
		rc = store_put_begin(&b->store, key, sizeof(key), (uint32_t)b->o.value_len, 0,
				     &put);
	while (rc == -EAGAIN && wait_for_growth(b, &waits));
	if (rc)
		return die("writing", MEMORY_WORDS);
	memset(put.block->data + sizeof(key), 0, b->o.value_len);
	memcpy(put.block->data + sizeof(key), &i, sizeof(i));
	do
		rc = store_put_commit(&b->store, &put, &store_always, &result);
	while (rc == -EAGAIN && wait_for_growth(b, &waits));
	if (rc)
		return die("writing", MEMORY_WORDS);
	histogram_add(latency, time_now_ns() - start);
	return 0;
}

static void between(struct growth_bench *b, uint64_t now)
{
	reclaim_poll(b->store.reclaim, now);
	qsbr_quiescent();
}

static int insert(struct growth_bench *b)
{
	int rc = write_key(b, b->live, &b->insert);

	if (rc == 0)
		atomic_store(&b->shared->live, ++b->live);
	return rc;
}

int growth_fill(struct growth_bench *b)
{
	int rc = 0;

	while (rc == 0 && b->live < b->o.start) {
		rc = insert(b);
		if (b->live % LOOP_OPS == 0)
			between(b, time_now_ns());
	}
	memset(&b->insert, 0, sizeof(b->insert));
	return rc;
}

/* Offline, so that nobody waits for this thread's quiescent state. */
static void rest(uint64_t ns)
{
	struct timespec ts = { (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };

	qsbr_offline();
	nanosleep(&ts, NULL);
	qsbr_online();
}

static uint32_t order(struct growth_bench *b, uint32_t what)
{
	uint32_t word = ((atomic_load(&b->shared->order) >> 3) + 1) << 3 | what;

	atomic_store(&b->shared->order, word);
	return word;
}

static int answered(struct growth_bench *b, uint32_t word)
{
	uint64_t end = time_now_ns() + ANSWER_NS;

	while (atomic_load(&b->shared->done) != word) {
		if (atomic_load(&b->shared->failed))
			return 3;
		if (time_now_ns() > end || atomic_load(&b->server.ended))
			return die("the reader", "it does not answer");
		rest(NS_PER_MS / 4);
	}
	return 0;
}

/* Up to @count writes from @start on, evenly over @span; or, @count 0, as many as there is time. */
static int write_slice(struct growth_bench *b, bool grow, uint64_t span, uint64_t count,
		       uint64_t *written)
{
	uint64_t start = time_now_ns(), now = start;
	int rc = 0;

	for (*written = 0; rc == 0 && now - start < span;) {
		for (unsigned i = 0; i < LOOP_OPS && rc == 0; i++) {
			if (grow ? b->live == b->o.keys : *written == count)
				break;
			if (count && now - start < *written * span / count)
				break;
			rc = grow ? insert(b)
				  : write_key(b, bench_random(&b->seed) % b->live, &b->overwrite);
			*written += rc == 0;
			if (count)
				now = time_now_ns();
		}
		now = time_now_ns();
		between(b, now);
		time_relax();
	}
	return rc;
}

static int slice(struct growth_bench *b, enum growth_kind kind, uint64_t *inserted)
{
	uint64_t span = b->o.slice_ms * NS_PER_MS, start, done;
	int rc;

	rest(SETTLE_NS);
	order(b, kind);
	start = time_now_ns();
	if (kind == GROWTH_GROWING) {
		rc = write_slice(b, true, span, b->o.rate * b->o.slice_ms / 1000, inserted);
		b->insert_ns += time_now_ns() - start;
	} else if (kind == GROWTH_OVERWRITING) {
		rc = write_slice(b, false, span, *inserted, &done);
		b->overwrite_ns += time_now_ns() - start;
	} else {
		rest(span);
		rc = 0;
	}
	if (rc)
		return rc;
	rc = answered(b, order(b, GROWTH_PAUSE));
	if (rc)
		return rc;
	histogram_merge(&b->total[kind].latency, &b->shared->slice.latency);
	b->total[kind].gets += b->shared->slice.gets;
	b->total[kind].reads += b->shared->slice.reads;
	b->total[kind].refreshes += b->shared->slice.refreshes;
	b->total[kind].obsolete += b->shared->slice.obsolete;
	b->total[kind].torn += b->shared->slice.torn;
	b->total[kind].asked += b->shared->slice.asked;
	return 0;
}

int growth_rounds(struct growth_bench *b)
{
	uint64_t inserted = 1, p999[GROWTH_KINDS];
	int rc = 0;

	index_stats_get(b->server.server.store.index, &b->before);
	for (; rc == 0 && b->live < b->o.keys; b->rounds++) {
		uint64_t last = inserted;

		rc = answered(b, order(b, GROWTH_CONNECT));
		for (unsigned i = 0; i < GROWTH_KINDS && rc == 0; i++) {
			enum growth_kind kind = (b->rounds + i) % GROWTH_KINDS;

			rc = slice(b, kind, kind == GROWTH_GROWING ? &inserted : &last);
			p999[kind] = histogram_at(&b->shared->slice.latency, 0.999);
		}
		if (rc == 0 && p999[GROWTH_STILL] && b->ratios < GROWTH_ROUNDS_MAX)
			b->round_ratio[b->ratios++] =
				(double)p999[GROWTH_GROWING] / (double)p999[GROWTH_STILL];
	}
	index_stats_get(b->server.server.store.index, &b->after);
	return rc;
}
