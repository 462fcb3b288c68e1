/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Nothing is freed while somebody may read it: not before local readers have passed a quiescent
 * state, not before every session has announced a later epoch, not under a hazard; and everything
 * is freed after that. What was freed shows in the counters and in the address, which is given
 * out again.
 */
#include "tests/lib/unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "server/reclaim/qsbr.h"
#include "server/reclaim/reclaim.h"
#include "tests/unit/reclaim/fixture.h"

#define BYTES	 128
#define SHORT_MS 50

static int setup(void **state)
{
	return fixture_open(1, 4);
}

static void retire(struct memory_place place)
{
	reclaim_retire(worker, place, BYTES);
	reclaim_poll(worker, LATE_NS);
}

static void assert_stays(uint64_t n)
{
	for (unsigned i = 0; i < 5; i++) {
		reclaim_kick(reclaim);
		pause_ms(SHORT_MS / 5);
	}
	assert_int_equal(stats_now().freed, n);
}

UNIT_TEST(alone, setup, fixture_close)
{
	struct reclaim_stats stats;

	for (unsigned i = 0; i < 1000; i++)
		retire(fixture_take(BYTES));
	assert_freed_soon(1000);
	reclaim_stats_get(reclaim, &stats);
	assert_int_equal(stats.deferred_blocks, 0);
	assert_int_equal(stats.deferred_bytes, 0);
}

/* A full batch goes without waiting for its age; a young one stays until it is old. */
UNIT_TEST(batches, setup, fixture_close)
{
	for (unsigned i = 0; i < 256; i++)
		reclaim_retire(worker, fixture_take(BYTES), BYTES);
	assert_freed_soon(256);
	reclaim_retire(worker, fixture_take(BYTES), BYTES);
	assert_true(reclaim_poll(worker, 0) > 0);
	assert_stays(256);
	assert_int_equal(reclaim_poll(worker, LATE_NS), UINT64_MAX);
	assert_freed_soon(257);
}

struct reader {
	_Atomic bool inside, leave, left;
};

static void *read_section(void *arg)
{
	struct reader *r = arg;

	qsbr_register();
	atomic_store(&r->inside, true);
	while (!atomic_load(&r->leave))
		pause_ms(1);
	atomic_store(&r->left, true);
	qsbr_quiescent();
	qsbr_unregister();
	return NULL;
}

UNIT_TEST(a_local_reader_holds, setup, fixture_close)
{
	struct reader r = { false, false, false };
	pthread_t thread;

	pthread_create(&thread, NULL, read_section, &r);
	while (!atomic_load(&r.inside))
		pause_ms(1);
	retire(fixture_take(BYTES));
	assert_stays(0);
	atomic_store(&r.leave, true);
	assert_freed_soon(1);
	assert_true(atomic_load(&r.left));
	pthread_join(thread, NULL);
}

/* Until each of them has announced a later epoch, or is gone. */
UNIT_TEST(sessions_hold, setup, fixture_close)
{
	struct fake_session a, b;

	session_comes(&a, 1);
	session_comes(&b, 2);
	retire_in_epoch(fixture_take(BYTES), BYTES);
	assert_stays(0);
	session_announces(&a, grace_now(the_grace()));
	assert_stays(0);
	session_announces(&b, grace_now(the_grace()));
	assert_freed_soon(1); /* nobody wakes the reclaimer: it looks */
	retire_in_epoch(fixture_take(BYTES), BYTES);
	session_announces(&a, grace_now(the_grace()));
	assert_stays(1);
	session_goes(&b);
	session_announces(&a, grace_now(the_grace()));
	assert_freed_soon(2);
	session_goes(&a);
}

/* A session that comes after the unlinking has its epoch, and holds nothing of before. */
UNIT_TEST(later_sessions_do_not, setup, fixture_close)
{
	struct fake_session a, b;

	session_comes(&a, 1);
	retire_in_epoch(fixture_take(BYTES), BYTES);
	assert_stays(0);
	session_comes(&b, 2);
	session_goes(&a);
	assert_freed_soon(1);
	session_goes(&b);
}

UNIT_TEST(epochs_one_by_one, setup, fixture_close)
{
	struct fake_session a;
	uint64_t at[20];

	session_comes(&a, 1);
	for (unsigned n = 0; n < 20; n++) {
		for (unsigned i = 0; i < 10; i++)
			reclaim_retire(worker, fixture_take(BYTES), BYTES);
		at[n] = grace_now(the_grace()) + 1; /* the reclaimer will take it there */
		reclaim_poll(worker, LATE_NS);
		for (unsigned i = 0; i < FIXTURE_PATIENCE_MS && grace_now(the_grace()) < at[n]; i++)
			pause_ms(1);
		assert_int_equal(grace_now(the_grace()), at[n]);
	}
	assert_stays(0);
	for (uint64_t n = 0; n < 20; n++) {
		session_announces(&a, at[n]);
		assert_freed_soon(10 * (n + 1));
	}
	session_goes(&a);
}

UNIT_TEST(a_hazard_holds_one_block, setup, fixture_close)
{
	struct memory_place held = fixture_take(BYTES), other = fixture_take(BYTES);

	reclaim_hazard_set(worker, 2, held);
	reclaim_retire(worker, other, BYTES);
	retire(held);
	assert_freed_soon(1);
	assert_stays(1);
	reclaim_hazard_clear(worker, 2); /* wakes the reclaimer by itself */
	assert_freed_soon(2);
}

/* A block that was freed is given out again, under a new incarnation. */
UNIT_TEST(addresses_come_back, setup, fixture_close)
{
	struct memory_place first, place;
	struct block *b;
	uint32_t before;
	bool again = false;

	assert_int_equal(memory_alloc(cache, BYTES, &first, &b), 0);
	before = block_state_incarnation(b->state);
	retire(first);
	assert_freed_soon(1);
	for (unsigned i = 0; i < 200000 && !again; i++) {
		assert_int_equal(memory_alloc(cache, BYTES, &place, &b), 0);
		again = place.extent == first.extent && place.offset == first.offset;
	}
	assert_true(again);
	assert_true(block_state_incarnation(b->state) > before);
}
