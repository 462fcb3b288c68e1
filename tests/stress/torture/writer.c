/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A writer of torture goes from few of its keys to many and back, so that segments split and merge
 * and slabs fall empty, overwrites the hot ones all the while, and puts large values that look like
 * blocks (forge.h) where slabs are cut again.
 */
#include <errno.h>
#include <stdio.h>

#include "tests/stress/torture/forge.h"
#include "tests/stress/torture/torture.h"

#define LOOP_OPS      8u /* between two quiescent states */
#define FORGE_ONE_IN  24u /* loops */
#define FORGE_KEYS    24u
#define FORGE_MAX     (192u << 10)
#define FORGE_KEY_MAX 32

void torture_published(struct writer *w, uint32_t k, const struct store_result *result)
{
	struct pipe_place *at =
		pipe_at(w->home->s->pipe, result->place.extent, result->place.offset);

	atomic_store_explicit(&at->key, k + 1, memory_order_relaxed);
}

/*
 * A record that no reader asks for, whose value pretends to be others. None where memory is full.
 * All are put, then all are deleted, so that their slabs fall empty and are cut for others again.
 */
static void forge(struct writer *w)
{
	const struct store *store = w->member.store.store;
	uint32_t len = (uint32_t)(model_random(&w->member.random) % FORGE_MAX), key_len;
	unsigned at = w->forges++ % (2 * FORGE_KEYS);
	struct store_result result;
	struct store_put p;
	char key[FORGE_KEY_MAX];

	key_len = (uint32_t)snprintf(key, sizeof(key), "forged %u:%u", w->member.number,
				     at % FORGE_KEYS);
	if (at >= FORGE_KEYS) {
		store_del(&w->member.store, key, key_len, &store_always, &result);
		return;
	}
	if (store_put_begin(&w->member.store, key, key_len, len, 0, &p))
		return;
	count(&w->forged, forge_fill(w->home->s->pipe, store->hash_seed, p.place, p.block,
				     p.block->data + key_len, len));
	if (store_put_commit(&w->member.store, &p, &store_always, &result) == -EAGAIN)
		store_put_abort(&w->member.store, &p);
}

/* One of the keys that are in use, most often a hot one. */
static void change(struct writer *w)
{
	const struct options *o = &w->home->s->o;
	uint64_t r = model_random(&w->member.random);
	uint32_t range = w->frontier, hot = writer_owned(w, o->hot),
		 keep = writer_owned(w, o->keep);

	if (r % 8 < 5 && hot < range)
		range = hot;
	else if (r % 8 == 5 && keep < range)
		range = keep;
	writer_change(w, range, !o->gets && (r >> 3) % 8 == 0);
}

/* One key nearer to where it is on its way to. */
static void approach(struct writer *w)
{
	const struct options *o = &w->home->s->o;

	if (writer_approach(w, w->shrinks ? o->keep : o->keys))
		return;
	w->shrinks = !w->shrinks;
	count(&w->turns, 1);
}

void torture_write(struct writer *w)
{
	const struct options *o = &w->home->s->o;

	while (!writer_ended(w)) {
		for (unsigned i = 0; i < LOOP_OPS; i++) {
			if (i % 2 == 0 && (!o->gets || w->frontier < writer_owned(w, o->keys)))
				approach(w);
			else
				change(w);
		}
		if (!o->gets && model_random(&w->member.random) % FORGE_ONE_IN == 0)
			forge(w);
		if (o->pace_us)
			member_nap(&w->member, o->pace_us);
		else
			member_quiescent(&w->member);
	}
}
