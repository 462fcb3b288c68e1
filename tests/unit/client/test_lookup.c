/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Look-ups in memory made by hand: sound, stale, torn, lying. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/layout/size_code.h"
#include "common/layout/slot.h"
#include "tests/lib/unit.h"
#include "expect.h"

UNIT_TEST(test_found_in_two_chains, set_up, tear_down)
{
	struct fake *f = *state;
	unsigned chains;

	fake_put(f, KEY, VALUE);
	expect_found(f, KEY, VALUE);
	chains = f->chains;
	expect_found(f, KEY, VALUE);
	assert_int_equal(f->chains - chains, 2);
}

UNIT_TEST(test_absent_in_one_chain, set_up, tear_down)
{
	struct fake *f = *state;
	unsigned chains;

	expect_state(f, KEY, LOOKUP_ABSENT);
	chains = f->chains;
	expect_state(f, KEY, LOOKUP_ABSENT);
	assert_int_equal(f->chains - chains, 1);
}

UNIT_TEST(test_value_is_cut_to_the_room, set_up, tear_down)
{
	struct fake *f = *state;
	char room[6] = "______";
	struct lookup l = { .key = KEY, .key_len = strlen(KEY), .dest = room, .cap = 5 };

	fake_put(f, KEY, VALUE);
	assert_int_equal(lookup_run(&f->reader, &l, 1, 0), 0);
	assert_int_equal(l.value_len, strlen(VALUE));
	assert_memory_equal(room, "and i_", 6);
}

UNIT_TEST(test_colliding_fingerprints, set_up, tear_down)
{
	struct fake *f = *state;
	struct bucket *b = fake_bucket(f, KEY);

	b->slot[0] = fake_block(f, "another key", "x", KEY, NULL);
	b->slot[1] = fake_block(f, "the kez", "y", KEY, NULL);
	expect_state(f, KEY, LOOKUP_ABSENT);
	b->slot[30] = fake_block(f, KEY, VALUE, KEY, NULL);
	expect_found(f, KEY, VALUE);
	assert_int_equal(f->reader.stats.retry_checksum, 0);
}

static void overflow_chain(struct fake *f, const char *key, unsigned links)
{
	uint64_t entry = directory_entry_of(f->reader.dir, fake_hash(f, key));
	struct segment *s = fake_segment_of(f, entry);
	struct bucket *b = fake_bucket(f, key);

	for (unsigned i = 0; i < links; i++) {
		b->header |= (uint64_t)(i + 1) << 54;
		b = &s->overflow[i];
	}
	b->slot[7] = fake_block(f, key, VALUE, key, NULL);
}

UNIT_TEST(test_overflow_chain, set_up, tear_down)
{
	struct fake *f = *state;

	expect_state(f, KEY, LOOKUP_ABSENT);
	overflow_chain(f, KEY, SEGMENT_OVERFLOW);
	expect_found(f, KEY, VALUE);
}

UNIT_TEST(test_overflow_loop_ends_by_asking, set_up, tear_down)
{
	struct fake *f = *state;

	expect_state(f, KEY, LOOKUP_ABSENT);
	overflow_chain(f, KEY, 2);
	fake_segment_of(f, directory_entry_of(f->reader.dir, fake_hash(f, KEY)))
		->overflow[1]
		.header |= 1ull << 54;
	fake_segment_of(f, directory_entry_of(f->reader.dir, fake_hash(f, KEY)))
		->overflow[1]
		.slot[7] = 0;
	expect_state(f, KEY, LOOKUP_ASK);
}

UNIT_TEST(test_overflow_out_of_the_segment, set_up, tear_down)
{
	struct fake *f = *state;

	fake_bucket(f, KEY)->header |= 1023ull << 54;
	expect_state(f, KEY, LOOKUP_ASK);
}

UNIT_TEST(test_obsolete_for_ever_ends_by_asking, set_up, tear_down)
{
	struct fake *f = *state;
	struct block *b = fake_put(f, KEY, VALUE);

	b->state = block_state_make(9, BLOCK_OBSOLETE);
	expect_state(f, KEY, LOOKUP_ASK);
	assert_int_equal(f->reader.stats.retry_obsolete, READER_ATTEMPTS + 1);
	assert_true(f->chains < 40);
}

UNIT_TEST(test_torn_for_ever_ends_by_asking, set_up, tear_down)
{
	struct fake *f = *state;
	struct block *b = fake_put(f, KEY, VALUE);

	b->data[b->key_len] ^= 1;
	expect_state(f, KEY, LOOKUP_ASK);
	assert_int_equal(f->reader.stats.retry_checksum, READER_ATTEMPTS + 1);
}

static void tear_once(struct fake *f, const struct read_op *ops, unsigned count)
{
	unsigned *left = f->arg;

	if (*left && ops[0].local == f->reader.fetch.arena) {
		((uint8_t *)ops[0].local)[60] ^= 0x80;
		(*left)--;
	}
}

UNIT_TEST(test_torn_and_then_whole, set_up, tear_down)
{
	struct fake *f = *state;
	unsigned left = 3;

	expect_state(f, KEY, LOOKUP_ABSENT); /* root and directory are known now */
	fake_put(f, KEY, VALUE);
	f->after = tear_once;
	f->arg = &left;
	expect_found(f, KEY, VALUE);
	assert_int_equal(f->reader.stats.retry_checksum, 3);
}

/* A PUT between the READ of the bucket and the READ of the block. */
static void replace_once(struct fake *f, const struct read_op *ops, unsigned count)
{
	struct block *old = f->arg;

	if (!old || ops[0].local != f->reader.fetch.arena)
		return;
	f->arg = NULL;
	old->state = block_state_make(9, BLOCK_OBSOLETE);
	fake_bucket(f, KEY)->slot[0] = fake_block(f, KEY, "newer", KEY, NULL);
}

UNIT_TEST(test_replaced_meanwhile, set_up, tear_down)
{
	struct fake *f = *state;

	expect_state(f, KEY, LOOKUP_ABSENT); /* root and directory are known now */
	f->arg = fake_put(f, KEY, VALUE);
	f->before = replace_once;
	expect_found(f, KEY, "newer");
	assert_int_equal(f->reader.stats.retry_obsolete, 1);
}

UNIT_TEST(test_lying_lengths, set_up, tear_down)
{
	struct fake *f = *state;
	struct block *b = fake_put(f, KEY, VALUE);
	static const uint32_t lies[] = { UINT32_MAX, 1u << 31, 128, 17 };

	for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		b->value_len = lies[i];
		expect_state(f, KEY, LOOKUP_ASK);
	}
	b->value_len = strlen(VALUE);
	b->key_len = UINT16_MAX;
	expect_state(f, KEY, LOOKUP_ASK);
}

static void no_block(struct fake *f, const struct read_op *ops, unsigned count)
{
	assert_ptr_not_equal(ops[0].local, f->reader.fetch.arena);
}

/* Slots that name what cannot be; fake_read() aborts where a READ follows one out of bounds. */
UNIT_TEST(test_lying_slots, set_up, tear_down)
{
	struct fake *f = *state;
	uint32_t fp = slot_fingerprint_of_hash(fake_hash(f, KEY));
	const uint64_t lies[] = {
		slot_make(fp, 0, FAKE_DATA, 64), /* no size code */
		slot_make(fp, 255, FAKE_DATA, 0), /* longer than the extent */
		slot_make(fp, 1, FAKE_DATA, EXTENT_BYTES_MAX - 64), /* beyond its end */
		slot_make(fp, 2, FAKE_DATA, FAKE_EXTENT_BYTES - 64), /* across its end */
		slot_make(fp, 2, FAKE_DATA, SLAB_BYTES - 64), /* across the end of a slab */
		slot_make(fp, 1, FAKE_INDEX, 0), /* not of DATA */
		slot_make(fp, 1, FAKE_DIR, 0),
		slot_make(fp, 1, 0, 0), /* no such extent */
		slot_make(fp, 1, 4095, 0),
	};

	expect_state(f, KEY, LOOKUP_ABSENT); /* root and directory are known now */
	f->before = no_block;
	for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		fake_bucket(f, KEY)->slot[0] = lies[i];
		expect_state(f, KEY, LOOKUP_ASK);
	}
	f->before = NULL;
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t slot = (uint64_t)fp << 42;

		slot |= ((uint64_t)random() << 31 ^ (uint64_t)random()) & ((1ull << 42) - 1);
		fake_bucket(f, KEY)->slot[0] = slot;
		assert_true(look_up(f, KEY).state >= LOOKUP_ASK);
	}
}

UNIT_TEST(test_extent_that_comes_late, set_up, tear_down)
{
	struct fake *f = *state;
	struct block *b, *late;
	uint64_t slot = fake_block(f, KEY, VALUE, KEY, &b);

	expect_state(f, KEY, LOOKUP_ABSENT);
	fake_publish_late(f);
	late = (void *)f->extent[FAKE_DATA_LATE];
	memcpy(late, b, size_code_bytes(slot_size_code(slot)));
	fake_bucket(f, KEY)->slot[3] =
		slot_make(slot_fingerprint(slot), slot_size_code(slot), FAKE_DATA_LATE, 0);
	expect_found(f, KEY, VALUE);
}

UNIT_TEST(test_unsound_extent_entries, set_up, tear_down)
{
	struct fake *f = *state;
	struct extent_entry good = f->table[FAKE_DATA];

	fake_put(f, KEY, VALUE);
	f->table[FAKE_DATA].checksum ^= 1;
	expect_state(f, KEY, LOOKUP_ASK);
	f->table[FAKE_DATA] = good;
	f->table[FAKE_DATA].length = EXTENT_BYTES_MAX + 1;
	extent_entry_seal(&f->table[FAKE_DATA]);
	expect_state(f, KEY, LOOKUP_ASK);
	f->table[FAKE_DATA] = good;
	f->table[FAKE_DATA].kind = 9;
	extent_entry_seal(&f->table[FAKE_DATA]);
	expect_state(f, KEY, LOOKUP_ASK);
	f->table[FAKE_DATA] = good;
	expect_found(f, KEY, VALUE);
}

UNIT_TEST(test_expired_asks, set_up, tear_down)
{
	struct fake *f = *state;
	struct block *b = fake_put(f, KEY, VALUE);

	b->expiry_ms = 1000;
	b->checksum = block_checksum(b, block_body_hash(b));
	f->clock_ms = 999;
	expect_found(f, KEY, VALUE);
	f->clock_ms = 1000;
	expect_state(f, KEY, LOOKUP_ASK);
}

/* A batch to its end. Returns the sections that it took, more than @count: it has none. */
static unsigned sections_of(struct fake *f, struct lookup *l, unsigned count)
{
	unsigned sections = 0;
	int rc;

	do
		rc = lookup_run(&f->reader, l, count, 0);
	while (++sections <= count && rc == 1);
	assert_true(rc == 0 || sections > count);
	return sections;
}

/* 64 keys in two chains; with values of 8 KiB in as many as the arena asks for. */
UNIT_TEST(test_batch, set_up, tear_down)
{
	struct fake *f = *state;
	static char key[READER_BATCH][16], value[READER_BATCH][8000], got[READER_BATCH][8000];
	struct lookup l[READER_BATCH] = { 0 };
	unsigned chains, sections;

	for (unsigned large = 0; large < 2; large++) {
		for (unsigned i = 0; i < READER_BATCH; i++) {
			snprintf(key[i], sizeof(key[i]), "key %u %u", large, i);
			snprintf(value[i], sizeof(value[i]), "%0*u", large ? 7990 : 20, i);
			if (i % 4)
				fake_put(f, key[i], value[i]);
			l[i] = (struct lookup){ .key = key[i],
						.key_len = (uint32_t)strlen(key[i]),
						.dest = got[i],
						.cap = sizeof(got[i]) };
		}
		chains = f->chains;
		sections = sections_of(f, l, READER_BATCH);
		assert_int_equal(sections, large ? 2 : 1); /* 48 of 8 KB, an arena of 256 */
		if (large == 0)
			assert_true(f->chains - chains <= 2 + 10); /* root, directory, extents */
		else
			assert_in_range(f->chains - chains, 3, 6);
		for (unsigned i = 0; i < READER_BATCH; i++) {
			assert_int_equal(l[i].state, i % 4 ? LOOKUP_FOUND : LOOKUP_ABSENT);
			if (i % 4)
				assert_memory_equal(got[i], value[i], strlen(value[i]));
		}
	}
	assert_int_equal(f->grown, 0);
}

static char *text_of(size_t len)
{
	char *text = malloc(len + 1);

	assert_non_null(text);
	memset(text, 't', len);
	text[len] = '\0';
	return text;
}

/* Two find room at once. The buckets of others are READ again when it is their turn. */
UNIT_TEST(test_batch_of_large_values, set_up, tear_down)
{
	enum { COUNT = 16 };
	struct fake *f = *state;
	struct lookup l[COUNT] = { 0 };
	static char key[COUNT][16];
	char *value = text_of(100000);
	uint64_t reads;

	expect_state(f, KEY, LOOKUP_ABSENT); /* root and directory are known */
	for (unsigned i = 0; i < COUNT; i++) {
		snprintf(key[i], sizeof(key[i]), "key %u", i);
		fake_put(f, key[i], value);
		l[i] = (struct lookup){ .key = key[i], .key_len = (uint32_t)strlen(key[i]) };
	}
	expect_found(f, key[0], value); /* the extent as well */
	reads = f->reader.stats.reads;
	assert_int_equal(sections_of(f, l, COUNT), COUNT / 2);
	assert_true(f->reader.stats.reads - reads <= 3 * COUNT);
	for (unsigned i = 0; i < COUNT; i++)
		assert_int_equal(l[i].state, LOOKUP_FOUND);
	free(value);
}

/* Each has to READ two blocks, and one of them leaves no room for the other's. */
UNIT_TEST(test_large_blocks_of_colliding_fingerprints, set_up, tear_down)
{
	static const char *const key[] = { KEY, "a second key" };
	struct fake *f = *state;
	struct lookup l[2] = { 0 };
	char *value = text_of(150000);

	for (unsigned i = 0; i < 2; i++) {
		struct bucket *b = fake_bucket(f, key[i]);

		b->slot[8 * i] = fake_block(f, "some other key", value, key[i], NULL);
		b->slot[8 * i + 7] = fake_block(f, key[i], value, key[i], NULL);
		l[i] = (struct lookup){ .key = key[i], .key_len = (uint32_t)strlen(key[i]) };
	}
	assert_int_equal(sections_of(f, l, 2), 2);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(l[i].state, LOOKUP_FOUND);
		assert_int_equal(l[i].value_len, 150000);
	}
	free(value);
}

UNIT_TEST(test_large_value_grows_the_arena, set_up, tear_down)
{
	struct fake *f = *state;
	size_t len = 700000;
	char *value = malloc(len + 1);

	memset(value, 'v', len);
	value[len] = '\0';
	f->data_used = SLAB_BYTES; /* a run of slabs */
	uint32_t fp = slot_fingerprint_of_hash(fake_hash(f, KEY));
	struct block *b = (void *)(f->extent[FAKE_DATA] + SLAB_BYTES);

	b->state = block_state_make(1, BLOCK_LIVE);
	b->key_hash = fake_hash(f, KEY);
	b->key_len = strlen(KEY);
	b->value_len = (uint32_t)len;
	memcpy(b->data, KEY, strlen(KEY));
	memcpy(b->data + strlen(KEY), value, len);
	b->checksum = block_checksum(b, block_body_hash(b));
	fake_bucket(f, KEY)->slot[0] = slot_make(
		fp, size_code_for(block_bytes(b->key_len, b->value_len)), FAKE_DATA, SLAB_BYTES);
	expect_found(f, KEY, value);
	assert_int_equal(f->grown, 1);
	free(value);
}

/* Whatever chain the connection breaks with, another call ends the batch. */
UNIT_TEST(test_connection_lost_anywhere, set_up, tear_down)
{
	struct fake *f = *state;

	fake_put(f, KEY, VALUE);
	for (int at = 0; at < 12; at++) {
		reader_drop(&f->reader);
		f->reader.world = world_new(FAKE_INCARNATION, (uintptr_t)f->root, 100);
		f->chains = 0;
		f->fail_at_chain = at;
		int rc = run(f);

		assert_true(rc == -ECONNRESET || (rc == 0 && at > 4));
		f->fail_at_chain = -1;
		expect_found(f, KEY, VALUE);
	}
}

int main(void)
{
	printf("seed 1 (random() without srandom())\n");
	return unit_run(NULL, NULL);
}
