/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Giving DATA extents back, so that the index can grow where large records once took all memory.
 *
 * When INDEX or DIR is to grow and the budget has no room for an extent as large as it would like,
 * the growth thread releases DATA extents all of whose slabs are free, from the last one down,
 * until it has: slabs are cut from the low end of the store, so the last ones are needed last. It
 * goes on until the extent may be as large as it would like to be, not as small as it may be: later
 * there will be a slab in use in each. The next order gets what is left of them. INDEX and DIR
 * extents are never released: a client may keep its copy of a directory over a reconnect, and would
 * READ where segments stood.
 *
 * STEPS, each done before the next:
 *  1. out of the pool, under pool_lock: nobody can take a slab of it any more;
 *  2. its length 0, its entry of the extent table unsound, its base NULL;
 *  3. unregistered by the hook: the rkey dies, and with it what I6 promises of its addresses;
 *  4. the memory given to the system, the budget, the heads.
 * Where step 3 fails the rkey may live, and a READ with it: the mapping stays as it is, its bytes
 * stay in the budget and count as stuck. Nothing is released from then on: a device that keeps one
 * key may keep them all, and each would cost an extent.
 *
 * WHY NOBODY HOLDS AN ADDRESS IN IT. A free slab holds no block that is out, and a block comes back
 * by memory_free() only. Then either it never was published, and its worker owned it alone (a PUT
 * that failed; one whose value is being pulled is not free); or it was retired, and the reclaimer
 * freed it by the rule of reclaim.c:
 *  - local readers are past a grace period that began after the unlinking, and a worker that sends
 *    from a block holds it by a hazard;
 *  - every session that could have READ a slot that names it in a section still open has announced
 *    that it is through, or was fenced; later sections do not find it. They do not in outdated
 *    memory either: a segment that was replaced is MOVED, or names another incarnation, in every
 *    header, before the first block that only its slots still name is unlinked;
 *  - no client holds a hint to it: a slab that fell empty waits for that before it is free
 *    (recut.c).
 * Blocks in worker caches are out as far as their slab is concerned: it is not free. A block that
 * the reclaimer gave up (`lost`) is never freed, nor is its slab. A slab with dead addresses
 * (SLAB_DEAD) is not free, so its extent stays.
 *
 * WHO HAS ITS PLACE IN A CACHE. Clients keep entries of the extent table for good, by number
 * (client/src/know/extents.c). The outdated one harms nobody as long as nothing names the number;
 * so a number is never used again while the server lives: another extent under it would be READ at
 * the old place with a dead rkey, which breaks the queue pair. (extent, offset) does not come twice
 * either, hence incarnations may start at 1 in whatever extent comes next. A client that fetches
 * the entry while it goes sees each word final or zero. Only all four final make it sound, as they
 * were before; then it knows of an extent that nothing names.
 *
 * NUMBERS. There are EXTENTS_MAX (4096), and each release uses one up. A release is for an INDEX
 * or DIR extent, which stays: so there are few in the life of a store. From RELEASE_EXTENTS on
 * nothing is released: the last quarter is for growth.
 */
#include <string.h>

#include "common/base/log.h"
#include "server/memory/memory_internal.h"
#include "server/memory/memory_test.h"

uint64_t extents_releasable(const struct memory *m)
{
	if (atomic_load_explicit(&m->stuck_bytes, memory_order_relaxed) ||
	    atomic_load_explicit(&m->extents, memory_order_relaxed) >= RELEASE_EXTENTS)
		return 0;
	return m->whole_bytes;
}

/* must hold extent_lock. The checksum goes first, each word before the next: see ORDERING in
 * extent.c. */
static void entry_clear(struct memory *m, unsigned number)
{
	_Atomic uint64_t *word = (_Atomic uint64_t *)&m->table[number];

	for (unsigned i = sizeof(struct extent_entry) / sizeof(uint64_t); i-- > 0;)
		atomic_store_explicit(&word[i], 0, memory_order_release);
}

/* must hold extent_lock. Step 3 failed, for @x of @bytes. */
static void extent_stuck(struct memory *m, struct extent *x, uint64_t bytes)
{
	atomic_fetch_add_explicit(&m->stuck_bytes, bytes, memory_order_relaxed);
	log_error("memory",
		  "%llu MiB stay as they are and serve nobody: the device did not end their "
		  "registration, so a client may still read there; nothing more is given back for "
		  "the index to grow (restart kv-server)",
		  (unsigned long long)(bytes >> 20));
	heads_free(x);
	memset(x, 0, sizeof(*x));
	x->fd = -1;
}

/* must hold extent_lock. The steps of above. False: there is none to release. */
static bool extent_release(struct memory *m)
{
	const struct memory_hooks *hooks = &m->config.hooks;
	struct mapping map = { 0 };
	struct extent *x;
	unsigned number;

	if (atomic_load_explicit(&m->stuck_bytes, memory_order_relaxed) || !pool_remove(m, &number))
		return false;
	x = &m->extent[number];
	map.base = x->base;
	map.bytes = memory_extent_bytes(m, number);
	map.fd = x->fd;
	map.hugepages = x->hugepages;
	/* relaxed: no lawful caller is left; others get NULL */
	atomic_store_explicit(&x->bytes, 0, memory_order_relaxed);
	entry_clear(m, number);
	atomic_store_explicit(&m->map.base[number], NULL, memory_order_relaxed);

	atomic_fetch_sub_explicit(&m->kind_bytes[EXTENT_DATA], map.bytes, memory_order_relaxed);
	m->kind_count[EXTENT_DATA]--;
	if (hooks->unregister_region(hooks->ctx, &x->region)) {
		extent_stuck(m, x, map.bytes);
		return false;
	}
	atomic_fetch_sub_explicit(&m->elsewhere_bytes, x->elsewhere, memory_order_relaxed);
	mapping_give_back(&map);
	heads_free(x);
	memset(x, 0, sizeof(*x));
	x->fd = -1;

	if (map.hugepages)
		atomic_fetch_sub_explicit(&m->hugepage_bytes, map.bytes, memory_order_relaxed);
	atomic_fetch_sub_explicit(&m->bytes_committed, map.bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&m->extents_released, 1, memory_order_relaxed);
	log_info("memory", "%llu MiB without a record were given back, for the index to grow",
		 (unsigned long long)(map.bytes >> 20));
	return true;
}

void extents_make_room(struct memory *m, enum extent_kind kind, uint64_t least, uint64_t bytes)
{
	bool more;

	pthread_mutex_lock(&m->pool_lock);
	more = extent_room(m, kind) + extents_releasable(m) >= least;
	pthread_mutex_unlock(&m->pool_lock);
	while (more && extent_room(m, kind) < bytes)
		more = extent_release(m);
}

void memory_test_extents(struct memory *m, unsigned used)
{
	pthread_mutex_lock(&m->extent_lock);
	if (m->extents < used)
		atomic_store_explicit(&m->extents, used, memory_order_relaxed);
	pthread_mutex_unlock(&m->extent_lock);
}
