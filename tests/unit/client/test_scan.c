/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Scans in chunks against a kv-server that grows, is restarted, and is used in between. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/src/link/handle.h"
#include "tests/lib/unit.h"
#include "one_client.h"
#include "with_server.h"

#define RECORDS	    300u
#define GROWTH	    120000u /* the index begins with room for 127,000, of which it fills 4/5 */
#define CHUNK_MAX   1000u
#define LARGE_BYTES (3u << 19)

static struct gkv *other;
static unsigned visits[RECORDS];

static int set_up(void **state)
{
	memset(visits, 0, sizeof(visits));
	return one_client("256M", patient()) || server_handle(session, &other);
}

static int tear_down_both(void **state)
{
	gkv_close(other);
	return tear_down(state);
}

static void put(const char *name, unsigned number)
{
	char key[32];
	int len = snprintf(key, sizeof(key), "%s %u", name, number);

	assert_int_equal(gkv_put(other, key, (size_t)len, key, (size_t)len, NULL), 0);
}

static void fill(void)
{
	for (unsigned i = 0; i < RECORDS; i++)
		put("stay", i);
}

static void note(const struct gkv_record *rec, int count)
{
	for (int i = 0; i < count; i++) {
		char text[32] = "";
		unsigned number;

		assert_in_range(rec[i].key_len, 1, 31);
		memcpy(text, rec[i].key, rec[i].key_len);
		assert_int_equal(rec[i].meta.value_len, rec[i].key_len);
		if (rec[i].value)
			assert_memory_equal(rec[i].key, rec[i].value, rec[i].key_len);
		assert_true(rec[i].meta.version > 0 && rec[i].meta.expiry_ms == 0);
		if (sscanf(text, "stay %u", &number) == 1)
			visits[number]++;
	}
}

static void expect_each(unsigned times)
{
	for (unsigned i = 0; i < RECORDS; i++)
		assert_int_equal(visits[i], times);
	memset(visits, 0, sizeof(visits));
}

static void expect_each_once(void)
{
	expect_each(1);
}

/* Until @stop records were noted, 0: all. Returns what the last call did. */
static int go_on(struct gkv_cursor *s, size_t max, unsigned stop)
{
	static struct gkv_record rec[CHUNK_MAX];
	unsigned total = 0;
	int n;

	do {
		n = gkv_scan_next(s, rec, max);
		note(rec, n);
		total += n > 0 ? (unsigned)n : 0;
	} while (n > 0 && (!stop || total < stop));
	return n;
}

UNIT_TEST(test_chunks, set_up, tear_down_both)
{
	static const size_t max[] = { 1, 10, CHUNK_MAX };
	struct gkv_cursor *s;

	for (unsigned i = 0; i < 3; i++) { /* an empty store */
		assert_int_equal(gkv_scan_open(kv, NULL, &s), 0);
		assert_int_equal(go_on(s, max[i], 0), 0);
		gkv_scan_close(s);
	}
	fill();
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(gkv_scan_open(kv, NULL, &s), 0);
		assert_int_equal(go_on(s, max[i], 0), 0);
		gkv_scan_close(s);
		expect_each_once();
	}
}

static uint64_t statistic(const char *name)
{
	char *text, *line;
	uint64_t value = 0;

	assert_int_equal(gkv_server_stats(other, &text), 0);
	line = strstr(text, name);
	assert_non_null(line);
	assert_int_equal(sscanf(line + strlen(name), " %lu", &value), 1);
	free(text);
	return value;
}

/* The index grows and shrinks under a scan that is left lying. */
UNIT_TEST(test_growth, set_up, tear_down_both)
{
	const struct gkv_scan_options keys = { .prefix = "stay", .prefix_len = 4, .flags = 1 };
	struct gkv_cursor *s[3];
	char key[32];

	if (getenv("SOFTRDMA_WEAK")) {
		print_message("skipped: as many requests take too long on the weak device\n");
		skip();
	}
	fill();
	assert_int_equal(gkv_scan_open(kv, NULL, &s[0]), 0);
	assert_true(go_on(s[0], 1, RECORDS / 3) > 0);
	assert_int_equal(gkv_scan_open(kv, &keys, &s[2]), 0);
	assert_true(go_on(s[2], 1, RECORDS / 2) > 0);
	for (unsigned i = 0; i < GROWTH; i++)
		put("more", i);
	assert_true(statistic("\nindex_splits") > 0);
	assert_int_equal(go_on(s[0], 7, 0), 0);
	gkv_scan_close(s[0]);
	assert_int_equal(go_on(s[2], 7, 0), 0);
	gkv_scan_close(s[2]);
	expect_each(2);
	assert_int_equal(gkv_scan_open(kv, NULL, &s[1]), 0);
	assert_true(go_on(s[1], 1, GROWTH / 2) > 0);
	for (unsigned i = 0; i < GROWTH; i++) {
		int len = snprintf(key, sizeof(key), "more %u", i);

		assert_int_equal(gkv_del(other, key, (size_t)len), 0);
	}
	assert_true(statistic("\nindex_merges") > 0);
	assert_int_equal(go_on(s[1], CHUNK_MAX, 0), 0);
	gkv_scan_close(s[1]);
	expect_each_once();
}

static void lose_the_connection(void)
{
	assert_int_equal(session_lock(session, time_now_ns() + 20 * NS_PER_S, NULL), 0);
	session_lost(session);
	session_unlock(session);
}

UNIT_TEST(test_connections_are_lost, set_up, tear_down_both)
{
	struct gkv_cursor *s;
	int n;

	fill();
	assert_int_equal(gkv_scan_open(kv, NULL, &s), 0);
	do {
		n = go_on(s, 3, 30);
		lose_the_connection();
	} while (n > 0);
	assert_int_equal(n, 0);
	gkv_scan_close(s);
	expect_each_once();
	assert_true(kv->reader.stats.reconnects > 2);
}

static void start_anew(void)
{
	server_stop(server, SIGKILL);
	server = server_start(&port, "256M");
}

UNIT_TEST(test_a_server_started_anew, set_up, tear_down_both)
{
	struct gkv_record rec;
	struct gkv_cursor *s;

	fill();
	assert_int_equal(gkv_scan_open(kv, NULL, &s), 0);
	start_anew(); /* nothing was read yet */
	fill();
	assert_true(go_on(s, 10, RECORDS / 2) > 0);
	start_anew();
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(go_on(s, 10, 0), -ESTALE);
	assert_non_null(strstr(gkv_error(kv), "restarted"));
	gkv_scan_close(s);
	/* another call has met it: what lies in the memory is of the old life */
	fill();
	assert_int_equal(gkv_scan_open(kv, NULL, &s), 0);
	assert_int_equal(gkv_scan_next(s, &rec, 1), 1);
	start_anew();
	assert_int_equal(gkv_exists(kv, "none", 4, NULL), -ENOENT);
	assert_int_equal(gkv_scan_next(s, &rec, 1), -ESTALE);
	gkv_scan_close(s);
}

static int start_anew_at_100(void *arg, const void *key, size_t key_len, const void *value,
			     const struct gkv_meta *meta)
{
	if (++*(unsigned *)arg == 100)
		start_anew();
	return 0;
}

UNIT_TEST(test_a_visit_of_a_server_started_anew, set_up, tear_down_both)
{
	unsigned count = 0;

	fill();
	assert_int_equal(gkv_scan(kv, NULL, start_anew_at_100, &count), -ESTALE);
	assert_in_range(count, 100, RECORDS - 1);
	assert_string_equal(gkv_strerror(-ESTALE), "the server restarted during the scan");
	count = RECORDS;
	assert_int_equal(gkv_scan(kv, NULL, start_anew_at_100, &count), 0);
}

static int use_the_handle(void *arg, const void *key, size_t key_len, const void *value,
			  const struct gkv_meta *meta)
{
	struct gkv_record rec;
	struct gkv_cursor *s = arg;
	char bytes[8];

	assert_int_equal(gkv_get(kv, "stay 1", 6, bytes, 8, NULL), -EDEADLK);
	assert_non_null(strstr(gkv_error(kv), "gkv_visit"));
	assert_int_equal(gkv_put(kv, "k", 1, "v", 1, NULL), -EDEADLK);
	assert_int_equal(gkv_mget(kv, NULL, 0), -EDEADLK);
	assert_int_equal(gkv_ping(kv, NULL), -EDEADLK);
	assert_int_equal(gkv_scan(kv, NULL, use_the_handle, arg), -EDEADLK);
	assert_int_equal(gkv_scan_next(s, &rec, 1), -EDEADLK);
	assert_int_equal(gkv_scan_open(kv, NULL, &s), -EDEADLK);
	assert_int_equal(gkv_exists(other, "stay 1", 6, NULL), 0); /* another one is fine */
	note(&(struct gkv_record){ key, key_len, value, *meta, { 0 } }, 1);
	return memcmp(key, "stay 7", key_len < 6 ? key_len : 6) == 0 ? 7 : 0;
}

UNIT_TEST(test_a_visitor_and_its_handle, set_up, tear_down_both)
{
	struct gkv_cursor *s;

	fill();
	assert_int_equal(gkv_scan_open(kv, NULL, &s), 0);
	assert_int_equal(gkv_scan(kv, NULL, use_the_handle, s), 7);
	assert_int_equal(gkv_ping(kv, NULL), 0);
	memset(visits, 0, sizeof(visits));
	assert_int_equal(go_on(s, 10, 0), 0);
	expect_each_once();
	gkv_scan_close(s);
}

UNIT_TEST(test_other_calls_between, set_up, tear_down_both)
{
	static struct gkv_record rec[5];
	char *large = calloc(1, LARGE_BYTES), *in = malloc(LARGE_BYTES);
	struct gkv_cursor *s;
	int n;

	fill();
	assert_int_equal(gkv_scan_open(kv, NULL, &s), 0);
	while ((n = gkv_scan_next(s, rec, 5)) > 0) {
		/* the handle's memory is written over, and is another one then */
		assert_int_equal(gkv_put(kv, "z", 1, large, LARGE_BYTES / 8, NULL), 0);
		assert_int_equal(gkv_get(kv, "z", 1, in, LARGE_BYTES, NULL), 0);
		assert_int_equal(gkv_del(kv, "z", 1), 0);
		note(rec, n);
	}
	assert_int_equal(n, 0);
	expect_each_once();
	gkv_scan_close(s);
	free(in);
	free(large);
}

UNIT_TEST(test_large_records, set_up, tear_down_both)
{
	static const size_t len[] = { LARGE_BYTES, GKV_VALUE_MAX, 1 << 20, 300000, 5 };
	char *value = malloc(GKV_VALUE_MAX);
	unsigned met = 0;
	struct gkv_record rec[10];
	struct gkv_cursor *s;
	int n;

	for (unsigned i = 0; i < 5; i++) {
		memset(value, (int)i + 1, len[i]);
		assert_int_equal(gkv_put(other, &i, sizeof(i), value, len[i], NULL), 0);
	}
	assert_int_equal(gkv_scan_open(kv, NULL, &s), 0);
	while ((n = gkv_scan_next(s, rec, 10)) > 0) {
		for (int i = 0; i < n; i++) {
			unsigned number;

			assert_int_equal(rec[i].key_len, sizeof(number));
			memcpy(&number, rec[i].key, sizeof(number));
			assert_in_range(number, 0, 4);
			assert_int_equal(met >> number & 1, 0);
			met |= 1u << number;
			assert_int_equal(rec[i].meta.value_len, len[number]);
			memset(value, (int)number + 1, len[number]);
			assert_int_equal(memcmp(rec[i].value, value, len[number]), 0);
		}
	}
	assert_int_equal(n, 0);
	assert_int_equal(met, 31);
	gkv_scan_close(s);
	free(value);
}
