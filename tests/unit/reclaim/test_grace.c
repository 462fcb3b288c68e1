/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What counts as an announcement, who is fenced, how much may be deferred, and when an empty slab
 * may be cut anew.
 */
#include "tests/lib/unit.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "common/base/time.h"
#include "server/reclaim/reclaim.h"
#include "tests/unit/reclaim/fixture.h"

#define BYTES	 128u
#define LARGE	 (300u << 10)
#define LEASE_NS (1000 * NS_PER_MS)
#define LOOK_NS	 (LEASE_NS / 20)
#define CAP	 (1u << 20)

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

static struct epoch_session *find(uint64_t now_ns, uint64_t stuck, enum epoch_verdict *why)
{
	return grace_find(the_grace(), now_ns, LEASE_NS, (struct grace_stuck){ .epoch = stuck },
			  why);
}

static void the_root_shows_the_epoch(void **state)
{
	uint64_t r = retire_one(BYTES);

	assert_int_equal(atomic_load(&root.epoch), r + 1);
}

/* A torn slot, another generation: as if nothing had been announced. */
static void what_does_not_count(void **state)
{
	struct fake_session a;
	uint64_t now;

	session_comes(&a, 7, 0);
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

/* I3: announcements lie in [last, E]. */
static void lies(void **state)
{
	struct fake_session a, b, c;
	enum epoch_verdict why;

	for (unsigned i = 0; i < 5; i++)
		retire_one(BYTES);
	assert_freed_soon(5);
	session_comes(&a, 1, LOOK_NS);
	session_comes(&b, 2, LOOK_NS);
	session_comes(&c, 3, LOOK_NS);
	assert_null(find(LOOK_NS, 0, &why));
	session_announces(&a, grace_now(the_grace()) + 1);
	assert_ptr_equal(find(LOOK_NS, 0, &why), &a.s);
	assert_int_equal(why, EPOCH_LIED);
	session_goes(&a);
	session_announces(&b, grace_now(the_grace()) - 1);
	assert_ptr_equal(find(LOOK_NS, 0, &why), &b.s);
	assert_int_equal(why, EPOCH_LIED);
	session_goes(&b);
	atomic_store(&c.slot.h, grace_now(the_grace()) + 1);
	assert_ptr_equal(find(LOOK_NS, 0, &why), &c.s);
	assert_int_equal(why, EPOCH_LIED);
	assert_int_equal(grace_reach(the_grace()),
			 grace_now(the_grace())); /* it is still waited for */
	session_goes(&c);
}

static void a_silent_session(void **state)
{
	struct fake_session a, b;
	enum epoch_verdict why;
	uint64_t at;

	session_comes(&a, 1, 0);
	session_comes(&b, 2, 0);
	grace_wait_for(the_grace(), &b.s, false, 0); /* no queue pair: it need not beat */
	for (at = LOOK_NS; at < LEASE_NS; at += LOOK_NS)
		assert_null(find(at, 0, &why));
	session_announces(&a, grace_now(the_grace()));
	for (; at < 2 * LEASE_NS; at += LOOK_NS)
		assert_null(find(at, 0, &why));
	atomic_store(&a.slot.generation, 5); /* a beat of another generation is none */
	atomic_fetch_add(&a.slot.beat, 1);
	assert_ptr_equal(find(at, 0, &why), &a.s);
	assert_int_equal(why, EPOCH_SILENT);
	assert_true(grace_reach(the_grace()) !=
		    UINT64_MAX); /* I4: a lease that is over frees nothing */
	session_goes(&a);
	assert_int_equal(grace_reach(the_grace()), UINT64_MAX);
	grace_wait_for(the_grace(), &b.s, true, at); /* its lease begins now */
	assert_null(find(at + LOOK_NS, 0, &why));
	session_goes(&b);
}

/* A server that was stopped finds old beats everywhere. */
static void the_server_was_stopped(void **state)
{
	struct fake_session a;
	enum epoch_verdict why;
	uint64_t at = LOOK_NS;

	session_comes(&a, 1, at);
	assert_null(find(at, 0, &why));
	at += 10 * LEASE_NS;
	assert_null(find(at, 0, &why));
	for (unsigned i = 0; i < 20; i++)
		assert_true(!find(at += LOOK_NS, 0, &why) || i == 19);
	assert_ptr_equal(find(at + LOOK_NS, 0, &why), &a.s);
	assert_int_equal(why, EPOCH_SILENT);
	session_goes(&a);
}

/* One that is kept busy, by that very session maybe, forgives a pause of its own once. */
static void the_server_is_busy(void **state)
{
	struct fake_session a;
	enum epoch_verdict why;
	uint64_t at = LOOK_NS;

	session_comes(&a, 1, at);
	assert_null(find(at, 0, &why));
	assert_null(find(at += 2 * LEASE_NS, 0, &why));
	session_announces(&a, grace_now(the_grace()));
	assert_null(find(at += 2 * LEASE_NS, 0, &why));
	assert_null(find(at += 2 * LEASE_NS, 0, &why));
	assert_ptr_equal(find(at + 2 * LEASE_NS, 0, &why), &a.s);
	assert_int_equal(why, EPOCH_SILENT);
	session_goes(&a);
}

/* It beats and does not move: only while somebody wants memory, and not before a lease. */
static void a_stuck_session(void **state)
{
	struct fake_session a;
	enum epoch_verdict why;
	uint64_t at = 0, r;

	session_comes(&a, 1, 0);
	r = retire_one(BYTES);
	for (at = LOOK_NS; at < LEASE_NS; at += LOOK_NS) {
		session_announces(&a, r);
		assert_null(find(at, r, &why));
	}
	session_announces(&a, r);
	assert_null(find(at, 0, &why));
	assert_null(find(at, r - 1, &why));
	assert_ptr_equal(find(at, r, &why), &a.s);
	assert_int_equal(why, EPOCH_STUCK);
	session_goes(&a);
	assert_freed_soon(1);
}

/* It beats, and the server is kept busy for longer than a look in every lease. */
static void a_stuck_session_of_a_busy_server(void **state)
{
	struct fake_session a, b;
	enum epoch_verdict why;
	uint64_t at = LOOK_NS, r;

	session_comes(&a, 1, at);
	session_comes(&b, 2, at);
	assert_null(find(at, 0, &why));
	for (unsigned i = 0; i < 5; i++) { /* nobody is stuck: forgiven each time */
		session_announces(&a, grace_now(the_grace()));
		session_announces(&b, grace_now(the_grace()));
		assert_null(find(at += LEASE_NS / 2, 0, &why));
	}
	r = retire_one(BYTES);
	for (unsigned i = 0; i < 2; i++) {
		session_announces(&a, r);
		session_announces(&b, r + 1);
		assert_null(find(at += LEASE_NS / 2, r, &why));
	}
	session_announces(&a, r);
	assert_ptr_equal(find(at += LEASE_NS / 2, r, &why), &a.s);
	assert_int_equal(why, EPOCH_STUCK);
	session_goes(&a);
	session_goes(&b);
	assert_freed_soon(1);
}

/* Of many small batches, merged ones too, each has the age of what was retired last in it. */
static void merged_batches_are_not_old(void **state)
{
	struct fake_session a;
	uint64_t r = 0, now_ns, stuck = 1;
	uint64_t young_ns; /* until then nothing that was retired in the second half is old */

	session_comes(&a, 1, time_now_ns());
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

/* A session that opens its only queue pair anew all the time is waited for all the time. */
static void queue_pairs_that_come_and_go(void **state)
{
	struct fake_session a;
	enum epoch_verdict why;
	uint64_t r;

	session_comes(&a, 1, 0);
	r = retire_one(BYTES);
	for (uint64_t at = LOOK_NS; at < LEASE_NS; at += LOOK_NS) {
		grace_wait_for(the_grace(), &a.s, true, at); /* as session_qp_make() does */
		assert_null(find(at, 0, &why));
	}
	assert_ptr_equal(find(LEASE_NS, 0, &why), &a.s);
	assert_int_equal(why, EPOCH_SILENT);
	assert_stays(0);
	/* none at all for a moment: what was unlinked before the next one holds nobody */
	grace_wait_for(the_grace(), &a.s, false, LEASE_NS);
	grace_wait_for(the_grace(), &a.s, true, LEASE_NS);
	assert_true(grace_reach(the_grace()) > r);
	assert_freed_soon(1);
	session_goes(&a);
}

/* What reclaim_stuck() says of it, by the real clock. */
static void who_is_stuck_is_asked_for(void **state)
{
	struct fake_session a;
	uint64_t r, stuck = 0;

	session_comes(&a, 1, time_now_ns());
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
static void the_bound(void **state)
{
	uint64_t bytes = 0, max = CAP / 16 * 15;
	struct fake_session a;

	session_comes(&a, 1, 0);
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
	session_comes(&a, 2, 0);
	for (uint64_t n = 0; n < max; n += BYTES)
		reclaim_retire(worker, fixture_take(BYTES), BYTES);
	assert_false(reclaim_reserve(worker, BYTES));
	session_goes(&a);
}

/* A record larger than all that may be deferred passes when nothing else is, and only then. */
static void a_record_beyond_the_bound(void **state)
{
	struct reclaim_worker *other;
	struct fake_session a;

	assert_int_equal(reclaim_worker_create(&other, reclaim, 0), 0);
	assert_true(reclaim_reserve(worker, BYTES)); /* what is kept of it does no harm */
	reclaim_retire(worker, fixture_take(BYTES), BYTES);
	assert_true(!reclaim_reserve(worker, 2 * CAP) || stats_now().freed == 1);
	reclaim_poll(worker, LATE_NS);
	assert_freed_soon(1);
	session_comes(&a, 1, 0);
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

/* A server that is stopped again and again forgives hints once, as it does sections. */
static void who_keeps_hints_is_forgiven_once(void **state)
{
	const struct grace_stuck stuck = { .hints = 1 };
	struct fake_session a;
	enum epoch_verdict why = EPOCH_WELL;

	session_comes(&a, 1, 0);
	for (unsigned i = 1; i <= 3; i++) {
		struct epoch_session *found;

		atomic_fetch_add(&a.slot.beat, 1);
		found = grace_find(the_grace(), i * LEASE_NS - LOOK_NS, LEASE_NS, stuck, &why);
		assert_ptr_equal(found, i < 3 ? NULL : &a.s);
	}
	assert_int_equal(why, EPOCH_HOARDS);
	atomic_store(&a.slot.h, 1); /* it has followed */
	assert_null(grace_find(the_grace(), 4 * LEASE_NS, LEASE_NS, stuck, &why));
	session_goes(&a);
}

/* Slabs wait for hints, not for sections; blocks do not wait for hints. */
static void slabs_wait_for_hints(void **state)
{
	struct fake_session a;
	struct memory_stats stats;
	uint64_t now;

	session_comes(&a, 1, 0);
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
static void the_floor_rises_with_every_cut(void **state)
{
	struct fake_session a;

	retire_one(LARGE);
	assert_freed_soon(1);
	for (unsigned i = 0; i < FIXTURE_PATIENCE_MS && memory_recut_waits(memory); i++)
		pause_ms(1);
	assert_false(memory_recut_waits(memory));
	assert_int_equal(atomic_load(&root.hint_floor), grace_now(the_grace()));
	session_comes(&a, 1, 0);
	assert_int_equal(atomic_load(&a.slot.h), atomic_load(&root.hint_floor));
	session_goes(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_root_shows_the_epoch, setup, fixture_close),
		cmocka_unit_test_setup_teardown(what_does_not_count, setup, fixture_close),
		cmocka_unit_test_setup_teardown(lies, setup, fixture_close),
		cmocka_unit_test_setup_teardown(a_silent_session, setup, fixture_close),
		cmocka_unit_test_setup_teardown(the_server_was_stopped, setup, fixture_close),
		cmocka_unit_test_setup_teardown(the_server_is_busy, setup, fixture_close),
		cmocka_unit_test_setup_teardown(a_stuck_session, setup, fixture_close),
		cmocka_unit_test_setup_teardown(a_stuck_session_of_a_busy_server, setup,
						fixture_close),
		cmocka_unit_test_setup_teardown(queue_pairs_that_come_and_go, setup, fixture_close),
		cmocka_unit_test_setup_teardown(merged_batches_are_not_old, setup, fixture_close),
		cmocka_unit_test_setup_teardown(who_is_stuck_is_asked_for, setup, fixture_close),
		cmocka_unit_test_setup_teardown(the_bound, setup, fixture_close),
		cmocka_unit_test_setup_teardown(a_record_beyond_the_bound, setup, fixture_close),
		cmocka_unit_test_setup_teardown(who_keeps_hints_is_forgiven_once, setup,
						fixture_close),
		cmocka_unit_test_setup_teardown(slabs_wait_for_hints, setup, fixture_close),
		cmocka_unit_test_setup_teardown(the_floor_rises_with_every_cut, setup,
						fixture_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
