/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Extents are released and added while workers take and free blocks and clients fetch the table. */
#include <pthread.h>
#include <sched.h>

#include "tests/unit/memory/watcher.h"

struct churner {
	uint64_t rng;
	unsigned number;
	pthread_t thread;
};

static const struct timespec rest = { .tv_nsec = 1000000 };
static _Atomic bool churn_stop;
static _Atomic unsigned churn_released; /* extents */

struct churned {
	struct memory_place place;
	struct block *block;
	uint32_t bytes;
};

static void churn_put(struct memory_cache *cache, struct churned *c, uint64_t *rng, unsigned number)
{
	bool large = rng_below(rng, 4) == 0;

	c->bytes = (uint32_t)(large ? MIB + rng_below(rng, 3 * MIB) : 64 + rng_below(rng, 8000));
	if (alloc_wait(watcher.m, cache, c->bytes, &c->place, &c->block)) {
		c->block = NULL;
		return;
	}
	c->block->version = (uint64_t)c->place.extent << 32 | c->place.offset | number;
	memset((uint8_t *)c->block + c->bytes - 8, (int)number, 8);
}

static void churn_del(struct churned *c, unsigned number)
{
	uint64_t end;

	check(c->block == memory_addr(watcher.m, c->place.extent, c->place.offset, c->bytes));
	check(c->block->version == ((uint64_t)c->place.extent << 32 | c->place.offset | number));
	memcpy(&end, (uint8_t *)c->block + c->bytes - 8, 8);
	check(end == number * 0x0101010101010101ull);
	memory_free(watcher.m, c->place);
	c->block = NULL;
}

/* However busy the machine is: in the end all workers hold nothing, and something is released. */
static void churn_rest(void)
{
	unsigned before = atomic_load(&churn_released);

	while (!atomic_load(&churn_stop) && atomic_load(&churn_released) == before)
		nanosleep(&rest, NULL);
}

/* A worker: fills a part of the store, empties it, and rests. */
static void *churn_run(void *arg)
{
	struct churner *ch = arg;
	static struct churned all[2][256];
	struct churned *c = all[ch->number - 1];
	struct memory_cache *cache;

	while (!atomic_load(&churn_stop)) {
		check(memory_cache_create(&cache, watcher.m) == 0);
		for (unsigned i = 0; i < 400; i++) {
			struct churned *one = &c[rng_below(&ch->rng, 256)];

			if (one->block)
				churn_del(one, ch->number);
			else
				churn_put(cache, one, &ch->rng, ch->number);
		}
		for (unsigned i = 0; i < 256; i++) {
			if (c[i].block)
				churn_del(&c[i], ch->number);
		}
		memory_cache_destroy(cache); /* what it holds keeps extents */
		churn_rest();
	}
	return NULL;
}

/* A client that fetches entries while they come and go: those that are sound are of an extent. */
static void *churn_watch(void *arg)
{
	unsigned *seen = arg, passes = 0;

	while (!atomic_load(&churn_stop)) {
		for (unsigned i = 0; i < 256; i++) {
			struct extent_entry e;
			uint64_t word[4];

			for (unsigned k = 0; k < 4; k++) /* as a NIC might: in no order */
				word[(k + i) % 4] =
					atomic_load(&entry_words(watcher.m, i)[(k + i) % 4]);
			memcpy(&e, word, sizeof(e));
			if (!extent_entry_sound(&e))
				continue;
			check(e.addr && e.length >= MIB && e.kind <= EXTENT_DATA && e.kind);
			check(e.rkey == i + 1002);
			(*seen)++;
		}
		if (++passes % 16 == 0)
			sched_yield();
	}
	return NULL;
}

UNIT_TEST(the_index_grows_while_workers_churn)
{
	struct memory *m = watch_begin(160 * MIB);
	struct churner ch[2] = { { .rng = test_seed(), .number = 1 },
				 { .rng = test_seed() + 1, .number = 2 } };
	struct memory_stats s;
	pthread_t reader;
	unsigned seen = 0;

	atomic_store(&churn_stop, false);
	pthread_create(&reader, NULL, churn_watch, &seen);
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&ch[i].thread, NULL, churn_run, &ch[i]);
	do {
		for (unsigned i = 0; i < 16 && take_segment() == 0; i++)
			;
		nanosleep(&rest, NULL);
		memory_stats_get(m, &s);
		atomic_store(&churn_released, (unsigned)s.extents_released);
	} while (s.extents_released < 8);
	atomic_store(&churn_stop, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(ch[i].thread, NULL);
	pthread_join(reader, NULL);
	memory_growth_wait(m, 5000);
	s = consistent();
	print_message("%llu of %u extents released, INDEX %llu MiB, %u sound entries seen\n",
		      (unsigned long long)s.extents_released, s.extents,
		      (unsigned long long)(s.extent_bytes[EXTENT_INDEX] / MIB), seen);
	assert_int_equal(s.slabs_used, 0);
	watch_end();
}
