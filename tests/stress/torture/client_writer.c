/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A writer by RPC: keys of its own, above those of the other writers, with the public library. It
 * is never stopped nor killed, so that the model knows what was acknowledged.
 */
#include <errno.h>

#include "tests/stress/torture/torture.h"

/*
 * The store is full for now. Returns whether to try again: so from the first time on, @first_ns, 0
 * until then, which may come late where the process itself got no time. A run that has ended
 * meanwhile does not excuse it.
 */
static bool wait_for_memory(struct visitor *r, uint32_t k, uint64_t *first_ns)
{
	uint64_t now = time_now_ns(), waited_ns;

	if (!*first_ns)
		*first_ns = now;
	waited_ns = now - *first_ns;
	if (waited_ns < shared_patience_ns(r->s))
		return !shared_ended(r->s);
	model_wrong(r->s->model, WRONG_STATE, k, "memory did not come back within %llu ms: %s",
		    (unsigned long long)(waited_ns / NS_PER_MS), gkv_error(r->kv));
	return false;
}

static void put(struct visitor *r, unsigned writer, uint32_t k)
{
	static uint8_t value[MODEL_VALUE_MAX + 1];
	struct model *m = r->s->model;
	uint32_t number = model_next_put(m, k), len = model_value_len(m, k, number);
	uint64_t first_ns = 0;
	char key[MODEL_KEY_MAX];
	int rc;

	model_value(m, k, number, value, len);
	model_begin(m, k, number);
	do
		rc = gkv_put(r->kv, key, model_key(k, key), value, len, NULL);
	while (rc == -ENOMEM && wait_for_memory(r, k, &first_ns));
	if (rc == 0)
		model_end(m, writer, k, number, 0, 0);
	else if (rc != -ENOMEM)
		visitor_failed(r, "put", rc, gkv_error(r->kv));
}

static void del(struct visitor *r, unsigned writer, uint32_t k)
{
	struct model *m = r->s->model;
	uint32_t number = model_next_del(m, k);
	uint64_t first_ns = 0;
	char key[MODEL_KEY_MAX];
	int rc;

	model_begin(m, k, number);
	do
		rc = gkv_del(r->kv, key, model_key(k, key));
	while (rc == -ENOMEM && wait_for_memory(r, k, &first_ns));
	if (rc == 0)
		model_end(m, writer, k, number, 0, 0);
	else if (rc != -ENOMEM)
		visitor_failed(r, "del of a key that lives", rc, gkv_error(r->kv));
}

void write_visit(struct visitor *r)
{
	unsigned writer = (unsigned)(r->seat - r->s->seat), first = 0;

	/* Seats of clients come last; each has its keys after those of the other writers. */
	first = (unsigned)r->s->o.keys + (r->s->seats - 1 - writer) * CLIENT_KEYS;
	writer = (unsigned)r->s->o.writers + (r->s->seats - 1 - writer);
	while (!shared_ended(r->s)) {
		uint64_t random = model_random(&r->random);
		uint32_t k = r->s->key[first + random % CLIENT_KEYS];

		if ((random >> 8) % 16 == 0 && model_lives(r->s->model, k))
			del(r, writer, k);
		else
			put(r, writer, k);
		count(&r->seat->counts.puts, 1);
	}
}
