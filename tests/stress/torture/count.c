/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The big count: look-ups of a few keys that are overwritten all the while, in batches, as fast as
 * they go, by several handles of a session. Each block that a bucket named is READ inside its
 * section; one with a wrong checksum is what must never be. That it was OBSOLETE is fine.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/src/link/handle.h"
#include "tests/stress/torture/torture.h"

#define BATCH	     64u
#define HANDLES	     2u
#define JUDGE_ONE_IN 16u /* batches, whose values are looked at byte by byte */

struct counter {
	struct visitor r;
	pthread_t thread;
	char keys[BATCH][MODEL_KEY_MAX];
	uint8_t values[BATCH][MODEL_VALUE_MAX + 1];
};

/* One batch; of most of them only whether the library found what it asked for. */
static void count_one(struct counter *c)
{
	struct visitor *r = &c->r;
	bool judged = model_random(&r->random) % JUDGE_ONE_IN == 0;
	struct gkv_item item[BATCH];
	uint32_t k[BATCH], floor[BATCH];
	uint64_t found = 0;
	int rc;

	for (unsigned i = 0; i < BATCH; i++) {
		k[i] = r->s->key[model_random(&r->random) % r->s->o.hot];
		item[i] = (struct gkv_item){ .key = c->keys[i],
					     .key_len = model_key(k[i], c->keys[i]),
					     .value = c->values[i],
					     .cap = judged ? sizeof(c->values[i]) : 0 };
		floor[i] = judged ? model_floor(r->s->model, k[i]) : 0;
	}
	rc = gkv_mget(r->kv, item, BATCH);
	if (rc)
		visitor_failed(r, "mget", rc, gkv_error(r->kv));
	for (unsigned i = 0; i < BATCH && rc == 0; i++) {
		if (judged)
			visitor_judge(r, k[i], floor[i], item[i].status, item[i].value,
				      item[i].len);
		else if (item[i].status != -ENOENT)
			found++;
		else /* it was put before anyone read, and nobody deletes */
			model_wrong(r->s->model, WRONG_MISS, k[i], "one of a batch");
	}
	if (!judged) {
		count(&r->seat->counts.gets, BATCH);
		count(&r->seat->counts.found, found);
	}
	count(&r->s->counted, BATCH);
}

static void *count_all(void *arg)
{
	struct counter *c = arg;
	struct visitor *r = &c->r;
	uint64_t torn;

	model_who(r->seat->name);
	while (!shared_ended(r->s)) {
		count_one(c);
		torn = r->kv->reader.stats.retry_checksum;
		if (torn)
			model_wrong(r->s->model, WRONG_CHECKSUM, MODEL_NO_KEY,
				    "%llu blocks that were reached inside sections had a wrong "
				    "checksum, in %llu look-ups of this handle",
				    (unsigned long long)torn,
				    (unsigned long long)r->kv->reader.stats.gets);
	}
	return NULL;
}

void count_visit(struct visitor *r)
{
	static struct counter counters[HANDLES]; /* too large for a stack */
	unsigned n = 0;
	char why[640] = "out of threads";
	int rc = 0;

	for (; n < HANDLES && rc == 0; n++) {
		struct counter *c = &counters[n];

		c->r = *r;
		c->r.random ^= n;
		if (n)
			rc = gkv_open(r->session, NULL, &c->r.kv, why, sizeof(why));
		if (rc == 0)
			rc = -pthread_create(&c->thread, NULL, count_all, c);
		if (rc)
			break;
	}
	if (rc)
		visitor_failed(r, "starting a thread with a handle", rc, why);
	while (n) {
		struct counter *c = &counters[--n];

		pthread_join(c->thread, NULL);
		if (n) {
			visitor_stats(&c->r);
			gkv_close(c->r.kv);
		}
	}
}
