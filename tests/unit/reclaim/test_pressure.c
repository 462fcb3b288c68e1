/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The reclaimer under pressure: no heap memory, hazards that come and go all the time, a session
 * of many days; and at rest: no CPU. malloc() is wrapped by the linker.
 */
#include "tests/lib/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "server/reclaim/qsbr.h"
#include "server/reclaim/reclaim.h"
#include "tests/unit/reclaim/fixture.h"

#define BYTES	128
#define HAZARDS 8
#define ROUNDS	20000
#define SEED	20260712

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);

static _Thread_local bool malloc_fails;
static _Atomic unsigned mallocs;

void *__wrap_malloc(size_t bytes)
{
	if (malloc_fails)
		return NULL;
	atomic_fetch_add_explicit(&mallocs, 1, memory_order_relaxed);
	return __real_malloc(bytes);
}

static int setup(void **state)
{
	return fixture_open(32 << 20, HAZARDS);
}

static int teardown(void **state)
{
	struct memory_stats stats;
	uint64_t left = (uint64_t)(uintptr_t)*state;

	reclaim_worker_destroy(worker);
	reclaim_destroy(reclaim);
	memory_cache_destroy(cache);
	memory_stats_get(memory, &stats);
	if (!left && stats.slabs_used)
		return -1;
	memory_destroy(memory);
	return 0;
}

static struct memory_place take(struct block **b)
{
	struct memory_place place;

	assert_int_equal(memory_alloc(cache, BYTES, &place, b), 0);
	return place;
}

/* The session keeps announcing, until the reclaimer has seen all that was retired. */
static void announced_until_freed(struct fake_session *f, uint64_t n)
{
	for (unsigned i = 0; i < FIXTURE_PATIENCE_MS && stats_now().freed < n; i++) {
		session_announces(f, grace_now(the_grace()));
		pause_ms(1);
	}
	assert_int_equal(stats_now().freed, n);
}

/* The stock serves; past it blocks are given up, counted, and never freed; then all goes on. */
UNIT_TEST(no_heap_memory, setup, teardown)
{
	const unsigned batches = 20;
	struct reclaim_stats stats;
	struct fake_session a;
	struct block *b;

	session_comes(&a, 1); /* nothing comes back meanwhile */
	malloc_fails = true;
	for (unsigned i = 0; i < 256 * batches; i++)
		reclaim_retire(worker, take(&b), BYTES);
	malloc_fails = false;
	stats = stats_now();
	assert_int_equal(stats.retired, 256 * batches);
	assert_true(stats.lost > 0 && stats.lost <= 256 * (batches - 4));
	assert_int_equal(stats.deferred_blocks, 256 * batches - stats.lost);
	assert_int_equal(stats.deferred_bytes, stats.deferred_blocks * BYTES);
	session_goes(&a);
	reclaim_poll(worker, LATE_NS);
	assert_freed_soon(256 * batches - stats.lost);
	reclaim_retire(worker, take(&b), BYTES);
	reclaim_poll(worker, LATE_NS);
	assert_freed_soon(256 * batches - stats.lost + 1);
	*state = (void *)1; /* what was given up is still out */
}

/* One block every batch, for ever: small batches are merged, or each would cost 3 KiB. */
UNIT_TEST(a_long_session_costs_little, setup, teardown)
{
	struct fake_session a;
	uint64_t periods = 0;
	unsigned before;
	struct block *b;

	session_comes(&a, 1);
	before = atomic_load(&mallocs);
	for (unsigned i = 0; i < 20000; i++) {
		reclaim_retire(worker, take(&b), BYTES);
		reclaim_poll(worker, LATE_NS);
		if (i % 16 == 0) { /* let the reclaimer keep up, however busy the machine is */
			for (unsigned k = 0; k < 1000 && stats_now().grace_periods == periods; k++)
				pause_ms(1);
			periods = stats_now().grace_periods;
		}
	}
	assert_int_equal(stats_now().freed, 0);
	print_message("%u batches for 20000 blocks, one at a time\n",
		      atomic_load(&mallocs) - before);
	assert_true(atomic_load(&mallocs) - before < 20000 / 4);
	announced_until_freed(&a, 20000);
	session_goes(&a);
}

/*
 * Hazards against the reclaimer. Under a hazard the incarnation stays; after it the block goes,
 * without a kick: a missed wake-up would leave blocks behind.
 */
UNIT_TEST(hazards_come_and_go, setup, teardown)
{
	struct memory_place place[HAZARDS];
	struct block *block[HAZARDS];
	uint64_t word[HAZARDS];

	qsbr_register();
	for (unsigned n = 0; n < ROUNDS; n++) {
		unsigned h = n % HAZARDS;

		if (n >= HAZARDS) {
			if (atomic_load(&block[h]->state) != word[h])
				fail_msg("round %u: a block under a hazard was reused", n);
			reclaim_hazard_clear(worker, h);
		}
		place[h] = take(&block[h]);
		word[h] = atomic_load(&block[h]->state);
		reclaim_hazard_set(worker, h, place[h]);
		reclaim_retire(worker, place[h], BYTES);
		reclaim_poll(worker, LATE_NS);
		qsbr_quiescent();
		if (n % 500 == 499) { /* let the reclaimer find all of them pinned */
			qsbr_offline();
			assert_freed_soon(n + 1 - HAZARDS);
			qsbr_online();
		}
	}
	qsbr_offline();
	for (unsigned h = 0; h < HAZARDS; h++)
		reclaim_hazard_clear(worker, h);
	assert_freed_soon(ROUNDS);
	qsbr_unregister();
}

/*
 * One hazard at a time, cleared at any moment of the reclaimer's round: the block goes without
 * a kick. Catches a reclaimer that says "pinned" only after it has looked.
 */
UNIT_TEST(no_wake_up_is_missed, setup, teardown)
{
	uint64_t seed = SEED;
	struct block *b;

	printf("seed %d\n", SEED);
	for (uint64_t n = 1; n <= ROUNDS; n++) {
		struct memory_place place = take(&b);
		unsigned spin = (unsigned)(unit_random(&seed) % 8000);

		reclaim_hazard_set(worker, 0, place);
		reclaim_retire(worker, place, BYTES);
		reclaim_poll(worker, LATE_NS);
		while (spin--)
			atomic_signal_fence(memory_order_seq_cst);
		reclaim_hazard_clear(worker, 0);
		for (unsigned i = 0; i < 1000 && stats_now().freed < n; i++)
			sched_yield();
		assert_freed_soon(n);
	}
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* Waiting for a hazard costs nothing, for a session next to nothing: a look every few ms. */
UNIT_TEST(waiting_uses_no_cpu, setup, teardown)
{
	struct fake_session a;
	struct memory_place held;
	struct block *b;
	uint64_t cpu;

	held = take(&b);
	reclaim_hazard_set(worker, 0, held);
	reclaim_retire(worker, held, BYTES);
	reclaim_poll(worker, LATE_NS);
	pause_ms(50);
	cpu = cpu_ns();
	pause_ms(400);
	assert_true(cpu_ns() - cpu < 2000000);
	session_comes(&a, 1);
	reclaim_retire(worker, take(&b), BYTES);
	reclaim_poll(worker, LATE_NS);
	pause_ms(50);
	cpu = cpu_ns();
	pause_ms(400);
	assert_true(cpu_ns() - cpu < 12000000);
	assert_int_equal(stats_now().freed, 0);
	reclaim_hazard_clear(worker, 0);
	assert_freed_soon(1);
	announced_until_freed(&a, 2);
	session_goes(&a);
}
