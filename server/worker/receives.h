/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The receive buffers of one worker: registered in chunks, posted to its shared receive queue.
 * Chunks are made by the queue-pair thread before the credits that need them are given out; the
 * worker posts them, and posts a buffer again soon after its request was taken: up to a chain of
 * them wait meanwhile, and a reply may have left before. So there is a chain more of buffers than
 * credits, and a sender that keeps to its credits never meets "receiver not ready".
 *
 * A queue pair that dies may take buffers with it. receives.c says how they are found.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/layout/wire_rpc.h"
#include "common/rdma/queue.h"
#include "common/rdma/region.h"

#define RECEIVE_CHUNK  256u
#define RECEIVE_STRIDE ((RPC_REQUEST_MAX + 63u) & ~63u)
#define RECEIVE_CHAIN  16u /* buffers posted again at once */
#define RECEIVE_CHUNKS 64u

/* wr_id of a receive: this bit and the buffer's number. */
#define RECEIVE_WR (1ull << 63)

/* Receives and audits so far when something happened: the clock of the accounts. */
typedef uint64_t receives_time;

struct receives {
	struct rdma_srq srq;
	unsigned max; /* of the queue */
	unsigned chunks; /* made. Queue-pair thread */
	struct rdma_buffer chunk[RECEIVE_CHUNKS];

	/* Worker. */
	unsigned posted; /* buffers that entered the queue */
	unsigned pending; /* taken and not yet posted again */
	uint32_t taken[RECEIVE_CHAIN];
	receives_time now; /* receives taken, and audits opened, so far */
	receives_time *since; /* of each buffer: when it was posted last */
	bool audit_open; /* queue pairs were destroyed */
	unsigned deaths_next; /* after the open audit was opened */
	unsigned untold; /* of the open audit: without the event */
	unsigned untold_next;
	receives_time audit_from; /* the open audit is about buffers posted until then */
	receives_time audit_sure; /* they have left the queue by then */
	receives_time audit_at; /* and then the audit is due */

	/* Buffers that the last audit missed and did not post again. Written by the worker. */
	_Atomic unsigned absent;
	_Atomic unsigned held; /* those, and others that may be missing. The same */
	_Atomic uint64_t lost; /* found missing and posted again, since start. The same */
};

int receives_create(struct receives *r, const struct rdma_device *dev, unsigned max,
		    struct error *err);
void receives_destroy(struct receives *r);

/* receives_credits - how many may be given out in all. Any thread. */
unsigned receives_credits(const struct receives *r);

/*
 * receives_room - make sure of chunks for @credits in all, and for what may be missing.
 * -EUSERS: beyond the queue.
 */
int receives_room(struct receives *r, const struct rdma_device *dev, unsigned credits,
		  struct error *err);

/* receives_post_more - worker: post the next chain of buffers that never were. */
int receives_post_more(struct receives *r);

/* receives_frame - worker: the bytes of a received buffer. */
void *receives_frame(const struct receives *r, uint64_t wr_id);

/* receives_again - worker: the buffer is free; it is posted with the next full chain or flush. */
void receives_again(struct receives *r, uint64_t wr_id);
void receives_flush(struct receives *r);

/*
 * receives_death - worker: a queue pair was destroyed. @told: the device had said that it had given
 * back every receive that it took.
 */
void receives_death(struct receives *r, bool told);

/* receives_audit_due - worker: time for receives_audit(). */
static inline bool receives_audit_due(const struct receives *r)
{
	return r->audit_open && r->now >= r->audit_at;
}

/*
 * receives_audit - worker, after receives_flush(): find what dead queue pairs kept, and post again
 * what no other can have.
 * @silent: of the queue pairs that live, the earliest time after which one holds none that had left
 * the queue by then (receives.c, G3, G4); UINT64_MAX: there is none. Returns how many were posted
 * again.
 */
unsigned receives_audit(struct receives *r, receives_time silent);
