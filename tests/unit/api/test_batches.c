/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* gkv_mput(), gkv_mdel(), scans in chunks. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "tests/unit/api/api.h"
#include "tests/unit/client/with_server.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define RECORDS	     200u

static char key[GKV_KEY_MAX + 1], one[] = "v", other[] = "w", five[] = "value";

/* What may be wrong with an item; the last of them is good. */
static const struct gkv_item kinds[] = {
	{ .key = NULL, .key_len = 4, .value = one, .len = 1 },
	{ .key = "a", .key_len = 0, .value = one, .len = 1 },
	{ .key = key, .key_len = sizeof(key), .value = one, .len = 1 },
	{ .key = "a", .key_len = 1, .value = NULL, .len = 1 },
	{ .key = "a", .key_len = 1, .value = one, .len = GKV_VALUE_MAX + 1ul },
	{ .key = "a", .key_len = 1, .value = one, .len = SIZE_MAX },
	{ .key = "a", .key_len = 1, .value = one, .len = 1, .options = { .condition = 4 } },
	{ .key = "a", .key_len = 1, .value = one, .len = 1, .options = { .reserved = 1 } },
	{ .key = "a", .key_len = 1, .value = one, .len = 1, .options = { .version = 1 } },
	{ .key = "a", .key_len = 1, .value = one, .len = 1, .options = { .ttl_ms = UINT64_MAX } },
	{ .key = "a", .key_len = 1, .value = one, .len = 1, .reserved = { [6] = 1 } },
	{ .key = "good", .key_len = 4, .value = five, .len = 5 },
};

UNIT_TEST(test_mput, api_set_up, api_tear_down)
{
	static struct gkv_item item[33 * COUNT(kinds)];
	char value[8];
	size_t len;

	REFUSED(gkv_mput(api_kv, NULL, 1), -EINVAL, "NULL");
	REFUSED(gkv_mput(api_kv, NULL, SIZE_MAX), -EINVAL, "NULL");
	assert_int_equal(gkv_mput(api_kv, NULL, 0), 0);
	for (size_t i = 0; i < COUNT(item); i++) {
		item[i] = kinds[i % COUNT(kinds)];
		item[i].cap = SIZE_MAX; /* not looked at */
		item[i].status = 77;
	}
	assert_int_equal(gkv_mput(api_kv, item, 0), 0);
	assert_int_equal(item[0].status, 77);
	api_stain(api_kv);
	assert_int_equal(gkv_mput(api_kv, item, COUNT(item)), 0);
	for (size_t i = 0; i < COUNT(item); i++) {
		int good = i % COUNT(kinds) == COUNT(kinds) - 1;

		if (item[i].status != (good ? 0 : -EINVAL))
			fail_msg("item %zu: %d", i % COUNT(kinds), item[i].status);
		if (good)
			assert_true(item[i].meta.version && item[i].meta.value_len == 5);
	}
	assert_true(strlen(gkv_error(api_kv)) > 10);
	assert_int_equal(gkv_get(api_kv, "good", 4, value, sizeof(value), &len), 0);
	assert_memory_equal(value, "value", 5);
	assert_int_equal(gkv_exists(api_kv, "a", 1, NULL), -ENOENT);
	api_works(api_kv);
}

/* Conditions are those of the calls for one key. */
UNIT_TEST(test_conditions, api_set_up, api_tear_down)
{
	struct gkv_item item[4] = { 0 };
	uint64_t version;

	assert_int_equal(gkv_put(api_kv, "there", 5, "v", 1, &version), 0);
	for (unsigned i = 0; i < 4; i++) {
		item[i] = (struct gkv_item){ .key = i & 1 ? "there" : "absent",
					     .key_len = i & 1 ? 5 : 6,
					     .value = other,
					     .len = 1 };
		item[i].options.condition = i < 2 ? GKV_IF_VERSION : GKV_IF_PRESENT;
		item[i].options.version = i < 2 ? version + 1 : 0;
	}
	assert_int_equal(gkv_mput(api_kv, item, 2), 0);
	assert_int_equal(item[0].status, -ENOENT);
	assert_int_equal(item[1].status, -EEXIST);
	assert_int_equal(item[1].meta.version, version);
	assert_int_equal(gkv_mdel(api_kv, item, 2), 0);
	assert_int_equal(item[0].status, -ENOENT);
	assert_int_equal(item[1].status, -EEXIST);
	assert_int_equal(gkv_mput(api_kv, item + 2, 2), 0);
	assert_int_equal(item[2].status, -ENOENT);
	assert_int_equal(item[3].status, 0);
}

UNIT_TEST(test_mdel, api_set_up, api_tear_down)
{
	struct gkv_item item[8] = { 0 };

	REFUSED(gkv_mdel(api_kv, NULL, 1), -EINVAL, "NULL");
	REFUSED(gkv_mdel(api_kv, NULL, SIZE_MAX), -EINVAL, "NULL");
	assert_int_equal(gkv_mdel(api_kv, NULL, 0), 0);
	assert_int_equal(gkv_put(api_kv, "good", 4, "value", 5, NULL), 0);
	for (unsigned i = 0; i < 8; i++)
		item[i] = (struct gkv_item){
			.key = "good", .key_len = 4, .status = 77, .meta = { 7, 8, 9 }
		};
	item[1].key = NULL;
	item[2].key_len = 0;
	item[3].key_len = GKV_KEY_MAX + 1;
	item[4].options.condition = 4;
	item[5].options.version = 1;
	item[6].key = "absent", item[6].key_len = 6;
	item[7].key = "absent", item[7].key_len = 6;
	item[7].len = item[7].cap = SIZE_MAX; /* not looked at, as the next one */
	item[7].options.ttl_ms = UINT64_MAX;
	api_stain(api_kv);
	assert_int_equal(gkv_mdel(api_kv, item, 8), 0);
	for (unsigned i = 0; i < 8; i++)
		if (item[i].status != (i == 0  ? 0
				       : i < 6 ? -EINVAL
					       : -ENOENT) ||
		    item[i].meta.version || item[i].meta.expiry_ms || item[i].meta.value_len)
			fail_msg("item %u: %d", i, item[i].status);
	assert_int_equal(gkv_exists(api_kv, "good", 4, NULL), -ENOENT);
	api_works(api_kv);
}

/* An end that comes early: no item says that it was done. */
UNIT_TEST(test_server_gone, api_set_up, api_tear_down)
{
	static struct gkv_item item[RECORDS];
	struct gkv_session *s;
	struct gkv *kv;

	api_open_brief(&s, &kv);
	server_stop(api_server, SIGKILL);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < RECORDS; i++)
			item[i] = (struct gkv_item){
				.key = "good", .key_len = 4, .value = one, .len = 1, .status = 77
			};
		assert_true((round ? gkv_mdel : gkv_mput)(kv, item, RECORDS) < 0);
		for (unsigned i = 0; i < RECORDS; i++)
			assert_true(item[i].status == -ECANCELED || item[i].status == -EREMOTEIO ||
				    item[i].status == -ETIMEDOUT);
	}
	api_server = server_start(&api_port, "128M");
	/* the next attempt may be due after one call's time */
	for (unsigned i = 0; i < 50 && gkv_mput(kv, item, 1); i++)
		;
	assert_int_equal(item[0].status, 0);
	gkv_close(kv);
	gkv_session_close(s);
}

static void fill(struct gkv *kv)
{
	char text[16];

	for (unsigned i = 0; i < RECORDS; i++) {
		int len = snprintf(text, sizeof(text), "chunk %u", i);

		assert_int_equal(gkv_put(kv, text, (size_t)len, text, (size_t)len, NULL), 0);
	}
}

static void note(unsigned *seen, const struct gkv_record *r)
{
	char text[GKV_KEY_MAX + 1] = "";
	unsigned number;

	memcpy(text, r->key, r->key_len);
	if (sscanf(text, "chunk %u", &number) != 1)
		return;
	assert_true(number < RECORDS && seen[number]++ == 0);
	assert_int_equal(r->meta.value_len, r->key_len);
	assert_memory_equal(r->value, text, r->key_len);
}

UNIT_TEST(test_chunks, api_set_up, api_tear_down)
{
	static const size_t most[] = { 1, 3, 64, 1000 };
	struct gkv_record record[1000];
	struct gkv_cursor *scan, *second;
	int n;

	REFUSED(gkv_scan_open(api_kv, NULL, NULL), -EINVAL, "NULL");
	assert_int_equal(gkv_scan_open(NULL, NULL, &scan), -EINVAL);
	assert_int_equal(gkv_scan_next(NULL, record, 1), -EINVAL);
	gkv_scan_close(NULL);
	fill(api_kv);
	for (unsigned i = 0; i < COUNT(most); i++) {
		unsigned seen[RECORDS] = { 0 };

		assert_int_equal(gkv_scan_open(api_kv, NULL, &scan), 0);
		assert_int_equal(gkv_scan_next(scan, NULL, 1), -EINVAL); /* and it goes on */
		while ((n = gkv_scan_next(scan, record, most[i])) > 0) {
			assert_true((size_t)n <= most[i]);
			for (int j = 0; j < n; j++)
				note(seen, &record[j]);
			api_works(api_kv); /* other calls may come in between */
		}
		assert_int_equal(n, 0);
		assert_int_equal(gkv_scan_next(scan, record, 1), 0); /* that were all, still */
		gkv_scan_close(scan);
		for (unsigned j = 0; j < RECORDS; j++)
			assert_int_equal(seen[j], 1);
	}
	/* two at once, one of which is not finished */
	assert_int_equal(gkv_scan_open(api_kv, NULL, &scan), 0);
	assert_int_equal(gkv_scan_open(api_kv, NULL, &second), 0);
	assert_int_equal(gkv_scan_next(scan, record, 1), 1);
	assert_int_equal(gkv_scan_next(second, record, 1), 1);
	gkv_scan_close(scan);
	assert_int_equal(gkv_scan_next(second, record, 1), 1);
	gkv_scan_close(second);
	api_works(api_kv);
}

UNIT_TEST(test_server_started_anew, api_set_up, api_tear_down)
{
	struct gkv_record record[4];
	struct gkv_cursor *scan;

	fill(api_kv);
	assert_int_equal(gkv_scan_open(api_kv, NULL, &scan), 0);
	assert_in_range(gkv_scan_next(scan, record, 4), 1, 4);
	server_stop(api_server, SIGKILL);
	api_server = server_start(&api_port, "128M");
	fill(api_kv);
	assert_int_equal(gkv_scan_next(scan, record, 4), -ESTALE);
	assert_true(strlen(gkv_error(api_kv)) > 10);
	assert_int_equal(gkv_scan_next(scan, record, 4), -ESTALE);
	gkv_scan_close(scan);
	api_works(api_kv);
	/* one that begins now is of the server that is there, whatever its handle knew */
	server_stop(api_server, SIGKILL);
	api_server = server_start(&api_port, "128M");
	assert_int_equal(gkv_scan_open(api_kv, NULL, &scan), 0);
	assert_int_equal(gkv_scan_next(scan, record, 4), 0);
	gkv_scan_close(scan);
}
