/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What counts as an announcement, how much may be deferred, and when an empty slab may be cut for
 * another size class.
 */
#include "tests/lib/unit.h"

#include <stdbool.h>

#include "common/base/time.h"
#include "server/reclaim/reclaim.h"
#include "tests/unit/reclaim/fixture.h"

#define BYTES 128u
#define LARGE (300u << 10)
#define CAP   (1u << 20)

static int setup(void **state)
{
	return fixture_open_with(8 << 20, 4, true, CAP);
}

static uint64_t retire_one(uint32_t bytes)
{
	return retire_in_epoch(fixture_take(bytes), bytes);
}

static void assert_stays(uint64_t n)
{
	reclaim_kick(reclaim);
	pause_ms(30);
	assert_int_equal(stats_now().freed, n);
}

UNIT_TEST(the_root_shows_the_epoch, setup, fixture_close)
{
	uint64_t r = retire_one(BYTES);

	assert_int_equal(atomic_load(&root.epoch), r + 1);
}

/* A torn slot, another generation: as if nothing had been announced. */
UNIT_TEST(what_does_not_count, setup, fixture_close)
{
	struct fake_session a;
	uint64_t now;

	session_comes(&a, 7);
	assert_int_equal(atomic_load(&a.slot.generation), 7);
	assert_int_equal(atomic_load(&a.slot.e), ~atomic_load(&a.slot.not_e));
	retire_one(BYTES);
	now = grace_now(the_grace());
	atomic_store(&a.slot.e, now); /* ~e is not there yet */
	assert_stays(0);
	atomic_store(&a.slot.generation, 6);
	atomic_store(&a.slot.not_e, ~now);
	assert_stays(0);
	atomic_store(&a.slot.generation, 7);
	assert_freed_soon(1);
	/* what was announced once stays true while the next WRITE is half done */
	retire_one(BYTES);
	session_announces(&a, grace_now(the_grace()));
	assert_freed_soon(2);
	atomic_store(&a.slot.e, grace_now(the_grace()) + 100);
	assert_int_equal(grace_reach(the_grace()), grace_now(the_grace()));
	session_goes(&a);
}

/* Of many small batches, merged ones too, each has the age of what was retired last in it. */
UNIT_TEST(merged_batches_are_not_old, setup, fixture_close)
{
	struct fake_session a;
	uint64_t r = 0, now_ns, stuck = 1;
	uint64_t young_ns; /* until then nothing that was retired in the second half is old */

	session_comes(&a, 1);
	for (unsigned i = 0; i < 70; i++)
		retire_one(BYTES);
	pause_ms(FIXTURE_LIMIT_MS + 50); /* nobody wanted any of it */
	young_ns = time_now_ns() + FIXTURE_LIMIT_MS * NS_PER_MS;
	for (unsigned i = 0; i < 20; i++)
		r = retire_one(BYTES);
	session_announces(&a, r); /* all but the last one or two may go */
	for (unsigned i = 0; i < FIXTURE_PATIENCE_MS && stats_now().deferred_blocks > 30; i++)
		pause_ms(1);
	for (unsigned i = 0; i < FIXTURE_PATIENCE_MS && stuck; i++) { /* told once all are freed */
		pause_ms(1);
		reclaim_wanting(reclaim);
		now_ns = time_now_ns(); /* on a machine that is slow: as if it were not */
		stuck = reclaim_stuck(reclaim, now_ns < young_ns ? now_ns : young_ns).epoch;
	}
	assert_int_equal(stuck, 0);
	session_goes(&a);
	assert_freed_soon(90);
}

/* A session has no queue pair for a moment: what was unlinked before the next one holds nobody. */
UNIT_TEST(queue_pairs_that_come_and_go, setup, fixture_close)
{
	struct fake_session a;
	uint64_t r;

	session_comes(&a, 1);
	r = retire_one(BYTES);
	grace_wait_for(the_grace(), &a.s, true); /* one more beside the first changes nothing */
	assert_stays(0);
	grace_wait_for(the_grace(), &a.s, false);
	grace_wait_for(the_grace(), &a.s, true);
	assert_true(grace_reach(the_grace()) > r);
	assert_freed_soon(1);
	session_goes(&a);
}

/* What reclaim_stuck() says of it, by the real clock. */
UNIT_TEST(who_is_stuck_is_asked_for, setup, fixture_close)
{
	struct fake_session a;
	uint64_t r, stuck = 0;

	session_comes(&a, 1);
	assert_false(reclaim_wanting(reclaim)); /* nothing is on its way */
	r = retire_one(BYTES);
	assert_true(reclaim_wanting(reclaim));
	assert_int_equal(reclaim_stuck(reclaim, time_now_ns()).epoch, 0); /* it is young */
	for (unsigned i = 0; i < FIXTURE_PATIENCE_MS && !stuck; i++) {
		pause_ms(1);
		assert_int_equal(reclaim_stuck(reclaim, time_now_ns() + NS_PER_S).epoch,
				 0); /* unwanted */
		reclaim_wanting(reclaim);
		stuck = reclaim_stuck(reclaim, time_now_ns()).epoch;
	}
	assert_int_equal(stuck, r);
	session_goes(&a);
	assert_freed_soon(1);
}

/* I5 */
UNIT_TEST(the_bound, setup, fixture_close)
{
	uint64_t bytes = 0, max = CAP / 16 * 15;
	struct fake_session a;

	session_comes(&a, 1);
	while (reclaim_reserve(worker, BYTES)) {
		reclaim_retire(worker, fixture_take(BYTES), BYTES);
		bytes += BYTES;
		assert_true(bytes <= max);
	}
	assert_true(bytes > max - BYTES);
	assert_int_equal(stats_now().deferred_bytes, bytes);
	assert_int_equal(stats_now().refused, 1);
	reclaim_poll(worker, LATE_NS);
	session_goes(&a);
	assert_freed_soon(bytes / BYTES);
	/* what was not reserved counts as well */
	session_comes(&a, 2);
	for (uint64_t n = 0; n < max; n += BYTES)
		reclaim_retire(worker, fixture_take(BYTES), BYTES);
	assert_false(reclaim_reserve(worker, BYTES));
	session_goes(&a);
}

/* A record larger than all that may be deferred passes when nothing else is, and only then. */
UNIT_TEST(a_record_beyond_the_bound, setup, fixture_close)
{
	struct reclaim_worker *other;
	struct fake_session a;

	assert_int_equal(reclaim_worker_create(&other, reclaim, 0), 0);
	assert_true(reclaim_reserve(worker, BYTES)); /* what is kept of it does no harm */
	reclaim_retire(worker, fixture_take(BYTES), BYTES);
	assert_true(!reclaim_reserve(worker, 2 * CAP) || stats_now().freed == 1);
	reclaim_poll(worker, LATE_NS);
	assert_freed_soon(1);
	session_comes(&a, 1);
	assert_true(reclaim_reserve(worker, 2 * CAP));
	assert_false(reclaim_reserve(other, 2 * CAP)); /* though nothing is deferred yet */
	assert_true(reclaim_full(other, 2 * CAP));
	assert_false(reclaim_full(worker, 2 * CAP)); /* it has it already */
	reclaim_retire(worker, fixture_take(LARGE), 2 * CAP);
	reclaim_poll(worker, LATE_NS);
	assert_false(reclaim_reserve(worker, 2 * CAP));
	assert_false(reclaim_reserve(worker, BYTES));
	assert_true(reclaim_full(worker, BYTES));
	assert_true(reclaim_full(worker, 2 * CAP));
	session_goes(&a);
	assert_freed_soon(2);
	assert_false(reclaim_full(worker, BYTES));
	assert_false(reclaim_full(worker, 2 * CAP));
	assert_true(reclaim_reserve(worker, BYTES));
	reclaim_worker_destroy(other);
}

/* Slabs wait for hints, not for sections; blocks do not wait for hints. */
UNIT_TEST(slabs_wait_for_hints, setup, fixture_close)
{
	struct fake_session a;
	struct memory_stats stats;
	uint64_t now;

	session_comes(&a, 1);
	retire_one(LARGE); /* a run of its own */
	now = grace_now(the_grace());
	atomic_store(&a.slot.not_e, ~now);
	atomic_store(&a.slot.e, now); /* h stays behind */
	assert_freed_soon(1);
	pause_ms(30);
	memory_stats_get(memory, &stats);
	assert_int_equal(stats.slabs_waiting, 1);
	assert_int_equal(stats.run_slabs, 0);
	assert_int_equal(atomic_load(&root.hint_floor), 0);
	for (unsigned i = 0; i < FIXTURE_PATIENCE_MS && atomic_load(&root.hint_floor) < now; i++) {
		reclaim_wanting(reclaim); /* somebody wants memory: clients are asked */
		pause_ms(1);
	}
	assert_int_equal(atomic_load(&root.hint_floor), now);
	pause_ms(30);
	memory_stats_get(memory, &stats);
	assert_int_equal(stats.slabs_waiting, 1);
	atomic_store(&a.slot.h, now);
	for (unsigned i = 0; i < FIXTURE_PATIENCE_MS && stats.slabs_waiting; i++) {
		pause_ms(1);
		memory_stats_get(memory, &stats);
	}
	assert_int_equal(stats.slabs_waiting, 0);
	assert_int_equal(stats.slabs_used, 0);
	session_goes(&a);
}

/* Nobody is there to hold a hint, but a client may come back with some: the floor says so. */
UNIT_TEST(the_floor_rises_with_every_cut, setup, fixture_close)
{
	struct fake_session a;

	retire_one(LARGE);
	assert_freed_soon(1);
	for (unsigned i = 0; i < FIXTURE_PATIENCE_MS && memory_recut_waits(memory); i++)
		pause_ms(1);
	assert_false(memory_recut_waits(memory));
	assert_int_equal(atomic_load(&root.hint_floor), grace_now(the_grace()));
	session_comes(&a, 1);
	assert_int_equal(atomic_load(&a.slot.h), atomic_load(&root.hint_floor));
	session_goes(&a);
}
