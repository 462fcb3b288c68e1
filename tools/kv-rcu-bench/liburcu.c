/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * liburcu: call_rcu() of the QSBR flavour, with the one default worker of a process: "This will
 * suffice in most cases", says its rcu-api.md, and it is what a program gets that calls nothing
 * but call_rcu().
 *
 * The worker is not asked about its grace periods. One callback that calls call_rcu() for itself
 * again rides in each of its batches, so that it counts them; its time is that from call_rcu() to
 * the callback, hence a grace period and the 10 ms by which the worker lets callbacks gather.
 */
#include <errno.h>

#include "common/base/time.h"
#include "server/reclaim/qsbr.h"
#include "tools/kv-rcu-bench/strategy.h"

struct rider {
	struct rcu_head head;
	struct rcu_domain *domain;
	uint64_t since_ns;
	_Atomic bool stop;
};

/* Objects carry no pointer to their run; there is one run at a time. Set before the first
 * call_rcu() of a run, which orders it. */
static struct rcu_domain *running;

static void object_called(struct rcu_head *head)
{
	tsan_acquire(QSBR_EDGE);
	object_free(caa_container_of(head, struct rcu_object, head));
	rcu_count(&running->freed, 1);
}

static void ride(struct rcu_head *head)
{
	struct rider *r = caa_container_of(head, struct rider, head);
	uint64_t now = time_now_ns();

	tsan_acquire(QSBR_EDGE);
	if (!atomic_load_explicit(&r->domain->stop, memory_order_relaxed))
		rcu_grace_add(&r->domain->grace, now - r->since_ns);
	r->since_ns = now;
	/* acquire pairs with liburcu_close(), which waits for this callback */
	if (!atomic_load_explicit(&r->stop, memory_order_acquire)) {
		tsan_release(QSBR_EDGE);
		urcu_qsbr_call_rcu(&r->head, ride);
	}
}

static int liburcu_open(struct rcu_domain *d, struct error *err)
{
	struct rider *r = calloc(1, sizeof(*r));

	if (!r)
		return error_set(err, -ENOMEM, "no memory for a callback");
	r->domain = d;
	r->since_ns = time_now_ns();
	running = d;
	d->own = r;
	qsbr_register(); /* callers of call_rcu() are */
	tsan_release(QSBR_EDGE);
	urcu_qsbr_call_rcu(&r->head, ride);
	qsbr_unregister();
	return 0;
}

static void liburcu_retire(struct rcu_updater *u, struct rcu_object *old)
{
	if (u->domain->broken) {
		object_free(old);
		rcu_count(&u->freed, 1);
	} else {
		tsan_release(QSBR_EDGE);
		urcu_qsbr_call_rcu(&old->head, object_called);
	}
	rcu_bound(u);
}

static int liburcu_close(struct rcu_domain *d, struct error *err)
{
	struct rider *r = d->own;

	atomic_store_explicit(&r->stop, true, memory_order_release);
	/* What it calls for itself before it sees that may stand after the first barrier. */
	urcu_qsbr_barrier();
	urcu_qsbr_barrier();
	tsan_acquire(QSBR_EDGE);
	free(r);
	return 0;
}

const struct rcu_strategy rcu_liburcu = {
	.name = "liburcu",
	.how = "call_rcu() of liburcu's QSBR flavour, its default worker",
	.qsbr_readers = true,
	.qsbr_updaters = true,
	.open = liburcu_open,
	.read = rcu_read_qsbr,
	.retire = liburcu_retire,
	.close = liburcu_close,
};
