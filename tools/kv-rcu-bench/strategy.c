/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-rcu-bench/strategy.h"

#include <string.h>
#include <time.h>

#include "common/base/time.h"
#include "server/reclaim/qsbr.h"

#define BOUND_LOOK_OBJECTS 256u
#define BOUND_SLEEP_NS	   100000
#define LINGER_NS	   10000000

const struct rcu_strategy *const rcu_strategies[] = { &rcu_floor,  &rcu_sync,  &rcu_delay,
						      &rcu_batch,  &rcu_gpc,   &rcu_liburcu,
						      &rcu_hazard, &rcu_epoch, &rcu_remote,
						      NULL };

const struct rcu_strategy *rcu_strategy_find(const char *name, size_t len)
{
	for (unsigned i = 0; rcu_strategies[i]; i++) {
		const struct rcu_strategy *s = rcu_strategies[i];

		if (strlen(s->name) == len && strncmp(s->name, name, len) == 0)
			return s;
	}
	return NULL;
}

static const struct timespec linger = { 0, LINGER_NS };

void rcu_linger(const struct rcu_reader *r)
{
	if (r->domain->broken || r->domain->slow)
		nanosleep(&linger, NULL);
}

void rcu_stall(const struct rcu_reader *r)
{
	if (r->domain->slow)
		nanosleep(&linger, NULL);
}

/* Acquire pairs with the exchange in update(): the object's words before the pointer to it. */
static inline struct rcu_object *next_object(struct rcu_reader *r)
{
	struct rcu_source *s = rcu_next_source(r->domain, &r->turn);

	return atomic_load_explicit(&s->object, memory_order_acquire);
}

uint64_t rcu_read_qsbr(struct rcu_reader *r)
{
	struct rcu_object *held = next_object(r);
	uint64_t first, serial, failures;

	failures = !object_read(held, &first);
	for (unsigned i = 1; i < PERIOD_READS; i++)
		failures += !object_read(next_object(r), &serial);
	rcu_linger(r);
	failures += !object_read(held, &serial) || serial != first;
	qsbr_quiescent();
	return failures;
}

void rcu_grace_add(struct rcu_grace *g, uint64_t ns)
{
	histogram_add(&g->times, ns);
	g->total_ns += ns;
}

void rcu_grace_wait(struct rcu_domain *d, struct rcu_grace *g)
{
	uint64_t start = time_now_ns();

	if (!d->broken)
		qsbr_synchronize();
	if (!atomic_load_explicit(&d->stop, memory_order_relaxed)) /* with readers */
		rcu_grace_add(g, time_now_ns() - start);
}

uint64_t rcu_deferred(const struct rcu_domain *d)
{
	uint64_t freed = atomic_load_explicit(&d->freed, memory_order_relaxed), retired = 0;

	for (unsigned i = 0; i < d->updaters; i++) {
		freed += atomic_load_explicit(&d->updater[i].freed, memory_order_relaxed);
		retired += atomic_load_explicit(&d->updater[i].retired, memory_order_relaxed);
	}
	return retired > freed ? retired - freed : 0; /* they were not looked at all at once */
}

static void bound_wait(struct rcu_domain *d)
{
	static const struct timespec nap = { 0, BOUND_SLEEP_NS };

	if (rcu_deferred(d) < d->deferred_max)
		return;
	qsbr_offline();
	while (rcu_deferred(d) >= d->deferred_max &&
	       !atomic_load_explicit(&d->stop, memory_order_relaxed))
		nanosleep(&nap, NULL);
	qsbr_online();
}

void rcu_bound(struct rcu_updater *u)
{
	rcu_count(&u->retired, 1);
	if (u->until_check-- == 0) {
		bound_wait(u->domain);
		u->until_check = BOUND_LOOK_OBJECTS - 1;
	}
}

uint64_t rcu_bag_free(struct rcu_bag *bag)
{
	struct rcu_object *o, *next;
	uint64_t count = bag->count;

	for (o = bag->first; o; o = next) {
		next = o->next;
		object_free(o);
	}
	bag->first = NULL;
	bag->count = 0;
	return count;
}

void rcu_pause(uint64_t since_ns, uint64_t ns, bool quiescent)
{
	if (ns > PAUSE_BUSY_NS) {
		uint64_t sleep = ns - PAUSE_BUSY_NS;
		struct timespec ts = { (time_t)(sleep / NS_PER_S), (long)(sleep % NS_PER_S) };

		if (quiescent)
			qsbr_offline();
		nanosleep(&ts, NULL);
		if (quiescent)
			qsbr_online();
	}
	do {
		if (quiescent)
			qsbr_quiescent();
		time_relax();
	} while (time_now_ns() - since_ns < ns);
}
