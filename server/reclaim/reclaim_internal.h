/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Private to server/reclaim.
 *
 * Ownership: a batch belongs to the worker that fills it, then to the queue, then to the
 * reclaimer thread, then to the stack of empty ones. `lock` protects the list of workers and
 * the scratch array of hazards; nobody holds it for long, and on the data path only a worker that
 * was refused memory.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <urcu/wfcqueue.h>

#include "server/reclaim/reclaim.h"

#define BATCH_BLOCKS   256u
#define BATCH_AGE_NS   5000000ull
#define BATCH_SHORT_NS 500000ull /* instead, while somebody waits for memory */
#define STOCK_BATCHES  4u /* empty ones that a worker keeps */
#define SPARE_BATCHES  256u /* empty ones that all workers share; more go back to the heap */
#define CACHE_LINE     64u

struct retired {
	struct memory_place place;
	uint32_t bytes;
};

struct batch {
	struct cds_wfcq_node node; /* in the queue */
	TAILQ_ENTRY(batch) link; /* with the reclaimer */
	struct batch *next; /* empty ones */
	uint64_t stamp; /* the epoch that ended when its last block had been unlinked */
	uint64_t since_ns; /* and when that was */
	uint64_t bytes;
	unsigned count;
	struct retired block[BATCH_BLOCKS];
};

TAILQ_HEAD(batch_list, batch);

struct reclaim_worker {
	struct reclaim *reclaim;
	LIST_ENTRY(reclaim_worker) link;
	struct batch *open;
	struct batch *stock;
	unsigned stocked;
	uint64_t opened_ns;
	int64_t allowance; /* bytes that may be unlinked: reserved, and not retired yet */
	/* Written by the worker, read by reclaim_stats_get(). */
	_Atomic uint64_t retired;
	_Atomic uint64_t retired_bytes;
	_Atomic uint64_t lost;
	_Atomic uint64_t lost_bytes;
	unsigned hazards;
	_Atomic uint64_t hazard[]; /* place_word(), 0: none */
};

struct reclaim {
	struct memory *memory;
	struct reclaim_config config;
	struct grace grace;
	pthread_t thread;

	/* Touched by workers. */
	struct __cds_wfcq_head head __attribute__((aligned(CACHE_LINE)));
	struct cds_wfcq_tail tail;
	_Atomic(struct batch *) spare;
	_Atomic unsigned spares;
	_Atomic uint32_t wake __attribute__((aligned(CACHE_LINE))); /* futex; grows */
	_Atomic uint32_t sleeping;
	_Atomic bool stop;
	_Atomic bool pinned; /* blocks wait for a hazard to be cleared */

	/* Bytes that may still be deferred: what workers have reserved is taken off. */
	_Atomic int64_t budget __attribute__((aligned(CACHE_LINE)));
	_Atomic uint64_t wanted_ns; /* when memory was asked for in vain */
	_Atomic bool short_of; /* that was just now */
	_Atomic uint64_t refused;

	/* The reclaimer's own. */
	struct batch_list held __attribute__((aligned(CACHE_LINE))); /* oldest first */
	struct batch_list pinned_list;
	unsigned held_count;
	uint64_t charge_ns; /* when sessions are to be told next what they hold back */
	bool charged; /* they were told of something */
	uint64_t asked; /* clients, to drop hints from before this epoch */

	_Atomic uint64_t freed;
	_Atomic uint64_t freed_bytes;
	_Atomic uint64_t grace_periods;

	pthread_mutex_t lock;
	LIST_HEAD(, reclaim_worker) workers;
	uint64_t *hazards; /* scratch of the reclaimer, room for hazards_max */
	unsigned hazards_max; /* of all workers */
	uint64_t gone_retired; /* counts of workers that have gone */
	uint64_t gone_retired_bytes;
	uint64_t gone_lost;
	uint64_t gone_lost_bytes;

	/* What the reclaimer tells of, for reclaim_stuck(): since when, then of what. */
	_Atomic uint64_t oldest_ns;
	_Atomic uint64_t oldest_stamp; /* of what waits for sessions; 0: nothing */
	_Atomic uint64_t behind_ns;
	_Atomic uint64_t behind_asked; /* `asked`, while some have not followed; 0: all have */
};

/* told_set - the reclaimer: @what is true since @since_ns; 0: nothing is. */
static inline void told_set(_Atomic uint64_t *since_ns, _Atomic uint64_t *what, uint64_t now_what,
			    uint64_t now_since_ns)
{
	if (now_what)
		atomic_store_explicit(since_ns, now_since_ns, memory_order_relaxed);
	/* release: pairs with told(), which never finds it with an earlier time */
	atomic_store_explicit(what, now_what, memory_order_release);
}

/* told - any thread: what has been true for longer than @limit_ns, or 0. Where it changes
 * meanwhile the time may be a later one: then the answer is 0, and the next one is right. */
static inline uint64_t told(const _Atomic uint64_t *since_ns, const _Atomic uint64_t *what,
			    uint64_t now_ns, uint64_t limit_ns)
{
	/* acquire: pairs with told_set() */
	const uint64_t is = atomic_load_explicit(what, memory_order_acquire);
	const uint64_t since = atomic_load_explicit(since_ns, memory_order_relaxed);

	return now_ns > since && now_ns - since > limit_ns ? is : 0;
}

/* What may be reserved for records at first; pieces of the index have the rest as well. */
static inline int64_t budget_full(const struct reclaim *r)
{
	return r->config.deferred_max ? (int64_t)(r->config.deferred_max / 16 * 15) : INT64_MAX / 2;
}

/* place_word - a place as one word that is never 0. */
static inline uint64_t place_word(struct memory_place place)
{
	return ((uint64_t)place.extent << 32 | place.offset) + 1;
}

/* batch_recycle - an empty batch, for whoever needs one next. Any thread. */
void batch_recycle(struct reclaim *r, struct batch *batch);

/* reclaim_charge - @bytes that are retired come off what the worker reserved, or off the budget. */
void reclaim_charge(struct reclaim_worker *w, uint32_t bytes);

/* reclaim_short_at - memory was wanted in vain shortly before @now_ns. */
bool reclaim_short_at(const struct reclaim *r, uint64_t now_ns);

/* The reclaimer, once a round: slabs that no hint leads into go to whoever needs one next; all of
 * them where it stops. */
void reclaim_recut(struct reclaim *r, bool stop);

/* reclaim_tell - the reclaimer: what others may ask, the oldest batch and each session's share. */
void reclaim_tell(struct reclaim *r);
