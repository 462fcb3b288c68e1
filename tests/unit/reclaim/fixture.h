/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A reclaimer over memory of its own, with sessions whose announcements the test makes. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "tests/lib/unit.h"

#include "server/reclaim/grace.h"
#include "server/reclaim/reclaim.h"
#include "tests/lib/no_device.h"

#define FIXTURE_MEMORY	    (64u << 20)
#define FIXTURE_LIMIT_MS    200u
#define FIXTURE_PATIENCE_MS 10000u
#define LATE_NS		    (UINT64_MAX / 2) /* as `now` of a worker: every batch is old enough */

static struct memory *memory;
static struct memory_cache *cache;
static struct reclaim *reclaim;
static struct reclaim_worker *worker;
static struct root root;

/* A session, and its client's half. */
struct fake_session {
	struct epoch_session s;
	struct epoch_slot slot;
};

static inline struct grace *the_grace(void)
{
	return reclaim_grace(reclaim);
}

/* It comes, and opens its first queue pair. */
static inline void session_comes(struct fake_session *f, uint64_t generation)
{
	memset(f, 0, sizeof(*f));
	grace_join(the_grace(), &f->s, &f->slot, generation);
	grace_wait_for(the_grace(), &f->s, true);
}

static inline void session_announces(struct fake_session *f, uint64_t e)
{
	atomic_store(&f->slot.e, e);
	atomic_store(&f->slot.not_e, ~e);
	atomic_store(&f->slot.h, e);
	atomic_fetch_add(&f->slot.beat, 1);
}

static inline void session_goes(struct fake_session *f)
{
	grace_close_slot(the_grace(), &f->s);
	grace_leave(the_grace(), &f->s);
	reclaim_kick(reclaim);
}

static inline int fixture_open_with(uint64_t data_bytes, unsigned hazards, bool hints,
				    uint64_t deferred_max)
{
	const struct memory_config config = { .bytes_max = FIXTURE_MEMORY,
					      .hooks = { take_region, drop_region, NULL },
					      .hints = hints };
	const struct reclaim_config how = { deferred_max, FIXTURE_LIMIT_MS };
	struct error err;
	unsigned extent;

	memset(&root, 0, sizeof(root));
	if (memory_create(&memory, &config, &err) ||
	    memory_extent_add(memory, EXTENT_DATA, data_bytes, &extent, &err) ||
	    memory_cache_create(&cache, memory) || reclaim_create(&reclaim, memory, &how, &err) ||
	    reclaim_worker_create(&worker, reclaim, hazards))
		return -1;
	grace_set_root(the_grace(), &root);
	return 0;
}

static inline int fixture_open(uint64_t data_bytes, unsigned hazards)
{
	return fixture_open_with(data_bytes, hazards, false, 0);
}

/* As a test's teardown. */
static inline int fixture_close(void **state)
{
	reclaim_worker_destroy(worker);
	memory_cache_destroy(cache);
	reclaim_destroy(reclaim);
	memory_destroy(memory);
	return 0;
}

static inline struct memory_place fixture_take(uint32_t bytes)
{
	struct memory_place place;
	struct block *b;

	assert_int_equal(memory_alloc(cache, bytes, &place, &b), 0);
	return place;
}

static inline void pause_ms(unsigned ms)
{
	struct timespec ts = { ms / 1000, (long)(ms % 1000) * 1000000 };

	nanosleep(&ts, NULL);
}

static inline struct reclaim_stats stats_now(void)
{
	struct reclaim_stats stats;

	reclaim_stats_get(reclaim, &stats);
	return stats;
}

static inline void assert_freed_soon(uint64_t n)
{
	for (unsigned i = 0; i < FIXTURE_PATIENCE_MS && stats_now().freed < n; i++)
		pause_ms(1);
	assert_int_equal(stats_now().freed, n);
}

/* Retire a block, and wait until its epoch has ended. Returns that epoch. */
static inline uint64_t retire_in_epoch(struct memory_place place, uint32_t bytes)
{
	uint64_t r = grace_now(the_grace());

	reclaim_retire(worker, place, bytes);
	reclaim_poll(worker, LATE_NS);
	for (unsigned i = 0; i < FIXTURE_PATIENCE_MS && grace_now(the_grace()) == r; i++)
		pause_ms(1);
	assert_int_equal(grace_now(the_grace()), r + 1);
	return r;
}
