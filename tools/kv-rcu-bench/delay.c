/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * delay: updaters hand what they replaced to one helper, which pauses as they do and then closes a
 * grace period, for each object by itself. Updaters do not wait, and the helper falls behind when
 * they are faster than a grace period: then objects pile up until the bound, where updaters do
 * wait. (A run with few updates does not come so far; that is how this one can look as fast as
 * gpc.)
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/base/time.h"
#include "server/reclaim/qsbr.h"
#include "tools/kv-rcu-bench/strategy.h"

#define IDLE_NS 200000

struct delay {
	_Alignas(LINE) struct __cds_wfcq_head head;
	_Alignas(LINE) struct cds_wfcq_tail tail;
	_Alignas(LINE) _Atomic bool stop;
	struct rcu_domain *domain;
	pthread_t thread;
};

static struct rcu_object *delay_next(struct delay *q)
{
	struct cds_wfcq_node *node = __cds_wfcq_dequeue_blocking(&q->head, &q->tail);

	if (!node)
		return NULL;
	tsan_acquire(q); /* pairs with delay_retire(); the enqueueing is an exchange */
	return caa_container_of(node, struct rcu_object, queued);
}

static void delay_free(struct delay *q, struct rcu_object *o)
{
	object_free(o);
	rcu_count(&q->domain->freed, 1);
}

static void *delay_main(void *arg)
{
	static const struct timespec idle = { 0, IDLE_NS };
	struct delay *q = arg;
	struct rcu_domain *d = q->domain;
	struct rcu_object *o;

	/* acquire pairs with delay_close() */
	while (!atomic_load_explicit(&q->stop, memory_order_acquire)) {
		o = delay_next(q);
		if (!o) {
			nanosleep(&idle, NULL);
			continue;
		}
		rcu_pause(time_now_ns(), d->pause_ns, false);
		rcu_grace_wait(d, &d->grace);
		delay_free(q, o);
	}
	/* No reader is left. */
	while ((o = delay_next(q)))
		delay_free(q, o);
	return NULL;
}

static int delay_open(struct rcu_domain *d, struct error *err)
{
	struct delay *q = aligned_alloc(LINE, sizeof(*q));
	int rc;

	if (!q)
		return error_set(err, -ENOMEM, "no memory for the helper of delay");
	memset(q, 0, sizeof(*q));
	__cds_wfcq_init(&q->head, &q->tail);
	q->domain = d;
	rc = -pthread_create(&q->thread, NULL, delay_main, q);
	if (rc) {
		free(q);
		return error_set(err, rc, "starting the helper of delay failed: %s",
				 error_name(rc));
	}
	d->own = q;
	return 0;
}

static void delay_retire(struct rcu_updater *u, struct rcu_object *old)
{
	struct delay *q = u->domain->own;

	tsan_release(q);
	cds_wfcq_node_init(&old->queued);
	cds_wfcq_enqueue(&q->head, &q->tail, &old->queued);
	rcu_bound(u);
}

static int delay_close(struct rcu_domain *d, struct error *err)
{
	struct delay *q = d->own;

	atomic_store_explicit(&q->stop, true, memory_order_release);
	pthread_join(q->thread, NULL);
	free(q);
	return 0;
}

const struct rcu_strategy rcu_delay = {
	.name = "delay",
	.how = "a helper pauses, then waits for a grace period, for each object",
	.qsbr_readers = true,
	.qsbr_updaters = true,
	.open = delay_open,
	.read = rcu_read_qsbr,
	.retire = delay_retire,
	.close = delay_close,
};
