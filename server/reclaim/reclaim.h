/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Retired blocks, until no reader can reach them.
 *
 * A worker retires blocks, already unlinked, into its own batch; a batch of 256, or one 5 ms old,
 * goes to the reclaimer thread through a wait-free queue (liburcu wfcqueue). The reclaimer closes
 * one local grace period (synchronize_rcu, QSBR) for all batches that it finds, then holds each
 * back until the remote side is through as well, then skips blocks under a hazard pointer, then
 * frees. A worker never waits for a grace period.
 *
 * Remote side, until epochs are announced: sessions are numbered in the order of their coming. A
 * batch is stamped, after its blocks were unlinked and a full barrier, with the number of the
 * newest session; it is through when every session with a number up to the stamp has gone.
 *
 * Hazard pointers: a worker that posted an RDMA operation on a block holds that block in one of
 * its hazards until the completion is polled, and may pass quiescent states meanwhile. It sets
 * the hazard inside the read-side section in which it found the block; the reclaimer looks at
 * hazards only after its grace period, hence sees it (the grace period orders the two). A hazard
 * is not moved from one number to another while it is set.
 */
#include <stdint.h>

#include "common/base/error.h"
#include "server/memory/memory.h"

struct reclaim;
struct reclaim_worker; /* of one worker: its open batch and its hazards */

/* The sessions' side. Any thread may be asked; both must be cheap. Numbers count from 1. */
struct reclaim_sessions {
	uint64_t (*newest)(void *ctx); /* highest number given out; 0: none yet */
	uint64_t (*oldest)(void *ctx); /* lowest number that has not gone; UINT64_MAX: none */
	void *ctx;
};

int reclaim_create(struct reclaim **out, struct memory *m, const struct reclaim_sessions *sessions,
		   struct error *err);

/* reclaim_destroy - workers are gone, no session is left: frees what is held, ends the thread. */
void reclaim_destroy(struct reclaim *r);

/* reclaim_worker_create - @hazards: how many hazard pointers the worker may hold at once. */
int reclaim_worker_create(struct reclaim_worker **out, struct reclaim *r, unsigned hazards);
void reclaim_worker_destroy(struct reclaim_worker *w); /* hands its open batch over */

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
};

void reclaim_stats_get(struct reclaim *r, struct reclaim_stats *out);
