/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Directories and roots that are stale, replaced, or none at all. */
#include <errno.h>

#include "tests/lib/unit.h"
#include "expect.h"

/* The segment of KEY is replaced by two of one bit more; blocks do not move. */
static void split(struct fake *f, bool publish)
{
	uint64_t hash = fake_hash(f, KEY);
	unsigned depth = f->dir->depth;
	uint32_t index = hash_prefix(hash, depth);
	uint64_t old = f->dir->entry[index], fresh[2];
	struct segment *from = fake_segment_of(f, old);
	struct directory *before = f->dir;

	for (unsigned i = 0; i < 2; i++) {
		fresh[i] = fake_segment(f, index << 1 | i, depth + 1);
		for (unsigned b = 0; b < SEGMENT_BUCKETS; b++)
			memcpy(fake_segment_of(f, fresh[i])->bucket[b].slot, from->bucket[b].slot,
			       sizeof(from->bucket[b].slot));
	}
	for (unsigned b = 0; b < SEGMENT_BUCKETS; b++)
		from->bucket[b].header |= 1ull << 53;
	if (!publish)
		return;
	fake_directory(f, depth + 1, before->incarnation + 1);
	for (uint32_t i = 0; i < 2u << depth; i++)
		f->dir->entry[i] = before->entry[i >> 1];
	f->dir->entry[index << 1] = fresh[0];
	f->dir->entry[index << 1 | 1] = fresh[1];
}

UNIT_TEST(test_directory_doubled, set_up, tear_down)
{
	struct fake *f = *state;

	fake_put(f, KEY, VALUE);
	expect_found(f, KEY, VALUE);
	split(f, true);
	expect_found(f, KEY, VALUE);
	assert_int_equal(f->reader.stats.retry_directory, 1);
	assert_int_equal(f->reader.dir->depth, 3);
	expect_found(f, KEY, VALUE);
	assert_int_equal(f->reader.stats.retry_directory, 1);
}

UNIT_TEST(test_moved_but_not_published_asks, set_up, tear_down)
{
	struct fake *f = *state;

	fake_put(f, KEY, VALUE);
	split(f, false);
	expect_state(f, KEY, LOOKUP_ASK);
	assert_int_equal(f->reader.stats.retry_directory, READER_ATTEMPTS + 1);
}

UNIT_TEST(test_entry_replaced, set_up, tear_down)
{
	struct fake *f = *state;
	uint32_t index = hash_prefix(fake_hash(f, KEY), 2);
	uint64_t old, fresh;

	fake_put(f, KEY, VALUE);
	expect_found(f, KEY, VALUE);
	old = f->dir->entry[index];
	fresh = fake_segment(f, index, 2);
	memcpy(fake_segment_of(f, fresh)->bucket[hash_bucket(fake_hash(f, KEY))].slot,
	       fake_bucket(f, KEY)->slot, sizeof(fake_bucket(f, KEY)->slot));
	/* the old address now holds a segment of another prefix */
	for (unsigned b = 0; b < SEGMENT_BUCKETS; b++) {
		fake_segment_of(f, old)->bucket[b].header =
			bucket_header_make(999, index ^ 1, 2, false, 0);
		memset(fake_segment_of(f, old)->bucket[b].slot, 0, BUCKET_SLOTS * 8);
	}
	f->dir->entry[index] = fresh;
	expect_found(f, KEY, VALUE);
	assert_int_equal(f->reader.stats.retry_directory, 1);
}

UNIT_TEST(test_entries_that_lead_nowhere, set_up, tear_down)
{
	struct fake *f = *state;
	uint32_t index = hash_prefix(fake_hash(f, KEY), 2);
	uint64_t good = f->dir->entry[index];
	const uint64_t lies[] = {
		directory_entry_make(1, 2, FAKE_INDEX, 0xffff),
		directory_entry_make(1, 2, FAKE_DATA, 0),
		directory_entry_make(1, 2, 0xfff, 0),
		0,
	};

	fake_put(f, KEY, VALUE);
	for (unsigned i = 0; i < 4; i++) {
		f->dir->entry[index] = lies[i];
		reader_drop(&f->reader);
		f->reader.world = world_new(FAKE_INCARNATION, (uintptr_t)f->root, 100);
		expect_state(f, KEY, LOOKUP_ASK);
	}
	f->dir->entry[index] = good;
	expect_found(f, KEY, VALUE);
}

UNIT_TEST(test_roots_that_are_none, set_up, tear_down)
{
	struct fake *f = *state;
	struct root good = *f->root;

	f->root->magic ^= 1;
	assert_int_equal(run(f), -EPROTO);
	*f->root = good;
	f->root->layout_hash ^= 1;
	assert_int_equal(run(f), -EPROTONOSUPPORT);
	assert_non_null(strstr(f->err.text, "layout"));
	*f->root = good;
	f->root->server_incarnation++;
	assert_int_equal(run(f), -EPROTO);
	*f->root = good;
	f->root->extents.checksum++;
	assert_int_equal(run(f), -EPROTO);
	*f->root = good;
	f->root->directory.checksum++;
	assert_int_equal(run(f), -EPROTO);
	*f->root = good;
	f->root->directory.depth = 31;
	root_directory_seal(&f->root->directory);
	assert_int_equal(run(f), -EPROTO);
	f->root->directory = good.directory;
	f->root->directory.offset = FAKE_EXTENT_BYTES - 64;
	root_directory_seal(&f->root->directory);
	assert_int_equal(run(f), -EPROTO);
	f->root->directory = good.directory;
	f->dir->server_incarnation++;
	assert_int_equal(run(f), -EPROTO);
	f->dir->server_incarnation--;
	assert_int_equal(run(f), 0);
}
