/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Expired records go although nobody asks for them; others stay; and what is counted of them. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/time.h"
#include "server/reclaim/qsbr.h"
#include "server/store/store.h"
#include "tests/lib/fake_clock.h"
#include "tests/lib/no_device.h"

#define LATER_MS   3600000u
#define KEY_LEN	   10u
#define VALUE_LEN  30u
#define PATIENCE_S 60u
#define WRITERS	   3u
#define EACH	   80000u /* records of a writer */
#define BURST	   100u

static struct store store;
static struct store_worker worker;
static uint64_t writers_seed;

static int open_store(uint64_t deferred_max)
{
	const struct store_config config = {
		.bytes_max = 64 << 20,
		.server_incarnation = 5,
		.hash_seed = 6,
		.hooks = { take_region, drop_region, NULL },
		.deferred_max = deferred_max,
	};
	struct error err;

	qsbr_register();
	return store_create(&store, &config, &err) || store_worker_create(&worker, &store, 8);
}

static int setup(void **state)
{
	return open_store(0);
}

static int setup_clock(void **state)
{
	fake_clock_begin(false);
	return open_store(0);
}

static int setup_small_bound(void **state)
{
	return open_store(1 << 20);
}

static int teardown(void **state)
{
	store_worker_destroy(&worker);
	qsbr_offline();
	store_destroy(&store);
	qsbr_online();
	qsbr_unregister();
	fake_clock_end();
	return 0;
}

static void pause_us(struct store_worker *w, unsigned us)
{
	reclaim_poll(w->reclaim, UINT64_MAX / 2);
	qsbr_offline();
	nanosleep(&(struct timespec){ .tv_nsec = (long)us * 1000 }, NULL);
	qsbr_online();
}

static int put_by(struct store_worker *w, char kind, unsigned number, uint64_t expiry_ms)
{
	char key[KEY_LEN + 1];
	struct store_result r;
	struct store_put p;
	int rc;

	snprintf(key, sizeof(key), "%c%09u", kind, number);
	do {
		rc = store_put_begin(w, key, KEY_LEN, VALUE_LEN, expiry_ms, &p);
		if (rc == 0) {
			memset(p.block->data + KEY_LEN, kind, VALUE_LEN);
			rc = store_put_commit(w, &p, &store_always, &r);
			if (rc == -EAGAIN)
				store_put_abort(w, &p);
		}
		if (rc == -EAGAIN || rc == -EBUSY)
			pause_us(w, 1000);
	} while (rc == -EAGAIN || rc == -EBUSY);
	return rc;
}

static void put(char kind, unsigned number, uint64_t expiry_ms)
{
	assert_int_equal(put_by(&worker, kind, number, expiry_ms), 0);
}

static struct index_stats counts(void)
{
	struct index_stats stats;

	index_stats_get(store.index, &stats);
	return stats;
}

/* As a worker with nothing to do: until so many records are left that expire, or fewer. */
static void sweep_down_to(uint64_t left)
{
	uint64_t end = time_now_ns() + PATIENCE_S * NS_PER_S;

	while (counts().records_expiring > left && time_now_ns() < end) {
		uint64_t wait_ns = store_sweep(&worker, time_now_ns());

		pause_us(&worker, wait_ns < NS_PER_MS ? (unsigned)(wait_ns / 1000) : 1000);
	}
	assert_in_range(counts().records_expiring, 0, left);
}

static void sweep_until_expiring(uint64_t left)
{
	sweep_down_to(left);
	assert_int_equal(counts().records_expiring, left);
}

UNIT_TEST(what_has_expired_goes, setup, teardown)
{
	const unsigned n = 20000;
	uint64_t now_ms = time_wall_ms();

	for (unsigned i = 0; i < n; i++) {
		put('a', i, now_ms - i % 1000);
		put('b', i, now_ms + LATER_MS + i);
		put('c', i, 0);
	}
	assert_int_equal(counts().records_expiring, 2 * n);
	sweep_until_expiring(n);
	assert_int_equal(counts().records, 2 * n);
	assert_int_equal(atomic_load(&store.expired), n);
	for (unsigned i = 0; i < 100; i++) { /* and that is all that goes */
		worker.sweep_ns = 0;
		store_sweep(&worker, time_now_ns());
		pause_us(&worker, 100);
	}
	assert_int_equal(counts().records, 2 * n);
}

/* What a pass saw and left is found when its time has come. */
UNIT_TEST(what_stays_goes_later, setup_clock, teardown)
{
	const unsigned n = 3000;
	uint64_t now_ms = time_wall_ms();

	for (unsigned i = 0; i < n; i++) {
		put('a', i, now_ms - 1);
		put('b', i, now_ms + LATER_MS);
	}
	put('c', 0, now_ms + LATER_MS / 2); /* in a stripe with many others */
	sweep_until_expiring(n + 1);
	fake_clock_ahead(LATER_MS / 2);
	sweep_until_expiring(n);
	assert_int_equal(counts().records, n);
	fake_clock_ahead(LATER_MS);
	sweep_until_expiring(0);
}

UNIT_TEST(nothing_expires, setup, teardown)
{
	uint64_t now_ms = time_wall_ms();

	assert_int_equal(store_sweep(&worker, time_now_ns()), UINT64_MAX);
	for (unsigned i = 0; i < 1000; i++)
		put('c', i, 0);
	assert_int_equal(store_sweep(&worker, time_now_ns()), UINT64_MAX);
	assert_false(store_sweeps(&store));
	put('b', 0, now_ms + LATER_MS);
	assert_in_range(store_sweep(&worker, time_now_ns()), 1, NS_PER_S);
	assert_false(store_sweeps(&store));
	put('a', 0, now_ms - 1);
	assert_true(store_sweeps(&store));
	assert_int_equal(counts().records, 1002);
}

UNIT_TEST(who_expires_is_counted, setup, teardown)
{
	const struct store_terms terms = { .now_ms = time_wall_ms() };
	struct store_result r;
	int64_t sum;

	put('k', 1, terms.now_ms + LATER_MS);
	assert_int_equal(counts().records_expiring, 1);
	put('k', 1, terms.now_ms + 2 * LATER_MS);
	assert_int_equal(counts().records_expiring, 1);
	put('k', 1, 0);
	assert_int_equal(counts().records_expiring, 0);
	assert_ok(store_touch(&worker, "k000000001", KEY_LEN, terms.now_ms + 9, &terms, &r));
	assert_int_equal(counts().records_expiring, 1);
	assert_int_equal(store_del(&worker, "k000000001", KEY_LEN, &terms, &r), 0);
	assert_int_equal(counts().records_expiring, 0);
	assert_int_equal(atomic_load(&store.expired), 0); /* it had not */
	assert_int_equal(store_incr(&worker, "number", 6, 1, 0, &terms, &sum, &r), 0);
	assert_int_equal(counts().records_expiring, 0);
	put('k', 2, terms.now_ms);
	assert_int_equal(store_get(&worker, "k000000002", KEY_LEN, terms.now_ms, false, &r),
			 -ENOENT);
	put('k', 3, terms.now_ms);
	assert_int_equal(store_del(&worker, "k000000003", KEY_LEN, &terms, &r), -ENOENT);
	assert_int_equal(counts().records_expiring, 0);
	assert_int_equal(atomic_load(&store.expired), 2); /* whoever deleted them */
}

/*
 * I5: what it deletes waits for sessions as well, and is not forgotten meanwhile; and it leaves
 * room for what clients replace.
 */
UNIT_TEST(it_waits_where_much_is_deferred, setup_small_bound, teardown)
{
	const unsigned n = 30000; /* 3.8 MiB, of which 15/16 MiB may wait */
	uint64_t now_ms = time_wall_ms(), end = time_now_ns() + NS_PER_S;
	struct grace *g = reclaim_grace(store.reclaim);
	struct reclaim_stats stats;
	struct epoch_session s;
	struct epoch_slot slot;

	for (unsigned i = 0; i < n; i++)
		put('a', i, now_ms - 1);
	memset(&slot, 0, sizeof(slot));
	grace_join(g, &s, &slot, 1);
	grace_wait_for(g, &s, true);
	do {
		store_sweep(&worker, time_now_ns());
		pause_us(&worker, 1000);
		reclaim_stats_get(store.reclaim, &stats);
		assert_in_range(stats.deferred_bytes, 0, 1 << 20);
	} while (time_now_ns() < end);
	assert_in_range(counts().records_expiring, n / 2, n - 1);
	assert_int_equal(stats.refused, 0);
	for (unsigned i = 0; i < 1000; i++)
		put('b', i % 2, 0);
	reclaim_stats_get(store.reclaim, &stats);
	assert_int_equal(stats.refused, 0);
	grace_close_slot(g, &s);
	grace_leave(g, &s);
	reclaim_kick(store.reclaim);
	sweep_until_expiring(0);
	assert_int_equal(counts().records, 2);
	assert_int_equal(atomic_load(&store.expired), n);
}

/* The worker that sweeps goes in the middle of it. */
UNIT_TEST(another_one_goes_on, setup, teardown)
{
	struct store_worker other;

	for (unsigned i = 0; i < 20000; i++)
		put('a', i, 1);
	assert_int_equal(store_worker_create(&other, &store, 0), 0);
	store_sweep(&other, time_now_ns());
	assert_in_range(counts().records_expiring, 1, 19999);
	assert_int_equal(store_sweep(&worker, time_now_ns()), NS_PER_S); /* not two at once */
	store_worker_destroy(&other);
	worker.sweep_ns = 0;
	sweep_until_expiring(0);
}

/*
 * Bursts of records: of each eight one stays, three are deleted by their writer, two expire soon,
 * two have expired. So the index grows, and shrinks, while it is swept.
 */
static void *write_on(void *arg)
{
	char kind = *(const char *)arg;
	uint64_t rng = writers_seed + (uint64_t)kind;
	struct store_worker w;
	struct store_result r;

	qsbr_register();
	if (store_worker_create(&w, &store, 0))
		abort();
	for (unsigned i = 0; i < EACH; i++) {
		uint64_t now_ms = time_wall_ms(), soon = 1 + unit_random(&rng) % 300;
		const uint64_t expiry[] = { 0, 0, now_ms + soon, now_ms - soon };

		if (put_by(&w, kind, i, expiry[i % 8 / 2]))
			abort();
		if (i % BURST == 0)
			pause_us(&w, 500);
	}
	for (unsigned i = 1; i < EACH; i += i % 8 == 3 ? 6 : 1) {
		char key[KEY_LEN + 1];

		snprintf(key, sizeof(key), "%c%09u", kind, i);
		while (store_del(&w, key, KEY_LEN, &store_always, &r) == -EBUSY)
			pause_us(&w, 1000);
		if (i % BURST == 1)
			pause_us(&w, 500);
	}
	store_worker_destroy(&w);
	qsbr_unregister();
	return NULL;
}

UNIT_TEST(beside_writers, setup, teardown)
{
	pthread_t thread[WRITERS];
	static const char kind[] = "xyz";
	uint64_t end = time_now_ns() + PATIENCE_S * NS_PER_S;

	writers_seed = (uint64_t)time(NULL);
	printf("seed %llu\n", (unsigned long long)writers_seed);
	for (unsigned i = 0; i < WRITERS; i++)
		assert_ok(pthread_create(&thread[i], NULL, write_on, (void *)(uintptr_t)&kind[i]));
	while (atomic_load(&store.expired) < WRITERS * EACH / 2 && time_now_ns() < end) {
		uint64_t wait_ns = store_sweep(&worker, time_now_ns());

		if (store_untidy(&store))
			store_tidy(&worker);
		pause_us(&worker, wait_ns < NS_PER_MS ? (unsigned)(wait_ns / 1000) : 1000);
	}
	qsbr_offline();
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(thread[i], NULL);
	qsbr_online();
	assert_int_equal(atomic_load(&store.expired), WRITERS * EACH / 2);
	assert_int_equal(counts().records_expiring, 0);
	assert_int_equal(counts().records, WRITERS * EACH / 8);
	assert_true(counts().splits > 0 && counts().merges > 0);
}
