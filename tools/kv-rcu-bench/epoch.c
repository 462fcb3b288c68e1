/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * epoch: reclamation by three epochs. A reader's section announces the epoch in which it began;
 * the epoch advances when every open section has announced the newest one; what was retired two
 * epochs ago is free.
 *
 * WHY. An updater unlinks an object and then reads the epoch, e; it goes into the bag of e. A
 * reader that reads e + 1 or more began after that, and finds the object no more. One that
 * announced e or less keeps the epoch from passing e + 1: to leave e + 1, a look at all readers
 * that began in e + 1 must have found none with another epoch. (A reader may announce an epoch
 * that has long passed, if it was stopped between reading and announcing it. That stops the
 * epoch all the same, and it reads the pointer only after it announced.) So at e + 2 nobody has
 * it. All of these are seq_cst: one order over the pointer, the epoch and the announcements.
 *
 * BOUND. A reader that is stopped inside a section stops the epoch; an updater whose bags hold its
 * share of what may wait, waits.
 */
#include <string.h>
#include <time.h>

#include "common/base/time.h"
#include "tools/kv-rcu-bench/strategy.h"

#define EPOCH_NAP_NS 100000

static uint64_t epoch_read(struct rcu_reader *r)
{
	struct rcu_domain *d = r->domain;
	uint64_t now = atomic_load_explicit(&d->epoch, memory_order_seq_cst);
	uint64_t first, serial, failures;
	struct rcu_object *held;

	rcu_stall(r);
	/* seq_cst, as are the pointers' loads: pairs with epoch_advance() */
	atomic_store_explicit(&r->epoch, 2 * now + 1, memory_order_seq_cst);
	held = atomic_load_explicit(&rcu_next_source(d, &r->turn)->object, memory_order_seq_cst);
	failures = !object_read(held, &first);
	for (unsigned i = 1; i < PERIOD_READS; i++) {
		struct rcu_source *s = rcu_next_source(d, &r->turn);

		failures += !object_read(atomic_load_explicit(&s->object, memory_order_seq_cst),
					 &serial);
	}
	rcu_linger(r);
	failures += !object_read(held, &serial) || serial != first;
	/* release pairs with epoch_advance(): the reads before it */
	atomic_store_explicit(&r->epoch, 0, memory_order_release);
	return failures;
}

/* Returns the epoch. */
static uint64_t epoch_advance(struct rcu_domain *d)
{
	uint64_t now = atomic_load_explicit(&d->epoch, memory_order_seq_cst);

	for (unsigned i = 0; i < d->readers && !d->broken; i++) {
		/* seq_cst: pairs with epoch_read(); also acquires what was read */
		uint64_t of = atomic_load_explicit(&d->reader[i].epoch, memory_order_seq_cst);

		if (of && of != 2 * now + 1)
			return now;
	}
	/* seq_cst, acquires and releases: with the epoch comes what was seen for it. */
	if (atomic_compare_exchange_strong_explicit(&d->epoch, &now, now + 1, memory_order_seq_cst,
						    memory_order_seq_cst))
		now++;
	return now;
}

/* The epoch is @now: free what is old enough. */
static void epoch_turn(struct rcu_updater *u, uint64_t now)
{
	u->epoch = now;
	for (unsigned i = 0; i < EPOCH_BAGS; i++) {
		struct rcu_bag *bag = &u->bag[i];

		if (!bag->count || bag->epoch + 2 > now)
			continue;
		rcu_count(&u->freed, rcu_bag_free(bag));
		rcu_grace_add(&u->grace, time_now_ns() - bag->since_ns);
	}
}

static void epoch_wait(struct rcu_updater *u)
{
	static const struct timespec nap = { 0, EPOCH_NAP_NS };
	struct rcu_domain *d = u->domain;
	uint64_t most = d->deferred_max / d->updaters, kept;

	for (;;) {
		kept = atomic_load_explicit(&u->retired, memory_order_relaxed) -
		       atomic_load_explicit(&u->freed, memory_order_relaxed);
		if (kept < most || atomic_load_explicit(&d->stop, memory_order_relaxed))
			return;
		nanosleep(&nap, NULL);
		epoch_turn(u, epoch_advance(d));
	}
}

static void epoch_retire(struct rcu_updater *u, struct rcu_object *old)
{
	/* seq_cst, after the exchange that unlinked it, which is too */
	uint64_t now = atomic_load_explicit(&u->domain->epoch, memory_order_seq_cst);
	struct rcu_bag *bag = &u->bag[now % EPOCH_BAGS];

	if (now != u->epoch)
		epoch_turn(u, now);
	bag->epoch = now;
	bag->since_ns = u->now_ns;
	rcu_bag_put(bag, old);
	rcu_count(&u->retired, 1);
	if (bag->count % BATCH_OBJECTS)
		return;
	now = epoch_advance(u->domain);
	if (now != u->epoch)
		epoch_turn(u, now);
	epoch_wait(u);
}

const struct rcu_strategy rcu_epoch = {
	.name = "epoch",
	.how = "three epochs: readers announce theirs, updaters free what is two epochs old",
	.read = epoch_read,
	.retire = epoch_retire,
};
