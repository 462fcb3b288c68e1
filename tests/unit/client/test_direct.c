/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Look-ups whose values are READ to the caller's memory, in memory made by hand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/layout/slot.h"
#include "tests/lib/unit.h"
#include "expect.h"

#define ROOM_MAX 800000u
#define CANARY	 0xa5
#define MARGIN	 256u

static uint8_t room[MARGIN + ROOM_MAX + MARGIN];

static struct lookup into(const char *key, size_t cap)
{
	memset(room, CANARY, sizeof(room));
	return (struct lookup){
		.key = key,
		.key_len = (uint32_t)strlen(key),
		.dest = room + MARGIN,
		.cap = cap,
		.dest_lkey = 7,
		.direct = true,
	};
}

static void expect_canaries(size_t from, size_t to)
{
	assert_int_equal(room[from], CANARY);
	assert_memory_equal(room + from, room + from + 1, to - from - 1);
}

static void expect_margins(size_t cap)
{
	expect_canaries(0, MARGIN);
	expect_canaries(MARGIN + cap, sizeof(room));
}

static void expect_into(struct fake *f, const char *key, const char *value, size_t cap)
{
	size_t len = strlen(value);
	struct lookup l = into(key, cap);

	assert_int_equal(lookup_run(&f->reader, &l, 1, 0), 0);
	assert_int_equal(l.state, LOOKUP_FOUND);
	assert_int_equal(l.value_len, len);
	assert_memory_equal(room + MARGIN, value, len < cap ? len : cap);
	expect_margins(cap);
}

static enum lookup_state state_into(struct fake *f, const char *key, size_t cap)
{
	struct lookup l = into(key, cap);
	int rc = lookup_run(&f->reader, &l, 1, 0);

	assert_int_equal(rc, 0);
	expect_margins(cap);
	return l.state;
}

static char *text_of(size_t len)
{
	char *text = malloc(len + 1);

	assert_non_null(text);
	for (size_t i = 0; i < len; i++)
		text[i] = (char)('a' + i % 23);
	text[len] = '\0';
	return text;
}

UNIT_TEST(test_found_with_room_of_any_size, set_up, tear_down)
{
	static const size_t lens[] = { 0, 1, 64, 4096, 100000 };
	struct fake *f = *state;

	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		const size_t n = lens[i], caps[] = { 0, 1, n / 2, n, n + 1, n + 70, ROOM_MAX };
		char key[16], *value = text_of(n);

		snprintf(key, sizeof(key), "%u", i);
		fake_put(f, key, value);
		for (unsigned j = 0; j < sizeof(caps) / sizeof(caps[0]); j++)
			expect_into(f, key, value, caps[j]);
		free(value);
	}
	assert_int_equal(f->reader.stats.retry_checksum, 0);
}

UNIT_TEST(test_long_key, set_up, tear_down)
{
	struct fake *f = *state;
	char *key = text_of(1024), *value = text_of(3000);

	fake_put(f, key, value);
	expect_into(f, key, value, 3000);
	expect_into(f, key, value, 17);
	expect_into(f, key, value, 0);
	free(key);
	free(value);
}

UNIT_TEST(test_takes_as_many_reads_as_a_copy, set_up, tear_down)
{
	struct fake *f = *state;
	uint64_t reads;

	fake_put(f, KEY, VALUE);
	expect_found(f, KEY, VALUE); /* root, directory and extents are known now */
	reads = f->reader.stats.reads;
	expect_into(f, KEY, VALUE, 100);
	assert_int_equal(f->reader.stats.reads - reads, 2);
}

UNIT_TEST(test_colliding_fingerprints, set_up, tear_down)
{
	struct fake *f = *state;
	struct bucket *b = fake_bucket(f, KEY);
	char *longer = text_of(5000);

	b->slot[0] = fake_block(f, "a key that is quite a bit longer", longer, KEY, NULL);
	b->slot[1] = fake_block(f, "kez", "y", KEY, NULL);
	assert_int_equal(state_into(f, KEY, 6000), LOOKUP_ABSENT);
	b->slot[30] = fake_block(f, KEY, VALUE, KEY, NULL);
	expect_into(f, KEY, VALUE, 6000);
	expect_into(f, KEY, VALUE, 3);
	assert_int_equal(f->reader.stats.retry_checksum, 0);
	free(longer);
}

/* What has no room for the key is not READ, and is no conflict. */
UNIT_TEST(test_blocks_too_small_for_the_key, set_up, tear_down)
{
	struct fake *f = *state;
	char *key = text_of(1000);
	struct bucket *b = fake_bucket(f, key);
	uint64_t reads;

	for (unsigned i = 0; i < 5; i++)
		b->slot[i] = fake_block(f, "tiny", "value", key, NULL);
	assert_int_equal(state_into(f, key, 100), LOOKUP_ABSENT);
	reads = f->reader.stats.reads;
	assert_int_equal(state_into(f, key, 100), LOOKUP_ABSENT);
	assert_int_equal(f->reader.stats.reads - reads, 1); /* the bucket */
	b->slot[5] = fake_block(f, key, VALUE, key, NULL);
	expect_into(f, key, VALUE, 100);
	expect_found(f, key, VALUE);
	assert_int_equal(f->reader.stats.retry_checksum, 0);
	free(key);
}

UNIT_TEST(test_a_hint_to_a_block_too_small, set_up, tear_down)
{
	struct fake *f = *state;
	char *key = text_of(1000);
	struct error err;
	struct hints hints;
	struct lookup l;

	assert_int_equal(hints_create(&hints, 1 << 20, &err), 0);
	f->reader.hints = &hints;
	fake_put(f, key, VALUE);
	expect_into(f, key, VALUE, 100);
	hints_remember(&hints, fake_hash(f, key), hints_age(&hints),
		       fake_block(f, "tiny", "value", key, NULL), 9);
	l = into(key, 100);
	assert_int_equal(lookup_run(&f->reader, &l, 1, hints_age(&hints)), 0);
	assert_int_equal(l.state, LOOKUP_FOUND);
	assert_int_equal(f->reader.stats.hint_stale, 1);
	expect_margins(100);
	l = into(key, 100);
	assert_int_equal(lookup_run(&f->reader, &l, 1, hints_age(&hints)), 0);
	assert_int_equal(l.state, LOOKUP_FOUND);
	assert_int_equal(f->reader.stats.hint_hits, 1); /* the right one was remembered */
	assert_memory_equal(room + MARGIN, VALUE, strlen(VALUE));
	f->reader.hints = NULL;
	hints_destroy(&hints);
	free(key);
}

/* Flip a bit of what came: in the piece, at the byte, that arg says; as often as it says. */
struct tear {
	unsigned piece, left;
	uint32_t at;
};

static void tear(struct fake *f, const struct read_op *ops, unsigned count)
{
	struct tear *t = f->arg;
	uint8_t *place;

	if (!t->left || !ops[0].more)
		return;
	place = t->piece ? ops[0].more[t->piece - 1].local : ops[0].local;
	place[t->at] ^= 0x40;
	t->left--;
}

UNIT_TEST(test_torn_in_each_piece, set_up, tear_down)
{
	static const struct tear where[] = { { 0, 2, 20 },   { 0, 2, 50 }, { 1, 2, 0 },
					     { 1, 2, 1999 }, { 2, 2, 0 },  { 2, 2, 1999 } };
	struct fake *f = *state;
	char *value = text_of(4000);

	fake_put(f, KEY, value);
	expect_found(f, KEY, value);
	f->after = tear;
	for (unsigned i = 0; i < sizeof(where) / sizeof(where[0]); i++) {
		struct tear t = where[i];
		uint64_t retries = f->reader.stats.retry_checksum;

		f->arg = &t;
		expect_into(f, KEY, value, 2000);
		assert_int_equal(f->reader.stats.retry_checksum - retries, 2);
		t = where[i];
		t.left = UINT32_MAX;
		assert_int_equal(state_into(f, KEY, 2000), LOOKUP_ASK);
	}
	free(value);
}

/* Padding does not count. */
UNIT_TEST(test_torn_behind_the_value, set_up, tear_down)
{
	struct fake *f = *state;
	struct tear t = { 1, 1, sizeof(VALUE) };

	fake_put(f, KEY, VALUE);
	f->after = tear;
	f->arg = &t;
	expect_into(f, KEY, VALUE, 100);
	assert_int_equal(t.left, 0);
	assert_int_equal(f->reader.stats.retry_checksum, 0);
}

/* A PUT between the READ of the bucket and the READ of the block. */
static void replace_once(struct fake *f, const struct read_op *ops, unsigned count)
{
	struct block *old = f->arg;

	if (!old || !ops[0].more)
		return;
	f->arg = NULL;
	old->state = block_state_make(9, BLOCK_OBSOLETE);
	fake_bucket(f, KEY)->slot[0] = fake_block(f, KEY, "newer", KEY, NULL);
}

UNIT_TEST(test_replaced_meanwhile, set_up, tear_down)
{
	struct fake *f = *state;

	f->arg = fake_put(f, KEY, VALUE);
	f->before = replace_once;
	expect_into(f, KEY, "newer", 100);
	assert_int_equal(f->reader.stats.retry_obsolete, 1);
}

UNIT_TEST(test_expired_asks, set_up, tear_down)
{
	struct fake *f = *state;
	struct block *b = fake_put(f, KEY, VALUE);

	b->expiry_ms = 1000;
	b->checksum = block_checksum(b, block_body_hash(b));
	f->clock_ms = 999;
	expect_into(f, KEY, VALUE, 100);
	f->clock_ms = 1000;
	assert_int_equal(state_into(f, KEY, 100), LOOKUP_ASK);
}

/* The arena takes what the caller's memory does not. */
UNIT_TEST(test_arena_grows_for_the_rest_only, set_up, tear_down)
{
	struct fake *f = *state;
	char *value = text_of(700000);

	f->data_used = SLAB_BYTES; /* a run of slabs */
	fake_put(f, KEY, value);
	expect_into(f, KEY, value, 700000);
	assert_int_equal(f->grown, 0);
	expect_into(f, KEY, value, 600000);
	assert_int_equal(f->grown, 0);
	expect_into(f, KEY, value, 100000);
	assert_int_equal(f->grown, 1);
	expect_into(f, KEY, value, 0);
	free(value);
}

/* Every other one of a batch is copied. */
UNIT_TEST(test_batch_of_both_kinds, set_up, tear_down)
{
	enum { COUNT = 40, CAP = 3000 };
	struct fake *f = *state;
	static char key[COUNT][16];
	struct lookup l[COUNT];
	char *value[COUNT];
	unsigned sections = 0;
	int rc;

	memset(room, CANARY, sizeof(room));
	for (unsigned i = 0; i < COUNT; i++) {
		snprintf(key[i], sizeof(key[i]), "key %u", i);
		value[i] = text_of(10 + i * 300); /* up to 11,710 */
		memcpy(value[i], key[i], strlen(key[i]));
		if (i % 5)
			fake_put(f, key[i], value[i]);
		l[i] = (struct lookup){ .key = key[i],
					.key_len = (uint32_t)strlen(key[i]),
					.dest = room + MARGIN + i * 2 * CAP,
					.cap = CAP,
					.direct = i % 2 };
	}
	do
		rc = lookup_run(&f->reader, l, COUNT, 0);
	while (rc == 1 && ++sections < COUNT);
	assert_int_equal(rc, 0);
	for (unsigned i = 0; i < COUNT; i++) {
		size_t len = strlen(value[i]);

		assert_int_equal(l[i].state, i % 5 ? LOOKUP_FOUND : LOOKUP_ABSENT);
		expect_canaries(MARGIN + (2 * i + 1) * CAP, MARGIN + (2 * i + 2) * CAP);
		if (i % 5) {
			assert_int_equal(l[i].value_len, len);
			assert_memory_equal(l[i].dest, value[i], len < CAP ? len : CAP);
		}
		free(value[i]);
	}
}

/* In the place of a direct one's READ, the next chain has that of a copied one. */
UNIT_TEST(test_copied_behind_a_direct_one, set_up, tear_down)
{
	static const char *const second = "a second key";
	struct fake *f = *state;
	struct lookup l[2] = { into(KEY, 100) };
	char got[8] = "_______";

	l[1] = (struct lookup){ .key = second, .key_len = 12, .dest = got, .cap = 5 };
	fake_put(f, KEY, VALUE);
	fake_bucket(f, second)->slot[8] = fake_block(f, "other", "of another", second, NULL);
	fake_bucket(f, second)->slot[9] = fake_block(f, second, "seconds", second, NULL);
	assert_int_equal(lookup_run(&f->reader, l, 2, 0), 0);
	assert_int_equal(l[0].state, LOOKUP_FOUND);
	assert_int_equal(l[1].state, LOOKUP_FOUND);
	assert_memory_equal(room + MARGIN, VALUE, strlen(VALUE));
	expect_margins(100);
	assert_string_equal(got, "secon__");
}

/* Slots that say anything: no READ leaves an extent, nothing is written beyond the room. */
UNIT_TEST(test_lying_slots, set_up, tear_down)
{
	static const size_t caps[] = { 0, 1, 100, ROOM_MAX };
	struct fake *f = *state;
	const uint32_t fp = slot_fingerprint_of_hash(fake_hash(f, KEY));

	fake_put(f, "something that stands there", VALUE);
	for (unsigned i = 0; i < 4000; i++) {
		uint64_t slot = (uint64_t)fp << 42;

		slot |= ((uint64_t)random() << 31 ^ (uint64_t)random()) & ((1ull << 42) - 1);
		if (i % 2) /* nearly right */
			slot = slot_make(fp, (unsigned)random() % 40, FAKE_DATA,
					 ((uint32_t)random() % 8000) * 64);
		fake_bucket(f, KEY)->slot[0] = slot;
		assert_true(state_into(f, KEY, caps[i % 4]) >= LOOKUP_ASK);
	}
}
