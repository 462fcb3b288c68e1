/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Local readers: QSBR threads that look keys up as the server's workers do, hold what they found
 * for a while, and look into the pipe before their quiescent state.
 */
#include <errno.h>
#include <string.h>

#include "common/base/time.h"
#include "server/reclaim/qsbr.h"
#include "tests/stress/torture/home.h"

#define LOCAL_ID     100u /* the first, among the members' */
#define HELD	     16u
#define LONG_ONE_IN  64u /* holds are long: grace periods must wait for them */
#define LONG_HOLD_NS (20 * NS_PER_MS)

struct held {
	struct store_result found;
	uint64_t since;
	uint32_t k;
};

/* Returns whether there is a block to look at again. */
static bool look_up(struct local *l, uint32_t k, struct held *held)
{
	struct model *m = l->home->m;
	char key[MODEL_KEY_MAX];
	uint32_t key_len = model_key(k, key), floor = model_floor(m, k);
	int rc = store_get(&l->member.store, key, key_len, 0, true, &held->found);

	held->since = pipe_now(l->home->s->pipe);
	held->k = k;
	if (rc == 0)
		model_found(m, k, floor, held->found.block->data + key_len, held->found.value_len);
	else if (rc == -ENOENT)
		model_missed(m, k, floor);
	else
		model_wrong(m, WRONG_ERROR, k, "store_get: %s", error_name(rc));
	count(&l->gets, 1);
	return rc == 0;
}

static void look_again(struct local *l, const struct held *held)
{
	const struct store_result *f = &held->found;
	struct pipe_place *at = pipe_at(l->home->s->pipe, f->place.extent, f->place.offset);
	uint64_t state = atomic_load_explicit(&f->block->state, memory_order_acquire);
	enum pipe_stage stage = pipe_stage(at, held->since);

	if (stage == PIPE_FREED)
		model_wrong(l->home->m, WRONG_PIPE, held->k,
			    "its block %u:%u, incarnation %u, was freed before the local reader's "
			    "quiescent state",
			    f->place.extent, f->place.offset, f->incarnation);
	else if (block_state_incarnation(state) != f->incarnation)
		model_wrong(l->home->m, WRONG_CHANGED, held->k,
			    "its block, incarnation %u, became incarnation %u before the local "
			    "reader's quiescent state",
			    f->incarnation, block_state_incarnation(state));
	else
		count(&l->held[stage], 1);
}

static void *read_all(void *arg)
{
	const struct timespec hold = { 0, LONG_HOLD_NS };
	struct local *l = arg;
	struct held held[HELD];

	member_begin(&l->member, l->home->m, true);
	while (!atomic_load(&l->home->end)) {
		unsigned n = 0;

		for (unsigned i = 0; i < HELD; i++)
			n += look_up(l, key_pick(l->home->s, &l->member.random), &held[n]);
		if (model_random(&l->member.random) % LONG_ONE_IN == 0)
			nanosleep(&hold, NULL);
		for (unsigned i = 0; i < n; i++)
			look_again(l, &held[i]);
		qsbr_quiescent();
	}
	member_end(true);
	return NULL;
}

int locals_start(struct home *h)
{
	for (unsigned i = 0; i < h->s->o.locals; i++) {
		struct local *l = &h->local[i];
		int rc;

		l->home = h;
		rc = member_start(&l->member, &h->server.server.store, "local", i, h->s->o.seed,
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
