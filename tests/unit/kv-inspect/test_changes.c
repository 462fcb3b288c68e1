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

static void test_a_write_that_ends_is_no_violation(void **state)
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

static void test_a_write_that_was_stopped_stays_open(void **state)
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

static void test_a_place_that_is_written_to_all_the_time_stays_open(void **state)
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

static void test_a_link_under_way(void **state)
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

static unsigned split_at; /* chain of READs */

static void split_there(struct fake *f, const struct read_op *ops, unsigned count)
{
	(void)ops;
	(void)count;
	if (f->chains == split_at)
		split(f->arg);
}

/* At each moment of a check. */
static void test_a_split_meanwhile(void **state)
{
	unsigned all = UINT32_MAX;

	(void)state;
	for (split_at = 1; split_at <= all; split_at++) {
		struct inspected *i;

		inspected_set_up((void **)&i);
		inspected_run(i);
		all = i->f->chains;
		i->f->chains = 0;
		i->f->before = split_there;
		inspected_clean(i);
		inspected_tear_down((void **)&i);
	}
	assert_true(all > 10 && all < 200);
}

/* Whichever READ fails: the look is made again. */
static void test_lost_connections(void **state)
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
static void test_a_server_that_is_gone(void **state)
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

static void test_another_life_of_the_server(void **state)
{
	struct inspected *i = *state;

	i->in.incarnation = FAKE_INCARNATION + 1;
	inspected_run(i);
	assert_int_equal(i->rc, -ESTALE);
}

static void test_interrupted(void **state)
{
	struct inspected *i = *state;

	i->stop = true;
	inspected_block(i, inspected_key(3))->state = block_state_make(9, BLOCK_OBSOLETE);
	assert_int_equal(inspected_run(i), 0);
	assert_true(i->check.interrupted);
	assert_false(i->check.walked_all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, inspected_set_up, inspected_tear_down)
		TEST(test_a_write_that_ends_is_no_violation),
		TEST(test_a_write_that_was_stopped_stays_open),
		TEST(test_a_place_that_is_written_to_all_the_time_stays_open),
		TEST(test_a_link_under_way),
		cmocka_unit_test(test_a_split_meanwhile),
		TEST(test_lost_connections),
		TEST(test_a_server_that_is_gone),
		TEST(test_another_life_of_the_server),
		TEST(test_interrupted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
