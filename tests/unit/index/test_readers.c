/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Readers beside writers. Each key has one writer, which stores growing values: before a PUT it
 * says what it is about to write (`begun`), after it what is written (`done`). A reader that
 * loads `done`, looks up, and loads `begun` must find a value between the two: not older than what
 * was acknowledged before it began (I2), not one that nobody wrote yet, never absent. Writers also
 * use the other keys of the same buckets, which come and go. Blocks are not reused here: the
 * reclaimer has a test of its own.
 *
 * The mutant that this test catches: OBSOLETE taken for absent. Publishing before OBSOLETE shows
 * only to a reader that holds a hint, and a slot that is empty for a moment seldom shows at all:
 * both are for test_hints.c.
 */
#include "tests/lib/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "server/reclaim/qsbr.h"
#include "tests/unit/index/table.h"

#define WRITERS	   2
#define READERS	   2
#define KEYS	   64 /* of each writer: KEYS / 2 stay, the others come and go */
#define ROUNDS	   20000
#define ROUNDS_MAX (40 * ROUNDS) /* on a machine that lets the readers run late */
#define READS	   2000

static struct table table;
static _Atomic uint64_t begun[WRITERS][KEYS], done[WRITERS][KEYS];
static _Atomic int writing = WRITERS;
static _Atomic unsigned wrong, reads;

/* Few buckets and few fingerprints: much company. */
static uint64_t hash_of(unsigned writer, unsigned i)
{
	return (uint64_t)(i % 3) << 22 | (writer * KEYS + i) % 5;
}

static void name_of(unsigned writer, unsigned i, char key[24])
{
	snprintf(key, 24, "%u/%u", writer, i);
}

static void write_one(struct table *t, unsigned writer, unsigned i, uint64_t value)
{
	struct memory_place old;
	int replaced;
	char key[24];

	name_of(writer, i, key);
	atomic_store(&begun[writer][i], value);
	if (table_put(t, hash_of(writer, i), key, value, &old, &replaced))
		atomic_fetch_add(&wrong, 1);
	atomic_store(&done[writer][i], value);
}

static void *write_all(void *arg)
{
	unsigned writer = (unsigned)(uintptr_t)arg;
	struct table mine = table;
	uint64_t seed = 5 + writer;

	memory_cache_create(&mine.cache, table.memory);
	qsbr_register();
	for (uint64_t n = 2; n < ROUNDS || (reads < READS && n < ROUNDS_MAX); n++) {
		unsigned i = (unsigned)(unit_random(&seed) % KEYS);
		struct memory_place old;
		char key[24];

		if (i >= KEYS / 2 && n % 2) {
			name_of(writer, i, key);
			table_del(&mine, hash_of(writer, i), key, &old);
		} else {
			write_one(&mine, writer, i, n);
		}
		qsbr_quiescent();
	}
	qsbr_unregister();
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
		unsigned i = (unsigned)(unit_random(&seed) % (KEYS / 2));
		uint64_t low = atomic_load(&done[w][i]), value = 0, high;
		char key[24];
		int rc;

		name_of(w, i, key);
		rc = table_find(&table, hash_of(w, i), key, &value);
		high = atomic_load(&begun[w][i]);
		if (rc || value < low || value > high)
			atomic_fetch_add(&wrong, 1);
		atomic_fetch_add_explicit(&reads, 1, memory_order_relaxed);
		qsbr_quiescent();
	}
	qsbr_unregister();
	return NULL;
}

UNIT_TEST(a_read_returns_what_was_current)
{
	pthread_t thread[WRITERS + READERS];

	table_open(&table, 512 << 20, 1);
	for (unsigned w = 0; w < WRITERS; w++) {
		for (unsigned i = 0; i < KEYS; i++)
			write_one(&table, w, i, 1);
	}
	for (unsigned i = 0; i < WRITERS + READERS; i++)
		pthread_create(&thread[i], NULL, i < WRITERS ? write_all : read_all,
			       (void *)(uintptr_t)i);
	for (unsigned i = 0; i < WRITERS + READERS; i++)
		pthread_join(thread[i], NULL);
	print_message("%u reads\n", atomic_load(&reads));
	assert_int_equal(atomic_load(&wrong), 0);
	assert_true(atomic_load(&reads) >= READS);
	table_close(&table);
}
