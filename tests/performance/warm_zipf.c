/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * READs for each GET by Zipf's law: counted, not timed. A server with some keys, then with more of
 * them; each time a new session, so that nothing is remembered at first. Rounds of as many GETs as
 * there are keys, or more where these are few, warm up, until a round needs hardly fewer READs than
 * the one before; then come the rounds that count.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/layout/block.h"
#include "common/layout/size_code.h"
#include "tools/lib/progress.h"
#include "tools/lib/store.h"
#include "tests/performance/warm_bench.h"
#include "tools/lib/zipf.h"

#define THETA	    0.99
#define GROUP	    64u /* keys of one gkv_mget() while it warms up */
#define STEADY	    0.0005 /* READs per GET that a round still wins, at most */
#define WARM_ROUNDS 100u /* at most */
#define ROUND_MIN   65536u /* GETs; all of few keys are asked for then */
#define ROUND_MAX   2000000u /* of a round that counts */
#define SLICE	    65536u /* GETs between two words of progress */

struct rounds {
	struct warm_bench *b;
	struct zipf zipf;
	char what[60];
};

static void next_key(struct rounds *r, char key[WARM_KEY_LEN])
{
	warm_key(&r->b->keys,
		 zipf_scatter(&r->zipf, zipf_rank(&r->zipf, bench_random(&r->b->seed))), key);
}

static int get_group(struct rounds *r, unsigned n)
{
	char key[GROUP][WARM_KEY_LEN], value[GROUP][sizeof(uint64_t)];
	struct gkv_item item[GROUP];
	int rc;

	for (unsigned i = 0; i < n; i++) {
		next_key(r, key[i]);
		item[i].key = key[i];
		item[i].key_len = r->b->keys.key_len;
		item[i].value = value[i];
		item[i].cap = sizeof(value[i]);
	}
	rc = gkv_mget(r->b->kv, item, n);
	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = item[i].status;
	return rc;
}

static int get_one(struct rounds *r, unsigned n)
{
	char key[WARM_KEY_LEN], value[sizeof(uint64_t)], wanted[WARM_VALUE_MAX];
	size_t len;
	int rc = 0;

	for (unsigned i = 0; i < n && rc == 0; i++) {
		uint64_t number;

		next_key(r, key);
		rc = gkv_get(r->b->kv, key, r->b->keys.key_len, value, sizeof(value), &len);
		memcpy(&number, key, sizeof(number));
		warm_value(&r->b->keys, number, wanted);
		if (rc == 0 && (len != sizeof(value) || memcmp(value, wanted, len) != 0))
			rc = -EBADMSG;
	}
	return rc;
}

/* @count GETs; READs for each of them. */
static int round_of(struct rounds *r, int (*get)(struct rounds *r, unsigned n), uint64_t count,
		    double *reads)
{
	struct gkv_stats before, after;
	int rc = 0;

	gkv_stats_get(r->b->kv, &before);
	for (uint64_t i = 0; i < count && rc == 0; i += GROUP) {
		if (i % SLICE == 0)
			progress_show(r->what, i, count);
		rc = get(r, count - i < GROUP ? (unsigned)(count - i) : GROUP);
	}
	gkv_stats_get(r->b->kv, &after);
	*reads = (double)(after.reads - before.reads) / (double)count;
	return rc;
}

static int warm_up(struct rounds *r, struct warm_zipf *z)
{
	uint64_t count = z->keys > ROUND_MIN ? z->keys : ROUND_MIN;
	double reads = 0, before;
	int rc;

	do {
		before = reads;
		snprintf(r->what, sizeof(r->what),
			 "zipf, %" PRIu64 " keys, warming up, round %" PRIu64, z->keys,
			 z->warm_rounds + 1);
		rc = round_of(r, get_group, count, &reads);
		if (z->warm_rounds++ == 0)
			z->cold = reads;
		z->warm_gets += count;
	} while (rc == 0 && z->warm_rounds < WARM_ROUNDS &&
		 (z->warm_rounds < 2 || before - reads > STEADY));
	return rc;
}

static int steady(struct rounds *r, struct warm_zipf *z)
{
	struct gkv_session_stats s;
	struct gkv_stats before, after;
	int rc = 0;
	uint64_t count = z->keys < ROUND_MIN   ? ROUND_MIN
			 : z->keys < ROUND_MAX ? z->keys
					       : ROUND_MAX;

	gkv_stats_get(r->b->kv, &before);
	for (uint64_t i = 0; i < r->b->o.rounds && rc == 0; i++) {
		snprintf(r->what, sizeof(r->what), "zipf, %" PRIu64 " keys, round %" PRIu64,
			 z->keys, i + 1);
		rc = round_of(r, get_one, count, &z->reads[i]);
	}
	gkv_stats_get(r->b->kv, &after);
	gkv_session_stats_get(r->b->session, &s);
	z->gets = after.gets - before.gets;
	if (z->gets) {
		z->hit_rate = (double)(after.hint_hits - before.hint_hits) / (double)z->gets;
		z->stale_rate = (double)(after.hint_stale - before.hint_stale) / (double)z->gets;
	}
	z->retries = after.retry_obsolete + after.retry_checksum + after.retry_directory -
		     before.retry_obsolete - before.retry_checksum - before.retry_directory;
	z->fallbacks = after.rpc_fallbacks - before.rpc_fallbacks;
	z->hints = s.hints;
	z->hint_bytes = s.hint_bytes;
	return rc;
}

static int some_keys(struct warm_bench *b, uint64_t loaded, uint64_t keys)
{
	struct warm_zipf *z = &b->zipf[b->zipfs++];
	struct rounds r = { .b = b };
	char why[ERROR_TEXT_MAX];
	int rc = warm_connect(b, 0);

	z->keys = b->keys.count = keys;
	zipf_init(&r.zipf, keys, THETA);
	if (rc == 0 && warm_load(b->session, &b->keys, loaded, why, sizeof(why)))
		rc = warm_failed("loading", why);
	bench_store_close(b->session, b->kv);
	if (rc == 0)
		rc = warm_connect(b, b->o.hint_bytes);
	if (rc)
		return rc;
	rc = warm_up(&r, z);
	if (rc == 0)
		rc = steady(&r, z);
	progress_clear();
	if (rc)
		rc = warm_failed("reading", gkv_strerror(rc));
	bench_store_close(b->session, b->kv);
	b->session = NULL;
	b->kv = NULL;
	return rc;
}

int warm_zipf(struct warm_bench *b)
{
	uint64_t most = b->o.zipf_keys > b->o.keys ? b->o.zipf_keys : b->o.keys;
	uint32_t len = sizeof(uint64_t);
	int rc;

	b->keys = (struct warm_keys){ .key_len = len, .value_len = len };
	rc = warm_server(b, most, size_code_bytes(size_code_for(block_bytes(len, len))));
	if (rc == 0)
		rc = some_keys(b, 0, b->o.keys);
	if (rc == 0 && most > b->o.keys)
		rc = some_keys(b, b->o.keys, most);
	return warm_server_end(b, rc);
}
