/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Scans of keys alone and of a prefix, in memory that changes as in test_scan_steps.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "changing_store.h"
#include "tests/lib/unit.h"

#define ROUNDS 200u

static int set_up(void **state)
{
	struct world_of_scan *w = calloc(1, sizeof(*w));

	w->f = fake_create(DEPTH_LEAST);
	w->f->arg = w;
	w->f->before = before_chain;
	fake_handle_begin(&w->h, w->f);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world_of_scan *w = *state;

	fake_handle_end(&w->h, w->f);
	fake_destroy(w->f);
	free(w);
	return 0;
}

static void note(struct world_of_scan *w, const struct gkv_scan_options *o,
		 const struct gkv_record *rec)
{
	char key[32] = "";
	unsigned i;

	assert_in_range(rec->key_len, o->prefix_len, 31);
	memcpy(key, rec->key, rec->key_len);
	assert_int_equal(sscanf(key, "%*s %u", &i), 1);
	assert_string_equal(key, key_text(i));
	assert_memory_equal(key, o->prefix, o->prefix_len);
	assert_int_equal(rec->meta.value_len, strlen(padded(w, "value")));
	assert_true(rec->meta.version > 0 && rec->meta.expiry_ms == 0);
	if (o->flags & GKV_SCAN_KEYS)
		assert_null(rec->value);
	else if (memcmp(rec->value, padded(w, "value"), rec->meta.value_len) != 0)
		assert_memory_equal(rec->value, padded(w, "newer"), rec->meta.value_len);
	w->visits[i]++;
}

/* Returns how many records. */
static unsigned scan_all(struct world_of_scan *w, const struct gkv_scan_options *o, size_t max)
{
	struct gkv_record *rec = calloc(max, sizeof(*rec));
	struct gkv_cursor *s = NULL;
	unsigned total = 0;
	int n;

	memset(w->visits, 0, sizeof(w->visits));
	assert_int_equal(gkv_scan_open(&w->h, o, &s), 0);
	while ((n = gkv_scan_next(s, rec, max)) > 0) {
		for (int i = 0; i < n; i++)
			note(w, o, &rec[i]);
		total += (unsigned)n;
		if (w->every && next_random(w) % 4 == 0)
			change(w);
	}
	assert_int_equal(n, 0);
	gkv_scan_close(s);
	free(rec);
	return total;
}

/* Exactly once what lives throughout and has the prefix, nothing that lacks it. */
UNIT_TEST(prefixes_and_keys_while_all_changes)
{
	static const struct gkv_scan_options form[] = {
		{ .flags = GKV_SCAN_KEYS },
		{ .prefix = "stay", .prefix_len = 4 },
		{ .prefix = "stay", .prefix_len = 4, .flags = GKV_SCAN_KEYS },
	};
	unsigned wrong = 0, splits = 0;
	uint64_t obsolete = 0;
	void *fresh;

	for (unsigned round = 0; round < ROUNDS; round++) {
		const struct gkv_scan_options *o = &form[round % 3];
		struct world_of_scan *w;

		set_up(&fresh);
		w = fresh;
		w->seed = round;
		w->padding = round % 2
				     ? 700
				     : 80; /* its head is READ alone, or not if values are wanted */
		fill(w, STAY + OTHERS / 2);
		w->every = 4 + round % 5;
		scan_all(w, o, 1 + next_random(w) % 70);
		for (unsigned i = 0; i < STAY + OTHERS; i++) {
			unsigned most = i < STAY || !o->prefix_len;

			if (i < STAY ? w->visits[i] != 1 : w->visits[i] > most) {
				printf("seed %u: %s was visited %u times\n", round, key_text(i),
				       w->visits[i]);
				wrong++;
			}
		}
		splits += w->splits;
		obsolete += w->h.reader.stats.retry_obsolete;
		tear_down(&fresh);
	}
	assert_int_equal(wrong, 0);
	assert_true(splits > ROUNDS / 2 && obsolete > ROUNDS / 4);
}

/* A scan of a still store: how much of its blocks it READs. */
static void expect_reads(struct world_of_scan *w, const struct gkv_scan_options *o,
			 unsigned records, uint64_t reads, uint64_t bytes)
{
	uint64_t reads_before = w->f->data_reads, bytes_before = w->f->data_bytes;

	assert_int_equal(scan_all(w, o, 10), records);
	assert_int_equal(w->f->data_reads - reads_before, reads);
	assert_int_equal(w->f->data_bytes - bytes_before, bytes);
}

UNIT_TEST(only_heads_are_read, set_up, tear_down)
{
	const struct gkv_scan_options all = { 0 }, keys = { .flags = GKV_SCAN_KEYS },
				      one = { .prefix = "stay 17", .prefix_len = 7 },
				      most = { .prefix = "stay ", .prefix_len = 5 },
				      none = { .prefix = "stay 1700", .prefix_len = 9 };
	const uint64_t block = 1088; /* 48, a key of 6 to 8, and 1029 bytes are 17 units of 64 */
	struct world_of_scan *w = *state;

	w->padding = 1024;
	fill(w, STAY);
	expect_reads(w, &all, STAY, STAY, STAY * block);
	expect_reads(w, &keys, STAY, STAY, STAY * 128ull);
	expect_reads(w, &none, 0, STAY, STAY * 128ull);
	/* stay 17, stay 170 to stay 179 */
	expect_reads(w, &one, 11, STAY + 11, STAY * 128ull + 11 * block);
	expect_reads(w, &most, STAY, 2 * STAY, STAY * (128ull + block));
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
