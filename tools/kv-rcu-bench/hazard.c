/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * hazard: readers announce the object that they are about to read, and look whether the pointer
 * still leads to it; updaters keep what they replaced and, when a batch has come together, free
 * those that nobody announces.
 *
 * ORDER. The reader stores the hazard, then loads the pointer again; the updater exchanges the
 * pointer, then loads the hazards: all seq_cst, so one of the two sees the other. A reader that
 * found the pointer unchanged is seen by every scan that could free the object. Clearing releases
 * the reads, the scan acquires them.
 *
 * BOUND. At most HAZARDS * readers objects survive a scan, so a bag holds at most that and a batch.
 * A scan starts when a batch and as many again as there are hazards are there: so it frees half.
 */
#include <errno.h>
#include <string.h>

#include "common/base/time.h"
#include "tools/kv-rcu-bench/strategy.h"

/* What every scan sorts its hazards in: one array an updater. */
struct hazards {
	uintptr_t *set;
	unsigned max;
};

static struct rcu_object *hazard_take(struct rcu_reader *r, unsigned hazard)
{
	struct rcu_source *s = rcu_next_source(r->domain, &r->turn);
	/* Relaxed: what counts is the second look. */
	struct rcu_object *o = atomic_load_explicit(&s->object, memory_order_relaxed), *again;

	if (hazard == 0)
		rcu_stall(r);
	for (;; o = again) {
		/* seq_cst, both: pairs with hazards_collect() */
		atomic_store_explicit(&r->hazard[hazard], o, memory_order_seq_cst);
		again = atomic_load_explicit(&s->object, memory_order_seq_cst);
		if (again == o)
			return o;
	}
}

static uint64_t hazard_read(struct rcu_reader *r)
{
	struct rcu_object *held = hazard_take(r, 0);
	uint64_t first, serial, failures;

	failures = !object_read(held, &first);
	for (unsigned i = 1; i < PERIOD_READS; i++)
		failures += !object_read(hazard_take(r, 1), &serial);
	rcu_linger(r);
	failures += !object_read(held, &serial) || serial != first;
	/* release pairs with hazards_collect(): the reads before it */
	for (unsigned i = 0; i < HAZARDS; i++)
		atomic_store_explicit(&r->hazard[i], NULL, memory_order_release);
	return failures;
}

static int compare(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return x < y ? -1 : x > y;
}

/* Those that are set, sorted. Returns how many. */
static unsigned hazards_collect(struct rcu_domain *d, uintptr_t *set)
{
	unsigned count = 0;

	for (unsigned r = 0; r < d->readers && !d->broken; r++) {
		for (unsigned i = 0; i < HAZARDS; i++) {
			/* seq_cst: pairs with hazard_take(); also acquires what was read */
			struct rcu_object *o =
				atomic_load_explicit(&d->reader[r].hazard[i], memory_order_seq_cst);

			if (o)
				set[count++] = (uintptr_t)o;
		}
	}
	qsort(set, count, sizeof(*set), compare);
	return count;
}

static void hazard_scan(struct rcu_updater *u)
{
	struct hazards *h = u->domain->own;
	uintptr_t *set = h->set + (size_t)(u - u->domain->updater) * h->max;
	struct rcu_object *o = u->bag[0].first, *next;
	uint64_t start = time_now_ns(), freed = 0;
	unsigned count;

	count = hazards_collect(u->domain, set);
	u->bag[0] = (struct rcu_bag){ 0 };
	for (; o; o = next) {
		uintptr_t key = (uintptr_t)o;

		next = o->next;
		if (count && bsearch(&key, set, count, sizeof(key), compare)) {
			rcu_bag_put(&u->bag[0], o);
		} else {
			object_free(o);
			freed++;
		}
	}
	rcu_count(&u->freed, freed);
	rcu_grace_add(&u->grace, time_now_ns() - start);
}

static void hazard_retire(struct rcu_updater *u, struct rcu_object *old)
{
	struct hazards *h = u->domain->own;

	rcu_count(&u->retired, 1);
	rcu_bag_put(&u->bag[0], old);
	if (u->bag[0].count >= BATCH_OBJECTS + h->max)
		hazard_scan(u);
}

static int hazard_open(struct rcu_domain *d, struct error *err)
{
	struct hazards *h = calloc(1, sizeof(*h));

	if (h) {
		h->max = HAZARDS * d->readers;
		h->set = calloc((size_t)h->max * d->updaters, sizeof(*h->set));
	}
	if (!h || !h->set) {
		free(h);
		return error_set(err, -ENOMEM, "no memory for lists of hazards");
	}
	d->own = h;
	return 0;
}

static int hazard_close(struct rcu_domain *d, struct error *err)
{
	struct hazards *h = d->own;

	free(h->set);
	free(h);
	return 0;
}

const struct rcu_strategy rcu_hazard = {
	.name = "hazard",
	.how = "hazard pointers: readers announce the object, updaters free what is not announced",
	.open = hazard_open,
	.read = hazard_read,
	.retire = hazard_retire,
	.close = hazard_close,
};
