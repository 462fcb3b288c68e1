/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Workers that each publish in the order of their decisions, on the same few keys: nothing is lost,
 * no order of theirs blocks another, and a reader never sees what is not committed.
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/time.h"
#include "server/reclaim/qsbr.h"
#include "tests/lib/no_device.h"
#include "tests/unit/store/pending.h"

#define SEED	6u
#define WORKERS 3u
#define KEYS	6u /* the first half of them counters, the others are put and deleted */
#define FIFO	16u
#define WRITES	8000u

static struct store store;
static _Atomic uint64_t committed[KEYS]; /* version of the last write that may be seen */
static _Atomic uint64_t sums[KEYS];
static _Atomic bool over;
static uint64_t seed;

static int setup(void **state)
{
	const struct store_config config = {
		.bytes_max = 64 << 20,
		.server_incarnation = 5,
		.hash_seed = SEED,
		.hooks = { take_region, drop_region, NULL },
	};
	struct error err;

	if (store_create(&store, &config, &err))
		return -1;
	fake_log_open(&store);
	return 0;
}

static int teardown(void **state)
{
	store_destroy(&store);
	return 0;
}

static const char *name_of(unsigned key)
{
	static const char *const names[KEYS] = { "a", "b", "c", "d", "e", "f" };

	return names[key];
}

struct fifo {
	struct pending_write write[FIFO];
	unsigned key[FIFO];
	unsigned first, count;
};

static void raise_to(_Atomic uint64_t *to, uint64_t value)
{
	uint64_t old = atomic_load(to);

	while (old < value && !atomic_compare_exchange_weak(to, &old, value))
		;
}

/* The first one, if it is its turn. */
static void publish_first(struct store_worker *w, struct fifo *f)
{
	struct pending_write *x = &f->write[f->first];
	unsigned key = f->key[f->first];

	if (x->rc == 0) {
		raise_to(&committed[key], x->result.version); /* it is, or will be in a moment */
		if (store_publish(w, &x->pending) == -EAGAIN) {
			time_give_way();
			return;
		}
	} else if (x->decision.awaits &&
		   store_is_pending(&store, x->decision.awaits_hash, x->decision.awaits)) {
		time_give_way();
		return;
	}
	f->first = (f->first + 1) % FIFO;
	f->count--;
}

static void decide_one(struct store_worker *w, struct fifo *f, uint64_t *random)
{
	unsigned at = (f->first + f->count) % FIFO, key = (unsigned)(unit_random(random) % KEYS);
	struct pending_ask ask = {
		.op = PENDING_INCR,
		.key = name_of(key),
		.value = "value",
		.delta = 1,
	};

	if (key >= KEYS / 2)
		ask.op = unit_random(random) % 2 ? PENDING_DEL : PENDING_PUT;
	f->key[at] = key;
	f->count++;
	if (pending_decide(w, &ask, &f->write[at]) == 0 && key < KEYS / 2)
		atomic_fetch_add(&sums[key], 1);
}

static void *work(void *arg)
{
	uint64_t random = seed + (uintptr_t)arg;
	struct store_worker w;
	struct fifo *f = calloc(1, sizeof(*f));

	qsbr_register();
	assert_ok(store_worker_create(&w, &store, 8));
	for (unsigned i = 0; i < WRITES || f->count;) {
		if (i < WRITES && f->count < FIFO && unit_random(&random) % 2) {
			decide_one(&w, f, &random);
			i++;
		} else if (f->count) {
			publish_first(&w, f);
		}
		reclaim_poll(w.reclaim, time_now_ns());
		qsbr_quiescent();
	}
	store_worker_destroy(&w);
	qsbr_unregister();
	free(f);
	return NULL;
}

static void *read_all(void *arg)
{
	uint64_t seen[KEYS] = { 0 }, early = 0, back = 0, found = 0;

	qsbr_register();
	while (!atomic_load(&over)) {
		for (unsigned key = 0; key < KEYS; key++) {
			const char *name = name_of(key);
			struct index_hit hit;

			if (index_lookup(store.index, hash_key(SEED, name, 1), name, 1, &hit))
				continue;
			found++;
			early += hit.block->version > atomic_load(&committed[key]);
			back += hit.block->version < seen[key];
			seen[key] = hit.block->version;
		}
		qsbr_quiescent();
	}
	qsbr_unregister();
	assert_int_equal(early, 0);
	assert_int_equal(back, 0);
	assert_true(found > 0);
	return NULL;
}

UNIT_TEST(workers_publish_and_readers_see_what_is_committed, setup, teardown)
{
	pthread_t reader, worker[WORKERS];

	seed = time_now_ns();
	print_message("seed %llu\n", (unsigned long long)seed);
	pthread_create(&reader, NULL, read_all, NULL);
	for (uintptr_t i = 0; i < WORKERS; i++)
		pthread_create(&worker[i], NULL, work, (void *)i);
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(worker[i], NULL);
	atomic_store(&over, true);
	pthread_join(reader, NULL);
	assert_int_equal(fake_log_wrong, 0);
	qsbr_register();
	for (unsigned key = 0; key < KEYS / 2; key++) {
		const char *name = name_of(key);
		char want[24];
		struct index_hit hit;

		snprintf(want, sizeof(want), "%llu", (unsigned long long)sums[key]);
		assert_ok(index_lookup(store.index, hash_key(SEED, name, 1), name, 1, &hit));
		assert_int_equal(hit.block->value_len, strlen(want));
		assert_memory_equal(hit.block->data + 1, want, strlen(want));
	}
	qsbr_unregister();
}
