/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Fragmentation: how many runs of slabs a store has room for after small records came and went.
 * Counts, no clocks; the same in each run but for the seed. What it prints says how far blocks and
 * slabs keep together; the bounds are what class.c and pool.c promise, with a margin.
 */
#include "server/memory/size_class.h"
#include "tests/unit/memory/recorder.h"

#define STORE_BYTES (96 * MIB)
#define EXTENT_SIZE (32 * MIB)
#define LIVES	    400000u
#define RUNS	    128u

struct sim {
	struct recorder recorder;
	struct memory *memory;
	struct memory_cache *cache;
	uint64_t rng;
	unsigned count;
	uint64_t bytes; /* of the records */
	struct live {
		struct memory_place place;
		uint32_t bytes;
	} live[LIVES];
};

static struct sim *sim_begin(void)
{
	struct sim *s = calloc(1, sizeof(*s));
	struct error err;
	unsigned extent;

	check(s);
	s->rng = test_seed();
	s->memory = recorder_memory(&s->recorder, STORE_BYTES + 4 * MIB);
	/* what DATA would leave to the index */
	check(memory_extent_add(s->memory, EXTENT_INDEX, 1, &extent, &err) == 0);
	/* all of it at once, or the growth thread would have a say in what goes where */
	for (unsigned i = 0; i < STORE_BYTES; i += EXTENT_SIZE)
		check(memory_extent_add(s->memory, EXTENT_DATA, EXTENT_SIZE, &extent, &err) == 0);
	check(memory_cache_create(&s->cache, s->memory) == 0);
	return s;
}

static int sim_add(struct sim *s, uint32_t bytes)
{
	struct live *l = &s->live[s->count];
	struct block *b;
	int rc;

	check(s->count < LIVES);
	rc = alloc_wait(s->memory, s->cache, bytes, &l->place, &b);
	if (rc)
		return rc;
	l->bytes = bytes;
	s->bytes += bytes;
	s->count++;
	return 0;
}

static void sim_drop(struct sim *s, unsigned i)
{
	memory_free(s->memory, s->live[i].place);
	s->bytes -= s->live[i].bytes;
	s->live[i] = s->live[--s->count];
}

static void sim_drop_all(struct sim *s)
{
	while (s->count)
		sim_drop(s, s->count - 1);
}

static void sim_end(struct sim *s)
{
	struct memory_stats stats;

	sim_drop_all(s);
	memory_cache_destroy(s->cache);
	memory_stats_get(s->memory, &stats);
	check(stats.slabs_used == 0);
	recorder_end(&s->recorder, s->memory);
	free(s);
}

/* 100 B to 4 KB: small ones are many. */
static uint32_t small_bytes(struct sim *s)
{
	return (uint32_t)(100 + rng_below(&s->rng, 1 + rng_below(&s->rng, 3900)));
}

static void fill_small(struct sim *s)
{
	while (sim_add(s, small_bytes(s)) == 0)
		;
}

/* How many runs of @bytes fit now; they are given back. */
static unsigned runs_that_fit(struct sim *s, uint32_t bytes)
{
	struct memory_place run[RUNS];
	struct block *b;
	unsigned n = 0;

	while (n < RUNS && alloc_wait(s->memory, s->cache, bytes, &run[n], &b) == 0)
		n++;
	for (unsigned i = 0; i < n; i++)
		memory_free(s->memory, run[i]);
	return n;
}

static unsigned slabs_needed(const struct sim *s)
{
	return (unsigned)(s->bytes / SLAB_BYTES + 1);
}

static unsigned slabs_used(struct sim *s)
{
	struct memory_stats stats;

	memory_stats_get(s->memory, &stats);
	return (unsigned)stats.slabs_used;
}

static void report(struct sim *s, const char *when)
{
	unsigned one = runs_that_fit(s, 300 << 10), five = runs_that_fit(s, 5 * MIB);
	unsigned most = runs_that_fit(s, RECORD_BYTES_MAX);

	printf("%s: %u records of %u MiB in %u slabs of %u; runs that fit: %u of 1, %u of 5, "
	       "%u of 17 slabs\n",
	       when, s->count, slabs_needed(s), slabs_used(s), STORE_BYTES / MIB, one, five, most);
}

/* Most is deleted; what is left is overwritten and comes and goes for a while. */
UNIT_TEST(few_records_draw_together)
{
	struct sim *s = sim_begin();

	fill_small(s);
	report(s, "full");
	for (unsigned keep = s->count / 20; s->count > keep;)
		sim_drop(s, (unsigned)rng_below(&s->rng, s->count));
	report(s, "1/20 of them left");
	for (unsigned i = 0; i < 10 * s->count; i++) {
		check(sim_add(s, small_bytes(s)) == 0);
		sim_drop(s, (unsigned)rng_below(&s->rng, s->count));
	}
	report(s, "each overwritten 10 times");
	/* of each class one slab, and few more */
	assert_true(slabs_used(s) <= 36);
	assert_true(runs_that_fit(s, 5 * MIB) >= 3);
	sim_end(s);
}

/* Small and large come and go in a store of which 55 in 100 are taken. */
static void churn(struct sim *s, unsigned *asked, unsigned *refused)
{
	for (unsigned i = 0; i < 1000000; i++) {
		bool large = rng_below(&s->rng, 3000) == 0;
		uint32_t bytes =
			large ? (uint32_t)(MIB + rng_below(&s->rng, 5 * MIB)) : small_bytes(s);

		while (s->bytes + bytes > STORE_BYTES / 100 * 55)
			sim_drop(s, (unsigned)rng_below(&s->rng, s->count));
		*asked += large;
		if (sim_add(s, bytes))
			*refused += large;
	}
	report(s, "55 in 100 taken");
}

UNIT_TEST(large_ones_among_small_ones)
{
	struct sim *s = sim_begin();
	unsigned refused = 0, asked = 0;

	for (unsigned round = 0; round < 4; round++) {
		churn(s, &asked, &refused);
		sim_drop_all(s);
	}
	printf("%u of %u large records found no place\n", refused, asked);
	assert_true(asked > 1000);
	assert_true(refused * 16 < asked);
	sim_end(s);
}

/* One size of record, a quarter of which is left, overwritten at random. */
UNIT_TEST(few_of_one_size_draw_together)
{
	struct sim *s = sim_begin();

	while (sim_add(s, 1000) == 0)
		;
	for (unsigned keep = s->count / 4; s->count > keep;)
		sim_drop(s, (unsigned)rng_below(&s->rng, s->count));
	report(s, "1/4 of them left");
	for (unsigned i = 0; i < 20 * s->count; i++) {
		sim_drop(s, (unsigned)rng_below(&s->rng, s->count));
		check(sim_add(s, 1000) == 0);
	}
	report(s, "each overwritten 20 times");
	assert_true(slabs_used(s) <= slabs_needed(s) * 5 / 4);
	assert_true(runs_that_fit(s, 5 * MIB) >= 3);
	sim_end(s);
}
