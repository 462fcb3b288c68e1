/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/stress/member.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "common/base/error.h"
#include "common/base/time.h"
#include "server/reclaim/qsbr.h"
#include "tests/stress/disturb.h"

#define TIDY_NS	  (100 * NS_PER_MS)
#define GROWTH_MS 50u
#define NAP_US	  1000u

int member_launch(struct member *b, struct store *store, const char *kind, unsigned number,
		  uint64_t seed, unsigned id, void *(*main)(void *), void *arg)
{
	int rc = store_worker_create(&b->store, store, 0);

	if (rc)
		return rc;
	b->number = number;
	b->seed = seed ^ id;
	b->random = model_mix(b->seed);
	snprintf(b->name, sizeof(b->name), "%s %u", kind, number);
	rc = -pthread_create(&b->thread, NULL, main, arg);
	if (rc)
		store_worker_destroy(&b->store);
	return rc;
}

void member_join(struct member *b)
{
	pthread_join(b->thread, NULL);
	store_worker_destroy(&b->store);
}

void member_begin(struct member *b, struct model *m, bool disturb)
{
	int rc;

	model_who(b->name);
	rc = disturb ? disturb_start(b->seed) : 0;
	if (rc)
		model_wrong(m, WRONG_ERROR, MODEL_NO_KEY, "starting a timer: %s", error_name(rc));
	qsbr_register();
}

void member_end(bool disturb)
{
	qsbr_unregister();
	if (disturb)
		disturb_stop();
}

void member_tidy(struct member *b)
{
	uint64_t now = time_now_ns();

	if (store_untidy(b->store.store) && now >= b->tidy_at_ns && !store_tidy(&b->store))
		b->tidy_at_ns = now + TIDY_NS;
}

void member_quiescent(struct member *b)
{
	member_tidy(b);
	reclaim_poll(b->store.reclaim, time_now_ns());
	qsbr_quiescent();
}

void member_nap(struct member *b, uint64_t us)
{
	const struct timespec pause = { (time_t)(us / 1000000), (long)(us % 1000000 * 1000) };

	member_tidy(b);
	reclaim_poll(b->store.reclaim, time_now_ns());
	qsbr_offline();
	nanosleep(&pause, NULL);
	qsbr_online();
}

int member_put(struct member *b, const struct model *m, uint32_t k, uint32_t number,
	       struct store_result *out)
{
	uint32_t len = model_value_len(m, k, number), key_len;
	char key[MODEL_KEY_MAX];
	struct store_put p;
	int rc;

	key_len = model_key(k, key);
	rc = store_put_begin(&b->store, key, key_len, len, 0, &p);
	if (rc)
		return rc;
	model_value(m, k, number, p.block->data + key_len, len);
	rc = store_put_commit(&b->store, &p, &store_always, out);
	if (rc == -EAGAIN)
		store_put_abort(&b->store, &p);
	return rc;
}

bool member_wait(struct member *b, int rc)
{
	struct store *store = b->store.store;

	if (rc == -EAGAIN) {
		qsbr_offline();
		memory_growth_wait(store->memory, GROWTH_MS);
		qsbr_online();
		return true;
	}
	if (rc != -ENOMEM && rc != -EBUSY)
		return false;
	reclaim_wanting(store->reclaim);
	member_nap(b, NAP_US);
	return true;
}
