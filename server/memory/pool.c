/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The pool of free slabs, and runs of them.
 *
 * One bit per slab and extent; a run is a stretch of set bits that is long enough, so neighbours
 * that come back grow together by themselves. Slabs to be cut are taken from the first extent on
 * and from its low end, runs from the last extent on and from its high end: small records stay
 * away from where large ones find room. An extent all of whose slabs are free may go (release.c):
 * its set has no slabs from then on.
 *
 * INCARNATIONS. A slab keeps the highest incarnation that any address in it has used. Blocks of
 * the next cut, and the head of the next run, start above it: so no address repeats one, whatever
 * the slab was cut into before. A slab in which an address has used up all 2^32 - 1 of them can not
 * be recut, since a block of another class may start at that very address: it keeps its class
 * while other blocks of it can be used, and is dead afterwards.
 */
#include <assert.h>
#include <errno.h>

#include "server/memory/memory_internal.h"
#include "server/memory/memory_test.h"

static bool bit_get(const struct slab_set *set, unsigned slab)
{
	return set->bits[slab / 64] >> (slab % 64) & 1;
}

static void bit_put(struct slab_set *set, unsigned slab, bool free)
{
	uint64_t mask = 1ull << (slab % 64);

	assert(bit_get(set, slab) != free);
	if (free)
		set->bits[slab / 64] |= mask;
	else
		set->bits[slab / 64] &= ~mask;
}

/* First slab of the highest stretch of @count free ones, or -1. */
static int set_find_high(const struct slab_set *set, unsigned count)
{
	unsigned run = 0;

	for (unsigned i = set->slabs; i-- > 0;) {
		if (i % 64 == 63 && set->bits[i / 64] == 0) {
			run = 0;
			i -= 63;
			continue;
		}
		run = bit_get(set, i) ? run + 1 : 0;
		if (run == count)
			return (int)i;
	}
	return -1;
}

/* The lowest free slab, or -1. */
static int set_find_low(const struct slab_set *set)
{
	for (unsigned i = 0; i < EXTENT_SLABS / 64; i++) {
		if (set->bits[i])
			return (int)(i * 64 + (unsigned)__builtin_ctzll(set->bits[i]));
	}
	return -1;
}

static bool set_whole(const struct slab_set *set)
{
	return set->slabs && set->slabs_free == set->slabs;
}

/* must hold pool_lock. @count more slabs of @set are free; fewer, where it is negative. */
static void set_count(struct memory *m, struct slab_set *set, int count)
{
	uint64_t bytes = (uint64_t)set->slabs * SLAB_BYTES;

	if (set_whole(set))
		m->whole_bytes -= bytes;
	set->slabs_free += (unsigned)count;
	m->slabs_free += (uint64_t)(int64_t)count;
	if (set_whole(set))
		m->whole_bytes += bytes;
}

void pool_add(struct memory *m, unsigned extent, unsigned slabs)
{
	struct slab_set *set = &m->set[extent];

	pthread_mutex_lock(&m->pool_lock);
	set->slabs = slabs;
	set_count(m, set, (int)slabs);
	for (unsigned i = 0; i < slabs; i++)
		bit_put(set, i, true);
	if (m->sets < extent + 1)
		m->sets = extent + 1;
	if (m->first > extent)
		m->first = extent;
	m->slabs_total += slabs;
	pthread_mutex_unlock(&m->pool_lock);
}

bool pool_remove(struct memory *m, unsigned *extent)
{
	struct slab_set *set = NULL;
	unsigned i;

	pthread_mutex_lock(&m->pool_lock);
	for (i = extents_releasable(m) ? m->sets : 0; i-- > 0 && !set;) {
		if (set_whole(&m->set[i])) {
			set = &m->set[i];
			*extent = i;
		}
	}
	if (set) {
		for (i = 0; i < set->slabs; i++)
			bit_put(set, i, false);
		m->slabs_total -= set->slabs;
		set_count(m, set, -(int)set->slabs);
		set->slabs = 0;
	}
	pthread_mutex_unlock(&m->pool_lock);
	return set != NULL;
}

/* must hold pool_lock. For a cut: the first free slab of all. Returns false where there is none. */
static bool pool_find_slab(struct memory *m, unsigned *extent, unsigned *number)
{
	while (m->first < m->sets && m->set[m->first].slabs_free == 0)
		m->first++;
	if (m->first == m->sets)
		return false;
	*extent = m->first;
	*number = (unsigned)set_find_low(&m->set[m->first]);
	return true;
}

/* must hold pool_lock. Returns false where no extent has @count free slabs in a row. */
static bool pool_find_run(struct memory *m, unsigned count, unsigned *extent, unsigned *number)
{
	if (m->slabs_free < count)
		return false;
	for (unsigned i = m->sets; i-- > m->first;) {
		int at = m->set[i].slabs_free < count ? -1 : set_find_high(&m->set[i], count);

		if (at >= 0) {
			*extent = i;
			*number = (unsigned)at;
			return true;
		}
	}
	return false;
}

int pool_take(struct memory *m, unsigned count, bool run, struct slab **first)
{
	unsigned extent, number;
	int rc = 0;

	pthread_mutex_lock(&m->pool_lock);
	if (!(run ? pool_find_run(m, count, &extent, &number)
		  : pool_find_slab(m, &extent, &number))) {
		rc = growth_request(m, EXTENT_DATA, (uint64_t)count * SLAB_BYTES);
	} else if (set_whole(&m->set[extent]) && growth_claims(m)) {
		rc = -EAGAIN;
	} else {
		for (unsigned i = 0; i < count; i++)
			bit_put(&m->set[extent], number + i, false);
		set_count(m, &m->set[extent], -(int)count);
		*first = &m->extent[extent].slab[number];
		growth_consider(m);
	}
	pthread_mutex_unlock(&m->pool_lock);
	return rc;
}

void pool_give_free(struct memory *m, struct slab *first, unsigned count)
{
	struct slab_set *set = &m->set[first->extent];

	for (unsigned i = 0; i < count; i++) {
		struct slab *slab = first + i;

		if (slab->incarnation == INCARNATION_MAX) {
			slab->use = SLAB_DEAD;
			m->slabs_dead++;
			continue;
		}
		slab->use = SLAB_FREE;
		bit_put(set, slab->number, true);
		set_count(m, set, 1);
		if (m->first > slab->extent)
			m->first = slab->extent;
	}
}

/* must hold pool_lock */
static void pool_give_locked(struct memory *m, struct slab *first, unsigned count)
{
	if (m->config.hints)
		recut_hold(m, first, count);
	else
		pool_give_free(m, first, count);
}

void pool_give(struct memory *m, struct slab *first, unsigned count)
{
	pthread_mutex_lock(&m->pool_lock);
	pool_give_locked(m, first, count);
	pthread_mutex_unlock(&m->pool_lock);
}

int run_alloc(struct memory *m, unsigned slabs, struct memory_place *place, struct block **block)
{
	struct slab *first;
	int rc = 0;

	if (!recut_take(m, format_of_run(slabs), slabs, &first))
		rc = pool_take(m, slabs, true, &first);
	if (rc)
		return rc;
	for (unsigned i = 1; i < slabs; i++)
		first[i].use = SLAB_REST;
	first->use = SLAB_RUN;
	first->blocks = (uint16_t)slabs;
	place->extent = first->extent;
	place->offset = (uint32_t)first->number * SLAB_BYTES;
	*block = (struct block *)slab_base(m, first);
	atomic_store_explicit(&(*block)->state, block_state_make(first->incarnation, BLOCK_INVALID),
			      memory_order_relaxed); /* memory_alloc() counts and fences */
	pthread_mutex_lock(&m->pool_lock);
	m->run_slabs += slabs;
	pthread_mutex_unlock(&m->pool_lock);
	return 0;
}

void run_free(struct memory *m, struct slab *slab, uint32_t incarnation)
{
	unsigned slabs = slab->blocks;

	assert(incarnation > slab->incarnation);
	pthread_mutex_lock(&m->pool_lock);
	slab->incarnation = incarnation;
	if (incarnation == INCARNATION_MAX)
		atomic_fetch_add_explicit(&m->blocks_exhausted, 1, memory_order_relaxed);
	m->run_slabs -= slabs;
	pool_give_locked(m, slab, slabs);
	pthread_mutex_unlock(&m->pool_lock);
}

unsigned memory_test_incarnation(struct memory *m, uint32_t used, unsigned max)
{
	unsigned n = 0;

	pthread_mutex_lock(&m->pool_lock);
	for (unsigned i = 0; i < m->sets; i++) {
		for (unsigned k = 0; k < m->set[i].slabs && n < max; k++) {
			struct slab *slab = &m->extent[i].slab[k];

			if (!bit_get(&m->set[i], k) || slab->incarnation >= used)
				continue;
			slab->incarnation = used;
			n++;
		}
	}
	pthread_mutex_unlock(&m->pool_lock);
	return n;
}
