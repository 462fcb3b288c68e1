/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A run: readers and updaters start together, run for a time, stop; then the strategy ends its
 * threads, and every object that was made must have been freed.
 *
 * An update is: malloc, fill, exchange, hand over; its time is taken around these. The pause comes
 * after it, and starts when it has ended.
 */
#include "tools/kv-rcu-bench/run.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <time.h>

#include "common/base/time.h"
#include "server/reclaim/qsbr.h"

#define START_NAP_NS 200000
#define LOOK_NS	     20000000
#define MEMORY_KEPT  (1 << 30) /* bytes that malloc keeps */

static void nap(uint64_t ns)
{
	struct timespec ts = { (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };

	nanosleep(&ts, NULL);
}

static bool stopped(const struct rcu_domain *d)
{
	return atomic_load_explicit(&d->stop, memory_order_relaxed);
}

static void start_wait(struct rcu_domain *d, bool qsbr)
{
	/* acquire pairs with threads_run(): all that was set up */
	while (!atomic_load_explicit(&d->go, memory_order_acquire))
		nap(START_NAP_NS);
	if (qsbr)
		qsbr_register();
}

static void *reader_main(void *arg)
{
	struct rcu_reader *r = arg;
	struct rcu_domain *d = r->domain;
	uint64_t (*read)(struct rcu_reader *) = d->strategy->read;
	bool qsbr = d->strategy->qsbr_readers;

	start_wait(d, qsbr);
	while (!stopped(d)) {
		r->failures += read(r);
		r->reads += PERIOD_READS;
	}
	if (qsbr)
		qsbr_unregister();
	return NULL;
}

/* As rcu_strategy.update. */
static int update(struct rcu_updater *u)
{
	struct rcu_source *s = rcu_next_source(u->domain, &u->turn);
	struct rcu_object *o = malloc(sizeof(*o));

	if (!o)
		return -ENOMEM;
	object_fill(o, u->serial += UPDATERS_MAX);
	/* seq_cst: release pairs with the readers' loads, the object's words before it; the order
	 * of all of them is what hazard.c and epoch.c rest on. */
	o = atomic_exchange_explicit(&s->object, o, memory_order_seq_cst);
	u->domain->strategy->retire(u, o);
	return 0;
}

static void *updater_main(void *arg)
{
	struct rcu_updater *u = arg;
	struct rcu_domain *d = u->domain;
	int (*one)(struct rcu_updater *) = d->strategy->update ? d->strategy->update : update;
	bool qsbr = d->strategy->qsbr_updaters;
	uint64_t end;
	int rc;

	start_wait(d, qsbr);
	while (!stopped(d)) {
		u->now_ns = time_now_ns();
		rc = one(u);
		if (rc && rc != -EINTR)
			atomic_store_explicit(&d->failed, rc, memory_order_relaxed);
		if (rc)
			break;
		end = time_now_ns();
		histogram_add(&u->times, end - u->now_ns);
		if (d->strategy->after)
			d->strategy->after(u);
		rcu_pause(end, d->pause_ns, qsbr);
	}
	if (qsbr)
		qsbr_unregister();
	return NULL;
}

static void *aligned_zero(size_t count, size_t size)
{
	void *p = aligned_alloc(LINE, count * size);

	if (p)
		memset(p, 0, count * size);
	return p;
}

static void domain_free(struct rcu_domain *d)
{
	for (unsigned i = 0; i < d->sources && d->source; i++)
		free(atomic_load(&d->source[i].object));
	free(d->source);
	free(d->reader);
	free(d->updater);
	free(d);
}

static struct rcu_domain *domain_new(const struct rcu_strategy *strategy,
				     const struct rcu_setup *setup)
{
	struct rcu_domain *d = aligned_zero(1, sizeof(*d));

	if (!d)
		return NULL;
	d->strategy = strategy;
	d->readers = setup->readers;
	d->updaters = setup->updaters;
	d->sources = setup->objects;
	d->pause_ns = setup->pause_ns;
	d->deferred_max = setup->deferred_max;
	d->broken = setup->broken;
	d->slow = setup->slow;
	d->source = aligned_zero(d->sources, sizeof(*d->source));
	d->reader = aligned_zero(d->readers, sizeof(*d->reader));
	d->updater = aligned_zero(d->updaters, sizeof(*d->updater));
	for (unsigned i = 0; i < d->sources && d->source; i++) {
		struct rcu_object *o = malloc(sizeof(*o));

		if (!o)
			break;
		object_fill(o, 0);
		atomic_store(&d->source[i].object, o);
		if (i + 1 == d->sources && d->reader && d->updater)
			return d;
	}
	domain_free(d);
	return NULL;
}

static int threads_start(struct rcu_domain *d, unsigned *started)
{
	int rc = 0;

	for (unsigned i = 0; i < d->readers && rc == 0; i++, *started += rc == 0) {
		d->reader[i].domain = d;
		d->reader[i].turn = i % d->sources;
		rc = -pthread_create(&d->reader[i].thread, NULL, reader_main, &d->reader[i]);
	}
	for (unsigned i = 0; i < d->updaters && rc == 0; i++, *started += rc == 0) {
		d->updater[i].domain = d;
		d->updater[i].turn = i % d->sources;
		d->updater[i].serial = i + 1;
		rc = -pthread_create(&d->updater[i].thread, NULL, updater_main, &d->updater[i]);
	}
	return rc;
}

static void threads_join(struct rcu_domain *d, unsigned started)
{
	for (unsigned i = 0; i < started; i++) {
		if (i < d->readers)
			pthread_join(d->reader[i].thread, NULL);
		else
			pthread_join(d->updater[i - d->readers].thread, NULL);
	}
}

static int threads_run(struct rcu_domain *d, uint64_t duration_ns, struct rcu_figures *out,
		       struct error *err)
{
	uint64_t start, now, waiting;
	unsigned started = 0;
	int rc = threads_start(d, &started);

	if (rc)
		atomic_store(&d->stop, true);
	start = now = time_now_ns();
	atomic_store_explicit(&d->go, 1, memory_order_release); /* pairs with start_wait() */
	while (rc == 0 && now - start < duration_ns && !atomic_load(&d->failed)) {
		uint64_t left = duration_ns - (now - start);

		nap(left < LOOK_NS ? left : LOOK_NS);
		waiting = rcu_deferred(d);
		out->deferred = waiting > out->deferred ? waiting : out->deferred;
		now = time_now_ns();
	}
	atomic_store(&d->stop, true);
	out->seconds = (double)(now - start) / (double)NS_PER_S;
	threads_join(d, started);
	if (rc)
		return error_set(err, rc,
				 "starting thread %u failed: %s; give fewer --readers or "
				 "--updaters, or raise the limit of threads",
				 started + 1, error_name(rc));
	rc = atomic_load(&d->failed);
	if (rc)
		return error_set(
			err, rc, "%s: a thread failed: %s%s", d->strategy->name, error_name(rc),
			rc == -ENOMEM ? "; give another --deferred-max, or free memory" : "");
	return 0;
}

/* All threads have ended. */
static void figures_add(struct rcu_domain *d, struct rcu_figures *out)
{
	uint64_t freed = atomic_load(&d->freed);

	out->grace = d->grace;
	out->periods = d->periods;
	for (unsigned i = 0; i < d->readers; i++) {
		out->reads += d->reader[i].reads;
		out->failures += d->reader[i].failures;
	}
	for (unsigned i = 0; i < d->updaters; i++) {
		struct rcu_updater *u = &d->updater[i];

		for (unsigned b = 0; b < EPOCH_BAGS; b++)
			freed += rcu_bag_free(&u->bag[b]);
		freed += atomic_load(&u->freed);
		out->updates += u->times.count;
		histogram_merge(&out->update_ns, &u->times);
		histogram_merge(&out->grace.times, &u->grace.times);
		out->grace.total_ns += u->grace.total_ns;
	}
	if (out->periods < out->grace.times.count)
		out->periods = out->grace.times.count;
	out->lost = out->updates - freed;
}

int rcu_run(const struct rcu_strategy *strategy, const struct rcu_setup *setup,
	    struct rcu_figures *out, struct error *err)
{
	struct rcu_domain *d = domain_new(strategy, setup);
	int rc, closed;

	memset(out, 0, sizeof(*out));
	/* Memory stays with the process, so that no strategy pays for getting it again, and what
	 * a broken one reads too late can still be read. */
	mallopt(M_TRIM_THRESHOLD, MEMORY_KEPT);
	if (!d)
		return error_set(err, -ENOMEM, "no memory for %u readers and %u updaters",
				 setup->readers, setup->updaters);
	rc = strategy->open ? strategy->open(d, err) : 0;
	if (rc == 0) {
		rc = threads_run(d, setup->duration_ns, out, err);
		closed = strategy->close ? strategy->close(d, rc ? NULL : err) : 0;
		rc = rc ? rc : closed;
		figures_add(d, out);
	}
	domain_free(d);
	return rc;
}
