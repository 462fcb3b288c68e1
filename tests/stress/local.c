/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Local readers: threads that look keys up as the server's workers do. What they were given is
 * theirs until their next quiescent state, so they hold a few blocks until then, and look at them
 * once more, and into the pipe where there is one.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/base/time.h"
#include "common/layout/bucket.h"
#include "server/reclaim/qsbr.h"
#include "tests/stress/home.h"
#include "tests/stress/torture/pipe.h"

#define LOCAL_ID     100u /* the first, among the members' */
#define HELD	     16u
#define LONG_HOLD_NS (20 * NS_PER_MS) /* grace periods must wait for them */

struct held {
	struct store_result found;
	uint64_t since; /* of the pipe */
	uint32_t k;
};

/* Returns whether there is a block to look at again. */
static bool look_up(struct home *h, struct store_worker *store, uint32_t k, struct held *held)
{
	struct store_result *f = &held->found;
	char key[MODEL_KEY_MAX];
	uint32_t key_len = model_key(k, key), floor = model_floor(h->m, k);
	int rc = store_get(store, key, key_len, 0, true, f);

	held->since = h->s->pipe ? pipe_now(h->s->pipe) : 0;
	held->k = k;
	if (rc == 0)
		model_found(h->m, k, floor, f->block->data + key_len, f->value_len);
	else if (rc == -ENOENT)
		model_missed(h->m, k, floor);
	else
		model_wrong(h->m, WRONG_ERROR, k, "store_get: %s", error_name(rc));
	return rc == 0;
}

static void look_again(struct local *l, const struct held *held)
{
	const struct store_result *f = &held->found;
	struct home *h = l->home;
	uint64_t state = atomic_load_explicit(&f->block->state, memory_order_acquire);
	enum pipe_stage stage = PIPE_USED;
	char key[MODEL_KEY_MAX];
	uint32_t key_len = model_key(held->k, key);

	if (h->s->pipe)
		stage = pipe_stage(pipe_at(h->s->pipe, f->place.extent, f->place.offset),
				   held->since);
	if (stage == PIPE_FREED)
		model_wrong(h->m, WRONG_PIPE, held->k,
			    "its block %u:%u, incarnation %u, was freed before the local reader's "
			    "quiescent state",
			    f->place.extent, f->place.offset, f->incarnation);
	else if (block_state_incarnation(state) != f->incarnation || f->block->key_len != key_len ||
		 memcmp(f->block->data, key, key_len))
		model_wrong(h->m, WRONG_CHANGED, held->k,
			    "its block, incarnation %u, became incarnation %u before the local "
			    "reader's quiescent state",
			    f->incarnation, block_state_incarnation(state));
	else
		model_found(h->m, held->k, 0, f->block->data + key_len, f->block->value_len);
	if (stage != PIPE_FREED)
		count(&l->held[stage], 1);
}

/* A segment that the directory named: it may be MOVED, but is this one until we let go of it. */
struct held_segment {
	const struct bucket *bucket;
	uint64_t entry;
};

static void hold_segments(struct home *h, uint64_t *random, struct held_segment held[HELD])
{
	struct root_directory at;
	const struct directory *d;

	index_describe(h->server.server.store.index, &at);
	d = memory_addr(h->server.server.store.memory, at.extent, at.offset,
			sizeof(*d) + (sizeof(uint64_t) << at.depth));
	for (unsigned i = 0; i < HELD; i++) {
		uint64_t r = model_random(random), number;
		const struct segment *s;

		/* pairs with the entry's release store: segment before entry */
		held[i].entry =
			atomic_load_explicit(&d->entry[r >> (64 - at.depth)], memory_order_acquire);
		number = directory_entry_segment(held[i].entry);
		s = memory_addr(h->server.server.store.memory,
				directory_entry_extent(held[i].entry), number * SEGMENT_BYTES,
				SEGMENT_BYTES);
		held[i].bucket = s ? &s->bucket[r % SEGMENT_BUCKETS] : NULL;
	}
}

static void look_at_segments(struct home *h, const struct held_segment held[HELD])
{
	for (unsigned i = 0; i < HELD; i++) {
		uint64_t header;

		if (!held[i].bucket) {
			model_wrong(h->m, WRONG_STATE, MODEL_NO_KEY, "no segment at %016llx",
				    (unsigned long long)held[i].entry);
			continue;
		}
		header = atomic_load_explicit(&held[i].bucket->header, memory_order_acquire);
		if (bucket_header_incarnation(header) != directory_entry_incarnation(held[i].entry))
			model_wrong(h->m, WRONG_CHANGED, MODEL_NO_KEY,
				    "segment %u:%u, incarnation %u, became incarnation %u before "
				    "the reader's quiescent state",
				    directory_entry_extent(held[i].entry),
				    directory_entry_segment(held[i].entry),
				    directory_entry_incarnation(held[i].entry),
				    bucket_header_incarnation(header));
	}
}

static void hold_long(struct home *h, uint64_t *random)
{
	const struct timespec hold = { 0, LONG_HOLD_NS };
	struct held_segment held[HELD];

	hold_segments(h, random, held);
	nanosleep(&hold, NULL);
	look_at_segments(h, held);
}

static void *read_all(void *arg)
{
	struct local *l = arg;
	struct home *h = l->home;
	struct held held[HELD];

	member_begin(&l->member, h->m, h->s->o.disturb);
	while (!atomic_load(&h->end)) {
		unsigned n = 0;

		for (unsigned i = 0; i < HELD; i++)
			n += look_up(h, &l->member.store, h->s->face->pick(h->s, &l->member.random),
				     &held[n]);
		if (model_random(&l->member.random) % h->s->face->long_one_in == 0)
			hold_long(h, &l->member.random);
		for (unsigned i = 0; i < n; i++)
			look_again(l, &held[i]);
		count(&l->gets, HELD);
		qsbr_quiescent();
	}
	member_end(h->s->o.disturb);
	return NULL;
}

int locals_start(struct home *h)
{
	for (unsigned i = 0; i < h->s->o.locals; i++) {
		struct local *l = &h->local[i];
		int rc;

		l->home = h;
		rc = member_launch(&l->member, &h->server.server.store, "local", i, h->s->o.seed,
				   LOCAL_ID + i, read_all, l);
		if (rc)
			return rc;
		h->locals++;
	}
	return 0;
}

void locals_stop(struct home *h)
{
	atomic_store(&h->end, true);
	while (h->locals)
		member_join(&h->local[--h->locals].member);
}

void verify_local(struct home *h)
{
	struct store_worker store;
	struct held held;
	int rc = store_worker_create(&store, &h->server.server.store, 0);

	if (rc) {
		model_wrong(h->m, WRONG_ERROR, MODEL_NO_KEY, "store_worker_create: %s",
			    error_name(rc));
		return;
	}
	qsbr_register();
	for (uint32_t k = 0; k < h->m->keys && !atomic_load(&h->m->any_wrong); k++) {
		look_up(h, &store, k, &held);
		if (k % 64 == 0)
			qsbr_quiescent();
	}
	qsbr_unregister();
	store_worker_destroy(&store);
}
