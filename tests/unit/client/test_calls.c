/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Every call against a kv-server. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/include/gracekv.h"
#include "tests/lib/unit.h"
#include "one_client.h"

#define SCAN_RECORDS 5000u

UNIT_TEST(test_put_get_del)
{
	char value[16] = "";
	uint64_t first, second;
	struct gkv_meta meta;
	const void *view;
	size_t len = 99;

	assert_int_equal(gkv_get(kv, "k", 1, value, sizeof(value), &len), -ENOENT);
	assert_int_equal(gkv_put(kv, "k", 1, "one", 3, &first), 0);
	assert_int_equal(gkv_get(kv, "k", 1, value, sizeof(value), &len), 0);
	assert_int_equal(len, 3);
	assert_memory_equal(value, "one", 3);
	assert_int_equal(gkv_put(kv, "k", 1, "second", 6, &second), 0);
	assert_true(second > first);
	assert_int_equal(gkv_get(kv, "k", 1, value, 3, &len), -EMSGSIZE);
	assert_int_equal(len, 6);
	assert_memory_equal(value, "sec", 3);
	assert_int_equal(gkv_get(kv, "k", 1, NULL, 0, NULL), -EMSGSIZE);
	assert_int_equal(gkv_get_view(kv, "k", 1, &view, &meta), 0);
	assert_memory_equal(view, "second", 6);
	assert_int_equal(meta.value_len, 6);
	assert_true(meta.version == second && meta.expiry_ms == 0);
	assert_int_equal(gkv_exists(kv, "k", 1, &meta), 0);
	assert_int_equal(gkv_exists(kv, "k", 1, NULL), 0);
	assert_int_equal(gkv_del(kv, "k", 1), 0);
	assert_int_equal(gkv_del(kv, "k", 1), -ENOENT);
	assert_int_equal(gkv_exists(kv, "k", 1, NULL), -ENOENT);
}

UNIT_TEST(test_sizes_of_values)
{
	static const size_t sizes[] = { 0,	1,	 127,	  128,		129,	8191,
					8192,	8193,	 65536,	  100000,	261000, 262144,
					300000, 1 << 20, 5 << 20, GKV_VALUE_MAX };
	char *out = malloc(GKV_VALUE_MAX), *in = malloc(GKV_VALUE_MAX);

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t len = 0;

		for (size_t j = 0; j < sizes[i]; j++)
			out[j] = (char)(j * 31 + (j >> 8) + i);
		memset(in, 0, sizes[i]);
		assert_int_equal(gkv_put(kv, "size", 4, sizes[i] ? out : NULL, sizes[i], NULL), 0);
		assert_int_equal(gkv_get(kv, "size", 4, in, GKV_VALUE_MAX, &len), 0);
		assert_true(len == sizes[i] && memcmp(in, out, len) == 0);
	}
	assert_int_equal(gkv_del(kv, "size", 4), 0);
	free(out);
	free(in);
}

UNIT_TEST(test_arguments)
{
	static char key[GKV_KEY_MAX + 1], value[16];
	struct gkv_item item = { .key = NULL, .key_len = 4 };
	const void *view;

	assert_int_equal(gkv_get(kv, NULL, 4, value, 16, NULL), -EINVAL);
	assert_int_equal(gkv_get(kv, "", 0, value, 16, NULL), -EINVAL);
	assert_non_null(strstr(gkv_error(kv), "key"));
	assert_int_equal(gkv_get(kv, key, sizeof(key), value, 16, NULL), -EINVAL);
	assert_int_equal(gkv_get(kv, key, GKV_KEY_MAX, value, 16, NULL), -ENOENT);
	assert_int_equal(gkv_get(kv, "k", 1, NULL, 16, NULL), -EINVAL);
	assert_int_equal(gkv_get_view(kv, "k", 1, NULL, NULL), -EINVAL);
	assert_int_equal(gkv_get_view(kv, "", 0, &view, NULL), -EINVAL);
	assert_int_equal(gkv_exists(kv, "", 0, NULL), -EINVAL);
	assert_int_equal(gkv_put(kv, NULL, 1, "v", 1, NULL), -EINVAL);
	assert_int_equal(gkv_put(kv, "k", 0, "v", 1, NULL), -EINVAL);
	assert_int_equal(gkv_put(kv, key, sizeof(key), "v", 1, NULL), -EINVAL);
	assert_int_equal(gkv_put(kv, "k", 1, NULL, 1, NULL), -EINVAL);
	assert_int_equal(gkv_put(kv, "k", 1, "v", GKV_VALUE_MAX + 1ul, NULL), -EINVAL);
	assert_int_equal(gkv_del(kv, NULL, 1), -EINVAL);
	assert_int_equal(gkv_del(kv, key, sizeof(key)), -EINVAL);
	assert_int_equal(gkv_mget(kv, NULL, 1), -EINVAL);
	assert_int_equal(gkv_mget(kv, NULL, 0), 0);
	assert_int_equal(gkv_mget(kv, &item, 1), 0);
	assert_int_equal(item.status, -EINVAL);
	item = (struct gkv_item){ .key = "k", .key_len = 1, .cap = 3 };
	assert_int_equal(gkv_mget(kv, &item, 1), 0);
	assert_int_equal(item.status, -EINVAL);
	assert_int_equal(gkv_scan(kv, NULL, NULL, NULL), -EINVAL);
	assert_int_equal(gkv_server_stats(kv, NULL), -EINVAL);
	assert_int_equal(gkv_open(session, NULL, NULL, NULL, 0), -EINVAL);
}

UNIT_TEST(test_mget)
{
	static char key[200][16], value[200][32], want[200][32];
	static struct gkv_item item[200];

	for (unsigned i = 0; i < 200; i++) {
		snprintf(key[i], sizeof(key[i]), "mget %u", i);
		snprintf(want[i], sizeof(want[i]), "value of %u", i);
		if (i % 3)
			assert_ok(gkv_put(kv, key[i], strlen(key[i]), want[i], strlen(want[i]),
					  NULL));
		item[i] = (struct gkv_item){ .key = key[i],
					     .key_len = strlen(key[i]),
					     .value = value[i],
					     .cap = i % 7 ? sizeof(value[i]) : 5 };
	}
	assert_int_equal(gkv_mget(kv, item, 200), 0);
	for (unsigned i = 0; i < 200; i++) {
		assert_int_equal(item[i].status, i % 3 == 0 ? -ENOENT : i % 7 ? 0 : -EMSGSIZE);
		if (i % 3 == 0)
			continue;
		assert_int_equal(item[i].len, strlen(want[i]));
		assert_memory_equal(value[i], want[i], i % 7 ? item[i].len : 5);
		assert_true(item[i].meta.version > 0);
		assert_int_equal(gkv_del(kv, key[i], strlen(key[i])), 0);
	}
}

static unsigned visits[SCAN_RECORDS];

static int visit(void *arg, const void *key, size_t key_len, const void *value,
		 const struct gkv_meta *meta)
{
	char text[32] = "";
	unsigned number;

	memcpy(text, key, key_len < 31 ? key_len : 31);
	if (sscanf(text, "scan %u", &number) == 1 && number < SCAN_RECORDS)
		visits[number]++;
	return arg && --*(int *)arg == 0 ? 42 : 0;
}

UNIT_TEST(test_scan)
{
	static char large[300000];
	char key[32];
	int stop = 10;

	for (unsigned i = 0; i < SCAN_RECORDS; i++) {
		int len = snprintf(key, sizeof(key), "scan %u", i);

		assert_ok(gkv_put(kv, key, (size_t)len, large, i % 500 ? 20 : sizeof(large), NULL));
	}
	memset(visits, 0, sizeof(visits));
	assert_int_equal(gkv_scan(kv, NULL, visit, NULL), 0);
	for (unsigned i = 0; i < SCAN_RECORDS; i++)
		assert_int_equal(visits[i], 1);
	assert_int_equal(gkv_scan(kv, NULL, visit, &stop), 42);
	stop = 1;
	assert_int_equal(gkv_scan(kv, NULL, visit, &stop), 42);
}

/* Another handle rewrites every record over and over; each is still visited exactly once. */
static _Atomic int writing;

static void *rewrite(void *arg)
{
	struct gkv *h;
	char key[32];
	unsigned n = 0;

	assert_int_equal(gkv_open(session, NULL, &h, NULL, 0), 0);
	while (writing) {
		int len = snprintf(key, sizeof(key), "scan %u", n++ % SCAN_RECORDS);

		assert_int_equal(gkv_put(h, key, (size_t)len, key, (size_t)len, NULL), 0);
		len = snprintf(key, sizeof(key), "other %u", n % 1000);
		assert_int_equal(gkv_put(h, key, (size_t)len, key, (size_t)len, NULL), 0);
		len = snprintf(key, sizeof(key), "other %u", (n + 500) % 1000);
		gkv_del(h, key, (size_t)len);
	}
	gkv_close(h);
	return NULL;
}

UNIT_TEST(test_scan_while_all_is_rewritten)
{
	pthread_t thread;

	writing = 1;
	pthread_create(&thread, NULL, rewrite, NULL);
	for (unsigned round = 0; round < 10; round++) {
		memset(visits, 0, sizeof(visits));
		assert_int_equal(gkv_scan(kv, NULL, visit, NULL), 0);
		for (unsigned i = 0; i < SCAN_RECORDS; i++)
			assert_int_equal(visits[i], 1);
	}
	writing = 0;
	pthread_join(thread, NULL);
}

/* Readers see values whole, and versions that never go back. */
static void *read_one(void *arg)
{
	unsigned char value[2048];
	uint64_t newest = 0;
	struct gkv *h;

	assert_int_equal(gkv_open(session, NULL, &h, NULL, 0), 0);
	while (writing) {
		struct gkv_meta meta;
		const void *view;

		assert_int_equal(gkv_get_view(h, "hot", 3, &view, &meta), 0);
		assert_int_equal(meta.value_len, sizeof(value));
		memset(value, *(const unsigned char *)view, sizeof(value));
		assert_memory_equal(view, value, sizeof(value));
		assert_true(meta.version >= newest);
		newest = meta.version;
	}
	gkv_close(h);
	return NULL;
}

UNIT_TEST(test_hot_key)
{
	unsigned char value[2048] = { 0 };
	pthread_t thread[2];

	assert_int_equal(gkv_put(kv, "hot", 3, value, sizeof(value), NULL), 0);
	writing = 1;
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, read_one, NULL);
	for (unsigned i = 0; i < 20000; i++) {
		memset(value, (int)i, sizeof(value));
		assert_int_equal(gkv_put(kv, "hot", 3, value, sizeof(value), NULL), 0);
	}
	writing = 0;
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
}

UNIT_TEST(test_ping_and_statistics)
{
	struct gkv_stats before, after;
	uint64_t ns = 0;
	char *text;

	assert_int_equal(gkv_ping(kv, &ns), 0);
	assert_true(ns > 0);
	assert_int_equal(gkv_server_stats(kv, &text), 0);
	assert_non_null(strstr(text, "sessions 1\n"));
	free(text);
	gkv_stats_get(kv, &before);
	assert_int_equal(gkv_put(kv, "stat", 4, "x", 1, NULL), 0);
	assert_int_equal(gkv_exists(kv, "stat", 4, NULL), 0);
	assert_int_equal(gkv_exists(kv, "no stat", 7, NULL), -ENOENT);
	assert_int_equal(gkv_del(kv, "stat", 4), 0);
	gkv_stats_get(kv, &after);
	assert_int_equal(after.puts - before.puts, 1);
	assert_int_equal(after.dels - before.dels, 1);
	assert_int_equal(after.gets - before.gets, 2);
	assert_int_equal(after.hits - before.hits, 1);
	assert_in_range(after.reads - before.reads, 2, 5); /* by a hint, or by the index */
	assert_non_null(strstr(gkv_session_describe(session), "soft0"));
}

UNIT_TEST(test_number_of_handles)
{
	struct gkv *h[64];
	char why[640];
	unsigned n = 0;
	int rc;

	while ((rc = gkv_open(session, NULL, &h[n], why, sizeof(why))) == 0)
		assert_true(++n < 64);
	assert_int_equal(rc, -EUSERS);
	assert_int_equal(n, 63);
	assert_non_null(strstr(why, "handles"));
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(gkv_ping(h[i], NULL), 0);
	for (unsigned i = 0; i < n; i++)
		gkv_close(h[i]);
	assert_int_equal(gkv_open(session, NULL, &h[0], NULL, 0), 0);
	assert_int_equal(gkv_put(h[0], "k", 1, "v", 1, NULL), 0);
	gkv_close(h[0]);
}

UNIT_TEST(test_child_of_fork)
{
	struct gkv *h;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		char value[8];
		bool good = gkv_get(kv, "k", 1, value, 8, NULL) == -EPERM &&
			    gkv_put(kv, "k", 1, "v", 1, NULL) == -EPERM &&
			    gkv_ping(kv, NULL) == -EPERM &&
			    gkv_open(session, NULL, &h, NULL, 0) == -EPERM;

		gkv_close(kv);
		gkv_session_close(session);
		_exit(good ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(gkv_ping(kv, NULL), 0);
}

static int set_up(void **state)
{
	return one_client("256M", patient());
}

UNIT_GROUP(set_up, tear_down_in_order);
