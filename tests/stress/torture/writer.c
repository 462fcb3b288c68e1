/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Writers: threads that write straight into the server's store, as its workers do. Each has the
 * keys whose numbers leave its own number when divided by the number of writers; it goes from few
 * of them to many and back, so that segments split and merge and slabs fall empty, overwrites the
 * hot ones all the while, and puts large values that look like blocks (forge.h) where slabs are
 * cut anew.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/stress/torture/forge.h"
#include "tests/stress/torture/home.h"

#define LOOP_OPS      8u /* between two quiescent states */
#define WAIT_NS_MAX   (100 * NS_PER_MS) /* of one wait for memory, that counts */
#define FORGE_ONE_IN  24u /* loops */
#define FORGE_KEYS    24u
#define FORGE_MAX     (192u << 10)
#define FORGE_KEY_MAX 32

static bool ended(const struct writer *w)
{
	return atomic_load(&w->home->end) || atomic_load(&w->home->m->any_wrong);
}

/*
 * Nothing found by a look-up is held. Returns whether to try again. @waited_ns: how long key @k has
 * waited; of one wait no more than is its own, for a machine may stand still.
 */
static bool wait_for_memory(struct writer *w, uint32_t k, int rc, uint64_t *waited_ns)
{
	uint64_t start = time_now_ns(), took;

	if (ended(w) || !member_wait(&w->member, rc))
		return false;
	if (rc != -EAGAIN)
		count(rc == -EBUSY ? &w->busy : &w->full, 1);
	took = time_now_ns() - start;
	*waited_ns += took < WAIT_NS_MAX ? took : WAIT_NS_MAX;
	if (*waited_ns < shared_patience_ns(w->home->s))
		return true;
	model_wrong(w->home->m, WRONG_STATE, k, "memory did not come back within %llu ms: %s",
		    (unsigned long long)(*waited_ns / NS_PER_MS), error_name(rc));
	return false;
}

static void failed(struct writer *w, uint32_t k, const char *what, int rc)
{
	if (!ended(w))
		model_wrong(w->home->m, WRONG_ERROR, k, "%s: %s", what, error_name(rc));
}

static struct pipe_place *place_at(struct writer *w, struct memory_place place)
{
	return pipe_at(w->home->s->pipe, place.extent, place.offset);
}

static void put(struct writer *w, uint32_t k)
{
	struct model *m = w->home->m;
	uint32_t number = model_next_put(m, k);
	struct store_result result;
	uint64_t waited_ns = 0;
	int rc;

	model_begin(m, k, number);
	do
		rc = member_put(&w->member, m, k, number, &result);
	while (rc && wait_for_memory(w, k, rc, &waited_ns));
	if (rc) {
		failed(w, k, "store_put", rc);
		return;
	}
	atomic_store_explicit(&place_at(w, result.place)->key, k + 1, memory_order_relaxed);
	model_end(m, w->member.number, k, number,
		  (uint64_t)result.place.extent << 32 | result.place.offset, result.incarnation);
	count(&w->puts, 1);
}

static void del(struct writer *w, uint32_t k)
{
	struct model *m = w->home->m;
	uint32_t number = model_next_del(m, k);
	struct store_result result;
	char key[MODEL_KEY_MAX];
	uint64_t waited_ns = 0;
	int rc;

	model_begin(m, k, number);
	do
		rc = store_del(&w->member.store, key, model_key(k, key), &store_always, &result);
	while (rc && wait_for_memory(w, k, rc, &waited_ns));
	if (rc) {
		failed(w, k, "store_del of a key that lives", rc);
		return;
	}
	model_end(m, w->member.number, k, number, 0, 0);
	count(&w->dels, 1);
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

static uint32_t key_of(const struct writer *w, uint32_t own)
{
	return w->home->s->key[own * w->home->s->o.writers + w->member.number];
}

/* How many of the keys below @limit are its own. */
static uint32_t owned(const struct writer *w, uint64_t limit)
{
	uint32_t writers = (uint32_t)w->home->s->o.writers, n = (uint32_t)limit;

	return n > w->member.number ? (n - w->member.number + writers - 1) / writers : 0;
}

/* Overwrite, delete or insert again one of the keys that are in use, most often a hot one. */
static void change(struct writer *w)
{
	const struct options *o = &w->home->s->o;
	uint64_t r = model_random(&w->member.random);
	uint32_t range = w->frontier, hot = owned(w, o->hot), keep = owned(w, o->keep), k;

	if (r % 8 < 5 && hot < range)
		range = hot;
	else if (r % 8 == 5 && keep < range)
		range = keep;
	if (!range)
		return;
	k = key_of(w, (uint32_t)((r >> 8) % range));
	if (!o->gets && (r >> 3) % 8 == 0 && model_lives(w->home->m, k))
		del(w, k);
	else
		put(w, k);
}

/* One key nearer to where it is on its way to. */
static void approach(struct writer *w)
{
	const struct options *o = &w->home->s->o;
	uint32_t own = owned(w, w->shrinks ? o->keep : o->keys), k;

	if (w->frontier < own) {
		put(w, key_of(w, w->frontier++));
	} else if (w->frontier > own) {
		k = key_of(w, --w->frontier);
		if (model_lives(w->home->m, k))
			del(w, k);
	} else {
		w->shrinks = !w->shrinks;
		count(&w->turns, 1);
	}
	/* relaxed: which keys are worth reading */
	atomic_store_explicit(&w->home->s->frontier[w->member.number],
			      w->frontier * (uint32_t)o->writers, memory_order_relaxed);
}

static void loop(struct writer *w)
{
	const struct options *o = &w->home->s->o;

	for (unsigned i = 0; i < LOOP_OPS; i++) {
		if (i % 2 == 0 && (!o->gets || w->frontier < owned(w, o->keys)))
			approach(w);
		else
			change(w);
	}
	if (!o->gets && model_random(&w->member.random) % FORGE_ONE_IN == 0)
		forge(w);
	if (o->pace_us) {
		member_nap(&w->member, o->pace_us);
		return;
	}
	member_quiescent(&w->member);
}

static void *write_all(void *arg)
{
	struct writer *w = arg;
	bool disturbed = !w->home->s->o.gets;

	member_begin(&w->member, w->home->m, disturbed);
	while (!ended(w))
		loop(w);
	member_end(disturbed);
	return NULL;
}

int writers_start(struct home *h)
{
	for (unsigned i = 0; i < h->s->o.writers; i++) {
		struct writer *w = &h->writer[i];
		int rc;

		w->home = h;
		rc = member_start(&w->member, &h->server.server.store, "writer", i, h->s->o.seed, i,
				  write_all, w);
		if (rc)
			return rc;
		h->writers++;
	}
	return 0;
}

void writers_stop(struct home *h)
{
	atomic_store(&h->end, true);
	while (h->writers)
		member_join(&h->writer[--h->writers].member);
}
