/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Which keys there are. An index begins with many segments, and a few thousand keys would never
 * split one: so they are chosen by their hashes, to fall into two of them.
 */
#include <errno.h>

#include "common/base/hash.h"
#include "common/layout/bucket.h"
#include "tests/stress/torture/torture.h"

#define KEYS_NEAR 256u /* of one writer, on each side of where it is */
#define KEYS_NEXT 8u

int keys_choose(struct shared *s, uint64_t hash_seed)
{
	uint32_t n = 0, wanted = (uint32_t)(s->o.keys + s->o.clients * CLIENT_KEYS);

	for (uint32_t k = 0; k < s->model->keys && n < wanted; k++) {
		char text[MODEL_KEY_MAX];
		uint32_t len = model_key(k, text);

		if (hash_prefix(hash_key(hash_seed, text, len), KEYS_PREFIX_BITS) == 0)
			s->key[n++] = k;
	}
	return n == wanted ? 0 : -ENOENT; /* twice as many as needed were looked at */
}

/* One of the keys that a writer has just put, or deletes or puts next. */
static uint64_t near_frontier(const struct shared *s, uint64_t r, uint32_t near)
{
	uint32_t writers = (uint32_t)s->o.writers, span = near * writers;
	/* relaxed: which keys are worth reading */
	uint64_t f = atomic_load_explicit(&s->frontier[r % writers], memory_order_relaxed);

	return ((f > span ? f - span : 0) + (r >> 8) % (2 * span)) % s->o.keys;
}

uint32_t torture_pick(const struct shared *s, uint64_t *random)
{
	uint64_t r = model_random(random), keys = s->o.keys, n;

	switch (r & 7) {
	case 0:
		n = (r >> 3) % s->o.keep;
		break;
	case 1:
		n = near_frontier(s, r >> 3, KEYS_NEAR);
		break;
	case 2:
		n = near_frontier(s, r >> 3, KEYS_NEXT);
		break;
	case 3:
		n = (r >> 3) % keys;
		break;
	case 4: /* those of the writers by RPC */
		if (s->o.clients) {
			n = keys + (r >> 3) % (s->o.clients * CLIENT_KEYS);
			break;
		}
		/* fall through */
	default:
		n = (r >> 3) % s->o.hot;
	}
	return s->key[n];
}
