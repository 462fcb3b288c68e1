/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Hints are dropped where memory is wanted: the server's half and the client's own (epochs.c),
 * whose sections follow each other so closely that one is open whenever its housekeeper looks.
 */
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

#include "client/src/link/epochs.h"
#include "common/base/time.h"
#include "tests/unit/reclaim/fixture.h"

#define SLAB	    (1u << 20)
#define HINT_MEMORY 4096u
#define ROUNDS	    2000u
#define SLABS	    16u

static struct fake_session session;
static struct epochs *ep;
static struct hints hints;
static unsigned rounds;

static int setup(void **state)
{
	struct error err;

	if (fixture_open_with(24 << 20, 4, true, 0) || hints_create(&hints, HINT_MEMORY, &err))
		return -1;
	ep = aligned_alloc(alignof(struct epochs), sizeof(*ep));
	if (!ep)
		return -1;
	memset(ep, 0, sizeof(*ep));
	session_comes(&session, 1);
	epochs_init(ep, &hints);
	epochs_reset(ep, 1, grace_now(the_grace()), false);
	rounds = 0;
	return 0;
}

static int teardown(void **state)
{
	session_goes(&session);
	epochs_destroy(ep);
	free(ep);
	hints_destroy(&hints);
	return fixture_close(state);
}

/* A round of its housekeeper, as round.c makes it; then the section that was open ends, and
 * the next one is open already. */
static void client_round(void)
{
	struct announcement say;
	uint64_t v = atomic_load(&root.epoch), floor = atomic_load(&root.hint_floor);

	assert_int_equal(epochs_announce(ep, 1, v, floor, 0, &say), 0);
	atomic_store(&session.slot.not_e, ~say.e);
	atomic_store(&session.slot.e, say.e);
	atomic_store(&session.slot.h, say.h);
	atomic_fetch_add(&session.slot.beat, 1);
	epochs_pin(ep, (rounds + 1) % 2);
	epochs_unpin(ep, rounds % 2, 0);
	rounds++;
	pause_ms(1);
}

static uint64_t waiting(void)
{
	struct memory_stats stats;

	memory_stats_get(memory, &stats);
	return stats.slabs_waiting;
}

/* A block goes while the client is at work. Returns the epoch before which it went. */
static uint64_t give_away(uint32_t bytes)
{
	uint64_t freed = stats_now().freed;

	reclaim_retire(worker, fixture_take(bytes), bytes);
	reclaim_poll(worker, LATE_NS);
	for (unsigned i = 0; i < FIXTURE_PATIENCE_MS && stats_now().freed == freed; i++)
		client_round();
	assert_int_equal(stats_now().freed, freed + 1);
	return grace_now(the_grace());
}

/* Nothing is written any more, so nothing is retired that would end an epoch. */
UNIT_TEST(hints_go_on_a_quiet_server, setup, teardown)
{
	client_round();
	give_away(SLAB - 100);
	assert_int_equal(waiting(), 1);
	for (unsigned i = 0; i < ROUNDS && waiting(); i++) {
		reclaim_wanting(reclaim); /* somebody waits, and asks again */
		client_round();
	}
	assert_int_equal(waiting(), 0);
}

/*
 * A slab falls empty between any two rounds of the client. A client that drops hints must not be
 * asked again before it has said so.
 */
UNIT_TEST(hints_go_on_a_busy_server, setup, teardown)
{
	struct memory_place place[SLABS];
	unsigned i;

	for (i = 0; i < SLABS; i++)
		place[i] = fixture_take(SLAB - 100);
	for (i = 0; i < SLABS && atomic_load(&session.slot.h) == 0; i++) {
		uint64_t floor = atomic_load(&root.hint_floor), now;

		client_round();
		reclaim_wanting(reclaim);
		now = grace_now(the_grace());
		reclaim_retire(worker, place[i], SLAB - 100);
		reclaim_poll(worker, LATE_NS);
		for (unsigned k = 0; k < FIXTURE_PATIENCE_MS && grace_now(the_grace()) == now; k++)
			pause_ms(1); /* the one before is freed */
		for (unsigned k = 0; k < 10 && atomic_load(&root.hint_floor) == floor; k++)
			pause_ms(1);
	}
	assert_in_range(atomic_load(&session.slot.h), 1, grace_now(the_grace()));
}

/* Epochs end for clients that are asked, not for nothing. */
UNIT_TEST(no_epoch_ends_in_vain, setup, teardown)
{
	uint64_t now;

	client_round();
	give_away(SLAB - 100);
	for (unsigned i = 0; i < ROUNDS && waiting(); i++) {
		reclaim_wanting(reclaim);
		client_round();
	}
	now = grace_now(the_grace());
	for (unsigned i = 0; i < 100; i++) { /* nothing waits: wanted or not */
		reclaim_wanting(reclaim);
		client_round();
	}
	assert_int_equal(grace_now(the_grace()), now);
}

/* A client that does not move is not overrun: the next epoch ends when it has told of the last. */
UNIT_TEST(who_stands_still_sees_one_epoch_end, setup, teardown)
{
	uint64_t now;

	client_round();
	now = give_away(SLAB - 100);
	for (unsigned i = 0; i < 100; i++) {
		reclaim_wanting(reclaim);
		pause_ms(1);
	}
	assert_int_equal(waiting(), 1);
	assert_in_range(grace_now(the_grace()), now, now + 1);
}

/* It announces epochs, and keeps its hints. Returns below which they hold back what is wanted. */
static uint64_t hoarding_round(void)
{
	uint64_t e = grace_now(the_grace());

	atomic_store(&session.slot.not_e, ~e);
	atomic_store(&session.slot.e, e);
	pause_ms(1);
	return reclaim_stuck(reclaim, time_now_ns()).hints;
}

/* Once memory has been short for as long as a section may be open; not where nobody wants any. */
UNIT_TEST(who_keeps_hints_is_stuck, setup, teardown)
{
	uint64_t start_ns, stuck = 0;

	client_round();
	give_away(SLAB - 100);
	reclaim_wanting(reclaim);
	start_ns = time_now_ns();
	for (unsigned i = 0; i < FIXTURE_PATIENCE_MS && !stuck; i++) {
		reclaim_wanting(reclaim);
		stuck = hoarding_round();
	}
	assert_true(stuck > atomic_load(&session.slot.h));
	assert_true(time_now_ns() - start_ns > FIXTURE_LIMIT_MS * NS_PER_MS);
	assert_int_equal(waiting(), 1);
	pause_ms(100); /* by then memory is not short any more */
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(hoarding_round(), 0);
}

/* A client that follows may be asked for ever: each time the wait starts over. */
UNIT_TEST(who_follows_is_not_stuck, setup, teardown)
{
	const uint64_t limit_ns = FIXTURE_LIMIT_MS * NS_PER_MS,
		       end_ns = time_now_ns() + 4 * limit_ns;
	uint64_t born_ns = 0; /* nobody was asked for what waits before that */

	client_round();
	for (unsigned went = 0; time_now_ns() < end_ns || went < 8;) {
		uint64_t now_ns;

		if (!waiting()) {
			born_ns = time_now_ns();
			give_away(SLAB - 100);
			went++;
		}
		reclaim_wanting(reclaim);
		client_round();
		now_ns = time_now_ns(); /* on a machine that is slow: as if it were not */
		if (now_ns > born_ns + limit_ns)
			now_ns = born_ns + limit_ns;
		assert_int_equal(reclaim_stuck(reclaim, now_ns).hints, 0);
	}
}
