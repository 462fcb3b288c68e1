/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What index-bench does: rounds, of phases, of both sides, of one or several workers, of batches.
 *
 * A batch's keys are made before its time is taken. What both sides leave to threads of their own
 * (grace periods, growth) is waited for between phases, so that it burdens nobody else's.
 */
#include "tests/performance/index_bench.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tools/lib/samples.h"

#define QUIET_LOOK_US  20000u
#define QUIET_CPU_NS   1000000u /* of a look: then nothing runs any more */
#define QUIET_LOOKS    1500u
#define QUIET_IN_A_ROW 5u /* a busy machine leaves a thread without its share for some */

const struct index_phase_info index_phase[INDEX_PHASES] = {
	[PHASE_INSERT] = { "insert, table grows", "insert", INDEX_INSERT, false, false },
	[PHASE_HIT] = { "look up", "lookup", INDEX_HIT, false, false },
	[PHASE_HIT_READ] = { "look up and read value", "lookup_read", INDEX_HIT_READ, false,
			     false },
	[PHASE_HIT_SINGLE] = { "look up, one by one", "lookup_single", INDEX_HIT_SINGLE, false,
			       false },
	[PHASE_MISS] = { "look up absent key", "lookup_absent", INDEX_MISS, false, false },
	[PHASE_DELETE] = { "delete", "delete", INDEX_DELETE, false, false },
	[PHASE_INSERT_1] = { "insert, 1 writer", "insert_one_writer", INDEX_INSERT, true, false },
	[PHASE_DELETE_1] = { "delete, 1 writer", "delete_one_writer", INDEX_DELETE, true, false },
	[PHASE_INSERT_N] = { "insert, all writers", "insert_writers", INDEX_INSERT, true, true },
	[PHASE_DELETE_N] = { "delete, all writers", "delete_writers", INDEX_DELETE, true, true },
};

const struct index_side *const index_side[INDEX_SIDES] = { &index_ours, &index_theirs };

/* Which keys, of all that there are, come when. */
struct walk {
	enum index_op op;
	uint64_t records, seed;
};

static uint64_t mix(uint64_t x)
{
	uint64_t state = x;

	return bench_random(&state);
}

/* Key @number; any two differ, since bench_random() is one-to-one. */
static struct index_key key_of(uint64_t number)
{
	return (struct index_key){ { mix(number), mix(~number) } };
}

/* A permutation of 0 .. records - 1: a Feistel network on the next power of four, walked until
 * it comes back into range. */
static uint64_t permuted(const struct walk *w, uint64_t i)
{
	unsigned half = 1;
	uint64_t mask;

	while (half < 31 && 1ull << (2 * half) < w->records)
		half++;
	mask = (1ull << half) - 1;
	do {
		uint64_t l = i >> half, r = i & mask;

		for (unsigned k = 0; k < 4; k++) {
			uint64_t next = l ^ (mix(r + w->seed + k) & mask);

			l = r;
			r = next;
		}
		i = l << half | r;
	} while (i >= w->records);
	return i;
}

static struct index_key walk_key(const struct walk *w, uint64_t i)
{
	switch (w->op) {
	case INDEX_HIT:
	case INDEX_HIT_READ:
	case INDEX_HIT_SINGLE:
		return key_of(mix(w->seed ^ i) % w->records);
	case INDEX_MISS:
		return key_of(w->records + mix(w->seed ^ i) % w->records);
	case INDEX_DELETE:
		return key_of(permuted(w, i));
	default:
		return key_of(i);
	}
}

struct worker {
	pthread_t thread;
	pthread_barrier_t *start;
	const struct index_side *side;
	const struct walk *walk;
	uint64_t from, to;
	bool timed;
	clockid_t clock;
	/* What it found. */
	uint64_t ns; /* in operations */
	int rc;
	struct histogram times;
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static int worker_batches(struct worker *w, void *worker)
{
	int (*run)(void *, const struct index_batch *) = w->side->run[w->walk->op];
	int (*timed)(void *, const struct index_batch *, struct histogram *) =
		w->side->timed[w->walk->op];
	struct index_batch batch;
	uint64_t start;
	int rc = 0;

	for (uint64_t i = w->from; i < w->to && rc == 0; i += batch.count) {
		batch.count = w->to - i < INDEX_BATCH ? (unsigned)(w->to - i) : INDEX_BATCH;
		for (unsigned k = 0; k < batch.count; k++)
			batch.key[k] = walk_key(w->walk, i + k);
		start = clock_ns(w->clock);
		rc = w->timed ? timed(worker, &batch, &w->times) : run(worker, &batch);
		w->ns += clock_ns(w->clock) - start;
	}
	return rc;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	void *worker;

	pthread_barrier_wait(w->start);
	qsbr_register();
	worker = w->side->worker_open();
	w->rc = worker ? worker_batches(w, worker) : -ENOMEM;
	if (worker)
		w->side->worker_close(worker);
	qsbr_unregister();
	return NULL;
}

/* Returns the number of threads that were started: all, or @rc says why not. */
static unsigned workers_start(struct worker *workers, unsigned count, pthread_barrier_t *start,
			      int *rc)
{
	unsigned n;

	for (n = 0; n < count; n++) {
		workers[n].start = start;
		*rc = -pthread_create(&workers[n].thread, NULL, worker_main, &workers[n]);
		if (*rc)
			break;
	}
	return n;
}

/* The operations of @count threads, each with its share of @ops keys. */
static int workers_run(struct worker *workers, unsigned count, uint64_t ops)
{
	static pthread_barrier_t start; /* outlives threads that are left behind, see below */
	unsigned started;
	int rc = 0;

	for (unsigned n = 0; n < count; n++) {
		workers[n].from = ops * n / count;
		workers[n].to = ops * (n + 1) / count;
	}
	pthread_barrier_init(&start, NULL, count);
	started = workers_start(workers, count, &start, &rc);
	/* Those that wait for the missing ones end with the process. */
	for (unsigned n = 0; n < started && rc == 0; n++)
		pthread_join(workers[n].thread, NULL);
	for (unsigned n = 0; n < count && rc == 0; n++)
		rc = workers[n].rc;
	if (started == count)
		pthread_barrier_destroy(&start);
	return rc;
}

/* One phase of one side; @ns: of an operation, as its slowest worker saw it. */
static int phase_run(struct index_bench *b, const struct index_phase_info *p,
		     const struct index_side *side, uint64_t seed, double *ns,
		     struct histogram *times)
{
	const struct walk walk = { p->op, b->o.records, mix(seed) };
	bool all = p->op == INDEX_INSERT || p->op == INDEX_DELETE;
	uint64_t ops = all ? b->o.records : b->o.lookups, slowest = 0;
	unsigned count = p->many ? (unsigned)b->o.writers : 1;
	struct worker *workers = calloc(count, sizeof(*workers));
	int rc;

	if (!workers)
		return -ENOMEM;
	for (unsigned n = 0; n < count; n++) {
		workers[n].side = side;
		workers[n].walk = &walk;
		workers[n].timed = p->timed;
		workers[n].clock = b->o.cpu ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
	}
	rc = workers_run(workers, count, ops);
	for (unsigned n = 0; n < count && rc == 0; n++) {
		slowest = workers[n].ns > slowest ? workers[n].ns : slowest;
		histogram_merge(times, &workers[n].times);
	}
	*ns = (double)slowest / (double)ops;
	if (rc == 0)
		free(workers);
	return rc;
}

/* Until threads of either side have nothing to do any more. */
static void wait_until_quiet(void)
{
	unsigned quiet = 0;
	uint64_t before;

	for (unsigned i = 0; i < QUIET_LOOKS && quiet < QUIET_IN_A_ROW; i++) {
		before = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		usleep(QUIET_LOOK_US);
		quiet = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before < QUIET_CPU_NS ? quiet + 1 : 0;
	}
}

static uint64_t heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static int phase_both(struct index_bench *b, enum index_phase phase, uint64_t round,
		      struct error *err)
{
	uint64_t heap;
	uintptr_t arena, arena_end;
	int rc;

	for (unsigned s = 0; s < INDEX_SIDES; s++) {
		/* The first side changes from round to round. */
		unsigned who = (unsigned)(s + round) % INDEX_SIDES;
		const struct index_side *side = index_side[who];

		heap = heap_bytes();
		rc = phase_run(b, &index_phase[phase], side, round, &b->ns[phase][who][round],
			       &b->times[phase][who]);
		if (rc)
			return error_set(err, rc, "%s: %s: %s", side->name, index_phase[phase].name,
					 error_name(rc));
		wait_until_quiet();
		if (phase == PHASE_INSERT)
			b->heap[who] = b->heap_empty[who] + heap_bytes() - heap;
	}
	if (phase != PHASE_INSERT)
		return 0;
	index_ours_bytes(&b->bytes);
	index_theirs_arena(&arena, &arena_end);
	rc = index_pages_backing(arena, arena_end, b->backing);
	return rc ? error_set(err, rc, "reading /proc/self/smaps failed: %s", error_name(rc)) : 0;
}

static int sides_open(struct index_bench *b, struct error *err)
{
	const struct index_setup config = {
		.records = b->o.records,
		.value_len = (uint32_t)b->o.value_len,
		.workers = (unsigned)b->o.writers,
		.hugepages = b->hugepages,
		.group = (unsigned)b->o.group,
		.table = b->o.table,
		.bound = b->o.bound,
	};
	uint64_t heap;
	int rc;

	for (unsigned s = 0; s < INDEX_SIDES; s++) {
		heap = heap_bytes();
		rc = index_side[s]->open(&config, err);
		if (rc) {
			error_prefix(err, "%s", index_side[s]->name);
			if (s == THEIRS)
				index_side[OURS]->close();
			return rc;
		}
		b->heap_empty[s] = heap_bytes() - heap;
	}
	return 0;
}

/* Phases from an empty table to an empty table. A failed one ends the program: nothing is closed,
 * since threads may still run. */
static int phases(struct index_bench *b, enum index_phase first, enum index_phase last,
		  uint64_t round, struct error *err)
{
	int rc = sides_open(b, err);

	if (rc)
		return rc;
	for (unsigned p = first; p <= last && rc == 0; p++)
		rc = phase_both(b, p, round, err);
	for (unsigned s = 0; s < INDEX_SIDES && rc == 0; s++)
		index_side[s]->close();
	return rc;
}

static void progress(const struct index_bench *b, uint64_t round)
{
	if (!isatty(STDERR_FILENO))
		return;
	if (round < b->o.rounds)
		fprintf(stderr, "\rround %u of %u", (unsigned)round + 1, (unsigned)b->o.rounds);
	else
		fputs("\r                \r", stderr);
}

int index_measure(struct index_bench *b, struct error *err)
{
	double ratio[INDEX_ROUNDS_MAX];
	int rc = 0;

	for (uint64_t r = 0; r < b->o.rounds && rc == 0; r++) {
		progress(b, r);
		rc = phases(b, PHASE_INSERT, PHASE_DELETE, r, err);
		if (rc == 0 && !b->o.quick)
			rc = phases(b, PHASE_INSERT_1, PHASE_DELETE_1, r, err);
		if (rc == 0 && !b->o.quick)
			rc = phases(b, PHASE_INSERT_N, PHASE_DELETE_N, r, err);
	}
	progress(b, b->o.rounds);
	for (unsigned p = 0; p < INDEX_PHASES; p++) {
		b->ratio[p] = samples_ratios(b->ns[p][THEIRS], b->ns[p][OURS], ratio, b->o.rounds);
		for (unsigned s = 0; s < INDEX_SIDES; s++)
			samples_sort(b->ns[p][s], b->o.rounds);
	}
	return rc;
}
