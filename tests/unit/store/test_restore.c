/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Records that come back: a snapshot, then the log, any number of times; and walks for
 * snapshots. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/time.h"
#include "server/reclaim/qsbr.h"
#include "server/store/store.h"
#include "tests/lib/no_device.h"

#define SEED	6u
#define KEYS	40u
#define RECORDS 400u
#define STABLE	30000u /* records that stay, under one segment's prefix at first */
#define CYCLES	3u /* of growing and shrinking */

static struct store store;
static struct store_worker worker;
static uint64_t seed;

static int setup(void **state)
{
	const struct store_config config = {
		.bytes_max = 256 << 20,
		.server_incarnation = 5,
		.hash_seed = SEED,
		.hooks = { take_region, drop_region, NULL },
	};
	struct error err;

	seed = getenv("TEST_SEED") ? strtoull(getenv("TEST_SEED"), NULL, 0) : time_now_ns();
	print_message("seed %llu\n", (unsigned long long)seed);
	qsbr_register();
	return store_create(&store, &config, &err) || store_worker_create(&worker, &store, 8);
}

static int teardown(void **state)
{
	store_worker_destroy(&worker);
	qsbr_unregister();
	store_destroy(&store);
	return 0;
}

struct entry {
	unsigned key;
	bool del, expired;
	uint64_t version;
	char value[12];
};

static struct entry entries[RECORDS];
static struct entry last[KEYS]; /* of all rounds; version 0: none */

static void wait_a_little(void)
{
	qsbr_offline();
	memory_growth_wait(store.memory, 10);
	qsbr_online();
}

static void apply(const struct entry *e)
{
	uint8_t body[32];
	uint32_t len = (uint32_t)strlen(e->value);
	int n = snprintf((char *)body, sizeof(body), "key%02u%s", e->key, e->value), rc;

	do {
		rc = e->del ? store_restore_del(&worker, body, 5, e->version)
			    : store_restore_put(&worker, body, 5, e->value, len, e->version,
						e->expired ? 1000 : 0, hash_bytes(body, (size_t)n));
		if (rc == -EAGAIN)
			wait_a_little();
	} while (rc == -EAGAIN);
	assert_int_equal(rc, !e->del && e->expired ? STORE_EXPIRED : 0);
	qsbr_quiescent();
}

static void check_all(void)
{
	struct index_stats stats;
	struct store_result r;
	unsigned there = 0;

	for (unsigned i = 0; i < RECORDS; i++)
		last[entries[i].key] = entries[i];
	for (unsigned key = 0; key < KEYS; key++) {
		char name[8];
		bool want = last[key].version && !last[key].del && !last[key].expired;

		snprintf(name, sizeof(name), "key%02u", key);
		assert_int_equal(store_get(&worker, name, 5, 0, false, &r), want ? 0 : -ENOENT);
		there += want;
		if (!want)
			continue;
		assert_int_equal(r.version, last[key].version);
		assert_int_equal(r.value_len, strlen(last[key].value));
		assert_int_equal(block_verify(r.block, block_bytes(5, r.value_len), name, 5,
					      r.block->key_hash, r.incarnation),
				 BLOCK_OK);
		assert_memory_equal(r.block->data + 5, last[key].value, r.value_len);
	}
	index_stats_get(store.index, &stats);
	assert_int_equal(stats.records, there);
}

UNIT_TEST(a_snapshot_and_any_replays_give_what_was_there, setup, teardown)
{
	for (unsigned round = 0; round < 50; round++) {
		for (unsigned i = 0; i < RECORDS; i++) {
			uint64_t r = unit_random(&seed);

			entries[i] = (struct entry){
				.key = (unsigned)(r % KEYS),
				.del = r / KEYS % 4 == 0,
				.expired = r / KEYS % 4 == 1 && r / 1000 % 2,
				.version = (round + 1ull) * RECORDS + i,
			};
			snprintf(entries[i].value, sizeof(entries[i].value), "%u", i);
		}
		/* The snapshot: of each key what was there at some time after S0, or nothing. */
		for (unsigned i = RECORDS / 2; i < RECORDS; i++) {
			if (!entries[i].del && unit_random(&seed) % 4 == 0)
				apply(&entries[i]);
		}
		/* The log from some place on, cut short, time and again; at last, all of it. */
		for (unsigned times = (unsigned)(unit_random(&seed) % 4); times; times--) {
			unsigned first = (unsigned)(unit_random(&seed) % RECORDS);
			unsigned end = first + (unsigned)(unit_random(&seed) % (RECORDS - first));

			for (unsigned i = first; i < end; i++)
				apply(&entries[i]);
		}
		for (unsigned i = 0; i < RECORDS; i++)
			apply(&entries[i]);
		check_all();
	}
}

/* The version that is there, 0: none. */
static uint64_t version_of(const char *name)
{
	struct store_result r;

	return store_get(&worker, name, 5, 0, false, &r) == 0 ? r.version : 0;
}

UNIT_TEST(what_is_older_than_what_is_there_changes_nothing, setup, teardown)
{
	static const struct {
		struct entry e;
		uint64_t version; /* that is there after it */
	} steps[] = {
		{ { .version = 5, .value = "five" }, 5 },  { { .version = 4, .value = "four" }, 5 },
		{ { .version = 5, .value = "again" }, 5 }, { { .version = 4, .del = true }, 5 },
		{ { .version = 5, .del = true }, 5 },	   { { .version = 4, .expired = true }, 5 },
		{ { .version = 6, .value = "six" }, 6 },   { { .version = 7, .del = true }, 0 },
		{ { .version = 8, .value = "eight" }, 8 }, { { .version = 9, .expired = true }, 0 },
	};

	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		apply(&steps[i].e);
		assert_int_equal(version_of("key00"), steps[i].version);
	}
}

static char (*names)[16];
static _Atomic bool over;

static int put(const char *name, uint64_t number)
{
	uint32_t len = (uint32_t)strlen(name);
	struct store_result out;
	struct store_put p;
	int rc = store_put_begin(&worker, name, len, sizeof(number), 0, &p);

	if (rc)
		return rc;
	memcpy(p.block->data + len, &number, sizeof(number));
	rc = store_put_publish(&worker, &p, &store_always, &out);
	if (rc)
		store_put_abort(&worker, &p);
	return rc;
}

static void put_surely(const char *name, uint64_t number)
{
	for (;;) {
		int rc = put(name, number);

		reclaim_poll(worker.reclaim, time_now_ns());
		qsbr_quiescent();
		if (rc == 0)
			return;
		assert_true(rc == -EAGAIN || rc == -EBUSY);
		wait_a_little();
	}
}

static void make_names(void)
{
	names = calloc(STABLE, sizeof(*names));
	for (unsigned i = 0, n = 0; i < STABLE; n++) {
		snprintf(names[i], sizeof(names[i]), "key%u", n);
		i += hash_key(SEED, names[i], strlen(names[i])) >> 58 == 0;
	}
}

/* One walk: each of the first tenth, which stay all the time, is seen. */
static void walk_once(void)
{
	struct store_walk *walk = calloc(1, sizeof(*walk));
	bool *seen = calloc(STABLE, 1);
	unsigned missed = 0;

	while (store_walk(&store, walk)) {
		for (unsigned i = 0; i < walk->count; i++) {
			const struct block *b = walk->block[i];
			uint64_t number;

			/* where hazards are to hold it */
			assert_ptr_equal(memory_addr(store.memory, walk->place[i].extent,
						     walk->place[i].offset, block_bytes(0, 0)),
					 b);
			memcpy(&number, b->data + b->key_len, sizeof(number));
			seen[number] = true;
		}
		qsbr_quiescent();
	}
	assert_int_equal(walk->count, 0);
	for (unsigned i = 0; i < STABLE / 10; i++)
		missed += !seen[i];
	assert_int_equal(missed, 0);
	free(seen);
	free(walk);
}

static void *walk_all(void *arg)
{
	unsigned walks = 0;

	qsbr_register();
	for (; !atomic_load(&over); walks++)
		walk_once();
	qsbr_unregister();
	print_message("%u walks\n", walks);
	return NULL;
}

UNIT_TEST(a_walk_sees_what_stays_while_the_index_changes_its_shape, setup, teardown)
{
	struct index_stats stats;
	struct store_result out;
	pthread_t walker;

	make_names();
	for (unsigned i = 0; i < STABLE / 10; i++)
		put_surely(names[i], i);
	pthread_create(&walker, NULL, walk_all, NULL);
	for (unsigned n = 0; n < CYCLES; n++) { /* grow, with rewrites of what stays, and shrink */
		for (unsigned i = 0; i < STABLE; i++) {
			put_surely(names[i], i);
			if (i % 4 == 0)
				put_surely(names[i / 10], i / 10);
		}
		for (unsigned i = STABLE / 10; i < STABLE; i++) {
			store_del(&worker, names[i], (uint32_t)strlen(names[i]), &store_forced,
				  &out);
			reclaim_poll(worker.reclaim, time_now_ns());
			qsbr_quiescent();
		}
	}
	atomic_store(&over, true);
	qsbr_offline();
	pthread_join(walker, NULL);
	qsbr_online();
	index_stats_get(store.index, &stats);
	print_message("%llu splits, %llu merges\n", (unsigned long long)stats.splits,
		      (unsigned long long)stats.merges);
	assert_true(stats.splits > 0 && stats.merges > 0);
	free(names);
}
