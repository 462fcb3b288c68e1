/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What a process knows of one life of a server: places of root, extent table and extents, hash
 * seed, directory. Shared by all handles of a session.
 *
 * Lifetime: a world and a dir_cache are counted. The session holds its current world, every
 * handle the world and the directory that it uses; a handle swaps them under world->lock, off the
 * usual path, and reads them through plain pointers of its own. So what is replaced is freed with
 * its last user, and the data path takes no lock and counts nothing.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/src/know/fresh.h"
#include "common/base/time.h"
#include "common/layout/limits.h"
#include "common/layout/root.h"

struct extent {
	uint64_t addr;
	uint64_t length;
	uint32_t rkey;
	uint32_t kind; /* enum extent_kind */
};

/* A copy of a directory. Constant but for its entries: aligned words that name themselves. */
struct dir_cache {
	_Atomic unsigned refs;
	uint32_t depth;
	uint32_t incarnation;
	uint64_t addr; /* remote, of its header */
	uint32_t rkey;
	_Atomic uint64_t entry[];
};

struct world {
	_Atomic unsigned refs;
	uint64_t incarnation; /* of the server */
	uint64_t root_addr;
	uint32_t root_rkey;
	uint32_t group_lease_ms; /* of a server of a group; 0: what it has is always good */
	struct fresh fresh; /* of such a server: until when what is READ is good */

	/* The newest sample of its clock from its root. No lock: see clock.c. */
	_Atomic uint64_t clock_ms; /* the word itself */
	_Atomic uint64_t clock_ahead_ms; /* of our monotonic clock, modulo 2^64 */
	_Atomic uint64_t clock_at_ns; /* when the READ was posted; 0: there is none */

	pthread_mutex_t lock; /* writers of all that follows; innermost */

	/* Constant once root_known is seen: release in world_set_root(), acquire in readers. */
	_Atomic bool root_known;
	uint64_t hash_seed;
	uint64_t table_addr;
	uint32_t table_rkey;
	uint32_t table_entries;

	struct dir_cache *directory; /* the newest known, counted; under lock */

	/* An extent is constant once its flag is seen: release in world_set_extent(). It may be one
	 * that the server has given up; then nothing names it. */
	_Atomic uint8_t extent_known[EXTENTS_MAX];
	struct extent extent[EXTENTS_MAX];
};

/* world_new - one reference, the caller's. NULL: no memory. */
struct world *world_new(uint64_t incarnation, uint64_t root_addr, uint32_t root_rkey);
struct world *world_get(struct world *w);
void world_put(struct world *w); /* NULL is fine */

/* world_is_fresh - whether what was READ is good: called after the READs have come. Any thread. */
static inline bool world_is_fresh(const struct world *w)
{
	return !w->group_lease_ms || fresh_at(&w->fresh, time_read_ns(CLOCK_BOOTTIME));
}

/* world_set_root - from a sound root page. The first one wins: these parts never change. */
void world_set_root(struct world *w, const struct root *root);

static inline bool world_has_root(struct world *w)
{
	/* pairs with world_set_root(): fields before the flag */
	return atomic_load_explicit(&w->root_known, memory_order_acquire);
}

/* world_find_extent - NULL where it is not known yet. Any thread, wait-free. */
static inline const struct extent *world_find_extent(struct world *w, unsigned number)
{
	/* pairs with world_set_extent(): the extent before its flag */
	if (number >= EXTENTS_MAX ||
	    !atomic_load_explicit(&w->extent_known[number], memory_order_acquire))
		return NULL;
	return &w->extent[number];
}

void world_set_extent(struct world *w, unsigned number, const struct extent *x);

/* dir_new - one reference; entries are not set. NULL: no memory. */
struct dir_cache *dir_new(uint32_t depth);
void dir_put(struct dir_cache *d); /* NULL is fine */

/* world_directory - the newest one known, a reference for the caller; NULL: none. */
struct dir_cache *world_directory(struct world *w);

/* world_set_directory - make it the newest, where it is: incarnations grow. Takes no reference. */
void world_set_directory(struct world *w, struct dir_cache *d);
