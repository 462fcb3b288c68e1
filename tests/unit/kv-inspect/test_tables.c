/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* check: root, extent table and directory, each broken in a way of its own. */
#include "tests/unit/kv-inspect/inspected.h"

#include "common/base/hash.h"

UNIT_TEST(test_a_sound_store_is_clean, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;

	inspected_clean(i);
	assert_int_equal(i->pauses, 0);
	assert_int_equal(i->check.totals.by_depth[INSPECTED_DEPTH].segments, 1 << INSPECTED_DEPTH);
	assert_int_equal(i->check.totals.by_depth[INSPECTED_DEPTH].used, INSPECTED_RECORDS);
	assert_int_equal(i->check.totals.extents[EXTENT_DATA], 1);
	assert_int_equal(i->check.totals.longest_chain, 1);
	assert_int_equal(i->check.epoch_first, 5);
}

UNIT_TEST(test_root_fields, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct root *root = i->f->root;

	root->magic ^= 1;
	inspected_only(i, FINDING_ROOT, "magic");
	root->magic ^= 1;
	root->layout_hash ^= 1;
	inspected_only(i, FINDING_ROOT, "is not ours");
	root->layout_hash ^= 1;
	root->layout_version++;
	inspected_only(i, FINDING_ROOT, "is not ours");
	root->layout_version--;
	root->segment_buckets = 32;
	inspected_only(i, FINDING_ROOT, "32 buckets");
	root->segment_buckets = SEGMENT_BUCKETS;
	root->server_incarnation++;
	inspected_only(i, FINDING_ROOT, "server incarnation");
	root->server_incarnation--;
	root->epoch = 0;
	inspected_only(i, FINDING_ROOT, "epoch is 0");
	root->epoch = 5;
	root->hint_floor = 6;
	inspected_only(i, FINDING_ROOT, "hint floor 6 is above the epoch 5");
	root->hint_floor = 5;
	inspected_clean(i);
}

UNIT_TEST(test_root_descriptors, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct root_directory *d = &i->f->root->directory, sound = *d;
	struct root_extents *x = &i->f->root->extents, table = *x;

	x->checksum ^= 1;
	inspected_only(i, FINDING_ROOT, "extent table: its checksum");
	assert_false(i->check.walked_all);
	*x = table;
	x->entries = EXTENTS_MAX + 1;
	root_extents_seal(x);
	inspected_only(i, FINDING_ROOT, "4097 entries");
	*x = table;
	d->checksum ^= 1;
	inspected_only(i, FINDING_DIRECTORY, "checksum");
	*d = sound;
	d->offset = FAKE_EXTENT_BYTES - 64;
	root_directory_seal(d);
	inspected_only(i, FINDING_DIRECTORY, "not inside its extent");
	*d = sound;
	d->offset = UINT64_MAX - 63;
	root_directory_seal(d);
	inspected_only(i, FINDING_DIRECTORY, "not inside its extent");
	*d = sound;
	d->depth = 60;
	root_directory_seal(d);
	inspected_only(i, FINDING_DIRECTORY, "depth 60");
	*d = sound;
	d->extent = FAKE_DATA;
	root_directory_seal(d);
	inspected_only(i, FINDING_DIRECTORY, "not one of directories");
	*d = sound;
	d->extent = 7777;
	root_directory_seal(d);
	inspected_only(i, FINDING_DIRECTORY, "not in the extent table");
	*d = sound;
	inspected_clean(i);
}

static void go_back(struct inspected *i)
{
	i->f->root->epoch = 3;
}

UNIT_TEST(test_epoch_goes_backwards, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct block *b = inspected_block(i, inspected_key(0));

	b->state = block_state_make(9, BLOCK_OBSOLETE); /* so that it looks again */
	i->at_pause = go_back;
	inspected_run(i);
	assert_true(inspected_has(i, FINDING_EPOCH, "was 5 and is 3"));
}

UNIT_TEST(test_extent_table, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct extent_entry *e = &i->f->table[9], good = i->f->table[FAKE_DATA];

	*e = good;
	e->addr = 1ull << 40;
	extent_entry_seal(e);
	inspected_clean(i);
	assert_int_equal(i->check.totals.extents[EXTENT_DATA], 2);
	e->length ^= 1;
	inspected_only(i, FINDING_EXTENT, "entry 9: its checksum");
	*e = good;
	e->kind = 9;
	extent_entry_seal(e);
	inspected_only(i, FINDING_EXTENT, "kind 9");
	*e = good;
	e->length = EXTENT_BYTES_MAX + 1ull;
	extent_entry_seal(e);
	inspected_only(i, FINDING_EXTENT, "cannot be");
	*e = good;
	e->addr += 64;
	e->length = SLAB_BYTES;
	extent_entry_seal(e);
	inspected_only(i, FINDING_EXTENT, "extent 9 at");
	*e = (struct extent_entry){ .rkey = 1 };
	inspected_only(i, FINDING_EXTENT, "checksum");
	*e = (struct extent_entry){ 0 };
	inspected_clean(i);
}

static void seal_header(struct directory *d)
{
	d->checksum = hash_bytes(d, offsetof(struct directory, checksum));
}

UNIT_TEST(test_directory_header, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct directory *d = i->f->dir;

	d->magic ^= 1;
	inspected_only(i, FINDING_DIRECTORY, "magic");
	d->magic ^= 1;
	d->checksum ^= 1;
	inspected_only(i, FINDING_DIRECTORY, "checksum");
	d->checksum ^= 1;
	d->depth = 3;
	seal_header(d);
	inspected_only(i, FINDING_DIRECTORY, "root promises depth 2");
	d->depth = INSPECTED_DEPTH;
	d->server_incarnation++;
	seal_header(d);
	inspected_only(i, FINDING_DIRECTORY, "server incarnation");
	d->server_incarnation--;
	seal_header(d);
	inspected_clean(i);
}

/* Of entry 1: what it says instead. It leads astray as well, so there may be more. */
static void wrong_entry(struct inspected *i, uint64_t entry, const char *words)
{
	uint64_t good = i->f->dir->entry[1];

	i->f->dir->entry[1] = entry;
	assert_true(inspected_run(i) >= 1);
	if (!inspected_has(i, FINDING_ENTRY, words))
		fail_msg("no entry with '%s'", words);
	assert_true(i->check.walked_all);
	i->f->dir->entry[1] = good;
}

UNIT_TEST(test_directory_entries, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;

	wrong_entry(i, 0, "it is empty");
	wrong_entry(i, directory_entry_make(0, 2, FAKE_INDEX, 1), "incarnation is 0");
	wrong_entry(i, directory_entry_make(2, 3, FAKE_INDEX, 1), "local depth 3 is more");
	wrong_entry(i, directory_entry_make(2, 1, FAKE_INDEX, 1), "wants 2 entries like it");
	wrong_entry(i, directory_entry_make(2, 2, FAKE_DATA, 1), "not one of segments");
	wrong_entry(i, directory_entry_make(2, 2, 4000, 1), "not in the extent table");
	wrong_entry(i, directory_entry_make(2, 2, FAKE_INDEX, 0xffff), "beyond the end");
	wrong_entry(i, directory_entry_make(1, 2, FAKE_INDEX, 0), "there are 2");
	wrong_entry(i, directory_entry_make(2, 2, FAKE_INDEX, 0), "that of entry 0 as well");
	wrong_entry(i, directory_entry_make(2, 2, FAKE_INDEX, 1) | 1ull << 57, "mean nothing");
	wrong_entry(i, directory_entry_make(3, 2, FAKE_INDEX, 1), "all of the segment's");
	inspected_clean(i);
}
