/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Rounds. In each, for each pause, all strategies take turns, a slice of some 200 ms at a time
 * until each has had its seconds, so that a machine that drifts drifts for all; the first changes
 * from round to round, and every other slice goes backwards, so that nobody always runs after the
 * same one. What is compared is a strategy's slices of a round together.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tools/kv-rcu-bench/rcu_bench.h"

#define SLICE_NS (200 * NS_PER_MS)

static void progress(const struct rcu_bench *b, unsigned done, unsigned pause_us, uint64_t start_ns)
{
	unsigned all = (unsigned)b->o.rounds * b->o.pauses;
	uint64_t took = time_now_ns() - start_ns;
	double left = done ? (double)took / done * (all - done) / (double)NS_PER_S
			   : (double)b->o.duration_ns * all * b->o.strategies / (double)NS_PER_S;

	if (!isatty(STDERR_FILENO))
		return;
	fputs("\r\033[K", stderr);
	if (done < all)
		fprintf(stderr, "round %u of %u, pause %u us; %.0f s left", done / b->o.pauses + 1,
			(unsigned)b->o.rounds, pause_us, left);
	fflush(stderr);
}

static void cell_add(struct rcu_cell *c, unsigned round, const struct rcu_figures *f)
{
	c->updates_per_s[round] = (double)f->updates / f->seconds;
	c->reads_per_s[round] = (double)f->reads / f->seconds;
	c->graces_per_s[round] = (double)f->periods / f->seconds;
	c->update_p99_ns[round] = (double)histogram_at(&f->update_ns, 0.99);
	histogram_merge(&c->update_ns, &f->update_ns);
	histogram_merge(&c->grace.times, &f->grace.times);
	c->grace.total_ns += f->grace.total_ns;
	c->deferred = f->deferred > c->deferred ? f->deferred : c->deferred;
}

static void figures_merge(struct rcu_figures *all, const struct rcu_figures *f)
{
	all->seconds += f->seconds;
	all->updates += f->updates;
	all->reads += f->reads;
	all->periods += f->periods;
	all->deferred = f->deferred > all->deferred ? f->deferred : all->deferred;
	histogram_merge(&all->update_ns, &f->update_ns);
	histogram_merge(&all->grace.times, &f->grace.times);
	all->grace.total_ns += f->grace.total_ns;
}

/* One slice of @s; added to @all. */
static int measure_slice(struct rcu_bench *b, const struct rcu_strategy *s, unsigned pause,
			 uint64_t duration_ns, struct rcu_figures *all, struct error *err)
{
	static struct rcu_figures figures; /* too large for a stack */
	const struct rcu_setup setup = {
		.readers = (unsigned)b->o.readers,
		.updaters = (unsigned)b->o.updaters,
		.objects = (unsigned)b->o.objects,
		.duration_ns = duration_ns,
		.pause_ns = b->o.pause_us[pause] * 1000ull,
		.deferred_max = b->o.deferred_max / sizeof(struct rcu_object),
		.broken = b->o.broken,
	};
	int rc = rcu_run(s, &setup, &figures, err);

	if (rc)
		return rc;
	figures_merge(all, &figures);
	if (figures.lost)
		return error_set(err, -EBADMSG,
				 "%s: of %" PRIu64 " objects, %" PRId64
				 " were not freed; this is a bug, please report it",
				 s->name, figures.updates, (int64_t)figures.lost);
	if (figures.failures)
		return error_set(err, -EBADMSG,
				 "%s: %" PRIu64 " of %" PRIu64
				 " reads found an object that had been freed%s",
				 s->name, figures.failures, figures.reads,
				 b->o.broken ? ", as --broken wants it"
					     : "; this is a bug, please report it");
	return 0;
}

/* All strategies at one pause. @all: one for each. */
static int measure_pause(struct rcu_bench *b, unsigned round, unsigned pause,
			 struct rcu_figures *all, struct error *err)
{
	unsigned n = b->o.strategies;
	uint64_t slices = (b->o.duration_ns + SLICE_NS - 1) / SLICE_NS;
	int rc = 0;

	memset(all, 0, n * sizeof(*all));
	for (uint64_t i = 0; i < slices && rc == 0; i++) {
		for (unsigned k = 0; k < n && rc == 0; k++) {
			unsigned s = (round + (i % 2 ? n - 1 - k : k)) % n;

			rc = measure_slice(b, b->o.strategy[s], pause, b->o.duration_ns / slices,
					   &all[s], err);
		}
	}
	for (unsigned s = 0; s < n && rc == 0; s++)
		cell_add(rcu_cell(b, s, pause), round, &all[s]);
	return rc;
}

int rcu_measure(struct rcu_bench *b, struct error *err)
{
	struct rcu_figures *all = calloc(b->o.strategies, sizeof(*all));
	uint64_t start = time_now_ns();
	unsigned done = 0;
	int rc = 0;

	b->cell = calloc((size_t)b->o.strategies * b->o.pauses, sizeof(*b->cell));
	if (!b->cell || !all)
		rc = error_set(err, -ENOMEM, "no memory for the figures");
	for (unsigned r = 0; r < b->o.rounds && rc == 0; r++) {
		for (unsigned p = 0; p < b->o.pauses && rc == 0; p++) {
			progress(b, done++, b->o.pause_us[p], start);
			rc = measure_pause(b, r, p, all, err);
		}
	}
	progress(b, (unsigned)b->o.rounds * b->o.pauses, 0, start);
	free(all);
	return rc;
}
