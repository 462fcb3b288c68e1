/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The workers' side: open batches, hazards, and the counts.
 *
 * A worker fills its batch without sharing a line with anyone, and hands it over with one
 * exchange on the queue's tail. Empty batches come back over a stack: a worker takes the whole
 * of it (so there is no ABA), keeps a few, and returns the rest.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "server/reclaim/qsbr.h"
#include "server/reclaim/reclaim_internal.h"

/* Refill the stock from the shared stack, and take one. NULL: malloc failed as well. */
static struct batch *batch_take(struct reclaim_worker *w)
{
	struct reclaim *r = w->reclaim;
	struct batch *batch, *chain;

	if (!w->stock) {
		/* acquire pairs with batch_recycle(): next before the pointer to it */
		chain = atomic_exchange_explicit(&r->spare, NULL, memory_order_acquire);
		while (chain) {
			batch = chain;
			chain = batch->next;
			atomic_fetch_sub_explicit(&r->spares, 1, memory_order_relaxed);
			if (w->stocked < STOCK_BATCHES) {
				batch->next = w->stock;
				w->stock = batch;
				w->stocked++;
			} else {
				batch_recycle(r, batch);
			}
		}
	}
	batch = w->stock;
	if (batch) {
		w->stock = batch->next;
		w->stocked--;
	} else {
		batch = malloc(sizeof(*batch));
	}
	if (batch) {
		batch->count = 0;
		batch->bytes = 0;
	}
	return batch;
}

/* Give the open batch to the reclaimer. Wait-free. */
static void hand_over(struct reclaim_worker *w)
{
	struct reclaim *r = w->reclaim;
	struct batch *batch = w->open;

	w->open = NULL;
	cds_wfcq_node_init(&batch->node);
	tsan_release(batch); /* pairs with queue_drain() */
	cds_wfcq_enqueue(&r->head, &r->tail, &batch->node);
	reclaim_kick(r);
}

static void count_add(_Atomic uint64_t *counter, uint64_t n)
{
	/* one writer; release pairs with reclaim_stats_get() */
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_release);
}

void reclaim_retire(struct reclaim_worker *w, struct memory_place place, uint32_t bytes)
{
	struct batch *batch = w->open;

	count_add(&w->retired_bytes, bytes);
	count_add(&w->retired, 1);
	if (!batch) {
		batch = batch_take(w);
		if (!batch) {
			count_add(&w->lost, 1);
			count_add(&w->lost_bytes, bytes);
			return;
		}
		w->open = batch;
		w->opened_ns = time_now_ns();
	}
	reclaim_charge(w, bytes);
	batch->bytes += bytes;
	batch->block[batch->count++] = (struct retired){ place, bytes };
	if (batch->count == BATCH_BLOCKS)
		hand_over(w);
}

uint64_t reclaim_poll(struct reclaim_worker *w, uint64_t now_ns)
{
	uint64_t due_ns;

	if (!w->open)
		return UINT64_MAX;
	/* relaxed: somebody waits for memory, so what there is goes early */
	due_ns = w->opened_ns + (atomic_load_explicit(&w->reclaim->short_of, memory_order_relaxed)
					 ? BATCH_SHORT_NS
					 : BATCH_AGE_NS);
	if (now_ns < due_ns)
		return due_ns - now_ns;
	hand_over(w);
	return UINT64_MAX;
}

void reclaim_hazard_set(struct reclaim_worker *w, unsigned hazard, struct memory_place place)
{
	assert(hazard < w->hazards);
	assert(atomic_load_explicit(&w->hazard[hazard], memory_order_relaxed) == 0);
	/* relaxed: the section's end, a quiescent state, orders it before the reclaimer's look */
	atomic_store_explicit(&w->hazard[hazard], place_word(place), memory_order_relaxed);
}

void reclaim_hazard_clear(struct reclaim_worker *w, unsigned hazard)
{
	assert(hazard < w->hazards);
	/* seq_cst, both: pairs with reclaimer_round(); releases the uses of the block */
	atomic_store_explicit(&w->hazard[hazard], 0, memory_order_seq_cst);
	if (atomic_load_explicit(&w->reclaim->pinned, memory_order_seq_cst))
		reclaim_kick(w->reclaim);
}

/* must hold r->lock: room for the hazards of all workers and @more. */
static int hazards_reserve(struct reclaim *r, unsigned more)
{
	size_t n = (size_t)r->hazards_max + more;
	uint64_t *room = realloc(r->hazards, (n ? n : 1) * sizeof(*room));

	if (!room)
		return -ENOMEM;
	r->hazards = room;
	r->hazards_max += more;
	return 0;
}

static void stock_free(struct reclaim_worker *w)
{
	while (w->stock) {
		struct batch *batch = w->stock;

		w->stock = batch->next;
		free(batch);
	}
}

int reclaim_worker_create(struct reclaim_worker **out, struct reclaim *r, unsigned hazards)
{
	struct reclaim_worker *w = calloc(1, sizeof(*w) + hazards * sizeof(w->hazard[0]));
	int rc;

	if (!w)
		return -ENOMEM;
	w->reclaim = r;
	w->hazards = hazards;
	while (w->stocked < STOCK_BATCHES) {
		struct batch *batch = malloc(sizeof(*batch));

		if (!batch) {
			rc = -ENOMEM;
			goto err;
		}
		batch->next = w->stock;
		w->stock = batch;
		w->stocked++;
	}
	pthread_mutex_lock(&r->lock);
	rc = hazards_reserve(r, hazards);
	if (rc == 0)
		LIST_INSERT_HEAD(&r->workers, w, link);
	pthread_mutex_unlock(&r->lock);
	if (rc)
		goto err;
	*out = w;
	return 0;

err:
	stock_free(w);
	free(w);
	return rc;
}

static uint64_t count_get(const _Atomic uint64_t *counter)
{
	/* pairs with count_add() */
	return atomic_load_explicit(counter, memory_order_acquire);
}

void reclaim_worker_destroy(struct reclaim_worker *w)
{
	struct reclaim *r = w->reclaim;

	for (unsigned i = 0; i < w->hazards; i++)
		assert(atomic_load_explicit(&w->hazard[i], memory_order_relaxed) == 0);
	if (w->open)
		hand_over(w);
	atomic_fetch_add_explicit(&r->budget, w->allowance, memory_order_relaxed);
	pthread_mutex_lock(&r->lock);
	LIST_REMOVE(w, link);
	r->hazards_max -= w->hazards;
	r->gone_retired += count_get(&w->retired);
	r->gone_retired_bytes += count_get(&w->retired_bytes);
	r->gone_lost += count_get(&w->lost);
	r->gone_lost_bytes += count_get(&w->lost_bytes);
	pthread_mutex_unlock(&r->lock);
	if (count_get(&w->lost))
		log_error("reclaim",
			  "%llu blocks were given up for want of heap memory; a restart "
			  "of the server brings them back",
			  (unsigned long long)w->lost);
	stock_free(w);
	free(w);
}

void reclaim_stats_get(struct reclaim *r, struct reclaim_stats *out)
{
	/* What was freed first, what was retired after it: so that nothing deferred is negative. */
	uint64_t freed = atomic_load_explicit(&r->freed, memory_order_acquire);
	uint64_t freed_bytes = atomic_load_explicit(&r->freed_bytes, memory_order_acquire);
	uint64_t bytes, lost_bytes;
	struct reclaim_worker *w;

	pthread_mutex_lock(&r->lock);
	*out = (struct reclaim_stats){
		.retired = r->gone_retired,
		.lost = r->gone_lost,
		.freed = freed,
		.grace_periods = atomic_load_explicit(&r->grace_periods, memory_order_relaxed),
		.epoch = grace_now(&r->grace),
		.deferred_max = r->config.deferred_max,
		.refused = atomic_load_explicit(&r->refused, memory_order_relaxed),
	};
	bytes = r->gone_retired_bytes;
	lost_bytes = r->gone_lost_bytes;
	LIST_FOREACH(w, &r->workers, link)
	{
		out->lost += count_get(&w->lost);
		lost_bytes += count_get(&w->lost_bytes);
		out->retired += count_get(&w->retired);
		bytes += count_get(&w->retired_bytes);
	}
	pthread_mutex_unlock(&r->lock);
	out->deferred_blocks = out->retired - freed - out->lost;
	out->deferred_bytes = bytes - freed_bytes - lost_bytes;
}
