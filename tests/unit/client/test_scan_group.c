/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Passes of a scan in memory made by hand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/src/call/scan.h"
#include "tests/lib/unit.h"
#include "fake_store.h"

#define RECORDS 300u

static int set_up(void **state)
{
	struct fake *f = fake_create(0);
	char key[32];

	for (unsigned i = 0; i < RECORDS; i++) {
		snprintf(key, sizeof(key), "key %u", i);
		fake_put(f, key, "value");
	}
	assert_int_equal(reader_prepare(&f->reader), 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	fake_destroy(*state);
	return 0;
}

static struct scan *scan_new(struct fake *f)
{
	struct scan *s = calloc(1, sizeof(*s));

	s->r = &f->reader;
	s->width = SEGMENT_BUCKETS;
	return s;
}

UNIT_TEST(test_passes_until_all_are_marked, set_up, tear_down)
{
	struct fake *f = *state;
	struct scan *s = scan_new(f);
	unsigned passes = 0, blocks = 0;

	do {
		assert_int_equal(scan_fetch(s), 0);
		assert_int_equal(s->found_count, RECORDS);
		assert_int_equal(s->bad, 0);
		assert_true(s->last == UINT64_MAX);
		for (unsigned i = 0; i < s->count; i++) {
			assert_int_equal(block_verify_any(s->fetched[i].block, s->fetched[i].len),
					 BLOCK_OK);
			assert_false(scan_marked(s, s->fetched[i].position));
			scan_mark(s, s->fetched[i].position);
		}
		blocks += s->count;
		assert_true(++passes <= RECORDS);
	} while (s->left);
	assert_int_equal(blocks, RECORDS);
	assert_int_equal(passes, (RECORDS + READER_BATCH - 1) / READER_BATCH);
	free(s);
}

UNIT_TEST(test_overflow_is_followed, set_up, tear_down)
{
	struct fake *f = *state;
	struct segment *seg = fake_segment_of(f, f->dir->entry[0]);
	struct scan *s = scan_new(f);

	seg->bucket[5].header |= 1ull << 54;
	seg->overflow[0].header |= 2ull << 54;
	seg->bucket[9].header |= 3ull << 54;
	seg->overflow[1].slot[30] = fake_block(f, "a", "b", "a", NULL);
	seg->overflow[2].slot[0] = fake_block(f, "c", "d", "c", NULL);
	assert_int_equal(scan_fetch(s), 0);
	assert_int_equal(s->found_count, RECORDS + 2);
	/* a chain that runs into another's is unsound: nothing is taken from it */
	seg->overflow[2].header |= 2ull << 54;
	assert_int_equal(scan_fetch(s), SCAN_AGAIN);
	assert_int_equal(s->count, 0);
	free(s);
}

UNIT_TEST(test_split_clears_the_marks, set_up, tear_down)
{
	struct fake *f = *state;
	struct segment *old = fake_segment_of(f, f->dir->entry[0]);
	struct scan *s = scan_new(f);
	uint64_t fresh[2];

	assert_int_equal(scan_fetch(s), 0);
	scan_mark(s, s->fetched[0].position);
	for (unsigned i = 0; i < 2; i++)
		fresh[i] = fake_segment(f, i, 1);
	for (unsigned b = 0; b < SEGMENT_BUCKETS; b++)
		old->bucket[b].header |= 1ull << 53;
	fake_directory(f, 1, 2);
	f->dir->entry[0] = fresh[0];
	f->dir->entry[1] = fresh[1];
	assert_int_equal(scan_fetch(s), SCAN_AGAIN);
	assert_int_equal(scan_fetch(s), 0);
	assert_true(s->last == UINT64_MAX >> 1);
	assert_int_equal(s->found_count, 0);
	for (unsigned i = 0; i < SCAN_DONE_LEN; i++)
		assert_true(s->done[i] == 0);
	free(s);
}

UNIT_TEST(test_bad_slots_are_counted, set_up, tear_down)
{
	struct fake *f = *state;
	struct segment *seg = fake_segment_of(f, f->dir->entry[0]);
	struct scan *s = scan_new(f);

	s->width = 1;
	memset(seg->bucket[0].slot, 0, sizeof(seg->bucket[0].slot));
	seg->bucket[0].slot[3] = UINT64_MAX;
	assert_int_equal(scan_fetch(s), 0);
	assert_int_equal(s->count, 0);
	assert_int_equal(s->bad, 1);
	free(s);
}
