/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "client/src/know/world.h"

#include <stdlib.h>

struct world *world_new(uint64_t incarnation, uint64_t root_addr, uint32_t root_rkey)
{
	struct world *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	atomic_store_explicit(&w->refs, 1, memory_order_relaxed); /* not shared yet */
	w->incarnation = incarnation;
	w->root_addr = root_addr;
	w->root_rkey = root_rkey;
	pthread_mutex_init(&w->lock, NULL);
	return w;
}

struct world *world_get(struct world *w)
{
	/* the caller's own reference, or the session lock, keeps it alive: no order needed */
	atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
	return w;
}

void world_put(struct world *w)
{
	/* acq_rel pairs with itself: all uses come before the free by the last one */
	if (!w || atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) != 1)
		return;
	dir_put(w->directory);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

void world_set_root(struct world *w, const struct root *root)
{
	pthread_mutex_lock(&w->lock);
	if (!atomic_load_explicit(&w->root_known, memory_order_relaxed)) { /* under the lock */
		w->hash_seed = root->hash_seed;
		w->table_addr = root->extents.addr;
		w->table_rkey = root->extents.rkey;
		w->table_entries = root->extents.entries;
		/* pairs with world_has_root() */
		atomic_store_explicit(&w->root_known, true, memory_order_release);
	}
	pthread_mutex_unlock(&w->lock);
}

void world_set_extent(struct world *w, unsigned number, const struct extent *x)
{
	pthread_mutex_lock(&w->lock);
	if (!atomic_load_explicit(&w->extent_known[number], memory_order_relaxed)) {
		w->extent[number] = *x;
		/* pairs with world_find_extent() */
		atomic_store_explicit(&w->extent_known[number], 1, memory_order_release);
	}
	pthread_mutex_unlock(&w->lock);
}

struct dir_cache *dir_new(uint32_t depth)
{
	struct dir_cache *d;

	d = calloc(1, sizeof(*d) + (sizeof(d->entry[0]) << depth));
	if (!d)
		return NULL;
	atomic_store_explicit(&d->refs, 1, memory_order_relaxed); /* not shared yet */
	d->depth = depth;
	return d;
}

void dir_put(struct dir_cache *d)
{
	/* acq_rel pairs with itself: all uses come before the free by the last one */
	if (d && atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) == 1)
		free(d);
}

struct dir_cache *world_directory(struct world *w)
{
	struct dir_cache *d;

	pthread_mutex_lock(&w->lock);
	d = w->directory;
	if (d) /* the world's own reference keeps it alive under the lock */
		atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
	pthread_mutex_unlock(&w->lock);
	return d;
}

void world_set_directory(struct world *w, struct dir_cache *d)
{
	struct dir_cache *old = NULL;

	pthread_mutex_lock(&w->lock);
	if (!w->directory || d->incarnation > w->directory->incarnation) {
		old = w->directory;
		atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
		w->directory = d;
	}
	pthread_mutex_unlock(&w->lock);
	dir_put(old);
}
