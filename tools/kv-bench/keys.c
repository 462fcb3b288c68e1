/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-bench/keys.h"

#include <errno.h>
#include <stdlib.h>

int key_space_init(struct key_space *k, uint64_t records, uint64_t inserts)
{
	*k = (struct key_space){ .records = records,
				 .most = records + inserts,
				 .lock = PTHREAD_MUTEX_INITIALIZER };
	atomic_init(&k->next, records);
	atomic_init(&k->limit, records);
	k->there = calloc(inserts / 8 + 1, 1);
	return k->there ? 0 : -ENOMEM;
}

void key_space_free(struct key_space *k)
{
	free(k->there);
	k->there = NULL;
}

bool key_space_take(struct key_space *k, uint64_t *number)
{
	/* may go beyond most, by as many as there are threads */
	*number = atomic_fetch_add_explicit(&k->next, 1, memory_order_relaxed);
	return *number < k->most;
}

static bool is_there(const struct key_space *k, uint64_t i)
{
	return k->there[i / 8] >> (i % 8) & 1;
}

void key_space_acknowledge(struct key_space *k, uint64_t number)
{
	uint64_t i = number - k->records, limit;

	pthread_mutex_lock(&k->lock);
	k->there[i / 8] |= (uint8_t)(1u << (i % 8));
	limit = atomic_load_explicit(&k->limit, memory_order_relaxed);
	while (limit < k->most && is_there(k, limit - k->records))
		limit++;
	/* pairs with key_choose(): a record before the number that leads to it */
	atomic_store_explicit(&k->limit, limit, memory_order_release);
	pthread_mutex_unlock(&k->lock);
}

uint64_t key_choose(struct key_chooser *c, uint64_t random)
{
	/* pairs with key_space_acknowledge() */
	uint64_t limit = atomic_load_explicit(&c->space->limit, memory_order_acquire);

	switch (c->distribution) {
	case DIST_ZIPFIAN:
		return zipf_scatter(&c->zipf, zipf_rank(&c->zipf, random));
	case DIST_LATEST:
		if (limit > c->zipf.n)
			zipf_grow(&c->zipf, limit);
		return limit - 1 - zipf_rank(&c->zipf, random);
	default:
		return (uint64_t)((unsigned __int128)random * limit >> 64);
	}
}
