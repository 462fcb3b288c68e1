/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A writer of stress brings its keys to the goal, changing others of them all the while, and goes
 * on changing keys when it has come there.
 */
#include <string.h>

#include "tests/stress/growth/growth.h"

#define LOOP_OPS 8u /* between two quiescent states */
#define NAP_US	 1000u

void growth_published(struct writer *w, uint32_t k, const struct store_result *result)
{
	(void)k;
	w->published = result->place;
	w->incarnation = result->incarnation;
	watch_block(w->home->watch, result->place, result->incarnation);
}

/* One of the keys that are in use, often one that stays. */
static void change(struct writer *w)
{
	uint64_t r = model_random(&w->member.random);
	uint32_t keep = writer_owned(w, w->home->s->o.keep);

	writer_change(w, r % 4 == 0 && keep < w->frontier ? keep : w->frontier, (r >> 2) % 4 == 0);
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
		done = model_lives(m, writer_key(w, k - 1))
			       ? atomic_load(&m->key[writer_key(w, k - 1)].done)
			       : 0;
	if (done < 3)
		return false; /* no key has a value of before */
	k = writer_key(w, k);
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

void growth_write(struct writer *w)
{
	struct home *h = w->home;
	struct goal *goal = &h->goal;
	bool lied = w->member.number || strcmp(h->s->o.lie, "none") == 0;
	uint32_t number;

	while (!atomic_load(&h->end)) {
		number = atomic_load(&goal->number);
		if (!number || atomic_load(&goal->pause) || atomic_load(&h->m->any_wrong)) {
			if (number > 1 && atomic_load(&goal->pause) && !lied)
				lied = lie(w, h->s->o.lie);
			member_nap(&w->member, NAP_US);
			atomic_store(&w->paused, true);
			continue;
		}
		atomic_store(&w->paused, false);
		for (unsigned i = 0; i < LOOP_OPS; i++) {
			if (!writer_approach(w, atomic_load(&goal->target)))
				atomic_store(&w->reached, number);
			if (i % 2)
				change(w);
		}
		member_quiescent(&w->member);
	}
}
