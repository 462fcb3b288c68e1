/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* check: headers of buckets, chains, slots. */
#include "tests/unit/kv-inspect/inspected.h"

#include "common/layout/slot.h"

static void with_header(struct inspected *i, uint64_t header, const char *words)
{
	struct bucket *b = fake_bucket(i->f, inspected_key(3));
	uint64_t good = b->header;

	b->header = header;
	inspected_only(i, FINDING_BUCKET, words);
	b->header = good;
}

UNIT_TEST(test_bucket_headers, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	uint64_t good = fake_bucket(i->f, inspected_key(3))->header;
	uint32_t incarnation = bucket_header_incarnation(good), prefix = bucket_header_prefix(good);

	with_header(i, 0, "header is 0");
	with_header(i, bucket_header_make(incarnation, prefix, 2, true, 0), "MOVED");
	with_header(i, bucket_header_make(incarnation + 1, prefix, 2, false, 0), "incarnation is");
	with_header(i, bucket_header_make(incarnation, prefix, 3, false, 0), "local depth is 3");
	with_header(i, bucket_header_make(incarnation, prefix ^ 1, 2, false, 0), "prefix is");
	inspected_clean(i);
}

static void link_to(struct bucket *b, unsigned overflow)
{
	b->header = bucket_header_make(bucket_header_incarnation(b->header),
				       bucket_header_prefix(b->header),
				       bucket_header_depth(b->header), false, overflow);
}

UNIT_TEST(test_a_chain_is_sound, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;

	inspected_chain(i, inspected_key(3), 1);
	inspected_clean(i);
	assert_int_equal(i->check.totals.longest_chain, 2);
	assert_int_equal(i->check.totals.by_depth[INSPECTED_DEPTH].overflow, 1);
}

UNIT_TEST(test_a_link_that_is_gone, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct bucket *b = fake_bucket(i->f, inspected_key(3));

	inspected_chain(i, inspected_key(3), 1);
	link_to(b, 0);
	inspected_only(i, FINDING_ORPHAN, "1 of its slots are used");
	link_to(b, 1);
	inspected_clean(i);
}

UNIT_TEST(test_a_link_out_of_the_segment, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;

	link_to(fake_bucket(i->f, inspected_key(3)), SEGMENT_OVERFLOW + 1);
	inspected_only(i, FINDING_LINK, "overflow bucket 17, of 16");
	link_to(fake_bucket(i->f, inspected_key(3)), 1023);
	inspected_only(i, FINDING_LINK, "overflow bucket 1023, of 16");
}

UNIT_TEST(test_a_chain_that_comes_back, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct bucket *next = inspected_chain(i, inspected_key(3), 2);

	link_to(next, 2);
	inspected_only(i, FINDING_LINK, "links back");
}

UNIT_TEST(test_an_overflow_bucket_of_two_chains, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;

	inspected_chain(i, "key 3", 2);
	link_to(fake_bucket(i->f, inspected_neighbour(i, "key 3")), 2);
	inspected_run(i);
	assert_true(inspected_has(i, FINDING_LINK, "another chain has"));
}

UNIT_TEST(test_a_header_of_an_overflow_bucket, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct bucket *next = inspected_chain(i, inspected_key(3), 2);

	next->header ^= 1;
	inspected_only(i, FINDING_BUCKET, "incarnation is");
}

UNIT_TEST(test_an_overflow_bucket_without_a_chain, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct segment *s = fake_segment_of(i->f, i->f->dir->entry[0]);

	s->overflow[15].header = s->bucket[0].header;
	inspected_only(i, FINDING_ORPHAN, "0 of its slots");
	s->overflow[15].header = 0;
	s->overflow[15].slot[30] = 1;
	inspected_only(i, FINDING_ORPHAN, "1 of its slots");
}

static void with_slot(struct inspected *i, uint64_t slot, const char *words)
{
	_Atomic uint64_t *place = inspected_slot(i, inspected_key(3));
	uint64_t good = *place;

	*place = slot;
	inspected_only(i, FINDING_SLOT, words);
	*place = good;
}

UNIT_TEST(test_slots_that_lead_nowhere, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;

	with_slot(i, slot_make(5, 0, FAKE_DATA, 64), "size code is 0");
	with_slot(i, slot_make(5, 1, 4000, 64), "extent 4000 is not in");
	with_slot(i, slot_make(5, 1, FAKE_INDEX, 64), "extent 1 is not one of blocks");
	with_slot(i, slot_make(5, 1, FAKE_DATA, FAKE_EXTENT_BYTES), "beyond the end");
	with_slot(i, slot_make(5, 2, FAKE_DATA, FAKE_EXTENT_BYTES - 64), "beyond the end");
	with_slot(i, slot_make(5, 2, FAKE_DATA, SLAB_BYTES - 64), "their slab");
	with_slot(i, slot_make(5, 255, FAKE_DATA, 0), "beyond the end");
	inspected_clean(i);
}
