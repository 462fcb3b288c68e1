/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Private to server/reclaim.
 *
 * Who owns what: a batch belongs to the worker that fills it, then to the queue, then to the
 * reclaimer thread, then to the stack of empty ones. `lock` protects the list of workers and the
 * scratch array of hazards; nobody holds it for long, and never on the data path.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <urcu/wfcqueue.h>

#include "server/reclaim/reclaim.h"

#define BATCH_BLOCKS  256u
#define BATCH_AGE_NS  5000000ull
#define STOCK_BATCHES 4u /* empty ones that a worker keeps */
#define SPARE_BATCHES 256u /* empty ones that all workers share; more go back to the heap */
#define CACHE_LINE    64u

struct retired {
	struct memory_place place;
	uint32_t bytes;
};

struct batch {
	struct cds_wfcq_node node; /* in the queue */
	TAILQ_ENTRY(batch) link; /* with the reclaimer */
	struct batch *next; /* empty ones */
	uint64_t stamp;
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
	struct reclaim_sessions sessions;
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

	/* The reclaimer's own. */
	struct batch_list held __attribute__((aligned(CACHE_LINE))); /* by stamp, oldest first */
	struct batch_list pinned_list;

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
};

/* place_word - a place as one word that is never 0. */
static inline uint64_t place_word(struct memory_place place)
{
	return ((uint64_t)place.extent << 32 | place.offset) + 1;
}

/* reclaim_wake - let the reclaimer thread look again. */
void reclaim_wake(struct reclaim *r);

/* batch_recycle - an empty batch, for whoever needs one next. Any thread. */
void batch_recycle(struct reclaim *r, struct batch *batch);
