/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Writers: threads that write straight into the server's store, as its workers do. Each has the
 * keys whose numbers leave its own number when divided by the number of writers. It brings them
 * to the goal, changing others of its keys all the while, and goes on changing keys when it has
 * come there.
 */
#include <errno.h>
#include <string.h>

#include "tests/stress/home.h"

#define LOOP_OPS     8u /* between two quiescent states */
#define GROWTH_WAITS 1200u /* a minute */
#define NAP_US	     1000u
#define FULL_WAITS   30000u /* of a millisecond */

/* Nothing found by a look-up is held. Returns whether to try again. */
static bool wait_for_memory(struct writer *w, int rc, unsigned *waits)
{
	if (++*waits >= (rc == -EAGAIN ? GROWTH_WAITS : FULL_WAITS))
		return false;
	/* What is retired comes back when the readers that were there have gone. */
	if (rc != -EAGAIN && *waits % 16 == 1)
		atomic_fetch_add(&w->home->s->leave, 1);
	if (!member_wait(&w->member, rc))
		return false;
	count(rc == -EAGAIN ? &w->grown : &w->full, 1);
	return true;
}

static void failed(struct writer *w, uint32_t k, const char *what, int rc)
{
	model_wrong(w->home->m, WRONG_ERROR, k, "%s: %s", what, error_name(rc));
}

static void put(struct writer *w, uint32_t k)
{
	struct model *m = w->home->m;
	uint32_t number = model_next_put(m, k);
	struct store_result result;
	unsigned waits = 0;
	int rc;

	model_begin(m, k, number);
	do
		rc = member_put(&w->member, m, k, number, &result);
	while (rc && wait_for_memory(w, rc, &waits));
	if (rc) {
		failed(w, k, "store_put", rc);
		return;
	}
	w->published = result.place;
	w->incarnation = result.incarnation;
	watch_block(w->home->watch, result.place, result.incarnation);
	model_end(m, w->member.number, k, number,
		  (uint64_t)result.place.extent << 32 | result.place.offset, result.incarnation);
	count(&w->puts, 1);
	if (result.incarnation > 1)
		count(&w->reused, 1);
}

static void del(struct writer *w, uint32_t k)
{
	struct model *m = w->home->m;
	uint32_t number = model_next_del(m, k);
	struct store_result result;
	char key[MODEL_KEY_MAX];
	unsigned waits = 0;
	int rc;

	model_begin(m, k, number);
	do
		rc = store_del(&w->member.store, key, model_key(k, key), &store_always, &result);
	while (rc && wait_for_memory(w, rc, &waits));
	if (rc) {
		failed(w, k, "store_del of a key that lives", rc);
		return;
	}
	model_end(m, w->member.number, k, number, 0, 0);
	count(&w->dels, 1);
}

static uint32_t key_of(const struct writer *w, uint32_t own)
{
	return own * (uint32_t)w->home->s->o.writers + w->member.number;
}

/* How many of the keys below @limit are its own. */
static uint32_t owned(const struct writer *w, uint32_t limit)
{
	uint32_t writers = (uint32_t)w->home->s->o.writers;

	return limit > w->member.number ? (limit - w->member.number + writers - 1) / writers : 0;
}

/* Overwrite, delete or insert again one of the keys that are in use, often one that stays. */
static void change(struct writer *w)
{
	uint64_t r = model_random(&w->member.random);
	uint32_t keep = owned(w, (uint32_t)w->home->s->o.keep), k;
	uint32_t range = r % 4 == 0 && keep < w->frontier ? keep : w->frontier;

	if (!range)
		return;
	k = key_of(w, (uint32_t)((r >> 8) % range));
	if ((r >> 2) % 4 == 0 && model_lives(w->home->m, k))
		del(w, k);
	else
		put(w, k);
}

/* One key nearer to @target. Returns false where it is there. */
static bool approach(struct writer *w, uint32_t target)
{
	uint32_t own = owned(w, target), k;

	if (w->frontier < own) {
		put(w, key_of(w, w->frontier++));
	} else if (w->frontier > own) {
		k = key_of(w, --w->frontier);
		if (model_lives(w->home->m, k))
			del(w, k);
	} else {
		return false;
	}
	/* relaxed: which keys are worth reading */
	atomic_store_explicit(&w->home->s->frontier[w->member.number],
			      w->frontier * (uint32_t)w->home->s->o.writers, memory_order_relaxed);
	return true;
}

/* Write a value into key @k that is not the one that the model expects. */
static void put_wrong(struct writer *w, uint32_t k, uint32_t of, uint32_t number, bool torn)
{
	const struct model *m = w->home->m;
	uint32_t len = model_value_len(m, of, number), key_len;
	struct store_result result;
	struct store_put p;
	char key[MODEL_KEY_MAX];

	key_len = model_key(k, key);
	if (store_put_begin(&w->member.store, key, key_len, len, 0, &p))
		return;
	model_value(m, of, number, p.block->data + key_len, len);
	p.block->data[key_len + len - 1] ^= torn;
	store_put_commit(&w->member.store, &p, &store_always, &result);
}

/*
 * For --lie: one thing that the store must never do, done to a key that lives. Returns whether it
 * was. Last in the phase, and to its last key: no other operation makes it good again.
 */
static bool lie(struct writer *w, const char *what)
{
	const struct model *m = w->home->m;
	uint32_t k, done = 0;
	struct store_result result;
	char key[MODEL_KEY_MAX];

	for (k = w->frontier; k > 0 && done < 3; k--)
		done = model_lives(m, key_of(w, k - 1))
			       ? atomic_load(&m->key[key_of(w, k - 1)].done)
			       : 0;
	if (done < 3)
		return false; /* no key has a value of before */
	k = key_of(w, k);
	if (strcmp(what, "miss") == 0)
		store_del(&w->member.store, key, model_key(k, key), &store_forced, &result);
	else if (strcmp(what, "stale") == 0)
		put_wrong(w, k, k, done - 2, false);
	else if (strcmp(what, "early") == 0)
		put_wrong(w, k, k, done + 2, false);
	else if (strcmp(what, "foreign") == 0)
		put_wrong(w, k, k ? k - 1 : 1, done, false);
	else if (strcmp(what, "torn") == 0)
		put_wrong(w, k, k, done, true);
	else if (strcmp(what, "twice") == 0)
		watch_block(w->home->watch, w->published, w->incarnation);
	return true;
}

static void *write_all(void *arg)
{
	struct writer *w = arg;
	struct goal *goal = &w->home->goal;
	bool lied = w->member.number || strcmp(w->home->s->o.lie, "none") == 0;
	uint32_t number;

	member_begin(&w->member, w->home->m, w->home->s->o.disturb);
	while (!atomic_load(&goal->end)) {
		number = atomic_load(&goal->number);
		if (!number || atomic_load(&goal->pause) || atomic_load(&w->home->m->any_wrong)) {
			if (number > 1 && atomic_load(&goal->pause) && !lied)
				lied = lie(w, w->home->s->o.lie);
			member_nap(&w->member, NAP_US);
			atomic_store(&w->paused, true);
			continue;
		}
		atomic_store(&w->paused, false);
		for (unsigned i = 0; i < LOOP_OPS; i++) {
			if (!approach(w, atomic_load(&goal->target)))
				atomic_store(&w->reached, number);
			if (i % 2)
				change(w);
		}
		member_quiescent(&w->member);
	}
	member_end(w->home->s->o.disturb);
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
	atomic_store(&h->goal.end, true);
	while (h->writers)
		member_join(&h->writer[--h->writers].member);
}
