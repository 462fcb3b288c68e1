/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Many keys in one call: each is an operation of its own, all of them as long as the call. */
#include "tests/linearizability/client/actor.h"

static unsigned prepare(struct actor *a, struct gkv_item *items, uint32_t kinds, bool written)
{
	unsigned n = 2 + (unsigned)actor_below(a, ACTOR_BATCH - 1);

	for (unsigned i = 0; i < n; i++) {
		struct attempt *d = &a->batch[i];

		attempt_choose(a, d, kinds);
		items[i] = (struct gkv_item){ .key = d->key,
					      .key_len = d->key_len,
					      .value = d->place,
					      .cap = VALUE_BYTES_MAX,
					      .len = written ? d->len : 0,
					      .options = attempt_options(d) };
	}
	for (unsigned i = 0; i < n; i++)
		actor_begins(a, &a->batch[i], HISTORY_BATCH);
	return n;
}

static void finish(struct actor *a, const struct gkv_item *items, unsigned n, const char *why)
{
	for (unsigned i = 0; i < n; i++)
		actor_ends(a, &a->batch[i], items[i].status, items[i].value, items[i].len,
			   items[i].meta.version, 0, why);
}

void batch_step(struct actor *a)
{
	struct gkv *kv = actor_below(a, 4) ? a->kv : a->plain;
	struct gkv_item items[ACTOR_BATCH];
	unsigned n;

	switch (actor_below(a, 8)) {
	case 0:
		n = prepare(a, items, ATTEMPT_PUTS | ATTEMPT_CAS, true);
		gkv_mput(kv, items, n); /* each item has its status, whatever it returns */
		break;
	case 1:
		n = prepare(a, items, ATTEMPT_DELS, false);
		gkv_mdel(kv, items, n);
		break;
	default:
		n = prepare(a, items, 1u << HISTORY_GET, false);
		gkv_mget(kv, items, n);
	}
	finish(a, items, n, gkv_error(kv));
}
