/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Arguments that are NULL, zero, too large or contradict each other: each has its error. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "tests/unit/api/api.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

UNIT_TEST(test_no_handle)
{
	for (const struct api_call *c = api_calls; c->name; c++) {
		if (c->run(NULL) != -EINVAL)
			fail_msg("%s without a handle: %d", c->name, c->run(NULL));
		if (c->run(api_kv))
			fail_msg("%s: %s", c->name, gkv_error(api_kv));
	}
}

/* Calls by the key that they are given. */

static int get(const void *key, size_t len)
{
	char value[8];

	return gkv_get(api_kv, key, len, value, sizeof(value), NULL);
}

static int get_view(const void *key, size_t len)
{
	const void *view;

	return gkv_get_view(api_kv, key, len, &view, NULL);
}

static int exists(const void *key, size_t len)
{
	return gkv_exists(api_kv, key, len, NULL);
}

static int put(const void *key, size_t len)
{
	return gkv_put(api_kv, key, len, "v", 1, NULL);
}

static int put_with(const void *key, size_t len)
{
	return gkv_put_with(api_kv, key, len, "v", 1, NULL, NULL);
}

static int cas(const void *key, size_t len)
{
	uint64_t version = 1;

	return gkv_cas(api_kv, key, len, &version, "v", 1);
}

static int del(const void *key, size_t len)
{
	return gkv_del(api_kv, key, len);
}

static int del_if(const void *key, size_t len)
{
	return gkv_del_if(api_kv, key, len, 1);
}

static int incr(const void *key, size_t len)
{
	return gkv_incr(api_kv, key, len, 1, NULL);
}

static int incr_with(const void *key, size_t len)
{
	return gkv_incr_with(api_kv, key, len, 1, NULL, NULL, NULL);
}

static int append(const void *key, size_t len)
{
	return gkv_append(api_kv, key, len, "1", 1, NULL, NULL);
}

static int getdel(const void *key, size_t len)
{
	return gkv_getdel(api_kv, key, len, NULL, 0, NULL);
}

static int touch(const void *key, size_t len)
{
	return gkv_touch(api_kv, key, len, 0, NULL);
}

static int mget(const void *key, size_t len)
{
	struct gkv_item item = { .key = key, .key_len = len };

	return gkv_mget(api_kv, &item, 1) ? 1 : item.status;
}

static int (*const by_key[])(const void *, size_t) = {
	get,	get_view, exists, put,	put_with,  cas,	   del,
	del_if, incr,	  touch,  mget, incr_with, append, getdel,
};

UNIT_TEST(test_keys)
{
	static char longest[GKV_KEY_MAX + 1];
	static const struct {
		const char *key;
		size_t len;
	} bad[] = {
		{ NULL, 0 },
		{ NULL, 1 },
		{ NULL, SIZE_MAX },
		{ "", 0 },
		{ longest, 0 },
		{ longest, GKV_KEY_MAX + 1 },
		{ longest, 1 << 20 },
		{ longest, 1ul << 32 },
		{ longest, (1ul << 32) + 1 },
		{ longest, SIZE_MAX },
	};

	for (size_t i = 0; i < COUNT(by_key); i++)
		for (size_t j = 0; j < COUNT(bad); j++)
			REFUSED(by_key[i](bad[j].key, bad[j].len), -EINVAL, "key");
	for (size_t i = 0; i < COUNT(by_key); i++) { /* the longest and the shortest are good */
		int rc = by_key[i](longest, GKV_KEY_MAX);

		assert_true(rc != -EINVAL);
		assert_true(by_key[i]("", 1) != -EINVAL);
	}
}

UNIT_TEST(test_places_for_values)
{
	char value[8] = "unused";
	const void *view = value;
	size_t len = 99;

	assert_int_equal(gkv_put(api_kv, "k", 1, "value", 5, NULL), 0);
	REFUSED(gkv_get(api_kv, "k", 1, NULL, 1, NULL), -EINVAL, "NULL, of 1 bytes");
	REFUSED(gkv_get(api_kv, "k", 1, NULL, SIZE_MAX, &len), -EINVAL, "NULL");
	REFUSED(gkv_getdel(api_kv, "k", 1, NULL, 1, NULL), -EINVAL, "NULL, of 1 bytes");
	REFUSED(gkv_getdel(api_kv, "k", 1, value, 3, NULL), -EMSGSIZE, "room for 3");
	REFUSED(gkv_get(api_kv, "k", 1, NULL, 0, &len), -EMSGSIZE, "5 bytes");
	assert_int_equal(len, 5);
	len = 99;
	REFUSED(gkv_get(api_kv, "k", 1, value, 3, &len), -EMSGSIZE, "room for 3");
	assert_int_equal(len, 5);
	assert_memory_equal(value, "valsed", 7); /* the first 3 bytes, no more */
	REFUSED(gkv_get(api_kv, "k", 1, value, 0, NULL), -EMSGSIZE, "5 bytes");
	/* a room of any size that is said to be there */
	assert_int_equal(gkv_get(api_kv, "k", 1, value, SIZE_MAX, &len), 0);
	assert_memory_equal(value, "valued", 7);
	api_stain(api_kv);
	assert_int_equal(gkv_get_view(api_kv, "k", 1, &view, NULL), 0);
	assert_memory_equal(view, "value", 5);
	assert_int_equal(gkv_put(api_kv, "empty", 5, NULL, 0, NULL), 0);
	assert_int_equal(gkv_get(api_kv, "empty", 5, NULL, 0, &len), 0);
	assert_int_equal(len, 0);
}

UNIT_TEST(test_values)
{
	uint64_t version = 1;

	REFUSED(gkv_put(api_kv, "k", 1, NULL, 1, NULL), -EINVAL, "value is NULL");
	REFUSED(gkv_put(api_kv, "k", 1, NULL, SIZE_MAX, NULL), -EINVAL, "value");
	REFUSED(gkv_put(api_kv, "k", 1, "v", GKV_VALUE_MAX + 1ul, NULL), -EINVAL, "16777216");
	REFUSED(gkv_put(api_kv, "k", 1, "v", 1ul << 32, NULL), -EINVAL, "at most");
	REFUSED(gkv_put(api_kv, "k", 1, "v", SIZE_MAX, NULL), -EINVAL, "at most");
	REFUSED(gkv_put_with(api_kv, "k", 1, NULL, 1, NULL, NULL), -EINVAL, "value is NULL");
	REFUSED(gkv_put_with(api_kv, "k", 1, "v", SIZE_MAX, NULL, NULL), -EINVAL, "at most");
	REFUSED(gkv_append(api_kv, "k", 1, NULL, 1, NULL, NULL), -EINVAL, "value is NULL");
	REFUSED(gkv_append(api_kv, "k", 1, "v", SIZE_MAX, NULL, NULL), -EINVAL, "at most");
	REFUSED(gkv_cas(api_kv, "k", 1, &version, NULL, 1), -EINVAL, "value is NULL");
	REFUSED(gkv_cas(api_kv, "k", 1, &version, "v", SIZE_MAX), -EINVAL, "at most");
	REFUSED(gkv_cas(api_kv, "k", 1, NULL, "v", 1), -EINVAL, "version");
	assert_int_equal(version, 1);
}

UNIT_TEST(test_put_options)
{
	static const struct {
		struct gkv_write_options options;
		const char *word;
	} bad[] = {
		{ { .condition = 4 }, "condition is 4" },
		{ { .condition = UINT_MAX }, "condition is 4294967295" },
		{ { .flags = 2 }, "flags are 0x2" },
		{ { .flags = 1u << 31 }, "flags are 0x80000000" },
		{ { .reserved = UINT64_MAX }, "reserved" },
		{ { .condition = GKV_IF_VERSION, .version = 1, .reserved = 1 }, "reserved" },
		{ { .version = 1 }, "GKV_IF_VERSION" },
		{ { .condition = GKV_IF_ABSENT, .version = 1 }, "GKV_IF_VERSION" },
		{ { .condition = GKV_IF_PRESENT, .version = UINT64_MAX }, "GKV_IF_VERSION" },
		{ { .ttl_ms = GKV_TTL_MAX + 1 }, "3162240000000" },
		{ { .ttl_ms = UINT64_MAX }, "time to live" },
		{ { .condition = GKV_IF_ABSENT, .ttl_ms = GKV_TTL_MAX + 1 }, "time to live" },
		{ { .condition = GKV_IF_ABSENT, .flags = GKV_KEEP_EXPIRY }, "no expiry to keep" },
	};
	struct gkv_meta meta = { 1, 2, 3, 0 };
	struct gkv_write_options longest = { .ttl_ms = GKV_TTL_MAX };
	struct gkv_write_options keep = { .flags = GKV_KEEP_EXPIRY };
	struct gkv_write_options version = { .condition = GKV_IF_VERSION, .version = 1 };

	for (size_t i = 0; i < COUNT(bad); i++) {
		REFUSED(gkv_put_with(api_kv, "other", 5, "v", 1, &bad[i].options, &meta), -EINVAL,
			bad[i].word);
		assert_int_equal(gkv_exists(api_kv, "other", 5, NULL), -ENOENT);
		assert_true(meta.version == 1 && meta.expiry_ms == 2 && meta.value_len == 3);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		int rc = gkv_append(api_kv, "other", 5, "v", 1, &bad[i].options, &meta);

		assert_int_equal(rc, -EINVAL);
		rc = gkv_incr_with(api_kv, "other", 5, 1, &bad[i].options, NULL, &meta);
		assert_int_equal(rc, -EINVAL);
	}
	REFUSED(gkv_append(api_kv, "other", 5, "v", 1, &keep, NULL), -EINVAL, "takes 0x0");
	REFUSED(gkv_incr_with(api_kv, "other", 5, 1, &version, NULL, NULL), -EINVAL, "gkv_cas");
	REFUSED(gkv_touch(api_kv, "k", 1, GKV_TTL_MAX + 1, NULL), -EINVAL, "time to live");
	REFUSED(gkv_touch(api_kv, "k", 1, UINT64_MAX, &meta), -EINVAL, "time to live");
	assert_int_equal(gkv_put_with(api_kv, "other", 5, "v", 1, &longest, &meta), 0);
	assert_true(meta.expiry_ms > GKV_TTL_MAX);
	assert_int_equal(gkv_exists(api_kv, "other", 5, NULL), 0);
	assert_int_equal(gkv_touch(api_kv, "other", 5, GKV_TTL_MAX, &meta), 0);
	assert_true(meta.expiry_ms > GKV_TTL_MAX);
	assert_int_equal(gkv_del(api_kv, "other", 5), 0);
}

/* Refusals of the server's. */
UNIT_TEST(test_conditions)
{
	struct gkv_write_options absent = { .condition = GKV_IF_ABSENT };
	struct gkv_write_options version = { .condition = GKV_IF_VERSION };
	struct gkv_meta meta;
	uint64_t there, other;
	int64_t sum = 5;

	assert_int_equal(gkv_put(api_kv, "there", 5, "text", 4, &there), 0);
	REFUSED(gkv_put_with(api_kv, "there", 5, "v", 1, &absent, &meta), -EEXIST, "already");
	assert_int_equal(meta.version, there);
	version.version = there + 1;
	REFUSED(gkv_put_with(api_kv, "there", 5, "v", 1, &version, &meta), -EEXIST, "version");
	assert_int_equal(meta.version, there);
	other = 0;
	REFUSED(gkv_cas(api_kv, "there", 5, &other, "v", 1), -EEXIST, "get it again");
	assert_int_equal(other, there);
	REFUSED(gkv_del_if(api_kv, "there", 5, there + 1), -EEXIST, "get it again");
	REFUSED(gkv_del_if(api_kv, "there", 5, 0), -EEXIST, "get it again");
	REFUSED(gkv_incr(api_kv, "there", 5, 1, &sum), -EDOM, "no decimal number");
	assert_int_equal(gkv_put(api_kv, "max", 3, "9223372036854775807", 19, NULL), 0);
	REFUSED(gkv_incr(api_kv, "max", 3, 1, &sum), -ERANGE, "64 bits");
	assert_int_equal(gkv_put(api_kv, "min", 3, "-9223372036854775808", 20, NULL), 0);
	REFUSED(gkv_incr(api_kv, "min", 3, -1, &sum), -ERANGE, "64 bits");
	assert_int_equal(gkv_put(api_kv, "max", 3, "9223372036854775808", 19, NULL), 0);
	REFUSED(gkv_incr(api_kv, "max", 3, INT64_MIN, NULL), -EDOM, "64 bits");
	assert_int_equal(sum, 5);
	/* nothing of it has changed anything */
	assert_int_equal(gkv_exists(api_kv, "there", 5, &meta), 0);
	assert_true(meta.version == there && meta.value_len == 4 && meta.expiry_ms == 0);
}

UNIT_TEST(test_batches)
{
	static char key[GKV_KEY_MAX + 1];
	static struct gkv_item item[300];
	char value[8] = "";

	assert_int_equal(gkv_put(api_kv, "good", 4, "value", 5, NULL), 0);
	REFUSED(gkv_mget(api_kv, NULL, 1), -EINVAL, "items are NULL");
	REFUSED(gkv_mget(api_kv, NULL, SIZE_MAX), -EINVAL, "items are NULL");
	assert_int_equal(gkv_mget(api_kv, NULL, 0), 0);
	item[0].status = 77;
	assert_int_equal(gkv_mget(api_kv, item, 0), 0);
	assert_int_equal(item[0].status, 77);
	for (unsigned i = 0; i < COUNT(item); i++) {
		item[i] = (struct gkv_item){ .key = "good", .key_len = 4, .len = 99, .status = 77 };
		if (i % 6 == 1)
			item[i].key = NULL;
		else if (i % 6 == 2)
			item[i].key_len = 0;
		else if (i % 6 == 3)
			item[i].key = key, item[i].key_len = sizeof(key);
		else if (i % 6 == 4)
			item[i].cap = 8;
		else if (i % 6 == 5)
			item[i].value = value, item[i].cap = sizeof(value);
		item[i].options.reserved = 77; /* not looked at */
		item[i].meta.version = UINT64_MAX;
	}
	api_stain(api_kv);
	assert_int_equal(gkv_mget(api_kv, item, COUNT(item)), 0);
	for (unsigned i = 0; i < COUNT(item); i++) {
		unsigned kind = i % 6;

		assert_int_equal(item[i].status, kind == 0 ? -EMSGSIZE : kind == 5 ? 0 : -EINVAL);
		assert_int_equal(item[i].len, kind == 0 || kind == 5 ? 5 : 0);
		assert_true(kind && kind < 5 ? item[i].meta.version == 0
					     : item[i].meta.version != UINT64_MAX);
	}
	assert_memory_equal(value, "value", 5);
	assert_non_null(strstr(gkv_error(api_kv), "place for a value"));
	item[0] = (struct gkv_item){ .key = "good", .key_len = 4, .reserved = { 1 } };
	assert_int_equal(gkv_mget(api_kv, item, 1), 0);
	assert_int_equal(item[0].status, -EINVAL);
	assert_non_null(strstr(gkv_error(api_kv), "reserved field"));
	api_works(api_kv);
}

static int stop(void *arg, const void *key, size_t key_len, const void *value,
		const struct gkv_meta *meta)
{
	return *(int *)arg;
}

UNIT_TEST(test_other_places)
{
	int values[] = { 1, -1, INT_MAX, INT_MIN, -ECONNRESET, -ENOENT };
	uint64_t ns = 0, ms = 0;

	REFUSED(gkv_clock(api_kv, NULL), -EINVAL, "clock is NULL");
	assert_int_equal(gkv_clock(NULL, &ms), -EINVAL);
	assert_int_equal(ms, 0);
	assert_int_equal(gkv_clock(api_kv, &ms), 0);
	assert_true(ms > 1600000000000); /* ms, of this century */
	REFUSED(gkv_scan(api_kv, NULL, NULL, NULL), -EINVAL, "NULL");
	REFUSED(gkv_server_stats(api_kv, NULL), -EINVAL, "NULL");
	REFUSED(gkv_save(api_kv, NULL), -EOPNOTSUPP, "--data-dir");
	REFUSED(gkv_save(api_kv, &ns), -EOPNOTSUPP, "--data-dir");
	assert_int_equal(gkv_put(api_kv, "k", 1, "v", 1, NULL), 0);
	for (size_t i = 0; i < COUNT(values); i++) /* whatever the visitor says ends it */
		assert_int_equal(gkv_scan(api_kv, NULL, stop, &values[i]), values[i]);
	assert_int_equal(gkv_ping(api_kv, NULL), 0);
	assert_int_equal(gkv_ping(api_kv, &ns), 0);
	assert_true(ns > 0);
	assert_int_equal(gkv_exists(api_kv, "k", 1, NULL), 0);
	assert_int_equal(gkv_incr(api_kv, "n", 1, INT64_MIN, NULL), 0);
	assert_int_equal(gkv_touch(api_kv, "k", 1, 0, NULL), 0);
}

UNIT_GROUP(api_set_up, api_tear_down);
