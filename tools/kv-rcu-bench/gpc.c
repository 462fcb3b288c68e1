/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * gpc, grace periods coalesced: updaters push what they replaced on one wait-free stack (liburcu's
 * wfstack, its node inside the object), one reclaimer takes all of it and closes one grace period
 * for it.
 *
 * WHEN. The reclaimer takes the stack when `batch` objects should be there, by the rate at which
 * they came last, or after 5 ms, whichever comes first; nobody counts them as they come. `batch`
 * starts at 256 and follows the backlog: found full it doubles, found less than half full it
 * halves, down to 256, and up to a quarter of what may wait. So a grace period's price is shared
 * by as many objects as 5 ms bring, and by fewer where memory is short.
 *
 * WAKING. Only an updater that found the stack empty looks whether the reclaimer sleeps, and the
 * reclaimer sleeps so only after 5 ms in which nothing came. The push is a full barrier before
 * the look, the reclaimer's announcement one before it looks at the stack: one of the two sees
 * the other.
 *
 * A push is an exchange and then a store of `next`. Updaters are QSBR readers, so after the grace
 * period both are done for every object that was on the stack, and the walk waits for nobody.
 *
 * BOUND. Updaters look at the number of waiting objects every 256 updates (rcu_bound()).
 */
#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/base/time.h"
#include "server/reclaim/qsbr.h"
#include "tools/kv-rcu-bench/strategy.h"

#define BATCH_SHARE 4u /* of deferred_max, that one batch may be */

struct gpc {
	_Alignas(LINE) struct __cds_wfs_stack stack;
	_Alignas(LINE) _Atomic uint32_t sleeping; /* a futex */
	_Atomic bool stop;
	/* The reclaimer's. */
	struct rcu_domain *domain;
	pthread_t thread;
	uint64_t batch, batch_max; /* objects */
	uint64_t taken_ns; /* when the stack was taken last */
	double rate; /* objects a nanosecond */
};

static void gpc_wake(struct gpc *g)
{
	/* seq_cst, after a full barrier: pairs with gpc_sleep() */
	if (atomic_load_explicit(&g->sleeping, memory_order_seq_cst)) {
		atomic_store_explicit(&g->sleeping, 0, memory_order_relaxed);
		syscall(SYS_futex, &g->sleeping, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
}

/* Pairs with gpc_retire() and gpc_close(). */
static void barrier_sleeping_before_stack(void)
{
#ifndef QSBR_TSAN /* does not know fences; the exchange before it is a full one on x86-64 */
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Until the stack is not empty any more, or it is time to stop. */
static void gpc_sleep(struct gpc *g)
{
	atomic_store_explicit(&g->sleeping, 1, memory_order_seq_cst);
	barrier_sleeping_before_stack();
	while (cds_wfs_empty(&g->stack) && !atomic_load(&g->stop) &&
	       atomic_load_explicit(&g->sleeping, memory_order_seq_cst))
		syscall(SYS_futex, &g->sleeping, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
	atomic_store_explicit(&g->sleeping, 0, memory_order_relaxed);
	g->taken_ns = time_now_ns();
}

/* Until a batch should have come. */
static void gpc_hold(struct gpc *g)
{
	double ns = g->rate > 0 ? (double)g->batch / g->rate : (double)BATCH_NS;
	uint64_t end = g->taken_ns + (ns < (double)BATCH_NS ? (uint64_t)ns : BATCH_NS);
	uint64_t now = time_now_ns();
	struct timespec ts;

	if (now >= end || atomic_load_explicit(&g->stop, memory_order_acquire))
		return;
	ts = (struct timespec){ 0, (long)(end - now) };
	nanosleep(&ts, NULL);
}

static uint64_t gpc_free(struct gpc *g, struct cds_wfs_head *head)
{
	struct cds_wfs_node *node, *next;
	uint64_t count = 0;

	for (node = cds_wfs_first(head); node; node = next, count++) {
		next = cds_wfs_next_blocking(node);
		object_free(caa_container_of(node, struct rcu_object, stacked));
	}
	rcu_count(&g->domain->freed, count);
	return count;
}

static void gpc_adapt(struct gpc *g, uint64_t count, uint64_t ns)
{
	g->rate = ns ? (double)count / (double)ns : 0;
	if (count >= g->batch && 2 * g->batch <= g->batch_max)
		g->batch *= 2;
	else if (count < g->batch / 2 && g->batch >= 2 * BATCH_OBJECTS)
		g->batch /= 2;
}

/* Returns whether there was anything. */
static bool gpc_round(struct gpc *g)
{
	uint64_t last = g->taken_ns, count;
	struct cds_wfs_head *head = __cds_wfs_pop_all(&g->stack);

	g->taken_ns = time_now_ns();
	if (!head)
		return false;
	tsan_acquire(g); /* pairs with gpc_retire(); the pop is an exchange */
	rcu_grace_wait(g->domain, &g->domain->grace);
	count = gpc_free(g, head);
	gpc_adapt(g, count, g->taken_ns - last);
	return true;
}

static void *gpc_main(void *arg)
{
	struct gpc *g = arg;
	bool stop;

	g->taken_ns = time_now_ns();
	do {
		/* acquire pairs with gpc_close(): all is on the stack before the last round */
		stop = atomic_load_explicit(&g->stop, memory_order_acquire);
		if (!gpc_round(g) && !stop) {
			g->rate = 0;
			gpc_hold(g);
			if (cds_wfs_empty(&g->stack))
				gpc_sleep(g);
		}
		if (!stop)
			gpc_hold(g);
	} while (!stop);
	return NULL;
}

static int gpc_open(struct rcu_domain *d, struct error *err)
{
	struct gpc *g = aligned_alloc(LINE, sizeof(*g));
	int rc;

	if (!g)
		return error_set(err, -ENOMEM, "no memory for the reclaimer of gpc");
	memset(g, 0, sizeof(*g));
	__cds_wfs_init(&g->stack);
	g->domain = d;
	g->batch = BATCH_OBJECTS;
	g->batch_max = d->deferred_max / BATCH_SHARE;
	rc = -pthread_create(&g->thread, NULL, gpc_main, g);
	if (rc) {
		free(g);
		return error_set(err, rc, "starting the reclaimer of gpc failed: %s",
				 error_name(rc));
	}
	d->own = g;
	return 0;
}

static void gpc_retire(struct rcu_updater *u, struct rcu_object *old)
{
	struct gpc *g = u->domain->own;

	tsan_release(g);
	cds_wfs_node_init(&old->stacked);
	if (!cds_wfs_push(&g->stack, &old->stacked))
		gpc_wake(g);
	rcu_bound(u);
}

static int gpc_close(struct rcu_domain *d, struct error *err)
{
	struct gpc *g = d->own;

	atomic_store(&g->stop, true);
	gpc_wake(g);
	pthread_join(g->thread, NULL);
	free(g);
	return 0;
}

const struct rcu_strategy rcu_gpc = {
	.name = "gpc",
	.how = "updaters push to a stack; one thread closes a grace period for 256 or more, or for "
	       "those of 5 ms",
	.qsbr_readers = true,
	.qsbr_updaters = true,
	.open = gpc_open,
	.read = rcu_read_qsbr,
	.retire = gpc_retire,
	.close = gpc_close,
};
