/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Lanes: chains of READs in flight.
 *
 * Look-ups that wait to be READ get into the next free lane, all of them in one chain: few at a
 * time while lanes are free, many where all are under way. A lane is a batch (lookup.c) in a
 * section of its own, with memory of its own; a lane whose chain has come is judged, posts what
 * follows, or ends. What must be looked at in another section waits again, before all others.
 *
 * Keys were hashed when they were submitted, so that their hints are in the cache by now. A server
 * that restarted hashes by another seed: then a key is hashed again, or it would be sought
 * where it can not be.
 *
 * Memory of a lane is used again when its chain has come, or when the queue pair is destroyed: a
 * READ that is on its way names it.
 */
#include <errno.h>
#include <stddef.h>

#include "client/src/flight/async.h"

#define LANE_BYTES (READER_BATCH * BUCKET_BYTES + LANE_ARENA_BYTES)

static unsigned lane_number(const struct async *a, const struct lane *lane)
{
	return (unsigned)(lane - a->lane);
}

static unsigned lane_section(const struct async *a, const struct lane *lane)
{
	return SECTION_CALL + 1 + lane_number(a, lane);
}

/* The fetch buffer's grow. */
static int lane_grow(struct fetch *f, size_t bytes)
{
	struct gkv *h = f->owner;
	struct lane *lane = (void *)((uint8_t *)f - offsetof(struct lane, fetch));
	int rc =
		handle_grow(h, &lane->larger, bytes, IBV_ACCESS_LOCAL_WRITE, "a buffer for values");

	if (rc)
		return rc;
	f->arena = lane->larger.addr;
	f->arena_len = lane->larger.len;
	f->arena_lkey = lane->larger.region.lkey;
	return 0;
}

int lanes_create(struct async *a)
{
	struct gkv *h = a->h;
	int rc;

	if (!h->device) /* it has no queue pair either, and makes them when it has followed */
		return 0;
	rc = handle_buffer(h, &a->memory, (size_t)HANDLE_LANES * LANE_BYTES, IBV_ACCESS_LOCAL_WRITE,
			   "buffers of operations in flight");
	if (rc)
		return rc == -ECONNRESET ? 0 : rc; /* likewise */
	for (unsigned i = 0; i < HANDLE_LANES; i++) {
		uint8_t *at = (uint8_t *)a->memory.addr + (size_t)i * LANE_BYTES;

		a->lane[i].fetch = (struct fetch){
			.buckets = (void *)at,
			.buckets_lkey = a->memory.region.lkey,
			.arena = at + READER_BATCH * BUCKET_BYTES,
			.arena_len = LANE_ARENA_BYTES,
			.arena_lkey = a->memory.region.lkey,
			.batch_bytes = LANE_ARENA_BYTES,
			.grow = lane_grow,
			.owner = h,
		};
	}
	return 0;
}

void lanes_destroy(struct async *a)
{
	for (unsigned i = 0; i < HANDLE_LANES; i++)
		rdma_buffer_destroy(&a->lane[i].larger);
	rdma_buffer_destroy(&a->memory);
}

/* Its READs have come, or never will: the section is over. */
static void lane_close(struct async *a, struct lane *lane)
{
	a->reads -= lane->batch.posted;
	lane->batch.posted = 0;
	lane->count = 0;
	section_close(a->h, lane_section(a, lane));
}

/* What had no memory for its block; the others of its lane have other places to be in. */
static bool too_large(const struct lookup *l)
{
	return (l->state == LOOKUP_HINTED || l->state == LOOKUP_BLOCK) &&
	       l->block_bytes > LANE_ARENA_BYTES;
}

/* What came of it, or where it goes on. */
static void settle(struct async *a, struct lane *lane, unsigned i, int rc)
{
	const struct lookup *l = &lane->lookup[i];
	struct op *op = lane->op[i];

	if (!op)
		return;
	if (op->cancelled) {
		op_end(a, op, -ECANCELED);
	} else if (l->state == LOOKUP_FOUND) {
		op_end_found(a, op, l);
	} else if (l->state == LOOKUP_ABSENT) {
		op_end(a, op, -ENOENT);
	} else if (l->state == LOOKUP_ASK) {
		op->age = lane->batch.age;
		a->h->reader.stats.rpc_fallbacks++;
		op_to(a, op, OP_ASK);
	} else if (rc && rc != -ECONNRESET && (rc != -ENOMEM || too_large(l))) {
		op_end(a, op, rc);
	} else { /* in another section */
		op->state = OP_READ;
		op->block_bytes = l->state == LOOKUP_LATER ? l->block_bytes : 0;
		ops_prepend(&a->read, op);
	}
}

static void lane_end(struct async *a, struct lane *lane, int rc)
{
	unsigned count = lane->count;

	lane_close(a, lane);
	while (count) /* from the last, so that they come first in their order */
		settle(a, lane, --count, rc);
}

/* Post what is to be READ next, or end. */
static void lane_run(struct async *a, struct lane *lane)
{
	const unsigned before = lane->batch.posted;
	int rc = batch_round(&a->h->reader, &lane->batch, a->chain);

	a->reads += lane->batch.posted - before;
	if (rc > 0) {
		figure_add(&a->h->reader.stats.reads, (unsigned)rc);
		rc = channel_post(a->h, a->chain, (unsigned)rc);
		lane->chain = a->h->link.chains_posted;
		if (rc == 0)
			return;
	}
	lane_end(a, lane, rc);
}

/* Those that wait, as many as there is room for. */
static void lane_fill(struct async *a, struct lane *lane)
{
	struct reader *r = &a->h->reader;
	const uint64_t seed = lane->batch.hashed ? r->world->hash_seed : 0;
	unsigned most = a->h->link.reads_max - a->reads;
	size_t planned = 0;

	if (most > READER_BATCH)
		most = READER_BATCH;
	while (lane->count < most && a->read.first) {
		struct op *op = a->read.first;
		struct lookup *l = &lane->lookup[lane->count];

		planned += op->block_bytes;
		if (lane->count && planned > LANE_ARENA_BYTES)
			return;
		ops_remove(&a->read, op);
		l->state = LOOKUP_START;
		l->direct = op->direct;
		l->dest_lkey = op->lkey;
		l->dest_device = op->device;
		l->key = op->q.key;
		l->key_len = (uint32_t)op->q.key_len;
		l->dest = op->q.op == GKV_OP_EXISTS ? NULL : op->q.value;
		l->cap = op->q.op == GKV_OP_EXISTS ? 0 : op->q.len;
		op->state = OP_READING;
		op->at = lane_number(a, lane) * READER_BATCH + lane->count;
		lane->op[lane->count++] = op;
		l->hash = op->hash;
		batch_add(r, &lane->batch, op->hashed && op->hash_seed == seed);
	}
}

static void lane_start(struct async *a, struct lane *lane)
{
	lane->count = 0;
	batch_init(&a->h->reader, &lane->batch, lane->lookup, &lane->fetch);
	lane_fill(a, lane);
	lane->batch.age = section_open(a->h, lane_section(a, lane));
	lane_run(a, lane);
}

void lanes_step(struct async *a)
{
	struct gkv *h = a->h;

	for (unsigned i = 0; i < HANDLE_LANES && h->link.live; i++) {
		struct lane *lane = &a->lane[i];

		if (lane->count && h->link.chains_done >= lane->chain)
			lane_run(a, lane);
	}
	for (unsigned i = 0; i < HANDLE_LANES && h->link.live; i++) {
		if (!a->read.first || a->reads >= h->link.reads_max)
			return;
		if (!a->lane[i].count)
			lane_start(a, &a->lane[i]);
	}
}

void lane_drop(struct async *a, struct op *op)
{
	struct lane *lane = &a->lane[op->at / READER_BATCH];

	lane->op[op->at % READER_BATCH] = NULL;
	lane->lookup[op->at % READER_BATCH].state = LOOKUP_ABSENT; /* not judged any more */
}

/* All start over. */
static void lane_again(struct async *a, struct lane *lane)
{
	for (unsigned i = 0; i < lane->count; i++) {
		if (lane->op[i])
			lane->lookup[i].state = LOOKUP_START;
	}
	lane_end(a, lane, -ECONNRESET);
}

unsigned async_close_lanes(struct async *a, bool all)
{
	unsigned closed = 0;

	for (unsigned i = HANDLE_LANES; i-- > 0;) {
		if (!a->lane[i].count || (!all && a->h->link.chains_done < a->lane[i].chain))
			continue;
		lane_again(a, &a->lane[i]);
		closed++;
	}
	return closed;
}
