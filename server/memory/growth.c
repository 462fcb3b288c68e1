/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The growth thread: adds DATA extents before they are needed.
 *
 * Mapping, committing and registering 256 MiB takes long, so no worker does it. Whoever takes a
 * slab and sees that few are left orders an extent (growth_consider); whoever finds none orders
 * one as large as it needs (growth_request) and is told to come back. The thread sleeps on a
 * condition between orders and uses no CPU then. After a failure nothing is ordered for a second:
 * until then the store is as full as it looks.
 */
#include <errno.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "server/memory/memory_internal.h"

static bool growth_possible(struct memory *m, uint64_t bytes)
{
	uint64_t used = atomic_load_explicit(&m->bytes_committed, memory_order_relaxed);

	return m->sets < EXTENTS_MAX && bytes <= EXTENT_BYTES_MAX &&
	       m->config.bytes_max - used >= bytes && time_now_ns() >= m->growth.retry_at_ns;
}

/* must hold pool_lock */
static void growth_order(struct memory *m, uint64_t bytes)
{
	m->growth.wanted = bytes;
	pthread_cond_signal(&m->growth.order);
}

void growth_consider(struct memory *m)
{
	uint64_t low = m->slabs_total / LOW_WATER_SHARE;

	if (low > LOW_WATER_MAX)
		low = LOW_WATER_MAX;
	if (m->growth.wanted || m->growth.busy || (m->slabs_total && m->slabs_free > low) ||
	    !growth_possible(m, SLAB_BYTES))
		return;
	growth_order(m, SLAB_BYTES);
}

int growth_request(struct memory *m, uint64_t bytes)
{
	if (m->growth.busy)
		return -EAGAIN; /* its end decides */
	if (!growth_possible(m, bytes))
		return m->growth.wanted ? -EAGAIN : -ENOMEM;
	if (m->growth.wanted < bytes)
		growth_order(m, bytes);
	return -EAGAIN;
}

static void *growth_main(void *arg)
{
	struct memory *m = arg;
	struct growth *g = &m->growth;
	struct error err;
	unsigned extent;
	uint64_t bytes;
	int rc;

	pthread_mutex_lock(&m->pool_lock);
	while (!g->stop) {
		if (!g->wanted) {
			pthread_cond_wait(&g->order, &m->pool_lock);
			continue;
		}
		bytes = g->wanted;
		g->wanted = 0;
		g->busy = true;
		pthread_mutex_unlock(&m->pool_lock);

		rc = memory_extent_add(m, EXTENT_DATA, bytes, &extent, &err);
		if (rc)
			log_warn("memory", "the store did not grow: %s", err.text);

		pthread_mutex_lock(&m->pool_lock);
		if (rc)
			g->retry_at_ns = time_now_ns() + GROWTH_RETRY_NS;
		g->busy = false;
		pthread_cond_broadcast(&g->done);
	}
	g->wanted = 0;
	pthread_cond_broadcast(&g->done);
	pthread_mutex_unlock(&m->pool_lock);
	return NULL;
}

int growth_start(struct memory *m, struct error *err)
{
	struct growth *g = &m->growth;
	pthread_condattr_t attr;
	int rc;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&g->order, NULL);
	pthread_cond_init(&g->done, &attr);
	pthread_condattr_destroy(&attr);
	rc = pthread_create(&g->thread, NULL, growth_main, m);
	if (rc)
		return error_set(err, -rc,
				 "starting the growth thread failed: %s; raise the limit "
				 "of threads",
				 error_name(rc));
	pthread_setname_np(g->thread, "gkv-growth");
	g->started = true;
	return 0;
}

void growth_stop(struct memory *m)
{
	struct growth *g = &m->growth;

	if (g->started) {
		pthread_mutex_lock(&m->pool_lock);
		g->stop = true;
		pthread_cond_signal(&g->order);
		pthread_mutex_unlock(&m->pool_lock);
		pthread_join(g->thread, NULL);
	}
	pthread_cond_destroy(&g->order);
	pthread_cond_destroy(&g->done);
}

void memory_growth_wait(struct memory *m, unsigned ms)
{
	struct growth *g = &m->growth;
	uint64_t until_ns = time_now_ns() + ms * NS_PER_MS;
	struct timespec until = {
		.tv_sec = (time_t)(until_ns / NS_PER_S),
		.tv_nsec = (long)(until_ns % NS_PER_S),
	};

	pthread_mutex_lock(&m->pool_lock);
	while ((g->wanted || g->busy) && !g->stop) {
		if (pthread_cond_timedwait(&g->done, &m->pool_lock, &until) == ETIMEDOUT)
			break;
	}
	pthread_mutex_unlock(&m->pool_lock);
}
