/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Writes on terms: what is there decides; numbers; time to live; many threads on one key. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/reclaim/qsbr.h"
#include "server/store/store.h"
#include "tests/lib/no_device.h"

#define THREADS	   4u
#define INCREMENTS 5000
#define SWAPS	   1000u
#define NOW	   1000u /* ms; the records of these tests expire before or after it */
#define KEY	   "key"
#define KEY_LEN	   3u

static struct store store;
static struct store_worker worker;

static int setup(void **state)
{
	const struct store_config config = {
		.bytes_max = 64 << 20,
		.server_incarnation = 5,
		.hash_seed = 6,
		.hooks = { take_region, drop_region, NULL },
	};
	struct error err;

	qsbr_register();
	return store_create(&store, &config, &err) || store_worker_create(&worker, &store, 8);
}

static struct store_terms terms(enum store_condition condition, uint64_t version)
{
	return (struct store_terms){ condition, version, NOW, false, false };
}

static int put_by(struct store_worker *w, const char *value, uint64_t expiry_ms,
		  struct store_terms t, struct store_result *out)
{
	uint32_t len = (uint32_t)strlen(value);
	struct store_put p;
	int rc;

	while ((rc = store_put_begin(w, KEY, KEY_LEN, len, expiry_ms, &p)) == -EAGAIN)
		memory_growth_wait(store.memory, 100);
	assert_int_equal(rc, 0);
	memcpy(p.block->data + KEY_LEN, value, len);
	return store_put_commit(w, &p, &t, out);
}

static int put(const char *value, uint64_t expiry_ms, enum store_condition condition,
	       uint64_t version, struct store_result *out)
{
	return put_by(&worker, value, expiry_ms, terms(condition, version), out);
}

static int del(enum store_condition condition, uint64_t version, struct store_result *out)
{
	const struct store_terms t = terms(condition, version);

	return store_del(&worker, KEY, KEY_LEN, &t, out);
}

static int incr(int64_t delta, int64_t *sum, struct store_result *out)
{
	const struct store_terms t = terms(STORE_ALWAYS, 0);

	return store_incr(&worker, KEY, KEY_LEN, delta, 0, &t, sum, out);
}

static int incr_on(enum store_condition condition, uint64_t expiry_ms, struct store_result *out)
{
	const struct store_terms t = terms(condition, 0);
	int64_t sum;

	return store_incr(&worker, KEY, KEY_LEN, 1, expiry_ms, &t, &sum, out);
}

static int put_keeping(const char *value, uint64_t expiry_ms, struct store_result *out)
{
	struct store_terms t = terms(STORE_ALWAYS, 0);

	t.keep = true;
	return put_by(&worker, value, expiry_ms, t, out);
}

static int append_begin(struct store_worker *w, const char *value, uint64_t expiry_ms,
			struct store_put *p)
{
	uint32_t len = (uint32_t)strlen(value);
	int rc;

	while ((rc = store_append_begin(w, KEY, KEY_LEN, len, expiry_ms, NOW, p)) == -EAGAIN)
		memory_growth_wait(store.memory, 100);
	if (rc == 0)
		memcpy(p->block->data + KEY_LEN + p->base, value, len);
	return rc;
}

static int append_commit(struct store_worker *w, struct store_put *p,
			 enum store_condition condition, uint64_t version, struct store_result *out)
{
	const struct store_terms t = terms(condition, version);
	int rc = store_append_commit(w, p, &t, out);

	if (rc)
		store_put_abort(w, p);
	return rc;
}

static int append(const char *value, uint64_t expiry_ms, enum store_condition condition,
		  uint64_t version, struct store_result *out)
{
	struct store_put p;
	int rc = append_begin(&worker, value, expiry_ms, &p);

	return rc ? rc : append_commit(&worker, &p, condition, version, out);
}

static int touch(uint64_t expiry_ms, struct store_result *out)
{
	const struct store_terms t = terms(STORE_ALWAYS, 0);

	return store_touch(&worker, KEY, KEY_LEN, expiry_ms, &t, out);
}

/* What a reader finds; the block must be sound. Returns the version, 0: nothing. */
static uint64_t found(const char *value, uint64_t expiry_ms)
{
	struct store_result r;
	int rc = store_get(&worker, KEY, KEY_LEN, NOW, false, &r);

	assert_true(rc == 0 || rc == -ENOENT);
	if (rc)
		return 0;
	assert_int_equal(r.value_len, strlen(value));
	assert_memory_equal(r.block->data + KEY_LEN, value, r.value_len);
	assert_int_equal(r.expiry_ms, expiry_ms);
	assert_int_equal(block_verify(r.block, block_bytes(KEY_LEN, r.value_len), KEY, KEY_LEN,
				      r.block->key_hash, r.incarnation),
			 BLOCK_OK);
	return r.version;
}

static uint64_t records(void)
{
	struct index_stats stats;

	index_stats_get(store.index, &stats);
	return stats.records;
}

/* The record goes; then no block may be out any more, whatever was done. */
static int teardown(void **state)
{
	struct memory_stats stats;
	struct store_result r;
	uint64_t used = 1;

	store_del(&worker, KEY, KEY_LEN, &store_forced, &r);
	assert_int_equal(records(), 0);
	store_worker_destroy(&worker);
	qsbr_offline();
	for (unsigned i = 0; i < 10000 && used; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		memory_stats_get(store.memory, &stats);
		used = stats.run_slabs;
		for (unsigned c = 0; c < stats.classes; c++)
			used += stats.class[c].blocks_used;
	}
	assert_int_equal(used, 0);
	qsbr_online();
	qsbr_unregister();
	store_destroy(&store);
	return 0;
}

UNIT_TEST(conditions_where_nothing_is, setup, teardown)
{
	struct store_result r;

	for (unsigned expired = 0; expired < 2; expired++) {
		static const enum store_condition never[] = { STORE_IF_PRESENT, STORE_IF_VERSION };
		uint64_t version = 0;

		for (unsigned i = 0; i < 2; i++) {
			if (expired) {
				assert_int_equal(put("old", NOW, STORE_ALWAYS, 0, &r), 0);
				version = r.version;
			}
			assert_int_equal(put("new", 0, never[i], version, &r), -ENOENT);
			assert_int_equal(records(), 0); /* "absent" was said: it is */
		}
		if (expired) {
			assert_int_equal(put("old", NOW, STORE_ALWAYS, 0, &r), 0);
			version = r.version;
		}
		assert_int_equal(del(STORE_IF_VERSION, version, &r), -ENOENT);
		assert_int_equal(records(), 0);
		if (expired)
			assert_int_equal(put("old", 1, STORE_ALWAYS, 0, &r), 0);
		assert_int_equal(del(STORE_ALWAYS, 0, &r), -ENOENT);
		assert_int_equal(records(), 0);
		if (expired)
			assert_int_equal(put("old", 1, STORE_ALWAYS, 0, &r), 0);
		assert_int_equal(put("new", NOW + 1, STORE_IF_ABSENT, 0, &r), 0);
		assert_int_equal(found("new", NOW + 1), r.version);
		assert_int_equal(records(), 1);
		assert_int_equal(del(STORE_ALWAYS, 0, &r), 0);
	}
}

UNIT_TEST(conditions_where_a_record_is, setup, teardown)
{
	struct store_result first, r;

	assert_int_equal(put("one", NOW + 1, STORE_ALWAYS, 0, &first), 0);
	assert_int_equal(put("two", 0, STORE_IF_ABSENT, 0, &r), -EEXIST);
	assert_int_equal(r.version, first.version); /* and tells the version */
	r.version = 0;
	assert_int_equal(put("two", 0, STORE_IF_VERSION, first.version - 1, &r), -EEXIST);
	assert_int_equal(r.version, first.version);
	r.version = 0;
	assert_int_equal(del(STORE_IF_VERSION, first.version + 1, &r), -EEXIST);
	assert_int_equal(r.version, first.version);
	assert_int_equal(found("one", NOW + 1), first.version); /* nothing was done */
	assert_int_equal(put("two", 0, STORE_IF_PRESENT, 0, &r), 0);
	assert_true(r.version > first.version);
	assert_int_equal(found("two", 0), r.version);
	first = r;
	assert_int_equal(put("three", 7 * NOW, STORE_IF_VERSION, first.version, &r), 0);
	assert_true(r.version > first.version);
	assert_int_equal(found("three", 7 * NOW), r.version);
	first = r;
	assert_int_equal(del(STORE_IF_VERSION, first.version, &r), 0);
	assert_true(r.version > first.version);
	assert_int_equal(records(), 0);
	assert_int_equal(put("four", 0, (enum store_condition)9, 0, &r), -EINVAL);
	assert_int_equal(records(), 0);
}

static const struct {
	const char *text;
	int64_t delta;
	int rc;
	const char *sum;
} numbers[] = {
	{ "0", 0, 0, "0" },
	{ "0", -1, 0, "-1" },
	{ "-1", 1, 0, "0" },
	{ "41", 1, 0, "42" },
	{ "-9", -1, 0, "-10" },
	{ "9223372036854775806", 1, 0, "9223372036854775807" },
	{ "9223372036854775807", 0, 0, "9223372036854775807" },
	{ "9223372036854775807", INT64_MIN, 0, "-1" },
	{ "9223372036854775807", 1, -ERANGE, NULL },
	{ "1", INT64_MAX, -ERANGE, NULL },
	{ "-9223372036854775807", -1, 0, "-9223372036854775808" },
	{ "-9223372036854775808", 0, 0, "-9223372036854775808" },
	{ "-9223372036854775808", INT64_MAX, 0, "-1" },
	{ "-9223372036854775808", -1, -ERANGE, NULL },
	{ "-1", INT64_MIN, -ERANGE, NULL },
	{ "9223372036854775808", 0, -EDOM, NULL },
	{ "-9223372036854775809", 0, -EDOM, NULL },
	{ "18446744073709551615", 0, -EDOM, NULL },
	{ "18446744073709551617", 0, -EDOM, NULL }, /* 1, modulo 2^64 */
	{ "99999999999999999999", 0, -EDOM, NULL },
	{ "1000000000000000000000000000000", 0, -EDOM, NULL },
	{ "", 0, -EDOM, NULL },
	{ "-", 0, -EDOM, NULL },
	{ "--1", 0, -EDOM, NULL },
	{ "-0", 0, -EDOM, NULL },
	{ "00", 0, -EDOM, NULL },
	{ "007", 0, -EDOM, NULL },
	{ "-07", 0, -EDOM, NULL },
	{ "+1", 0, -EDOM, NULL },
	{ " 1", 0, -EDOM, NULL },
	{ "1 ", 0, -EDOM, NULL },
	{ "1\n", 0, -EDOM, NULL },
	{ "1.0", 0, -EDOM, NULL },
	{ "1/", 0, -EDOM, NULL }, /* the neighbours of the digits */
	{ "1:", 0, -EDOM, NULL },
	{ "\xff", 0, -EDOM, NULL },
	{ "0x1", 0, -EDOM, NULL },
	{ "five", 0, -EDOM, NULL },
};

UNIT_TEST(numbers_are_added, setup, teardown)
{
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct store_result first, r;
		int64_t sum = 5;
		int rc;

		assert_int_equal(put(numbers[i].text, 9 * NOW, STORE_ALWAYS, 0, &first), 0);
		rc = incr(numbers[i].delta, &sum, &r);
		if (rc != numbers[i].rc)
			print_error("\"%s\": %d\n", numbers[i].text, rc);
		assert_int_equal(rc, numbers[i].rc);
		if (rc) {
			assert_int_equal(sum, 5); /* nothing is told of it */
			assert_int_equal(found(numbers[i].text, 9 * NOW), first.version);
			continue;
		}
		assert_int_equal(sum, strtoll(numbers[i].sum, NULL, 10));
		assert_true(r.version > first.version);
		assert_int_equal(found(numbers[i].sum, 9 * NOW), r.version); /* expires as before */
	}
}

UNIT_TEST(numbers_begin_at_zero, setup, teardown)
{
	struct store_result r;
	int64_t sum;

	assert_int_equal(incr(INT64_MIN, &sum, &r), 0);
	assert_true(sum == INT64_MIN);
	assert_int_equal(found("-9223372036854775808", 0), r.version);
	/* an expired one is not there: neither its number nor its expiry counts */
	assert_int_equal(put("5", NOW, STORE_ALWAYS, 0, &r), 0);
	assert_int_equal(incr(-3, &sum, &r), 0);
	assert_int_equal(sum, -3);
	assert_int_equal(found("-3", 0), r.version);
	assert_int_equal(put("no number", NOW - 1, STORE_ALWAYS, 0, &r), 0);
	assert_int_equal(incr(0, &sum, &r), 0);
	assert_int_equal(found("0", 0), r.version);
}

UNIT_TEST(an_expiry_is_never_early)
{
	assert_int_equal(store_expiry(NOW * NS_PER_MS, 0), 0);
	assert_int_equal(store_expiry(NOW * NS_PER_MS, 1), NOW + 1);
	assert_int_equal(store_expiry(NOW * NS_PER_MS + 1, 1), NOW + 2);
	assert_int_equal(store_expiry(NOW * NS_PER_MS + NS_PER_MS - 1, 1), NOW + 2);
	assert_int_equal(store_expiry((NOW + 1) * NS_PER_MS, 1), NOW + 2);
	assert_int_equal(store_expiry(NOW * NS_PER_MS + 1, RPC_TTL_MAX_MS),
			 NOW + 1 + RPC_TTL_MAX_MS);
	assert_int_equal(store_expiry(UINT64_MAX, RPC_TTL_MAX_MS),
			 UINT64_MAX / NS_PER_MS + 1 + RPC_TTL_MAX_MS);
	assert_int_equal(store_expiry(UINT64_MAX, 0), 0);
}

UNIT_TEST(touch_sets_the_expiry, setup, teardown)
{
	struct store_result first, r;

	assert_int_equal(touch(0, &r), -ENOENT);
	assert_int_equal(put("value", 0, STORE_ALWAYS, 0, &first), 0);
	assert_int_equal(touch(2 * NOW, &r), 0);
	assert_true(r.version > first.version);
	assert_int_equal(r.expiry_ms, 2 * NOW);
	assert_int_equal(found("value", 2 * NOW), r.version);
	assert_int_equal(touch(0, &r), 0);
	assert_int_equal(found("value", 0), r.version);
	assert_int_equal(put("", 2 * NOW, STORE_ALWAYS, 0, &r), 0);
	assert_int_equal(touch(3 * NOW, &r), 0);
	assert_int_equal(found("", 3 * NOW), r.version);
	assert_int_equal(put("value", NOW, STORE_ALWAYS, 0, &r), 0);
	assert_int_equal(touch(2 * NOW, &r), -ENOENT); /* too late */
	assert_int_equal(records(), 0);
	assert_int_equal(touch(NOW, &r), -ENOENT);
	assert_int_equal(found("", 0), 0);
}

/* What keeps the expiry of a record gives its own to one that it creates. */
UNIT_TEST(the_expiry_is_kept, setup, teardown)
{
	static const uint64_t expiry[] = { 0, NOW + 1, 9 * NOW };
	struct store_result r;

	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(put("1", expiry[i], STORE_ALWAYS, 0, &r), 0);
		assert_int_equal(put_keeping("22", 5 * NOW, &r), 0);
		assert_int_equal(r.expiry_ms, expiry[i]);
		assert_int_equal(found("22", expiry[i]), r.version);
		assert_int_equal(incr_on(STORE_ALWAYS, 5 * NOW, &r), 0);
		assert_int_equal(found("23", expiry[i]), r.version);
		assert_int_equal(append("4", 5 * NOW, STORE_ALWAYS, 0, &r), 0);
		assert_int_equal(found("234", expiry[i]), r.version);
		assert_int_equal(put("0", 3 * NOW, STORE_ALWAYS, 0, &r), 0); /* not kept */
		assert_int_equal(found("0", 3 * NOW), r.version);
	}
	for (unsigned expired = 0; expired < 2; expired++) {
		for (unsigned i = 0; i < 3; i++) {
			assert_true(del(STORE_ALWAYS, 0, &r) <= 0);
			if (expired)
				assert_int_equal(put("1", NOW, STORE_ALWAYS, 0, &r), 0);
			if (i == 0)
				assert_int_equal(put_keeping("1", 5 * NOW, &r), 0);
			else if (i == 1)
				assert_int_equal(incr_on(STORE_ALWAYS, 5 * NOW, &r), 0);
			else
				assert_int_equal(append("1", 5 * NOW, STORE_ALWAYS, 0, &r), 0);
			assert_int_equal(found("1", 5 * NOW), r.version);
		}
	}
}

UNIT_TEST(conditions_of_incr_and_append, setup, teardown)
{
	struct store_result first, r;

	assert_int_equal(incr_on(STORE_IF_PRESENT, 0, &r), -ENOENT);
	assert_int_equal(append("1", 0, STORE_IF_PRESENT, 0, &r), -ENOENT);
	assert_int_equal(append("1", 0, STORE_IF_VERSION, 1, &r), -ENOENT);
	assert_int_equal(records(), 0);
	assert_int_equal(incr_on(STORE_IF_ABSENT, 0, &first), 0);
	assert_int_equal(incr_on(STORE_IF_ABSENT, 0, &r), -EEXIST);
	assert_int_equal(r.version, first.version);
	assert_int_equal(append("1", 0, STORE_IF_ABSENT, 0, &r), -EEXIST);
	assert_int_equal(append("1", 0, STORE_IF_VERSION, first.version - 1, &r), -EEXIST);
	assert_int_equal(r.version, first.version);
	assert_int_equal(found("1", 0), first.version);
	assert_int_equal(incr_on(STORE_IF_PRESENT, 0, &first), 0);
	assert_int_equal(append("1", 0, STORE_IF_VERSION, first.version, &r), 0);
	assert_int_equal(append("", 0, STORE_IF_PRESENT, 0, &r), 0);
	assert_int_equal(r.value_len, 2);
	assert_int_equal(found("21", 0), r.version);
}

/* Others write the key between the two steps of an append. */
UNIT_TEST(an_append_finds_another_record, setup, teardown)
{
	static const char *const between[] = { "b", "longer than before", "", NULL };
	struct store_result r;
	struct store_put p;
	char want[32];

	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(put("a", 7 * NOW, STORE_ALWAYS, 0, &r), 0);
		assert_int_equal(append_begin(&worker, "tail", 3 * NOW, &p), 0);
		if (between[i])
			assert_int_equal(put(between[i], 9 * NOW, STORE_ALWAYS, 0, &r), 0);
		else
			assert_int_equal(del(STORE_ALWAYS, 0, &r), 0);
		assert_int_equal(append_commit(&worker, &p, STORE_ALWAYS, 0, &r), 0);
		snprintf(want, sizeof(want), "%stail", between[i] ? between[i] : "");
		assert_int_equal(r.value_len, strlen(want));
		assert_int_equal(found(want, between[i] ? 9 * NOW : 3 * NOW), r.version);
	}
}

/* The longest value takes nothing more, whenever it is found out. */
UNIT_TEST(an_append_that_is_too_long, setup, teardown)
{
	const struct store_terms t = terms(STORE_ALWAYS, 0);
	struct store_result first, r;
	struct store_put p, late;
	int rc;

	assert_int_equal(append_begin(&worker, "12", 0, &late), 0);
	while ((rc = store_append_begin(&worker, KEY, KEY_LEN, VALUE_MAX - 1, 0, NOW, &p)) ==
	       -EAGAIN)
		memory_growth_wait(store.memory, 100);
	assert_int_equal(rc, 0);
	memset(p.block->data + KEY_LEN, 'x', VALUE_MAX - 1);
	assert_int_equal(store_append_commit(&worker, &p, &t, &first), 0);
	assert_int_equal(append_commit(&worker, &late, STORE_ALWAYS, 0, &r), -EFBIG);
	assert_int_equal(append("12", 0, STORE_ALWAYS, 0, &r), -EFBIG);
	assert_int_equal(store_get(&worker, KEY, KEY_LEN, NOW, false, &r), 0);
	assert_int_equal(r.version, first.version);
	while ((rc = append("1", 0, STORE_ALWAYS, 0, &r)) == -EAGAIN)
		memory_growth_wait(store.memory, 100);
	assert_int_equal(rc, 0);
	assert_int_equal(r.value_len, VALUE_MAX);
}

/* One of several threads on the key. */
struct thread {
	pthread_t thread;
	unsigned number;
	uint8_t won[SWAPS];
	bool failed; /* in a way that there is not */
};

static uint64_t versions[SWAPS + 1]; /* that the swaps begin with */
static pthread_barrier_t together;

static void thread_quiet(struct store_worker *w)
{
	reclaim_poll(w->reclaim, UINT64_MAX / 2);
	qsbr_quiescent();
}

static void *count_up(void *arg)
{
	const struct store_terms t = terms(STORE_ALWAYS, 0);
	struct thread *me = arg;
	struct store_worker w;

	qsbr_register();
	me->failed = store_worker_create(&w, &store, 0) != 0;
	for (int i = 0; i < INCREMENTS && !me->failed; i++) {
		struct store_result r;
		int64_t sum;
		int rc = -EAGAIN;

		while (rc == -EAGAIN || rc == -EBUSY) { /* as clients do */
			rc = store_incr(&w, KEY, KEY_LEN, i % 2 ? 3 : -1, 0, &t, &sum, &r);
			thread_quiet(&w);
		}
		me->failed = rc != 0;
	}
	store_worker_destroy(&w);
	qsbr_unregister();
	return NULL;
}

/* Each appends a letter of its own. */
static void *append_letters(void *arg)
{
	struct thread *me = arg;
	const char letter[] = { (char)('a' + me->number), 0 };
	struct store_worker w;

	qsbr_register();
	me->failed = store_worker_create(&w, &store, 0) != 0;
	for (unsigned i = 0; i < SWAPS && !me->failed; i++) {
		struct store_result r;
		struct store_put p;
		int rc;

		do { /* as clients do */
			rc = append_begin(&w, letter, 0, &p);
			if (rc == 0)
				rc = append_commit(&w, &p, STORE_ALWAYS, 0, &r);
			thread_quiet(&w);
		} while (rc == -EAGAIN || rc == -EBUSY);
		me->failed = rc != 0;
	}
	store_worker_destroy(&w);
	qsbr_unregister();
	return NULL;
}

/* All threads put on the same version, again and again. */
static void *swap(void *arg)
{
	struct thread *me = arg;
	struct store_worker w;

	qsbr_register();
	me->failed = store_worker_create(&w, &store, 0) != 0;
	for (unsigned i = 0; i < SWAPS; i++) {
		struct store_terms t = terms(STORE_IF_VERSION, 0);
		struct store_result r;
		int rc = -EBUSY;

		qsbr_offline();
		pthread_barrier_wait(&together);
		qsbr_online();
		t.version = versions[i];
		while (rc == -EBUSY && !me->failed)
			rc = put_by(&w, "swapped", 0, t, &r);
		me->won[i] = rc == 0;
		me->failed |= rc && (rc != -EEXIST || r.version <= t.version);
		if (rc == 0)
			versions[i + 1] = r.version;
		thread_quiet(&w);
	}
	store_worker_destroy(&w);
	qsbr_unregister();
	return NULL;
}

static void run_threads(void *(*body)(void *), struct thread *threads)
{
	memset(threads, 0, THREADS * sizeof(*threads));
	qsbr_offline();
	for (unsigned i = 0; i < THREADS; i++) {
		threads[i].number = i;
		assert_int_equal(pthread_create(&threads[i].thread, NULL, body, &threads[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i].thread, NULL);
	qsbr_online();
	for (unsigned i = 0; i < THREADS; i++)
		assert_false(threads[i].failed);
}

UNIT_TEST(no_increment_is_lost, setup, teardown)
{
	static struct thread threads[THREADS];
	struct store_result r;
	int64_t sum;

	run_threads(count_up, threads);
	assert_int_equal(incr(0, &sum, &r), 0);
	assert_int_equal(sum, THREADS * INCREMENTS); /* half -1, half 3 */
	assert_int_equal(records(), 1);
}

UNIT_TEST(no_append_is_lost, setup, teardown)
{
	static struct thread threads[THREADS];
	static char first[32 << 10]; /* it is long: so they overtake each other */
	unsigned letters[THREADS] = { 0 };
	struct store_result r;

	memset(first, 'z', sizeof(first) - 1);
	assert_int_equal(put(first, 0, STORE_ALWAYS, 0, &r), 0);
	run_threads(append_letters, threads);
	assert_int_equal(store_get(&worker, KEY, KEY_LEN, NOW, false, &r), 0);
	assert_int_equal(r.value_len, sizeof(first) - 1 + THREADS * SWAPS);
	for (size_t i = sizeof(first) - 1; i < r.value_len; i++)
		letters[r.block->data[KEY_LEN + i] - 'a']++;
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(letters[i], SWAPS);
}

UNIT_TEST(of_a_version_one_swap_wins, setup, teardown)
{
	static struct thread threads[THREADS];
	struct store_result r;

	assert_int_equal(put("first", 0, STORE_ALWAYS, 0, &r), 0);
	versions[0] = r.version;
	pthread_barrier_init(&together, NULL, THREADS);
	run_threads(swap, threads);
	pthread_barrier_destroy(&together);
	for (unsigned i = 0; i < SWAPS; i++) {
		unsigned winners = 0;

		for (unsigned k = 0; k < THREADS; k++)
			winners += threads[k].won[i];
		assert_int_equal(winners, 1);
	}
	assert_int_equal(found("swapped", 0), versions[SWAPS]);
}

static int refused(enum store_condition condition, uint64_t version, struct store_result *out)
{
	const struct store_terms t = terms(condition, version);

	return store_put_refused(&worker, KEY, KEY_LEN, &t, out);
}

/* What is said before a block is taken is what the commit would say. */
UNIT_TEST(refused_before_there_is_a_block, setup, teardown)
{
	struct store_result r;
	uint64_t version;

	assert_int_equal(refused(STORE_IF_ABSENT, 0, &r), 0);
	assert_int_equal(refused(STORE_IF_PRESENT, 0, &r), -ENOENT);
	assert_int_equal(refused(STORE_IF_VERSION, 1, &r), -ENOENT);
	assert_int_equal(put("there", 0, STORE_ALWAYS, 0, &r), 0);
	version = r.version;
	r.version = 0;
	assert_int_equal(refused(STORE_IF_ABSENT, 0, &r), -EEXIST);
	assert_int_equal(r.version, version);
	r.version = 0;
	assert_int_equal(refused(STORE_IF_VERSION, version + 1, &r), -EEXIST);
	assert_int_equal(r.version, version);
	assert_int_equal(refused(STORE_IF_VERSION, version, &r), 0);
	assert_int_equal(refused(STORE_IF_PRESENT, 0, &r), 0);
	assert_int_equal(refused(STORE_ALWAYS, 0, &r), 0);
	/* what has expired is deleted before "absent" is said, and that is the commit's */
	assert_int_equal(put("late", NOW, STORE_ALWAYS, 0, &r), 0);
	assert_int_equal(refused(STORE_IF_ABSENT, 0, &r), 0);
	assert_int_equal(refused(STORE_IF_PRESENT, 0, &r), 0);
	assert_int_equal(records(), 1);
	assert_int_equal(put("later", 0, STORE_IF_PRESENT, 0, &r), -ENOENT);
	assert_int_equal(records(), 0);
}
