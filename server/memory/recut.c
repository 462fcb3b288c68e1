/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Slabs that fell empty, until no hint leads into them.
 *
 * A client may remember where a block was and READ it there at any later time. While the slab
 * keeps its format that does no harm: whatever stands at the address is a block's head, whose
 * incarnation tells. In a slab that is cut for another size class, or is part of a run, it may be
 * the middle of a value, whose bytes a writer chooses. So a slab that fell empty waits until every
 * client has said that it holds no hint from before that (reclaim/grace.c, HINTS), and only then
 * is free: for another class, for a run, for release.c.
 *
 * The stamp is given by the reclaimer some time later, the E of then: it is above the epoch of
 * every block that was in the slab, for those had ended before the block was freed. A hint to one
 * of them was learnt in a section with a pin at or below that epoch, hence below the stamp. Slabs
 * wait in the order of their stamps.
 */
#include <assert.h>

#include "server/memory/memory_internal.h"

void recut_hold(struct memory *m, struct slab *first, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct slab *slab = first + i;

		slab->use = SLAB_WAIT;
		slab->stamp = 0;
		TAILQ_INSERT_TAIL(&m->recut, slab, link);
		m->slabs_waiting++;
	}
}

uint64_t memory_recut_wanted(struct memory *m, uint64_t epoch)
{
	struct slab *slab;
	uint64_t newest = 0;

	assert(epoch > 0);
	pthread_mutex_lock(&m->pool_lock);
	TAILQ_FOREACH_REVERSE(slab, &m->recut, slab_list, link)
	{
		if (slab->stamp)
			break;
		slab->stamp = epoch;
	}
	slab = TAILQ_LAST(&m->recut, slab_list);
	if (slab)
		newest = slab->stamp;
	pthread_mutex_unlock(&m->pool_lock);
	return newest;
}

bool memory_recut(struct memory *m, uint64_t passed)
{
	struct slab *slab;
	bool left;

	pthread_mutex_lock(&m->pool_lock);
	for (;;) {
		slab = TAILQ_FIRST(&m->recut);
		if (!slab || !slab->stamp || slab->stamp > passed)
			break;
		TAILQ_REMOVE(&m->recut, slab, link);
		m->slabs_waiting--;
		pool_give_free(m, slab, 1);
	}
	left = slab != NULL;
	pthread_mutex_unlock(&m->pool_lock);
	return left;
}

bool memory_recut_waits(struct memory *m)
{
	bool waits;

	pthread_mutex_lock(&m->pool_lock);
	waits = m->slabs_waiting > 0;
	pthread_mutex_unlock(&m->pool_lock);
	return waits;
}

bool memory_slabs_few(struct memory *m)
{
	bool few;

	pthread_mutex_lock(&m->pool_lock);
	few = slabs_few(m);
	pthread_mutex_unlock(&m->pool_lock);
	return few;
}
