/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What a store takes before anybody needs it, and what the log says of it.
 *
 * A store begins with what its index and its first records need. Where it was told to take its
 * memory at the start, the growth thread goes on from there, with extents for records, while the
 * store already serves; orders go first. It stops short of what the index may come to need: a
 * quarter of the store, with what the index has (SIZES in extent.c: that is its share where records
 * are small). The rest comes as it is needed, for either.
 *
 * AHEAD. A device registers an extent in about the time in which a few cores populate one. So while
 * one is being registered a thread has pages given to the next, which no budget counts yet: it is
 * a mapping that nobody knows. Where the budget has no room for it any more it is unmapped. Only
 * extents of full size are taken ahead, and only while the store fills; @ahead is the thread's
 * that adds extents, under extent_lock.
 */
#include "common/base/log.h"
#include "common/base/time.h"
#include "server/memory/memory_internal.h"

#define TELL_NS	    (2 * NS_PER_S)
#define INDEX_SHARE 4u /* of a store of small records */
#define GIB(bytes)  ((double)(bytes) / (1u << 30))

static bool filling(const struct memory *m)
{
	return atomic_load_explicit(&m->growth.filling, memory_order_relaxed);
}

uint64_t fill_left(const struct memory *m)
{
	uint64_t goal = atomic_load_explicit(&m->goal_bytes, memory_order_relaxed);
	uint64_t have = atomic_load_explicit(&m->bytes_committed, memory_order_relaxed);

	return goal > have ? goal - have : 0;
}

void fill_tell(struct memory *m)
{
	uint64_t goal = atomic_load_explicit(&m->goal_bytes, memory_order_relaxed);
	uint64_t now = time_now_ns();
	bool done = fill_left(m) == 0;
	struct fill *f = &m->fill;

	if (f->done || !goal)
		return;
	if (done && (f->told_ns || filling(m)))
		log_info("memory", "registered %.1f of %.1f GiB, in %.1f s", GIB(goal), GIB(goal),
			 (double)(now - f->begun_ns) / NS_PER_S);
	else if (!done && now - (f->told_ns ? f->told_ns : f->begun_ns) >= TELL_NS) {
		log_info("memory", "registered %.1f of %.1f GiB",
			 GIB(atomic_load_explicit(&m->bytes_committed, memory_order_relaxed)),
			 GIB(goal));
		f->told_ns = now;
	}
	f->done = done;
}

static void *take_ahead(void *arg)
{
	struct memory *m = arg;
	struct error err;

	if (mapping_create(&m->fill.ahead, extent_name(EXTENT_DATA), memory_extent_most(m), m,
			   &err))
		m->fill.ahead.bytes = 0; /* the next extent meets it, and says why */
	return NULL;
}

void fill_ahead(struct memory *m, enum extent_kind kind, uint64_t bytes)
{
	struct fill *f = &m->fill;

	if (kind != EXTENT_DATA || !filling(m) || f->running || f->ahead.bytes ||
	    bytes < memory_extent_most(m) || fill_left(m) < bytes + memory_extent_most(m))
		return;
	f->running = pthread_create(&f->thread, NULL, take_ahead, m) == 0;
}

bool fill_take(struct memory *m, enum extent_kind kind, uint64_t least, struct mapping *out)
{
	struct fill *f = &m->fill;
	bool fits;

	if (kind != EXTENT_DATA)
		return false;
	if (f->running)
		pthread_join(f->thread, NULL);
	f->running = false;
	if (!f->ahead.bytes)
		return false;
	fits = f->ahead.bytes >= least && f->ahead.bytes <= extent_room(m, kind);
	if (fits)
		*out = f->ahead;
	else
		mapping_destroy(&f->ahead);
	f->ahead.bytes = 0;
	return fits;
}

void fill_end(struct memory *m)
{
	struct mapping unused;

	if (fill_take(m, EXTENT_DATA, 0, &unused))
		mapping_destroy(&unused);
}

/* must hold extent_lock */
static void goal(struct memory *m, uint64_t bytes)
{
	atomic_store_explicit(&m->goal_bytes, bytes, memory_order_relaxed);
	m->fill.begun_ns = time_now_ns();
	m->fill.told_ns = 0;
	m->fill.done = false;
}

void memory_goal(struct memory *m, uint64_t bytes)
{
	pthread_mutex_lock(&m->extent_lock);
	goal(m, bytes);
	pthread_mutex_unlock(&m->extent_lock);
}

void memory_fill(struct memory *m)
{
	uint64_t share = m->config.bytes_max / INDEX_SHARE, index;

	pthread_mutex_lock(&m->extent_lock);
	index = atomic_load_explicit(&m->kind_bytes[EXTENT_INDEX], memory_order_relaxed);
	goal(m, m->config.bytes_max - share + (index < share ? index : share));
	pthread_mutex_lock(&m->pool_lock);
	atomic_store_explicit(&m->growth.filling, true, memory_order_relaxed);
	pthread_cond_signal(&m->growth.order);
	pthread_mutex_unlock(&m->pool_lock);
	pthread_mutex_unlock(&m->extent_lock);
}
