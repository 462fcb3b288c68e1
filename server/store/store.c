/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* A store and its workers' shares. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/layout/bucket.h"
#include "server/store/store_internal.h"

const struct store_terms store_always;
const struct store_terms store_forced = { .force = true };

#define DEFERRED_SHARE	4u /* of the store, that may wait for grace periods */
#define INDEX_BYTES_MAX (1ull << 50) /* more than any machine has */

/* Say so before memory is filled with an index that it does not hold. @begin: with how much. */
static int check_index_fits(const struct store_config *config, uint64_t *begin, struct error *err)
{
	uint64_t bytes = SEGMENT_BYTES;

	while (bytes / SEGMENT_BYTES * SEGMENT_BUCKETS * BUCKET_SLOTS < config->slots &&
	       bytes < INDEX_BYTES_MAX)
		bytes *= 2;
	if (bytes < EXTENT_BYTES_FIRST)
		bytes = EXTENT_BYTES_FIRST;
	bytes += 2 * EXTENT_BYTES_FIRST; /* of the directory, and of the first records */
	*begin = bytes;
	if (bytes <= config->bytes_max)
		return 0;
	if (config->slots)
		return error_set(
			err, -ENOMEM,
			"a store of %llu bytes is too small: an index of %llu slots, its "
			"directory and the first records need %llu MiB (give more, or fewer "
			"--index-slots)",
			(unsigned long long)config->bytes_max, (unsigned long long)config->slots,
			(unsigned long long)bytes >> 20);
	return error_set(err, -ENOMEM,
			 "a store of %llu bytes is too small: the least is %llu MiB (give more)",
			 (unsigned long long)config->bytes_max, (unsigned long long)bytes >> 20);
}

int store_create(struct store *store, const struct store_config *config, struct error *err)
{
	const struct memory_config memory = {
		.bytes_max = config->bytes_max,
		.extent_bytes_max = config->extent_bytes_max,
		.hooks = config->hooks,
		.hints = true,
	};
	const struct reclaim_config reclaim = {
		.deferred_max = config->deferred_max ? config->deferred_max
						     : config->bytes_max / DEFERRED_SHARE,
		.limit_ms = config->limit_ms,
	};
	const struct index_config index = {
		.slots_min = config->slots,
		.server_incarnation = config->server_incarnation,
	};
	uint64_t begin;
	unsigned first;
	int rc;

	memset(store, 0, sizeof(*store));
	store->hash_seed = config->hash_seed;
	/* No version that a client kept over a restart comes again: no life has more than one
	 * in 256 ns. A log brings versions of its own. */
	atomic_init(&store->version, time_wall_ns() >> 8);
	rc = check_index_fits(config, &begin, err);
	if (rc)
		return rc;
	rc = memory_create(&store->memory, &memory, err);
	if (rc)
		return rc;
	memory_goal(store->memory, begin);
	rc = index_create(&store->index, store->memory, &index, err);
	if (rc)
		goto err_memory;
	rc = memory_extent_add(store->memory, EXTENT_DATA, EXTENT_BYTES_FIRST, &first, err);
	if (rc)
		goto err_index;
	rc = reclaim_create(&store->reclaim, store->memory, &reclaim, err);
	if (rc)
		goto err_index;
	if (config->fill)
		memory_fill(store->memory);
	return 0;

err_index:
	index_destroy(store->index);
err_memory:
	memory_destroy(store->memory);
	memset(store, 0, sizeof(*store));
	return rc;
}

void store_destroy(struct store *store)
{
	if (!store->memory)
		return;
	free(store->pending);
	reclaim_destroy(store->reclaim);
	index_destroy(store->index);
	memory_destroy(store->memory);
	memset(store, 0, sizeof(*store));
}

uint64_t store_now_ns(struct store *s)
{
	uint64_t now_ns = time_wall_ns(), now_ms = now_ns / NS_PER_MS;
	/* relaxed: a time that orders nothing */
	uint64_t floor_ms = atomic_load_explicit(&s->clock_floor_ms, memory_order_relaxed);

	if (now_ms < floor_ms)
		return floor_ms * NS_PER_MS;
	if (s->log && now_ms > floor_ms)
		store_clock_raise(s, now_ms);
	return now_ns;
}

void store_clock_raise(struct store *s, uint64_t ms)
{
	/* relaxed: as above */
	uint64_t floor_ms = atomic_load_explicit(&s->clock_floor_ms, memory_order_relaxed);

	while (ms > floor_ms &&
	       !atomic_compare_exchange_weak_explicit(&s->clock_floor_ms, &floor_ms, ms,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

int store_log_open(struct store *s, struct log *log, uint64_t first_version)
{
	s->pending = calloc(INDEX_LOCKS, sizeof(*s->pending));
	if (!s->pending)
		return -ENOMEM;
	for (unsigned i = 0; i < INDEX_LOCKS; i++)
		CDS_INIT_LIST_HEAD(&s->pending[i]);
	/* relaxed: the workers' threads begin after this */
	atomic_store_explicit(&s->version, first_version, memory_order_relaxed);
	s->log = log;
	return 0;
}

bool store_walk(struct store *s, struct store_walk *walk)
{
	unsigned n;

	walk->count = 0;
	while (walk->count + INDEX_WALK_MAX <= STORE_WALK_MAX) {
		if (!index_walk(s->index, &walk->at, walk->block + walk->count,
				walk->place + walk->count, &n))
			break;
		walk->count += n;
	}
	return walk->count > 0;
}

int store_worker_create(struct store_worker *w, struct store *store, unsigned hazards)
{
	int rc;

	memset(w, 0, sizeof(*w));
	w->store = store;
	rc = memory_cache_create(&w->cache, store->memory);
	if (rc)
		return rc;
	rc = reclaim_worker_create(&w->reclaim, store->reclaim, hazards);
	if (rc)
		memory_cache_destroy(w->cache);
	return rc;
}

void store_worker_destroy(struct store_worker *w)
{
	store_retire_late(w);
	store_sweep_leave(w);
	reclaim_worker_destroy(w->reclaim);
	memory_cache_destroy(w->cache);
}

void store_prefetch(const struct store *store, const struct store_key *keys, unsigned count,
		    bool write)
{
	uint64_t hash[STORE_PREFETCH_MAX];

	assert(count <= STORE_PREFETCH_MAX);
	for (unsigned i = 0; i < count; i++)
		hash[i] = hash_key(store->hash_seed, keys[i].key, keys[i].len);
	index_prefetch(store->index, hash, count, write);
}

bool store_untidy(const struct store *store)
{
	return index_untidy(store->index);
}

bool store_tidy(struct store_worker *w)
{
	struct index_retired retired;
	bool changed;

	if (!reclaim_reserve_index(w->reclaim, SEGMENT_BYTES))
		return false;
	changed = index_tidy(w->store->index, &retired);
	store_retire_all(w, &retired);
	return changed;
}
