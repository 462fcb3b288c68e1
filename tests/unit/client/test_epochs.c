/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Pins, announcements, another connection; and the protocol in threads, with a server beside. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/src/link/epochs.h"
#include "client/src/keeper/pace.h"
#include "common/base/time.h"

static int set_up(void **state)
{
	struct epochs *ep = aligned_alloc(alignof(struct epochs), sizeof(*ep));

	if (!ep)
		return -1;
	memset(ep, 0, sizeof(*ep));
	epochs_init(ep, NULL);
	epochs_reset(ep, 1, 10, false);
	*state = ep;
	return 0;
}

static int tear_down(void **state)
{
	epochs_destroy(*state);
	free(*state);
	return 0;
}

static uint64_t announce(struct epochs *ep, uint64_t number, uint64_t v)
{
	struct announcement say = { 0 };

	assert_int_equal(epochs_announce(ep, number, v, 1000, 0, &say), 0);
	assert_int_equal(say.h, say.e); /* nothing is remembered: no floor matters */
	return say.e;
}

/* Several sections of one handle: the oldest one's pin stands for all. */
UNIT_TEST(test_sections_of_one_handle_share_a_word, set_up, tear_down)
{
	struct epochs *ep = *state;
	uint64_t first, second, third;

	announce(ep, 1, 12);
	first = epochs_pin(ep, 3);
	announce(ep, 1, 15);
	second = epochs_pin_beside(ep, 3);
	announce(ep, 1, 17);
	third = epochs_pin_beside(ep, 3);
	assert_int_equal(first, 12);
	assert_int_equal(second, 15);
	assert_int_equal(third, 17);
	assert_int_equal(epochs_lowest(ep), 12);
	epochs_unpin(ep, 3, second);
	assert_int_equal(announce(ep, 1, 20), 15);
	epochs_unpin(ep, 3, third);
	assert_int_equal(announce(ep, 1, 20), 17);
	epochs_unpin(ep, 3, 0);
	assert_int_equal(announce(ep, 1, 20), 20);
}

UNIT_TEST(test_pins_hold_what_is_announced, set_up, tear_down)
{
	struct epochs *ep = *state;

	assert_int_equal(epochs_lowest(ep), UINT64_MAX);
	assert_int_equal(announce(ep, 1, 12), 12);
	epochs_pin(ep, 3); /* at 12 */
	assert_int_equal(epochs_lowest(ep), 12);
	assert_int_equal(announce(ep, 1, 15), 12);
	epochs_pin(ep, SESSION_HANDLES_MAX - 1); /* at 15: newest grows whatever is pinned */
	assert_int_equal(announce(ep, 1, 20), 12);
	epochs_unpin(ep, 3, 0);
	assert_int_equal(epochs_lowest(ep), 15);
	assert_int_equal(announce(ep, 1, 20), 15);
	epochs_unpin(ep, SESSION_HANDLES_MAX - 1, 0);
	assert_int_equal(announce(ep, 1, 20), 20);
	assert_int_equal(epochs_calls(ep), 2);
	epochs_note(ep, 0);
	assert_int_equal(epochs_calls(ep), 3);
}

/* A section that loads newest, sleeps, and pins it when more was announced, as a thread may. */
UNIT_TEST(test_announcements_never_go_backwards, set_up, tear_down)
{
	struct epochs *ep = *state;

	assert_int_equal(announce(ep, 1, 20), 20);
	atomic_store(&ep->pin[0].epoch, 11);
	assert_int_equal(announce(ep, 1, 25), 20);
	epochs_unpin(ep, 0, 0);
	assert_int_equal(announce(ep, 1, 24), 24); /* an older READ than the newest: no matter */
	assert_int_equal(atomic_load(&ep->newest), 25);
}

UNIT_TEST(test_a_round_of_a_lost_connection_is_abandoned, set_up, tear_down)
{
	struct epochs *ep = *state;
	struct announcement say = { 99, 98 };

	epochs_pin(ep, 0);
	epochs_reset(ep, 2, 4, false); /* a server that restarted */
	assert_int_equal(atomic_load(&ep->newest), 4);
	assert_int_equal(epochs_announce(ep, 1, 30, 20, 0, &say), -ESTALE);
	assert_true(say.e == 99 && say.h == 98);
	assert_int_equal(atomic_load(&ep->newest), 4);
	assert_int_equal(atomic_load(&ep->announced), 4);
	/* the pin of the old life, 10, is more than this one has: never announced */
	assert_int_equal(announce(ep, 2, 6), 6);
	epochs_unpin(ep, 0, 0);
	epochs_reset(ep, 3, 50, true);
	atomic_store(&ep->pin[0].epoch, 5); /* one that is less: never below the WELCOME's */
	assert_int_equal(announce(ep, 3, 60), 50);
}

/* What is remembered is dropped at once, and said to be when no section of then is open. */
UNIT_TEST(test_hints_follow_the_floor, set_up, tear_down)
{
	struct epochs *ep = *state;
	struct announcement say;
	struct hints hints;
	struct error err;
	uint32_t age;

	assert_int_equal(hints_create(&hints, 4096, &err), 0);
	epochs_destroy(ep);
	epochs_init(ep, &hints);
	epochs_reset(ep, 1, 10, false);
	age = hints_age(&hints);
	assert_int_equal(epochs_announce(ep, 1, 12, 0, 0, &say), 0);
	assert_true(say.e == 12 && say.h == 0 && hints_age(&hints) == age);
	epochs_pin(ep, 0); /* at 12 */
	assert_int_equal(epochs_announce(ep, 1, 15, 14, 0, &say), 0);
	assert_true(say.e == 12 && say.h == 0); /* the section may use one still */
	assert_int_equal(hints_age(&hints), age + 1);
	epochs_unpin(ep, 0, 0);
	epochs_pin(ep, 1); /* at 15: since when nothing tells it from those before */
	assert_int_equal(epochs_announce(ep, 1, 16, 14, 0, &say), 0);
	assert_true(say.e == 15 && say.h == 0 && hints_age(&hints) == age + 1);
	epochs_pin(ep, 2); /* at 16 */
	epochs_unpin(ep, 1, 0);
	assert_int_equal(epochs_announce(ep, 1, 16, 14, 0, &say), 0);
	assert_true(say.e == 16 && say.h == 14);
	/* a session of the same life goes on from there, another life starts over */
	epochs_reset(ep, 2, 20, true);
	epochs_unpin(ep, 2, 0);
	assert_int_equal(epochs_announce(ep, 2, 20, 14, 0, &say), 0);
	assert_true(say.h == 14 && hints_age(&hints) == age + 1);
	epochs_reset(ep, 3, 5, false);
	assert_int_equal(hints_age(&hints), age + 2);
	assert_int_equal(epochs_announce(ep, 3, 6, 0, 0, &say), 0);
	assert_true(say.e == 6 && say.h == 0);
	assert_int_equal(epochs_announce(ep, 3, 6, 2, 0, &say), 0);
	assert_true(say.h == 2); /* nothing is open */
	epochs_destroy(ep);
	hints_destroy(&hints);
	epochs_init(ep, NULL);
}

UNIT_TEST(test_pace)
{
	unsigned pause = 0, rounds = 0;

	assert_int_equal(housekeeper_pause(250, HOUSEKEEPER_HURRY, 0, 1000, 0),
			 HOUSEKEEPER_BUSY_MS);
	assert_int_equal(housekeeper_pause(1, HOUSEKEEPER_FOLLOW, 3, 1000, 0),
			 3 * HOUSEKEEPER_SHARE);
	assert_int_equal(housekeeper_pause(1, HOUSEKEEPER_FOLLOW, 3000, 1000, 0), 250);
	for (unsigned ms = 0; ms < 1000; ms += pause, rounds++) {
		unsigned next = housekeeper_pause(pause, HOUSEKEEPER_IDLE, 0, 1000, 0);

		assert_true(next >= pause && next <= 250 && next <= 2 * (pause ? pause : 1));
		pause = next;
	}
	assert_int_equal(pause, 250);
	assert_true(rounds < 16);
	/* of a group: its words are looked at eight times a lease, while a handle is at work */
	assert_int_equal(housekeeper_pause(8, HOUSEKEEPER_STILL, 0, 1000, 24), 3);
	assert_int_equal(housekeeper_pause(200, HOUSEKEEPER_IDLE, 0, 1000, 24), 250);
	/* four beats a lease, or one each ms */
	for (unsigned lease = 1; lease < 100; lease++) {
		pause = housekeeper_pause(UINT16_MAX, HOUSEKEEPER_IDLE, 0, lease, 0);
		assert_true(pause >= 1 && (pause == 1 || pause * 4 <= lease));
	}
	assert_int_equal(housekeeper_pause(UINT16_MAX, HOUSEKEEPER_STILL, 0, 1, 0), 1);
}

/* Handles are at work, and the server's epoch grows every @every_ms. Rounds in a second. */
static unsigned rounds_a_second(unsigned every_ms)
{
	unsigned pause = HOUSEKEEPER_BUSY_MS, rounds = 0;
	uint64_t epoch = 0;

	for (unsigned ms = 0; ms < 1000; ms += pause, rounds++) {
		bool grew = ms / every_ms != epoch;

		epoch = ms / every_ms;
		pause = housekeeper_pause(pause, grew ? HOUSEKEEPER_FOLLOW : HOUSEKEEPER_STILL, 0,
					  1000, 0);
		assert_in_range(pause, HOUSEKEEPER_BUSY_MS, HOUSEKEEPER_STILL_MS);
	}
	return rounds;
}

UNIT_TEST(test_pace_of_epochs)
{
	assert_in_range(rounds_a_second(1000000), 120, 130); /* it stands still */
	assert_in_range(rounds_a_second(100), 120, 160);
	assert_in_range(rounds_a_second(5), 200, 500);
	assert_in_range(rounds_a_second(1), 990, 1000); /* memory is replaced as fast as can be */
}

/*
 * The protocol. The server's index names a block and its incarnation; it replaces the block, raises
 * E, waits for the slot, and reuses the block. No reader may see that in a section.
 */
#define BLOCKS	  3u
#define READERS	  2u
#define RUN_NS	  (600 * NS_PER_MS) /* at least; then until there were LEAST of either */
#define LIMIT_NS  (20 * NS_PER_S)
#define LEAST	  11u /* sections, and blocks reused */
#define LINGER_US 200u

static struct {
	struct epochs *ep;
	_Atomic uint64_t newest, slot, index, incarnation[BLOCKS];
	_Atomic bool stop;
	_Atomic unsigned broken, sections, reused;
} world;

/* Sections outlast rounds now and then, and the server unlinks in any moment of a round. */
static void linger(uint64_t *seed)
{
	uint64_t n = unit_random(seed);

	if (n % 8)
		sched_yield();
	else
		usleep((unsigned)(n >> 8) % LINGER_US);
}

static void *reader(void *arg)
{
	unsigned handle = (unsigned)(uintptr_t)arg;
	uint64_t seed = handle;

	while (!atomic_load(&world.stop)) {
		uint64_t index, block;

		epochs_pin(world.ep, handle);
		/* acquire, not seq_cst: the fence alone keeps it after the pin */
		index = atomic_load_explicit(&world.index, memory_order_acquire);
		block = index % BLOCKS;
		for (unsigned i = (unsigned)(unit_random(&seed) % 8); i; i--) {
			if (atomic_load_explicit(&world.incarnation[block], memory_order_acquire) !=
			    index / BLOCKS)
				atomic_fetch_add(&world.broken, 1);
			linger(&seed);
		}
		epochs_unpin(world.ep, handle, 0);
		atomic_fetch_add(&world.sections, 1);
		/* or each scan sees a pin */
		usleep((unsigned)unit_random(&seed) % (2 * LINGER_US));
	}
	return NULL;
}

static void *keeper(void *arg)
{
	struct announcement say = { 0 };
	uint64_t last = 0, v, early = 0;

	while (!atomic_load(&world.stop)) {
		if (MUTANT(scan_first)) {
			early = epochs_lowest(world.ep);
			mutant_linger(LINGER_US);
		}
		v = atomic_load_explicit(&world.newest, memory_order_acquire); /* the READ */
		if (epochs_announce(world.ep, 1, v, 0, early, &say) || say.e < last || say.e > v)
			atomic_fetch_add(&world.broken, 1);
		last = say.e;
		atomic_store_explicit(&world.slot, say.e, memory_order_release); /* the WRITE */
		sched_yield();
	}
	return NULL;
}

static bool enough(uint64_t end_ns)
{
	return time_now_ns() >= end_ns && atomic_load(&world.sections) >= LEAST &&
	       atomic_load(&world.reused) >= LEAST;
}

static void serve(void)
{
	uint64_t start = time_now_ns(), end = start + RUN_NS, limit = start + LIMIT_NS;
	uint64_t seed = 1, r, old, block;

	for (unsigned n = 1; !enough(end) && time_now_ns() < limit; n++) {
		old = atomic_load(&world.index) % BLOCKS;
		block = n % BLOCKS;
		linger(&seed);
		atomic_store(&world.index,
			     atomic_load(&world.incarnation[block]) * BLOCKS + block); /* unlink */
		r = atomic_load(&world.newest);
		atomic_store(&world.newest, r + 1);
		while (atomic_load(&world.slot) <= r && time_now_ns() < limit)
			sched_yield();
		if (atomic_load(&world.slot) <= r)
			break;
		atomic_fetch_add(&world.incarnation[old], 1);
		atomic_fetch_add(&world.reused, 1);
	}
}

UNIT_TEST(test_nothing_is_reused_under_a_section, set_up, tear_down)
{
	pthread_t thread[READERS + 1];

	memset(&world, 0, sizeof(world));
	world.ep = *state;
	atomic_store(&world.newest, 10);
	for (uintptr_t i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, reader, (void *)i), 0);
	assert_int_equal(pthread_create(&thread[READERS], NULL, keeper, NULL), 0);
	serve();
	atomic_store(&world.stop, true);
	for (unsigned i = 0; i <= READERS; i++)
		pthread_join(thread[i], NULL);
	printf("%u sections, %u blocks reused\n", atomic_load(&world.sections),
	       atomic_load(&world.reused));
	assert_true(atomic_load(&world.sections) >= LEAST && atomic_load(&world.reused) >= LEAST);
	assert_int_equal(atomic_load(&world.broken), 0);
}
