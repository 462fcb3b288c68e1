/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What is checked, and why it must hold (DESIGN 5, I1 and I4).
 *
 * A bucket's READ was posted when `before` frees had been counted, and had completed when it was
 * `since`. An address that a slot of it names has been freed
 *  - for the last time up to `before`: then the life that stands there is the one the slot named;
 *  - after `before`, up to `since`: nobody can tell whether before or after the bucket was read;
 *    such a one is counted (`unsure`) and let go;
 *  - after `since`: under the section that is open, unless that section's session was fenced.
 *
 * In the last case the queue pair decides. It is destroyed before a session is left out of the
 * wait, so a READ that is posted after the free was seen must fail: hold_alive() posts one. And a
 * READ of the block that was posted after the free and brings bytes is wrong in any case: so a
 * section that goes on over a new connection is seen.
 *
 * A READ that completes well brings the life that the slot named, however the session fared
 * meanwhile: the incarnation in the bytes says so. (The bytes may be torn: the library's checksum
 * has the word there.)
 *
 * A segment is held in the same way by the READ of one of its buckets, if that is what the
 * directory promised: it was not MOVED then, so it was retired later.
 */
#include "tests/stress/torture/hold.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "common/layout/slot.h"

#define WORK_NS_MAX   (4 * NS_PER_MS) /* between two pauses */
#define PAUSE_NS_MAX  (24 * NS_PER_MS)
#define STOP_ONE_IN   32u /* pauses are stops of the process, */
#define LONG_ONE_IN   4u /* of those so many longer than the lease, */
#define KILL_ONE_IN   256u /* or its end */
#define EXTENTS_KNOWN PIPE_EXTENTS

static uint64_t draw(struct hold *hold)
{
	return model_random(hold->random);
}

static void nap(uint64_t ns)
{
	const struct timespec t = { (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };

	nanosleep(&t, NULL);
}

/* The nursery lets it go on. */
static void stop(struct hold *hold)
{
	uint64_t lease_ns = hold->s->o.lease_ms * NS_PER_MS, ns = draw(hold) % (lease_ns / 2);

	if (draw(hold) % LONG_ONE_IN == 0)
		ns += lease_ns + lease_ns / 4;
	atomic_store(&hold->seat->wake_ns, time_now_ns() + ns);
	count(&hold->seat->counts.stops, 1);
	raise(SIGSTOP);
}

void hold_up(struct hold *hold)
{
	uint64_t now = time_now_ns(), r;

	if (now < hold->pause_at_ns)
		return;
	r = draw(hold);
	if (r % KILL_ONE_IN == 0) {
		count(&hold->seat->counts.kills, 1);
		kill(getpid(), SIGKILL);
	} else if ((r >> 8) % STOP_ONE_IN == 0) {
		stop(hold);
	} else {
		count(&hold->seat->counts.pauses, 1);
		nap((r >> 16) % PAUSE_NS_MAX);
	}
	hold->pause_at_ns = time_now_ns() + draw(hold) % WORK_NS_MAX;
}

bool hold_alive(struct hold *hold)
{
	struct reader *r = &hold->h->reader;
	struct read_op op = reader_scratch_op(
		r, 0, r->world->root_addr + offsetof(struct root, epoch), r->world->root_rkey, 8);

	return hold->real->read(hold->h, &op, 1) == 0;
}

bool hold_place(struct hold *hold, const struct read_op *op, struct memory_place *out,
		enum extent_kind *kind)
{
	for (unsigned i = 0; i < EXTENTS_KNOWN; i++) {
		unsigned n = (hold->extent + i) % EXTENTS_KNOWN;
		const struct extent *x = world_find_extent(hold->h->reader.world, n);

		if (!x || op->rkey != x->rkey || op->remote < x->addr ||
		    op->remote >= x->addr + x->length)
			continue;
		hold->extent = n;
		*out = (struct memory_place){ n, (uint32_t)(op->remote - x->addr) };
		*kind = (enum extent_kind)x->kind;
		return true;
	}
	return false;
}

/* Freed under the section? Then its queue pair must be gone. @held: of the seat's, by stage. */
static void look_again(struct hold *hold, const char *what, _Atomic uint64_t held[2],
		       struct memory_place place, uint64_t since)
{
	struct pipe_place *at = pipe_at(hold->s->pipe, place.extent, place.offset);
	enum pipe_stage stage = pipe_stage(at, since);

	if (stage != PIPE_FREED) {
		count(&held[stage], 1);
		return;
	}
	if (!hold_alive(hold)) {
		count(&hold->seat->counts.fenced, 1);
		return;
	}
	model_wrong(hold->s->model, WRONG_PIPE, MODEL_NO_KEY,
		    "%s %u:%u was freed (free %llu of %llu) after an open section had reached it "
		    "(after free %llu), and the section's queue pair lives",
		    what, place.extent, place.offset, (unsigned long long)atomic_load(&at->freed),
		    (unsigned long long)pipe_now(hold->s->pipe), (unsigned long long)since);
}

/* A bucket that fits the directory's entry for its prefix keeps its segment. */
static bool promised(const struct dir_cache *dir, uint64_t header)
{
	unsigned depth = bucket_header_depth(header);
	uint64_t hash;

	if (!header || depth > dir->depth)
		return false;
	hash = depth ? (uint64_t)bucket_header_prefix(header) << (64 - depth) : 0;
	return bucket_header_fits(header, directory_entry_of(dir, hash), hash);
}

static void name_bucket(struct hold *hold, const struct read_op *op, struct memory_place place,
			uint64_t before, uint64_t since)
{
	const struct bucket *b = op->local;
	size_t i = (size_t)(b - hold->h->reader.fetch.buckets);
	struct hold_named *n = &hold->named[i];
	struct pipe_place *at;
	uint64_t header;

	if (i >= READER_BATCH)
		return; /* a scan's own */
	place.offset -= place.offset % SEGMENT_BYTES;
	at = pipe_at(hold->s->pipe, place.extent, place.offset);
	header = atomic_load_explicit(&b->header, memory_order_relaxed); /* a private copy */
	n->read = true;
	n->before = before;
	n->since = since;
	n->segment = place;
	n->segment_held =
		promised(hold->h->reader.dir, header) && atomic_load(&at->freed) <= before;
}

/* The newest bucket that names the block; NULL: none. */
static const struct hold_named *named_by(const struct hold *hold, struct memory_place place)
{
	const struct hold_named *best = NULL;

	for (unsigned i = 0; i < READER_BATCH; i++) {
		const struct bucket *b = &hold->h->reader.fetch.buckets[i];
		const struct hold_named *n = &hold->named[i];

		if (!n->read || (best && best->since >= n->since))
			continue;
		for (unsigned j = 0; j < BUCKET_SLOTS; j++) {
			uint64_t slot = atomic_load_explicit(&b->slot[j], memory_order_relaxed);

			if (slot && slot_extent(slot) == place.extent &&
			    slot_offset(slot) == place.offset)
				best = n;
		}
	}
	return best;
}

/* A block that is about to be READ. */
struct want {
	struct memory_place place;
	bool block; /* it is one */
	bool named; /* a bucket of the section named it */
	bool held; /* the section has reached it, when so many frees were counted: */
	uint64_t since;
	uint32_t incarnation; /* that the slot named */
	bool overtaken; /* freed since: only a queue pair that is gone makes that right */
};

static void want_block(struct hold *hold, struct memory_place place, struct want *w)
{
	struct pipe_place *at = pipe_at(hold->s->pipe, place.extent, place.offset);
	uint64_t life = atomic_load(&at->life), freed = atomic_load(&at->freed);
	const struct hold_named *named = named_by(hold, place);

	*w = (struct want){ .place = place, .block = true };
	if (!named)
		return;
	if (freed > named->since) {
		w->overtaken = true;
	} else if (freed > named->before) {
		count(&hold->seat->counts.unsure, 1);
		return;
	} else {
		w->incarnation = pipe_life_incarnation(life); /* no free since: it is that one */
	}
	w->named = w->held = true;
	w->since = named->since;
}

/*
 * A hint led to it. It is LIVE in the life that stands at the address, and was not freed since
 * before the READ: the section keeps it like one that a bucket named.
 */
static void got_by_hint(struct hold *hold, const struct read_op *op, struct want *w,
			uint64_t before)
{
	struct pipe_place *at = pipe_at(hold->s->pipe, w->place.extent, w->place.offset);
	uint64_t since = pipe_now(hold->s->pipe), life = atomic_load(&at->life);
	const struct block *b = op->local;

	if (atomic_load(&at->freed) > before || pipe_life_stage(life) == PIPE_FREED ||
	    atomic_load_explicit(&b->state, memory_order_relaxed) !=
		    block_state_make(pipe_life_incarnation(life), BLOCK_LIVE))
		return;
	w->held = true;
	w->since = since;
}

static void got_block(struct hold *hold, const struct read_op *op, const struct want *w)
{
	const struct block *b = op->local;
	uint64_t state = atomic_load_explicit(&b->state, memory_order_relaxed);
	uint32_t incarnation = block_state_incarnation(state);

	count(&hold->seat->counts.blocks, 1);
	if (w->overtaken)
		model_wrong(hold->s->model, WRONG_PIPE, MODEL_NO_KEY,
			    "block %u:%u was freed after a section's bucket had named it, and the "
			    "READ that was posted after that brought incarnation %u",
			    w->place.extent, w->place.offset, incarnation);
	else if (incarnation != w->incarnation)
		model_wrong(hold->s->model, WRONG_LIFE, MODEL_NO_KEY,
			    "block %u:%u, incarnation %u, was named by the bucket; the READ "
			    "brought incarnation %u, state %u",
			    w->place.extent, w->place.offset, w->incarnation, incarnation,
			    block_state_of(state));
}

/* Before the section goes on, or ends. */
static void let_go(struct hold *hold, const struct want *want, unsigned count_of)
{
	for (unsigned i = 0; i < count_of; i++) {
		if (want[i].held)
			look_again(hold, want[i].named ? "block" : "block of a hint",
				   hold->seat->counts.held, want[i].place, want[i].since);
	}
	for (unsigned i = 0; i < READER_BATCH; i++) {
		if (hold->named[i].segment_held)
			look_again(hold, "segment", hold->seat->counts.held_segments,
				   hold->named[i].segment, hold->named[i].since);
	}
}

/* Its queue pair is gone. What it had found must not be followed in the next one: `since` stays. */
static void section_lost(struct hold *hold)
{
	for (unsigned i = 0; i < READER_BATCH; i++)
		hold->named[i].segment_held = false;
}

static int held_read(void *ctx, const struct read_op *ops, unsigned n)
{
	enum extent_kind kind[READER_BATCH] = { 0 };
	struct memory_place place[READER_BATCH];
	struct want want[READER_BATCH] = { 0 };
	struct hold *hold = ctx;
	bool blocks = false, buckets = false;
	uint64_t before;
	int rc;

	for (unsigned i = 0; i < n; i++) {
		hold_place(hold, &ops[i], &place[i], &kind[i]);
		blocks |= kind[i] == EXTENT_DATA;
		buckets |= kind[i] == EXTENT_INDEX;
	}
	if (blocks)
		hold_up(hold); /* between the buckets and the blocks */
	for (unsigned i = 0; i < n; i++) {
		if (kind[i] == EXTENT_DATA)
			want_block(hold, place[i], &want[i]);
	}
	before = pipe_now(hold->s->pipe);
	rc = hold->real->read(hold->h, ops, n);
	if (rc) {
		section_lost(hold);
		return rc;
	}
	for (unsigned i = 0; i < n; i++) {
		if (want[i].named)
			got_block(hold, &ops[i], &want[i]);
		else if (want[i].block)
			got_by_hint(hold, &ops[i], &want[i], before);
		else if (kind[i] == EXTENT_INDEX)
			name_bucket(hold, &ops[i], place[i], before, pipe_now(hold->s->pipe));
	}
	if (blocks || buckets)
		hold_up(hold);
	let_go(hold, want, n);
	return 0;
}

static uint64_t held_clock(void *ctx)
{
	struct hold *hold = ctx;

	return hold->real->clock_ms(hold->h);
}

void hold_begin(struct hold *hold)
{
	for (unsigned i = 0; i < READER_BATCH; i++)
		hold->named[i] = (struct hold_named){ 0 };
}

void hold_take(struct hold *hold, struct shared *s, struct seat *seat, struct gkv *h,
	       uint64_t *random)
{
	*hold = (struct hold){
		.s = s,
		.seat = seat,
		.h = h,
		.real = h->reader.ops,
		.ops = { .read = held_read, .clock_ms = held_clock },
		.random = random,
	};
	h->reader.ops = &hold->ops;
	h->reader.ctx = hold;
}
