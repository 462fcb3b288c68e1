/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Retired blocks, until no reader can reach them.
 *
 * A worker retires blocks, already unlinked, into its own batch; a batch of 256, or one 5 ms old,
 * goes to the reclaimer thread through a wait-free queue (liburcu wfcqueue). The reclaimer takes
 * all batches that it finds, however many have come, ends the epoch for all of them, closes one
 * local grace period (synchronize_rcu, QSBR), holds them until every remote session has announced
 * a later epoch (grace.h), skips blocks under a hazard pointer, and frees. So the longer it takes,
 * the more share the next grace period. A worker never waits for one.
 *
 * What is retired and not yet free is bounded (I5): a worker that is about to unlink a block
 * reserves its bytes first, and is refused where `deferred_max` would be passed. Then sessions that
 * hold memory back for longer than the section limit are fenced (session/lease.c).
 *
 * Hazard pointers: a worker that posted an RDMA operation on a block holds that block in one of
 * its hazards until the completion is polled, and may pass quiescent states meanwhile. It sets
 * the hazard inside the read-side section in which it found the block; the reclaimer looks at
 * hazards only after its grace period, hence sees it (the grace period orders the two). A hazard
 * is not moved from one number to another while it is set.
 */
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "server/memory/memory.h"
#include "server/reclaim/grace.h"

struct reclaim;
struct reclaim_worker; /* of one worker: its open batch and its hazards */

struct reclaim_config {
	uint64_t deferred_max; /* bytes that may wait for grace periods; 0: any */
	unsigned limit_ms; /* the section limit: sessions that hold memory longer may be fenced */
};

int reclaim_create(struct reclaim **out, struct memory *m, const struct reclaim_config *config,
		   struct error *err);

/* reclaim_grace - for sessions, which join and leave there. */
struct grace *reclaim_grace(struct reclaim *r);

/* reclaim_destroy - workers are gone, no session is left: frees what is held, ends the thread. */
void reclaim_destroy(struct reclaim *r);

/* reclaim_worker_create - @hazards: how many hazard pointers the worker may hold at once. */
int reclaim_worker_create(struct reclaim_worker **out, struct reclaim *r, unsigned hazards);
void reclaim_worker_destroy(struct reclaim_worker *w); /* hands its open batch over */

/*
 * reclaim_reserve - @bytes are about to be unlinked and retired by this worker. False: too much is
 * deferred; nothing must be unlinked. What is retired without having been reserved is counted all
 * the same. Wait-free but for a compare-and-swap loop once in 1/256 of the bound.
 */
bool reclaim_reserve(struct reclaim_worker *w, uint64_t bytes);

/* reclaim_reserve_index - likewise for a piece of the index: with what records leave of it. */
bool reclaim_reserve_index(struct reclaim_worker *w, uint64_t bytes);

/*
 * reclaim_set_aside - @bytes that this worker has reserved stay so until it gives them back: they
 * are retired later, and what it reserves and retires meanwhile comes from elsewhere.
 * reclaim_give_back - they are retired now, by the next call.
 */
void reclaim_set_aside(struct reclaim_worker *w, uint64_t bytes);
void reclaim_give_back(struct reclaim_worker *w, uint64_t bytes);

/* reclaim_ample - @bytes could be reserved without a further look. A relaxed load. */
bool reclaim_ample(const struct reclaim_worker *w, uint64_t bytes);

/*
 * reclaim_full - whether a reservation of @bytes would be refused now, as far as can be told; where
 * it would, it counts as refused.
 */
bool reclaim_full(struct reclaim_worker *w, uint64_t bytes);

/*
 * reclaim_wanting - there is no memory, or reclaim_reserve() refused. Returns whether some is on
 * its way: it comes when sessions announce, or are fenced.
 * reclaim_patience_over - whether a client that has waited this long since then is refused for
 * good.
 */
bool reclaim_wanting(struct reclaim *r);
bool reclaim_patience_over(const struct reclaim *r, uint32_t waited_ms);

/* reclaim_short - that was said just now. Any thread, a load. */
bool reclaim_short(const struct reclaim *r);

/* reclaim_roomy - less than half of what may be deferred is: for chores, that leave the rest to
 * clients. Any thread, a load. */
bool reclaim_roomy(const struct reclaim *r);

/*
 * reclaim_stuck - somebody wants memory, and some has been waiting for sessions for longer than the
 * section limit: those that may be fenced for that. Any thread, without a lock.
 */
struct grace_stuck reclaim_stuck(const struct reclaim *r, uint64_t now_ns);

/* reclaim_retire - an unlinked block. One thread per worker; never blocks, never allocates on the
 * common path: batches come from a stock, then from what the reclaimer has emptied, then from
 * malloc. Where that fails too, the block is given up: never reused, and counted (`lost`).
 * @bytes: its size, for the count of deferred bytes. */
void reclaim_retire(struct reclaim_worker *w, struct memory_place place, uint32_t bytes);

/*
 * reclaim_poll - once per loop of the worker: hands the open batch over when it is 5 ms old.
 * Returns nanoseconds until it wants to be called again, UINT64_MAX when the batch is empty.
 */
uint64_t reclaim_poll(struct reclaim_worker *w, uint64_t now_ns);

/* Hazards, by number below the count given at creation. Set inside the read-side section. */
void reclaim_hazard_set(struct reclaim_worker *w, unsigned hazard, struct memory_place place);
void reclaim_hazard_clear(struct reclaim_worker *w, unsigned hazard);

/* reclaim_kick - a session has gone, or memory is short: look again now. Any thread. */
void reclaim_kick(struct reclaim *r);

struct reclaim_stats {
	uint64_t retired;
	uint64_t freed;
	uint64_t deferred_blocks;
	uint64_t deferred_bytes;
	uint64_t grace_periods;
	uint64_t lost; /* blocks given up because no batch could be allocated for them */
	uint64_t epoch; /* E */
	uint64_t deferred_max; /* 0: any */
	uint64_t refused; /* reservations */
};

void reclaim_stats_get(struct reclaim *r, struct reclaim_stats *out);
