/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Readers in an index that grows and shrinks all the time. All keys have the same top bits, so a
 * few thousand of them split one segment many times over; the writers, each with keys of its own,
 * put all, overwrite some, and delete all, again and again. What splits and merges replace goes
 * through the reclaimer and is used again.
 *
 * Each key counts its operations, odd ones put, even ones delete: `begun` before, `done` after. A
 * reader that loads `done`, looks up, and loads `begun` must find an odd number between the two, or
 * nothing where an even one lies between them.
 *
 * Mutants that it catches: headers never marked MOVED, marked before the entries are published or
 * after the writers go on; a reader that does not look at MOVED; a split that forgets a bucket; a
 * segment given back without a grace period.
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/reclaim/qsbr.h"
#include "server/reclaim/reclaim.h"
#include "tests/lib/no_device.h"
#include "tests/unit/index/table.h"

#define WRITERS	   2
#define READERS	   2
#define KEYS	   20000 /* of each writer */
#define ROUNDS	   UNIT_LESS(10, 2)
#define ROUNDS_MAX 400 /* on a machine that lets the readers run late */
#define READS	   UNIT_LESS(200000, 4)
#define PREFIX	   (0x29ull << 58)

static struct table table;
static struct reclaim *reclaim;
static _Atomic uint32_t begun[WRITERS][KEYS], done[WRITERS][KEYS];
static _Atomic int writing;
static pthread_barrier_t round_begins;
static _Atomic unsigned wrong, reads, found;

/* The top bits of all are PREFIX, the rest is as random as a hash. */
static uint64_t hash_of(unsigned writer, unsigned i)
{
	uint64_t seed = (uint64_t)writer << 32 | (i + 1);

	return PREFIX | unit_random(&seed) >> 6;
}

static void name_of(unsigned writer, unsigned i, char key[24])
{
	snprintf(key, 24, "%u/%u", writer, i);
}

static void retire(struct table *t, struct memory_place place, uint32_t bytes)
{
	reclaim_retire(t->reclaim, place, bytes);
}

/* The next operation on a key: a put where it is absent, a delete where not; or @over it. */
static void write_one(struct table *t, unsigned writer, unsigned i, bool over)
{
	uint32_t n = atomic_load(&done[writer][i]) + (over ? 2 : 1);
	struct memory_place old;
	int replaced = 1, rc;
	char key[24];

	name_of(writer, i, key);
	atomic_store(&begun[writer][i], n);
	if (n % 2)
		rc = table_put(t, hash_of(writer, i), key, n, &old, &replaced);
	else
		rc = table_del(t, hash_of(writer, i), key, &old);
	if (rc || replaced == (n % 2 && !over))
		atomic_fetch_add(&wrong, 1);
	else if (replaced)
		retire(t, old, 128);
	atomic_store(&done[writer][i], n);
	reclaim_poll(t->reclaim, UINT64_MAX / 2); /* at once, for the shortest way to reuse */
	qsbr_quiescent();
}

/* All writers begin a round together, so that the index is full once in each. */
static bool another_round(unsigned writer, unsigned n)
{
	static _Atomic bool another;

	qsbr_offline();
	pthread_barrier_wait(&round_begins);
	if (writer == 0)
		atomic_store(&another, n < ROUNDS || (reads < READS && n < ROUNDS_MAX));
	pthread_barrier_wait(&round_begins);
	qsbr_online();
	return atomic_load(&another);
}

static void *write_all(void *arg)
{
	unsigned writer = (unsigned)(uintptr_t)arg;
	struct table mine = table;

	if (memory_cache_create(&mine.cache, table.memory) ||
	    reclaim_worker_create(&mine.reclaim, reclaim, 0))
		abort();
	mine.retire = retire;
	qsbr_register();
	for (unsigned n = 0; another_round(writer, n); n++) {
		for (unsigned i = 0; i < KEYS; i++) {
			write_one(&mine, writer, i, false);
			write_one(&mine, writer, i / 2, true);
		}
		qsbr_offline();
		pthread_barrier_wait(&round_begins); /* all keys are there */
		qsbr_online();
		for (unsigned i = 0; i < KEYS; i++)
			write_one(&mine, writer, i, false);
	}
	qsbr_unregister();
	reclaim_worker_destroy(mine.reclaim);
	memory_cache_destroy(mine.cache);
	atomic_fetch_sub(&writing, 1);
	return NULL;
}

static void *read_all(void *arg)
{
	uint64_t seed = 99 + (uintptr_t)arg;

	qsbr_register();
	while (atomic_load(&writing)) {
		unsigned w = (unsigned)(unit_random(&seed) % WRITERS);
		unsigned i = (unsigned)(unit_random(&seed) % KEYS);
		uint32_t low = atomic_load(&done[w][i]), high;
		uint64_t value = 0;
		char key[24];
		int rc;

		name_of(w, i, key);
		rc = table_find(&table, hash_of(w, i), key, &value);
		high = atomic_load(&begun[w][i]);
		if (rc == 0)
			atomic_fetch_add_explicit(&found, 1, memory_order_relaxed);
		if (rc == 0 ? value < low || value > high || value % 2 == 0
			    : rc != -ENOENT || (low == high && low % 2))
			atomic_fetch_add(&wrong, 1);
		atomic_fetch_add_explicit(&reads, 1, memory_order_relaxed);
		qsbr_quiescent();
	}
	qsbr_unregister();
	return NULL;
}

UNIT_TEST(readers_see_every_key_wherever_it_moves)
{
	const struct reclaim_config how = { 0, 1000 };
	pthread_t thread[WRITERS + READERS];
	struct index_stats stats;
	struct memory_stats memory;
	struct error err;

	table_open(&table, 256 << 20, 0);
	assert_int_equal(reclaim_create(&reclaim, table.memory, &how, &err), 0);
	atomic_store(&writing, WRITERS);
	pthread_barrier_init(&round_begins, NULL, WRITERS);
	for (unsigned i = 0; i < WRITERS + READERS; i++)
		pthread_create(&thread[i], NULL, i < WRITERS ? write_all : read_all,
			       (void *)(uintptr_t)i);
	for (unsigned i = 0; i < WRITERS + READERS; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&round_begins);
	index_stats_get(table.index, &stats);
	reclaim_destroy(reclaim);
	memory_stats_get(table.memory, &memory);
	print_message("%u reads, %u found; %u splits, %u merges, depth %u\n", atomic_load(&reads),
		      atomic_load(&found), (unsigned)stats.splits, (unsigned)stats.merges,
		      stats.depth);
	assert_int_equal(atomic_load(&wrong), 0);
	assert_true(atomic_load(&reads) >= READS && atomic_load(&found) >= READS / 10);
	assert_true(stats.splits >= 8 * ROUNDS && stats.merges >= 8 * ROUNDS);
	assert_int_equal(stats.records, 0);
	assert_int_equal(memory.segments_used, stats.segments); /* nothing is lost on the way */
	table_close(&table);
}
