/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* GETs in flight: WARM_DEPTH of them all the time, each followed by the next as it completes. */
#include <errno.h>

#include "tests/performance/warm_bench.h"

static char value[WARM_DEPTH][WARM_VALUE_MAX];

/* All that is not the same for each of them. */
static void ask(struct warm_bench *b, struct gkv_request *request, void *place)
{
	request->key = warm_next_step(b)->key;
	request->value = request->user = place;
}

static int judge(const struct warm_bench *b, const struct gkv_completion *c)
{
	return c->status ? c->status : c->len == b->keys.value_len ? 0 : -EBADMSG;
}

static int submit(struct warm_bench *b, const struct gkv_request *request, unsigned count)
{
	int n = count ? gkv_submit(b->kv, request, count) : 0;

	return n < 0 ? n : (unsigned)n == count ? 0 : -EAGAIN; /* there was room for all of them */
}

int warm_async(struct warm_bench *b, unsigned count)
{
	struct gkv_completion done[WARM_DEPTH];
	struct gkv_request request[WARM_DEPTH];
	unsigned asked = count < WARM_DEPTH ? count : WARM_DEPTH, completed = 0;
	int rc;

	for (unsigned i = 0; i < WARM_DEPTH; i++)
		request[i] = (struct gkv_request){
			.op = GKV_OP_GET,
			.key_len = WARM_KEY_LEN,
			.len = sizeof(value[i]),
		};
	for (unsigned i = 0; i < asked; i++)
		ask(b, &request[i], value[i]);
	rc = submit(b, request, asked);
	while (rc == 0 && completed < count) {
		int n = gkv_poll(b->kv, done, WARM_DEPTH);
		unsigned more = 0;

		if (n < 0)
			return n;
		for (int i = 0; i < n && rc == 0; i++) {
			rc = judge(b, &done[i]);
			if (asked + more < count)
				ask(b, &request[more++], done[i].user);
		}
		completed += (unsigned)n;
		asked += more;
		if (rc == 0)
			rc = submit(b, request, more);
	}
	return rc;
}
