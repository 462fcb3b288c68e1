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
 * is free: for any class, for a run, for release.c.
 *
 * The stamp is given by the reclaimer some time later, the E of then: it is above the epoch of
 * every block that was in the slab, for those had ended before the block was freed. A hint to one
 * of them was learnt in a section with a pin at or below that epoch, hence below the stamp. Slabs
 * wait in the order of their stamps.
 *
 * FOR WHAT IT WAS a slab need not wait: it is taken at once where blocks of its class are wanted,
 * or a run of as many slabs, before a free one is. Why no hint is misled by that:
 * 1. All hints that lead into it while it waits were learnt since it was last cut, or are of its
 *    run: before that every older one was gone, or it would not have been free. So they lead to
 *    where its blocks begin, and each READ of one ends in that block (size_class.h).
 * 2. Cut into blocks of the same class they begin there again; a run begins where the run did.
 *    What a hint READs is a block's head, as it was all the time, never the middle of a value.
 * 3. Incarnations go on above the highest that any of them has used (pool.c), which is told when
 *    the last one comes back; so a hint's own does not come again. The words of the state are
 *    stored before any of the blocks is given out.
 * 4. It is for hints as if one block had never come back. When it is empty again it gets another
 *    stamp, which is above the one that it had: what was to be waited for before still is, and what
 *    was learnt in between as well.
 * Other readers than those of hints are through, as with any block that was freed. A slab in which
 * an address is used up is not taken: it will be dead. The slabs of a run begin to wait, get their
 * stamp and are free in one hold of the lock each, so either all of them wait or none does.
 */
#include <assert.h>

#include "server/memory/memory_internal.h"

static_assert(SLAB_FORMATS <= FORMAT_NONE, "formats fit into their field");

void recut_init(struct memory *m)
{
	TAILQ_INIT(&m->recut);
	for (unsigned i = 0; i < SLAB_FORMATS; i++)
		TAILQ_INIT(&m->waiting[i]);
}

static unsigned format_of(const struct slab *slab)
{
	if (slab->incarnation == INCARNATION_MAX)
		return FORMAT_NONE;
	if (slab->use == SLAB_CUT)
		return slab->class_no;
	return slab->use == SLAB_RUN ? format_of_run(slab->blocks) : FORMAT_NONE;
}

void recut_hold(struct memory *m, struct slab *first, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct slab *slab = first + i;

		slab->format = (uint8_t)format_of(slab);
		slab->use = SLAB_WAIT;
		slab->stamp = 0;
		TAILQ_INSERT_TAIL(&m->recut, slab, link);
		if (slab->format != FORMAT_NONE)
			TAILQ_INSERT_TAIL(&m->waiting[slab->format], slab, same);
		m->slabs_waiting++;
	}
}

/* must hold pool_lock. It waits no longer. */
static void let_go(struct memory *m, struct slab *slab)
{
	TAILQ_REMOVE(&m->recut, slab, link);
	if (slab->format != FORMAT_NONE)
		TAILQ_REMOVE(&m->waiting[slab->format], slab, same);
	m->slabs_waiting--;
}

bool recut_take(struct memory *m, unsigned format, unsigned count, struct slab **first)
{
	struct slab *slab;

	pthread_mutex_lock(&m->pool_lock);
	/* the last: the others are free the sooner, for whatever is wanted */
	slab = TAILQ_LAST(&m->waiting[format], slab_list);
	for (unsigned i = 0; slab && i < count; i++)
		let_go(m, slab + i);
	pthread_mutex_unlock(&m->pool_lock);
	*first = slab;
	return slab != NULL;
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
		let_go(m, slab);
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
