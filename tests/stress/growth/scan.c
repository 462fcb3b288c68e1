/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Remote readers that read everything: scans beside the writers, and all keys once without them. */
#include <stdlib.h>
#include <string.h>

#include "tests/stress/growth/growth.h"

#define SHARE 4096u /* keys that a reader takes at a time to verify */
#define BATCH 64u

struct scan {
	struct shared *s;
	uint32_t step, leave;
	uint32_t *before; /* last operation done on each key when the scan began */
	uint8_t *visits;
	uint64_t visited;
	bool cut; /* ended before its end */
};

/* A key lives throughout where it lived at the start, and no delete has begun since. */
static bool lived(const struct scan *sc, uint32_t k)
{
	return sc->before[k] % 2 && atomic_load(&sc->s->model->key[k].deleted) < sc->before[k];
}

static int visit(void *arg, const void *key, size_t key_len, const void *value,
		 const struct gkv_meta *meta)
{
	struct scan *sc = arg;
	struct model *m = sc->s->model;
	char text[MODEL_KEY_MAX];
	uint32_t k;

	if (model_recognise(m, value, meta->value_len, &k)) {
		if (key_len != model_key(k, text) || memcmp(key, text, key_len))
			model_wrong(m, WRONG_FOREIGN, k, "a scan met its value under another key");
		model_found(m, k, sc->before[k], value, meta->value_len);
		sc->visits[k] += sc->visits[k] < UINT8_MAX;
	}
	if (++sc->visited % 256 == 0)
		sc->cut = atomic_load(&sc->s->step) != sc->step ||
			  atomic_load(&sc->s->leave) != sc->leave || atomic_load(&m->any_wrong);
	return sc->cut;
}

static void judge_visits(const struct scan *sc)
{
	struct model *m = sc->s->model;

	for (uint32_t k = 0; k < m->keys; k++) {
		if (sc->visits[k] != 1 && lived(sc, k))
			model_wrong(m, WRONG_SCAN, k,
				    "a scan visited it %u times; operation %u was done before",
				    sc->visits[k], sc->before[k]);
	}
}

void remote_scan(struct visitor *r, uint32_t step)
{
	struct shared *s = r->s;
	struct scan sc = { .s = s, .step = step, .leave = atomic_load(&s->leave) };
	struct seat_counts *c = &r->seat->counts;
	uint64_t segments = atomic_load(&s->segments);
	int rc;

	sc.before = malloc(s->model->keys * sizeof(*sc.before));
	sc.visits = calloc(s->model->keys, 1);
	if (!sc.before || !sc.visits) {
		model_wrong(s->model, WRONG_ERROR, MODEL_NO_KEY, "out of memory for a scan");
		goto out;
	}
	for (uint32_t k = 0; k < s->model->keys; k++)
		sc.before[k] = atomic_load(&s->model->key[k].done);
	rc = gkv_scan(r->kv, NULL, visit, &sc);
	if (rc < 0)
		visitor_failed(r, "scan", rc, gkv_error(r->kv));
	if (rc == 0) {
		judge_visits(&sc);
		atomic_fetch_add(&c->scans, 1);
		if (segments != atomic_load(&s->segments))
			atomic_fetch_add(&c->scans_changed, 1);
		atomic_fetch_add(&c->phase_work, 1);
	}
	atomic_fetch_add(&c->gets, sc.visited);
out:
	free(sc.before);
	free(sc.visits);
}

/* Nobody writes: exactly the last operation done. */
static void verify_batch(struct visitor *r, uint32_t first, uint32_t count)
{
	static uint8_t values[BATCH][MODEL_VALUE_MAX + 1];
	static char keys[BATCH][MODEL_KEY_MAX];
	struct gkv_item item[BATCH];
	int rc;

	for (uint32_t i = 0; i < count; i++)
		item[i] = (struct gkv_item){ .key = keys[i],
					     .key_len = model_key(first + i, keys[i]),
					     .value = values[i],
					     .cap = sizeof(values[i]) };
	rc = gkv_mget(r->kv, item, count);
	if (rc)
		visitor_failed(r, "mget", rc, gkv_error(r->kv));
	for (uint32_t i = 0; i < count && rc == 0; i++)
		visitor_judge(r, first + i, model_floor(r->s->model, first + i), item[i].status,
			      item[i].value, item[i].len);
}

void remote_verify(struct visitor *r)
{
	struct shared *s = r->s;
	uint32_t keys = s->model->keys, first, end;

	while ((first = atomic_fetch_add(&s->verify_next, SHARE)) < keys &&
	       !atomic_load(&s->model->any_wrong)) {
		end = keys - first < SHARE ? keys : first + SHARE;
		for (uint32_t k = first; k < end; k += BATCH)
			verify_batch(r, k, end - k < BATCH ? end - k : BATCH);
	}
}
