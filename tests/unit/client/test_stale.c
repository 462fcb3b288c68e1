/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Directories, roots and hints that are stale, replaced, or none at all. */
#include <errno.h>
#include <stdlib.h>

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

static void rewrite(struct block *b, uint32_t incarnation, const char *value)
{
	assert_int_equal(b->value_len, strlen(value));
	b->state = block_state_make(incarnation, BLOCK_LIVE);
	memcpy(b->data + b->key_len, value, b->value_len);
	b->checksum = block_checksum(b, block_body_hash(b));
}

static void expect_by_hints(struct fake *f, const char *value)
{
	struct lookup l = { .key = KEY, .key_len = strlen(KEY) };

	assert_int_equal(lookup_run(&f->reader, &l, 1, hints_age(f->reader.hints)), 0);
	assert_int_equal(l.state, LOOKUP_FOUND);
	assert_int_equal(l.value_len, strlen(value));
	assert_memory_equal(l.value, value, strlen(value));
}

/* Where a hint leads to may be a block of the same key again, LIVE, which is not published yet. */
UNIT_TEST(test_a_hint_to_the_next_life_of_a_block, set_up, tear_down)
{
	struct hints *hints = aligned_alloc(alignof(struct hints), sizeof(*hints));
	struct fake *f = *state;
	struct block *b;

	assert_non_null(hints);
	assert_int_equal(hints_create(hints, HINT_BYTES, &f->err), 0);
	f->reader.hints = hints;
	b = fake_put(f, KEY, "first");
	expect_by_hints(f, "first");
	expect_by_hints(f, "first");
	assert_int_equal(f->reader.stats.hint_hits, 1);
	fake_bucket(f, KEY)->slot[0] = fake_block(f, KEY, "second", KEY, NULL);
	rewrite(b, block_state_incarnation(b->state) + 1, "third");
	expect_by_hints(f, "second");
	assert_int_equal(f->reader.stats.hint_stale, 1);
	expect_by_hints(f, "second");
	assert_int_equal(f->reader.stats.hint_hits, 2);
	hints_destroy(hints);
	free(hints);
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
