/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What scans of keys alone and of a prefix READ. That they find all is in test_scan_steps.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "changing_store.h"
#include "tests/lib/unit.h"

/* A scan of a still store: how much of its blocks it READs. */
static void expect_reads(struct world_of_scan *w, const char *prefix, unsigned flags,
			 unsigned records, uint64_t reads, uint64_t bytes)
{
	uint64_t reads_before = w->f->data_reads, bytes_before = w->f->data_bytes;

	w->options = (struct gkv_scan_options){ prefix, strlen(prefix), flags, { 0 } };
	assert_int_equal(scan_in_chunks(w, 10), records);
	assert_int_equal(w->f->data_reads - reads_before, reads);
	assert_int_equal(w->f->data_bytes - bytes_before, bytes);
}

UNIT_TEST(only_heads_are_read, set_up, tear_down)
{
	const uint64_t block = 1088; /* 48, a key of 6 to 8, and 1029 bytes are 17 units of 64 */
	struct world_of_scan *w = *state;

	w->padding = 1024;
	fill(w, STAY);
	expect_reads(w, "", 0, STAY, STAY, STAY * block);
	expect_reads(w, "", GKV_SCAN_KEYS, STAY, STAY, STAY * 128ull);
	expect_reads(w, "stay 1700", 0, 0, STAY, STAY * 128ull);
	/* stay 17, stay 170 to stay 179 */
	expect_reads(w, "stay 17", 0, 11, STAY + 11, STAY * 128ull + 11 * block);
	expect_reads(w, "stay ", 0, STAY, 2 * STAY, STAY * (128ull + block));
}

UNIT_TEST(heads_are_as_long_as_their_keys, set_up, tear_down)
{
	const struct gkv_scan_options keys = { .flags = GKV_SCAN_KEYS };
	struct world_of_scan *w = *state;
	struct gkv_cursor *s;
	struct gkv_record rec;
	char text[GKV_KEY_MAX + 1];
	unsigned total = 0;

	w->padding = 1500;
	memset(text, 'k', sizeof(text));
	text[GKV_KEY_MAX] = '\0';
	for (unsigned i = 0; i < STAY; i++) { /* 300 bytes, and one of the longest */
		text[300] = i == STAY - 1 ? 'k' : '\0';
		memcpy(text, key_text(i), strlen(key_text(i)));
		fake_put(w->f, text, padded(w, "value"));
	}
	assert_int_equal(gkv_scan_open(&w->h, &keys, &s), 0);
	while (gkv_scan_next(s, &rec, 1) == 1) {
		assert_int_equal(rec.meta.value_len, 1505);
		assert_true(rec.key_len == 300 || rec.key_len == GKV_KEY_MAX);
		total++;
	}
	assert_int_equal(total, STAY);
	assert_in_range(w->f->data_reads, STAY + 2, STAY + 2 * READER_BATCH);
	assert_in_range(w->f->data_bytes, STAY * 384, STAY * 600);
	gkv_scan_close(s);
}

UNIT_TEST(options_that_are_none, set_up, tear_down)
{
	static const struct gkv_scan_options bad[] = {
		{ .flags = 2 },
		{ .reserved = { 0, 0, 0, 0, 1 } },
		{ .prefix_len = 1 },
		{ .prefix = bad, .prefix_len = GKV_KEY_MAX + 1 },
	};
	struct world_of_scan *w = *state;
	struct gkv_cursor *s = NULL;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(gkv_scan_open(&w->h, &bad[i], &s), -EINVAL);
		assert_non_null(strstr(gkv_error(&w->h), i < 2 ? "reserved" : "prefix"));
		assert_null(s);
	}
}
