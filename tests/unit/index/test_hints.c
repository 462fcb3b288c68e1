/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A reader with hints, a writer, and a reclaimer that gives addresses out again.
 *
 * A hint is a block that a look-up found, followed later in the same section. Once a look-up has
 * returned a newer value, the hint's block must not be LIVE any more: or a reader with a hint would
 * return the old value after another reader the new one. While the section is open, the block
 * keeps its incarnation and contents. And a key that is never deleted is never absent.
 *
 * The mutant that this test catches every time: the slot published before the old block is
 * OBSOLETE. More often than not, with more rounds: a slot that is empty for a moment; blocks freed
 * without a local grace period (for which reclaim has a test that is sure).
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/reclaim/qsbr.h"
#include "server/reclaim/reclaim.h"
#include "tests/lib/no_device.h"
#include "tests/unit/index/table.h"

#define KEYS	   2
#define ROUNDS	   UNIT_LESS(75000, 10)
#define ROUNDS_MAX (1600 * ROUNDS) /* on a machine that lets the reader run late */
#define FOLLOWED   UNIT_LESS(100000, 10) /* the mutant is seen in some 10, with a sanitizer in 70 */
#define LOOKS	   1000 /* for a newer value, within one section */

static struct table table;
static struct reclaim *reclaim;
static _Atomic bool writing;
static _Atomic unsigned stale, reused, absent, followed;

static void name_of(unsigned i, char key[24])
{
	snprintf(key, 24, "key-%u", i);
}

static void *write_all(void *arg)
{
	struct table mine = table;
	struct reclaim_worker *worker;

	if (memory_cache_create(&mine.cache, table.memory) ||
	    reclaim_worker_create(&worker, reclaim, 0))
		abort();
	qsbr_register();
	for (uint64_t n = 2; n < ROUNDS || (followed < FOLLOWED && n < ROUNDS_MAX); n++) {
		unsigned i = (unsigned)(n % KEYS);
		struct memory_place old;
		int replaced = 0;
		char key[24];

		name_of(i, key);
		while (table_put(&mine, i, key, n, &old, &replaced)) {
			qsbr_offline(); /* the reclaimer is behind */
			sched_yield();
			qsbr_online();
		}
		if (!replaced)
			abort();
		reclaim_retire(worker, old, 128);
		reclaim_poll(worker, UINT64_MAX / 2); /* at once, for the shortest way to reuse */
		qsbr_quiescent();
	}
	qsbr_unregister();
	reclaim_worker_destroy(worker);
	memory_cache_destroy(mine.cache);
	atomic_store(&writing, false);
	return NULL;
}

static int look(unsigned i, struct index_hit *hit)
{
	char key[24];
	int rc;

	name_of(i, key);
	rc = index_lookup(table.index, i, key, (uint32_t)strlen(key), hit);
	if (rc == -ENOENT)
		atomic_fetch_add(&absent, 1);
	return rc;
}

/*
 * Wait for a newer value than the hint's, then look at the hint. @linger: stay in the section
 * long enough for a block that was freed too early to be given out again.
 */
static void follow(unsigned i, const struct index_hit *hint, bool linger)
{
	uint64_t value = table_value(hint->block), state = atomic_load(&hint->block->state);
	uint32_t incarnation = block_state_incarnation(state);
	bool newer = false;

	for (unsigned k = 0; k < LOOKS; k++) {
		struct index_hit hit;

		if (look(i, &hit) || hit.slot == hint->slot || newer)
			continue;
		state = atomic_load(&hint->block->state);
		if (block_state_of(state) == BLOCK_LIVE)
			atomic_fetch_add(&stale, 1);
		atomic_fetch_add_explicit(&followed, 1, memory_order_relaxed);
		newer = true;
		if (!linger)
			break;
	}
	state = atomic_load(&hint->block->state);
	if (block_state_incarnation(state) != incarnation || table_value(hint->block) != value)
		atomic_fetch_add(&reused, 1);
}

static void *read_all(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	qsbr_register();
	while (atomic_load(&writing)) {
		unsigned i = (unsigned)(unit_random(&seed) % KEYS);
		struct index_hit hint;

		if (look(i, &hint) == 0)
			follow(i, &hint, unit_random(&seed) % 256 == 0);
		qsbr_quiescent();
	}
	qsbr_unregister();
	return NULL;
}

UNIT_TEST(a_hint_is_never_behind)
{
	const struct reclaim_config how = { 0, 1000 };
	pthread_t thread[2];
	struct memory_stats stats;
	uint64_t used = 0;
	struct error err;

	table_open(&table, 64 << 20, 1);
	assert_int_equal(reclaim_create(&reclaim, table.memory, &how, &err), 0);
	for (unsigned i = 0; i < KEYS; i++) {
		struct memory_place old;
		int replaced;
		char key[24];

		name_of(i, key);
		assert_int_equal(table_put(&table, i, key, 1, &old, &replaced), 0);
	}
	atomic_store(&writing, true);
	for (uintptr_t i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, i ? read_all : write_all, (void *)i);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	reclaim_destroy(reclaim);
	print_message("%u hints followed\n", atomic_load(&followed));
	assert_int_equal(atomic_load(&stale), 0);
	assert_int_equal(atomic_load(&reused), 0);
	assert_int_equal(atomic_load(&absent), 0);
	assert_true(atomic_load(&followed) >= FOLLOWED);
	memory_stats_get(table.memory, &stats);
	for (unsigned c = 0; c < stats.classes; c++)
		used += stats.class[c].blocks_used;
	assert_int_equal(used, KEYS); /* all others came back */
	table_close(&table);
}
