/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* check: what a server that goes on explains, and what it does not. */
#include "tests/unit/kv-inspect/inspected.h"

#include <errno.h>

#include "common/layout/slot.h"

static void finish_put(struct inspected *i)
{
	((struct block *)i->arg)->state = block_state_make(9, BLOCK_LIVE);
}

UNIT_TEST(test_a_write_that_ends_is_no_violation, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct block *b = inspected_block(i, inspected_key(3));

	b->state = block_state_make(9, BLOCK_OBSOLETE);
	i->arg = b;
	i->at_pause = finish_put;
	assert_int_equal(inspected_run(i), 0);
	assert_int_equal(i->check.explained, 1);
	assert_int_equal(i->check.open.count, 0);
	assert_int_equal(i->pauses, 1);
}

static void finish_late(struct inspected *i)
{
	if (i->in.waited_ms > 900)
		finish_put(i);
}

UNIT_TEST(test_a_write_that_takes_a_second, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct block *b = inspected_block(i, inspected_key(3));

	b->state = block_state_make(9, BLOCK_OBSOLETE);
	i->arg = b;
	i->at_pause = finish_late;
	assert_int_equal(inspected_run(i), 0);
	assert_int_equal(i->check.explained, 1);
	assert_int_equal(i->check.open.count, 0);
}

/* Another write, which begins late and ends: as old as it is, not as the first. */
static void begin_late(struct inspected *i)
{
	bool runs = i->in.waited_ms > 900 && i->in.waited_ms < 2000;

	((struct block *)i->arg)->state = block_state_make(9, runs ? BLOCK_OBSOLETE : BLOCK_LIVE);
}

UNIT_TEST(test_each_finding_has_an_age_of_its_own, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;

	inspected_block(i, inspected_key(3))->state = block_state_make(9, BLOCK_OBSOLETE);
	i->arg = inspected_block(i, inspected_neighbour(i, "key 3"));
	i->at_pause = begin_late;
	assert_int_equal(inspected_run(i), 1);
	assert_int_equal(i->check.explained, 1);
	assert_int_equal(i->check.open.count, 0);
}

UNIT_TEST(test_a_write_that_was_stopped_stays_open, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;

	inspected_block(i, inspected_key(3))->state = block_state_make(9, BLOCK_OBSOLETE);
	i->still = true;
	assert_int_equal(inspected_run(i), 0);
	assert_int_equal(i->check.open.count, 1);
	assert_true(i->check.clock_still);
	i->still = false;
	assert_int_equal(inspected_run(i), 1);
	assert_false(i->check.clock_still);
}

/* The same place, each time with another version. */
static void rewrite(struct inspected *i)
{
	struct block *b;
	uint64_t slot = fake_block(i->f, "key 3", "another value", "key 3", &b);

	b->state = block_state_make(9, BLOCK_OBSOLETE);
	*(_Atomic uint64_t *)i->arg = slot;
}

UNIT_TEST(test_a_place_that_is_written_to_all_the_time_stays_open, inspected_set_up,
	  inspected_tear_down)
{
	struct inspected *i = *state;

	i->arg = inspected_slot(i, "key 3");
	rewrite(i);
	i->at_pause = rewrite;
	assert_int_equal(inspected_run(i), 0);
	assert_int_equal(i->check.open.count, 1);
	assert_true(i->check.explained > 3);
}

static void end_link(struct inspected *i)
{
	struct bucket *b = i->arg;

	b->header = bucket_header_make(bucket_header_incarnation(b->header),
				       bucket_header_prefix(b->header), INSPECTED_DEPTH, false, 3);
}

UNIT_TEST(test_a_link_under_way, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	struct bucket *b = fake_bucket(i->f, inspected_key(3));
	uint64_t header = b->header;

	inspected_chain(i, inspected_key(3), 3);
	b->header = header;
	i->arg = b;
	i->at_pause = end_link;
	assert_int_equal(inspected_run(i), 0);
	assert_int_equal(i->check.explained, 1);
}

/* Split segment 1: the directory is doubled, both halves are copied, the old one is MOVED. */
static void split(struct inspected *i)
{
	struct fake *f = i->f;
	struct directory *old = f->dir;
	struct segment *from = fake_segment_of(f, old->entry[1]);

	fake_directory(f, INSPECTED_DEPTH + 1, 2);
	for (unsigned n = 0; n < 8; n++)
		f->dir->entry[n] = old->entry[n / 2];
	for (unsigned half = 0; half < 2; half++) {
		uint64_t entry = fake_segment(f, 2 + half, INSPECTED_DEPTH + 1);
		struct segment *to = fake_segment_of(f, entry);

		for (unsigned k = 0; k < SEGMENT_OVERFLOW; k++)
			to->overflow[k].header = 0;
		for (unsigned n = 0; n < SEGMENT_BUCKETS * BUCKET_SLOTS; n++) {
			uint64_t slot = from->bucket[n / BUCKET_SLOTS].slot[n % BUCKET_SLOTS];
			const struct block *b = (void *)(f->extent[FAKE_DATA] + slot_offset(slot));

			if (slot && hash_prefix(b->key_hash, INSPECTED_DEPTH + 1) == 2 + half)
				to->bucket[n / BUCKET_SLOTS].slot[n % BUCKET_SLOTS] = slot;
		}
		f->dir->entry[2 + half] = entry;
	}
	for (unsigned n = 0; n < SEGMENT_BUCKETS; n++)
		from->bucket[n].header |= 1ull << 53;
}

static _Atomic uint64_t *first_empty(struct bucket *b)
{
	for (unsigned n = 0; n < BUCKET_SLOTS; n++) {
		if (!b->slot[n])
			return &b->slot[n];
	}
	fail_msg("the bucket is full");
	return NULL;
}

/* Merge segments 0 and 1. */
static void merge(struct inspected *i)
{
	struct fake *f = i->f;
	uint64_t entry = fake_segment(f, 0, INSPECTED_DEPTH - 1);
	struct segment *to = fake_segment_of(f, entry);

	for (unsigned k = 0; k < SEGMENT_OVERFLOW; k++)
		to->overflow[k].header = 0;
	for (unsigned n = 0; n < 2 * SEGMENT_BUCKETS; n++) {
		struct segment *from = fake_segment_of(f, f->dir->entry[n / SEGMENT_BUCKETS]);
		struct bucket *b = &from->bucket[n % SEGMENT_BUCKETS];

		for (unsigned k = 0; k < BUCKET_SLOTS; k++) {
			if (b->slot[k])
				*first_empty(&to->bucket[n % SEGMENT_BUCKETS]) = b->slot[k];
		}
		b->header |= 1ull << 53;
	}
	f->dir->entry[0] = f->dir->entry[1] = entry;
}

static unsigned change_at; /* chain of READs */
static bool and_lose; /* the one after it fails */
static void (*change)(struct inspected *i);

static void change_there(struct fake *f, const struct read_op *ops, unsigned count)
{
	(void)ops;
	(void)count;
	if (f->chains != change_at)
		return;
	change(f->arg);
	if (and_lose)
		f->fail_at_chain = (int)f->chains;
}

/* At each moment of a check: each record is counted once. */
static void at_each_moment(void (*what)(struct inspected *i), bool lose)
{
	unsigned all = UINT32_MAX;

	change = what;
	and_lose = lose;
	for (change_at = 1; change_at <= all; change_at++) {
		struct inspected *i;

		inspected_set_up((void **)&i);
		inspected_run(i);
		all = i->f->chains;
		i->f->chains = 0;
		i->f->before = change_there;
		inspected_clean(i);
		inspected_tear_down((void **)&i);
	}
	assert_true(all > 10 && all < 200);
}

UNIT_TEST(test_a_split_meanwhile)
{
	at_each_moment(split, false);
}

UNIT_TEST(test_a_split_and_a_lost_connection)
{
	at_each_moment(split, true);
}

UNIT_TEST(test_a_merge_meanwhile)
{
	at_each_moment(merge, false);
}

UNIT_TEST(test_a_merge_and_a_lost_connection)
{
	at_each_moment(merge, true);
}

/* Whichever READ fails: the look is made again. */
UNIT_TEST(test_lost_connections, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	unsigned all;

	inspected_clean(i);
	all = i->f->chains;
	for (unsigned n = 0; n < all; n++) {
		i->f->chains = 0;
		i->f->fail_at_chain = (int)n;
		inspected_clean(i);
	}
}

/* At each moment of a check: it ends, with what the connection said. */
UNIT_TEST(test_a_server_that_is_gone, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;
	unsigned all;

	inspected_clean(i);
	all = i->sections;
	for (i->gone_after = 1; i->gone_after < all; i->gone_after++) {
		inspected_run(i);
		assert_int_equal(i->rc, -ECONNREFUSED);
	}
	i->gone_after = 0;
	inspected_clean(i);
}

UNIT_TEST(test_another_life_of_the_server, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;

	i->in.incarnation = FAKE_INCARNATION + 1;
	inspected_run(i);
	assert_int_equal(i->rc, -ESTALE);
}

UNIT_TEST(test_interrupted, inspected_set_up, inspected_tear_down)
{
	struct inspected *i = *state;

	i->stop = true;
	inspected_block(i, inspected_key(3))->state = block_state_make(9, BLOCK_OBSOLETE);
	assert_int_equal(inspected_run(i), 0);
	assert_true(i->check.interrupted);
	assert_false(i->check.walked_all);
}
