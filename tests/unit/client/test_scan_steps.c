/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Scans in chunks, in memory that changes between their calls and between their READs. Prints seeds
 * that failed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/src/call/scan.h"
#include "common/layout/slot.h"
#include "tests/lib/unit.h"
#include "changing_store.h"

#define ROUNDS 600u

UNIT_TEST(test_chunks_of_a_still_store, set_up, tear_down)
{
	static const size_t max[] = {
		1, 2, 63, 64, 65, 1000, SIZE_MAX / sizeof(struct gkv_record)
	};
	struct world_of_scan *w = *state;

	assert_int_equal(scan_in_chunks(w, 1), 0); /* empty */
	assert_int_equal(scan_in_chunks(w, 1000), 0);
	fill(w, STAY);
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(scan_in_chunks(w, max[i]), STAY);
		for (unsigned k = 0; k < STAY; k++)
			assert_int_equal(w->visits[k], 1);
	}
}

/* Exactly once what lives throughout, at most once what does not, in all forms of a scan. */
UNIT_TEST(test_chunks_while_all_changes)
{
	static const struct gkv_scan_options form[] = {
		{ 0 },
		{ .flags = GKV_SCAN_KEYS },
		{ .prefix = "stay", .prefix_len = 4 },
		{ .prefix = "stay", .prefix_len = 4, .flags = GKV_SCAN_KEYS },
	};
	unsigned wrong = 0, splits = 0, merges = 0;
	void *fresh;

	for (unsigned round = 0; round < ROUNDS; round++) {
		struct world_of_scan *w;

		set_up(&fresh);
		w = fresh;
		w->seed = round;
		w->options = form[round % 4];
		w->padding = round % 3 ? 0 : 700; /* heads are READ alone */
		fill(w, STAY + OTHERS / 2);
		w->every = 4 + round % 5; /* a look-up must end without the server */
		scan_in_chunks(w, 1 + next_random(w) % 70);
		for (unsigned i = 0; i < STAY + OTHERS; i++) {
			if (i < STAY ? w->visits[i] != 1 : w->visits[i] > 1) {
				printf("seed %u: %s was visited %u times\n", round, key_text(i),
				       w->visits[i]);
				wrong++;
			}
		}
		splits += w->splits;
		merges += w->merges;
		tear_down(&fresh);
	}
	assert_int_equal(wrong, 0);
	assert_true(splits > ROUNDS && merges > ROUNDS);
}

UNIT_TEST(test_two_scans_at_once, set_up, tear_down)
{
	struct world_of_scan *w = *state;
	struct gkv_cursor *s[2] = { NULL };
	struct gkv_record first, second, rec[7];
	unsigned count[2] = { 0 };
	bool more = true;

	fill(w, STAY);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(gkv_scan_open(&w->h, NULL, &s[i]), 0);
	assert_int_equal(gkv_scan_next(s[0], &first, 1), 1);
	count[0]++;
	while (more) {
		int a = gkv_scan_next(s[1], rec, 7), b;

		note(w, &first); /* untouched by the other one */
		b = gkv_scan_next(s[0], &second, 1);
		assert_true(a >= 0 && b >= 0);
		if (b)
			first = second;
		count[0] += (unsigned)b;
		count[1] += (unsigned)a;
		more = a || b;
	}
	assert_int_equal(count[0], STAY);
	assert_int_equal(count[1], STAY);
	for (unsigned i = 0; i < 2; i++)
		gkv_scan_close(s[i]);
}

/* A failed READ is made again; one step's records are not lost by the failure of the next. */
UNIT_TEST(test_lost_connections, set_up, tear_down)
{
	struct world_of_scan *w = *state;

	fill(w, STAY);
	for (unsigned at = 0; at < 40; at++) {
		w->f->fail_at_chain = (int)(w->f->chains + at);
		assert_int_equal(scan_in_chunks(w, 1), STAY);
		for (unsigned i = 0; i < STAY; i++)
			assert_int_equal(w->visits[i], 1);
	}
}

/* What cannot be read ends a call, not the scan. */
UNIT_TEST(test_errors_lose_nothing, set_up, tear_down)
{
	struct world_of_scan *w = *state;
	struct gkv_cursor *s;
	struct gkv_record rec[10];
	unsigned total = 0, errors = 0;
	_Atomic uint64_t *slot;
	uint64_t good;
	int n;

	fill(w, STAY);
	slot = find_slot(w->f, key_text(STAY / 2));
	good = *slot;
	*slot = UINT64_MAX;
	assert_int_equal(gkv_scan_open(&w->h, NULL, &s), 0);
	while ((n = gkv_scan_next(s, rec, 10)) != 0) {
		if (n > 0) {
			for (int i = 0; i < n; i++)
				note(w, &rec[i]);
			total += (unsigned)n;
			continue;
		}
		assert_int_equal(n, -EPROTO);
		assert_non_null(strstr(gkv_error(&w->h), "could not be read"));
		if (++errors == 2)
			*slot = good;
	}
	assert_int_equal(errors, 2);
	assert_int_equal(total, STAY);
	for (unsigned i = 0; i < STAY; i++)
		assert_int_equal(w->visits[i], 1);
	gkv_scan_close(s);
}

UNIT_TEST(test_another_life_of_the_server, set_up, tear_down)
{
	struct world_of_scan *w = *state;
	struct gkv_record rec;
	struct gkv_cursor *s;

	fill(w, STAY);
	assert_int_equal(gkv_scan_open(&w->h, NULL, &s), 0);
	assert_int_equal(gkv_scan_next(s, &rec, 1), 1);
	assert_true(s->next < s->count); /* there is more in its memory */
	w->h.reader.world->incarnation++;
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(gkv_scan_next(s, &rec, 1), -ESTALE);
		assert_non_null(strstr(gkv_error(&w->h), "restarted"));
	}
	gkv_scan_close(s);
	w->h.reader.world->incarnation--;
}

/* A record is replaced under the first pass, so that its key is looked up: in another life. */
static void die_under_a_look_up(struct fake *f, const struct read_op *ops, unsigned count)
{
	struct world_of_scan *w = f->arg;
	_Atomic uint64_t *slot = find_slot(f, key_text(0));

	if (w->splits == 0 && ops->remote == (uintptr_t)f->extent[FAKE_DATA] + slot_offset(*slot)) {
		make_obsolete(f, *slot);
		*slot = fake_block(f, key_text(0), "newer", key_text(0), NULL);
		w->splits = 1;
	} else if (w->splits == 1 && ops->len == BUCKET_BYTES && count == 1) {
		w->h.reader.world->incarnation++;
		w->splits = 2;
	}
}

UNIT_TEST(test_a_look_up_in_another_life, set_up, tear_down)
{
	struct world_of_scan *w = *state;
	struct gkv_record rec[10];
	struct gkv_cursor *s;

	fake_put(w->f, key_text(0), "value");
	assert_int_equal(gkv_scan_open(&w->h, NULL, &s), 0);
	assert_int_equal(reader_prepare(&w->h.reader), 0);
	w->f->before = die_under_a_look_up;
	assert_int_equal(gkv_scan_next(s, rec, 10), -ESTALE);
	assert_int_equal(w->splits, 2);
	gkv_scan_close(s);
	w->h.reader.world->incarnation--;
}

UNIT_TEST(test_a_call_ends_in_time, set_up, tear_down)
{
	struct world_of_scan *w = *state;
	struct gkv_record rec;
	struct gkv_cursor *s;
	unsigned late = 0;
	int n;

	fake_put(w->f, key_text(0), "value");
	w->h.session->settings.timeout_ms = 0; /* over at once: each call makes one step */
	assert_int_equal(gkv_scan_open(&w->h, NULL, &s), 0);
	while ((n = gkv_scan_next(s, &rec, 1)) == -ETIMEDOUT)
		assert_in_range(++late, 1, 1000);
	assert_int_equal(n, 1);
	while ((n = gkv_scan_next(s, &rec, 1)) == -ETIMEDOUT)
		assert_in_range(++late, 1, 1000);
	assert_int_equal(n, 0);
	assert_true(late >= 2);
	gkv_scan_close(s);
}

UNIT_TEST(test_memory_is_bounded, set_up, tear_down)
{
	struct world_of_scan *w = *state;
	struct gkv_cursor *s;
	struct gkv_record rec;
	size_t most = 0;

	fill(w, STAY);
	assert_int_equal(gkv_scan_open(&w->h, NULL, &s), 0);
	while (gkv_scan_next(s, &rec, 1) > 0) {
		if (most < s->seen.size)
			most = s->seen.size;
		assert_int_equal(s->memory_len, READER_ARENA_BYTES);
	}
	assert_true(most > 0 && most <= 4 * 2480);
	/* where the index runs away from it, it says so */
	s->end = s->settled = false;
	s->seen.count = SCAN_SEEN_MAX;
	s->pass.at = s->range_first = 0;
	memset(s->pass.done, 0, sizeof(s->pass.done));
	s->pass.bucket = 0;
	s->pass.width = SEGMENT_BUCKETS;
	assert_int_equal(gkv_scan_next(s, &rec, 1), -ENOMEM);
	assert_non_null(strstr(gkv_error(&w->h), "changes faster"));
	gkv_scan_close(s);
}

UNIT_TEST(test_arguments, set_up, tear_down)
{
	struct world_of_scan *w = *state;
	struct gkv_record rec;
	struct gkv_cursor *s = NULL;

	assert_int_equal(gkv_scan_open(NULL, NULL, &s), -EINVAL);
	assert_int_equal(gkv_scan_open(&w->h, NULL, NULL), -EINVAL);
	assert_int_equal(gkv_scan_next(NULL, &rec, 1), -EINVAL);
	assert_int_equal(gkv_scan_open(&w->h, NULL, &s), 0);
	assert_int_equal(gkv_scan_next(s, NULL, 1), -EINVAL);
	assert_int_equal(gkv_scan_next(s, &rec, 0), -EINVAL);
	gkv_scan_close(s);
	gkv_scan_close(NULL);
}
