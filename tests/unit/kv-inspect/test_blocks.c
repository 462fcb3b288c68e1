/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* check: blocks, and whether they stand where they belong. */
#include "tests/unit/kv-inspect/inspected.h"

#include <string.h>

#include "common/layout/slot.h"

UNIT_TEST(test_states, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct block *b = inspected_block(i, inspected_key(3));

	b->state = block_state_make(9, BLOCK_INVALID);
	inspected_only(i, FINDING_BLOCK, "INVALID");
	assert_int_equal(i->pauses, 0); /* nothing explains it: no need to look again */
	b->state = block_state_make(9, 7);
	inspected_only(i, FINDING_BLOCK, "state is none");
	b->state = block_state_make(9, BLOCK_OBSOLETE);
	inspected_only(i, FINDING_STATE, "OBSOLETE");
	assert_true(i->pauses > 2);
	b->state = block_state_make(10, BLOCK_LIVE); /* another life: under the checksum */
	inspected_only(i, FINDING_BLOCK, "checksum");
	b->state = block_state_make(0, BLOCK_LIVE);
	inspected_seal(b);
	inspected_only(i, FINDING_BLOCK, "incarnation is 0");
}

UNIT_TEST(test_an_obsolete_block_that_is_overwritten, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct block *b = inspected_block(i, inspected_key(3));

	b->state = block_state_make(9, BLOCK_OBSOLETE);
	b->data[0] ^= 1;
	inspected_only(i, FINDING_BLOCK, "checksum");
}

UNIT_TEST(test_checksums, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct block *b = inspected_block(i, inspected_key(3));
	uint32_t last = b->key_len + b->value_len - 1u;

	b->checksum ^= 1ull << 63;
	inspected_only(i, FINDING_BLOCK, "checksum");
	b->checksum ^= 1ull << 63;
	b->data[last] ^= 1;
	inspected_only(i, FINDING_BLOCK, "checksum");
	b->data[last] ^= 1;
	b->version++;
	inspected_only(i, FINDING_BLOCK, "checksum");
	b->version--;
	b->expiry_ms = 1;
	inspected_only(i, FINDING_BLOCK, "checksum");
	b->expiry_ms = 0;
	inspected_clean(i);
}

UNIT_TEST(test_lengths, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct block *b = inspected_block(i, inspected_key(3));
	uint32_t value_len = b->value_len;
	uint16_t key_len = b->key_len;

	b->key_len = 0;
	inspected_only(i, FINDING_BLOCK, "lengths");
	b->key_len = KEY_MAX + 1;
	inspected_only(i, FINDING_BLOCK, "lengths");
	b->key_len = key_len;
	b->value_len = UINT32_MAX;
	inspected_only(i, FINDING_BLOCK, "lengths");
	b->value_len = 129;
	inspected_only(i, FINDING_BLOCK, "lengths");
	b->value_len = value_len - 1;
	inspected_only(i, FINDING_BLOCK, "checksum");
	b->value_len = value_len;
	inspected_clean(i);
}

UNIT_TEST(test_fields_under_a_good_checksum, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct block *b = inspected_block(i, inspected_key(3));
	uint64_t version = b->version;

	b->version = 0;
	inspected_seal(b);
	inspected_only(i, FINDING_BLOCK, "version is 0");
	b->version = version;
	b->flags = 1;
	inspected_seal(b);
	inspected_only(i, FINDING_BLOCK, "flags");
	b->flags = 0;
	b->key_hash ^= 1ull << 40;
	inspected_seal(b);
	inspected_only(i, FINDING_BLOCK, "not that of its key");
	b->key_hash ^= 1ull << 40;
	inspected_seal(b);
	inspected_clean(i);
}

UNIT_TEST(test_expiries_are_counted, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct block *b = inspected_block(i, inspected_key(3));

	b->expiry_ms = 5;
	inspected_seal(b);
	b = inspected_block(i, inspected_key(4));
	b->expiry_ms = UINT64_MAX;
	inspected_seal(b);
	inspected_clean(i);
	assert_int_equal(i->check.totals.all.expiring, 2);
	assert_int_equal(i->check.totals.all.expired, 1);
}

UNIT_TEST(test_a_slot_with_another_fingerprint, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	_Atomic uint64_t *slot = inspected_slot(i, inspected_key(3));

	*slot ^= 1ull << 42;
	inspected_only(i, FINDING_RECORD, "fingerprint");
}

UNIT_TEST(test_a_slot_that_reads_more_than_its_record, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	_Atomic uint64_t *slot = inspected_slot(i, inspected_key(3));

	*slot = slot_make(slot_fingerprint(*slot), slot_size_code(*slot) + 1, slot_extent(*slot),
			  slot_offset(*slot));
	inspected_only(i, FINDING_RECORD, "is enough for");
}

/* The first empty slot. */
static _Atomic uint64_t *empty(struct bucket *b)
{
	for (unsigned n = 0; n < BUCKET_SLOTS; n++) {
		if (!b->slot[n])
			return &b->slot[n];
	}
	fail_msg("the bucket is full");
	return NULL;
}

static void move(_Atomic uint64_t *from, _Atomic uint64_t *to)
{
	*to = *from;
	*from = 0;
}

UNIT_TEST(test_a_record_in_another_bucket, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct bucket *b = fake_bucket(i->f, inspected_key(3));
	uint64_t entry = i->f->dir->entry[bucket_header_prefix(b->header)];
	struct segment *s = fake_segment_of(i->f, entry);

	move(inspected_slot(i, inspected_key(3)), empty(&s->bucket[(b - s->bucket + 1) % 64]));
	inspected_only(i, FINDING_RECORD, "belongs to bucket");
}

UNIT_TEST(test_a_record_in_another_segment, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct bucket *b = fake_bucket(i->f, inspected_key(3));
	uint32_t prefix = bucket_header_prefix(b->header);
	struct segment *s = fake_segment_of(i->f, i->f->dir->entry[prefix]);
	struct segment *other = fake_segment_of(i->f, i->f->dir->entry[prefix ^ 1]);

	move(inspected_slot(i, inspected_key(3)), empty(&other->bucket[b - s->bucket]));
	inspected_only(i, FINDING_RECORD, "another segment");
}

UNIT_TEST(test_a_key_twice, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;

	fake_put(i->f, inspected_key(3), "a second value");
	inspected_only(i, FINDING_TWICE, "as well");
}

UNIT_TEST(test_two_slots_of_one_block, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct bucket *b = fake_bucket(i->f, inspected_key(3));

	*empty(b) = *inspected_slot(i, inspected_key(3));
	inspected_only(i, FINDING_TWICE, "as well");
}

/* One READ takes it, and the arena grows. */
UNIT_TEST(test_a_large_record, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	static char value[600000];
	struct block *b;

	memset(value, 'x', sizeof(value) - 1);
	*inspected_slot(i, inspected_key(3)) =
		fake_block(i->f, inspected_key(3), value, inspected_key(3), &b);
	inspected_clean(i);
	assert_int_equal(i->f->grown, 1);
	b->data[500000] = 'y';
	inspected_only(i, FINDING_BLOCK, "checksum");
}
