/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The growth thread: adds extents before they are needed.
 *
 * Mapping, committing and registering 256 MiB takes long, so no worker does it. Whoever takes a
 * slab, a segment or room for a directory and sees that little is left orders an extent of that
 * kind; whoever finds none orders one as large as it needs (growth_request) and is told to come
 * back. The thread sleeps on a condition between orders and uses no CPU then. After a failure of
 * the system nothing of that kind is ordered for a second: until then the store is as full as it
 * looks. Where the budget has no room nothing is ordered at all, but INDEX and DIR by what DATA
 * extents that hold nothing can give back (release.c). Until such an order is done no worker takes
 * a slab of those extents: workers that fill and empty them would starve the index.
 *
 * What keeps the index from growing stops every writer of new keys, so its orders go first.
 */
#include <errno.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "server/memory/memory_internal.h"

static const enum extent_kind by_urgency[] = { EXTENT_DIR, EXTENT_INDEX, EXTENT_DATA };

#define KINDS (sizeof(by_urgency) / sizeof(by_urgency[0]))

/* must hold pool_lock */
static bool growth_possible(struct memory *m, enum extent_kind kind, uint64_t bytes)
{
	uint64_t room = extent_room(m, kind);

	if (kind != EXTENT_DATA)
		room += extents_releasable(m);
	bytes = (bytes + SLAB_BYTES - 1) / SLAB_BYTES * SLAB_BYTES;
	return atomic_load_explicit(&m->extents, memory_order_relaxed) < EXTENTS_MAX &&
	       (kind != EXTENT_DIR || m->directories.extents < DIRECTORY_EXTENTS) &&
	       bytes <= memory_extent_most(m) && room >= bytes &&
	       time_now_ns() >= m->growth.retry_at_ns[kind];
}

void growth_order(struct memory *m, enum extent_kind kind, uint64_t bytes)
{
	struct growth *g = &m->growth;

	if (g->wanted[kind] >= bytes || g->busy == kind || !growth_possible(m, kind, bytes))
		return;
	g->wanted[kind] = bytes;
	pthread_cond_signal(&g->order);
}

bool slabs_few(const struct memory *m)
{
	uint64_t low = m->slabs_total / LOW_WATER_SHARE;

	if (low > LOW_WATER_MAX)
		low = LOW_WATER_MAX;
	return m->slabs_total == 0 || m->slabs_free <= low;
}

void growth_consider(struct memory *m)
{
	const bool ahead = m->growth.ahead && m->slabs_free <= memory_extent_most(m) / SLAB_BYTES;

	if (ahead || slabs_few(m))
		growth_order(m, EXTENT_DATA, SLAB_BYTES);
}

void memory_growth_ahead(struct memory *m, bool ahead)
{
	pthread_mutex_lock(&m->pool_lock);
	m->growth.ahead = ahead;
	pthread_mutex_unlock(&m->pool_lock);
}

bool growth_claims(const struct memory *m)
{
	return m->growth.wanted[EXTENT_INDEX] > extent_room(m, EXTENT_INDEX) ||
	       m->growth.wanted[EXTENT_DIR] > extent_room(m, EXTENT_DIR);
}

int growth_request(struct memory *m, enum extent_kind kind, uint64_t bytes)
{
	struct growth *g = &m->growth;

	if (g->busy == kind)
		return -EAGAIN; /* its end decides */
	growth_order(m, kind, bytes);
	return g->wanted[kind] ? -EAGAIN : -ENOMEM;
}

/* must hold pool_lock. What to do next; EXTENT_NONE: nothing. */
static enum extent_kind next_order(const struct growth *g)
{
	for (unsigned i = 0; i < KINDS; i++) {
		if (g->wanted[by_urgency[i]])
			return by_urgency[i];
	}
	return EXTENT_NONE;
}

/* must hold pool_lock. After an extent of @kind could not be added. */
static void growth_failed(struct memory *m, enum extent_kind kind, bool ordered, int rc,
			  const struct error *err)
{
	struct growth *g = &m->growth;

	if (rc != -ENOSPC) /* it is not the budget */
		g->retry_at_ns[kind] = time_now_ns() + GROWTH_RETRY_NS;
	if (!ordered)
		atomic_store_explicit(&g->filling, false, memory_order_relaxed);
	if (rc == -ECANCELED || (rc == -ENOSPC && !ordered))
		return;
	log_warn("memory",
		 ordered ? "the store did not grow: %s"
			 : "not all of the memory could be taken at the start, more is asked for "
			   "when it is needed: %s",
		 err->text);
}

static void *growth_main(void *arg)
{
	struct memory *m = arg;
	struct growth *g = &m->growth;
	enum extent_kind kind;
	struct error err;
	unsigned extent;
	uint64_t bytes;
	bool ordered;
	int rc;

	pthread_mutex_lock(&m->pool_lock);
	while (!g->stop) {
		kind = next_order(g);
		ordered = kind != EXTENT_NONE;
		if (!ordered && (!g->filling || !fill_left(m))) {
			pthread_cond_wait(&g->order, &m->pool_lock);
			continue;
		}
		kind = ordered ? kind : EXTENT_DATA;
		bytes = ordered ? g->wanted[kind] : SLAB_BYTES;
		g->busy = kind;
		pthread_mutex_unlock(&m->pool_lock);

		rc = memory_extent_add(m, kind, bytes, &extent, &err);

		pthread_mutex_lock(&m->pool_lock);
		if (rc)
			growth_failed(m, kind, ordered, rc, &err);
		g->wanted[kind] = 0;
		g->busy = EXTENT_NONE;
		g->ended++;
		pthread_cond_broadcast(&g->done);
	}
	for (unsigned i = 0; i < KINDS; i++)
		g->wanted[by_urgency[i]] = 0;
	pthread_cond_broadcast(&g->done);
	pthread_mutex_unlock(&m->pool_lock);
	return NULL;
}

bool memory_stopping(const struct memory *m)
{
	const struct memory_hooks *hooks = &m->config.hooks;

	return atomic_load_explicit(&m->growth.stop, memory_order_relaxed) ||
	       (hooks->stopping && hooks->stopping(hooks->ctx));
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
		fill_end(m);
	}
	pthread_cond_destroy(&g->order);
	pthread_cond_destroy(&g->done);
}

void memory_growth_wait(struct memory *m, unsigned ms)
{
	uint64_t ended;
	struct growth *g = &m->growth;
	uint64_t until_ns = time_now_ns() + ms * NS_PER_MS;
	struct timespec until = {
		.tv_sec = (time_t)(until_ns / NS_PER_S),
		.tv_nsec = (long)(until_ns % NS_PER_S),
	};

	pthread_mutex_lock(&m->pool_lock);
	ended = g->ended;
	while ((g->busy || next_order(g)) && g->ended == ended && !g->stop) {
		if (pthread_cond_timedwait(&g->done, &m->pool_lock, &until) == ETIMEDOUT)
			break;
	}
	pthread_mutex_unlock(&m->pool_lock);
}
