/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/store/store.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/mutant.h"
#include "common/layout/bucket.h"
#include "common/layout/size_code.h"
#include "common/layout/slot.h"
#include "server/memory/size_class.h"

#define SPLITS_MAX (2 * DEPTH_MAX) /* of one PUT: others may merge meanwhile */

#define DEFERRED_SHARE	4u /* of the store, that may wait for grace periods */
#define INDEX_BYTES_MAX (1ull << 50) /* more than any machine has */

/* Say so before memory is filled with an index that it does not hold. */
static int check_index_fits(const struct store_config *config, struct error *err)
{
	uint64_t bytes = SEGMENT_BYTES;

	while (bytes / SEGMENT_BYTES * SEGMENT_BUCKETS * BUCKET_SLOTS < config->slots &&
	       bytes < INDEX_BYTES_MAX)
		bytes *= 2;
	if (bytes < EXTENT_BYTES_FIRST)
		bytes = EXTENT_BYTES_FIRST;
	bytes += 2 * EXTENT_BYTES_FIRST; /* of the directory, and of the first records */
	if (bytes <= config->bytes_max)
		return 0;
	if (config->slots)
		return error_set(
			err, -ENOMEM,
			"a store of %llu bytes is too small: an index of %llu slots, its "
			"directory and the first records need %llu MiB (give more --memory, "
			"or fewer --index-slots)",
			(unsigned long long)config->bytes_max, (unsigned long long)config->slots,
			(unsigned long long)bytes >> 20);
	return error_set(err, -ENOMEM,
			 "a store of %llu bytes is too small: the least is %llu MiB (give more "
			 "--memory)",
			 (unsigned long long)config->bytes_max, (unsigned long long)bytes >> 20);
}

int store_create(struct store *store, const struct store_config *config, struct error *err)
{
	const struct memory_config memory = {
		.bytes_max = config->bytes_max,
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
	unsigned first;
	int rc;

	memset(store, 0, sizeof(*store));
	store->hash_seed = config->hash_seed;
	rc = check_index_fits(config, err);
	if (rc)
		return rc;
	rc = memory_create(&store->memory, &memory, err);
	if (rc)
		return rc;
	rc = index_create(&store->index, store->memory, &index, err);
	if (rc)
		goto err_memory;
	rc = memory_extent_add(store->memory, EXTENT_DATA, EXTENT_BYTES_FIRST, &first, err);
	if (rc)
		goto err_index;
	rc = reclaim_create(&store->reclaim, store->memory, &reclaim, err);
	if (rc)
		goto err_index;
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
	reclaim_destroy(store->reclaim);
	index_destroy(store->index);
	memory_destroy(store->memory);
	memset(store, 0, sizeof(*store));
}

static uint32_t hit_bytes(const struct index_hit *hit)
{
	return size_code_bytes(slot_size_code(hit->slot));
}

static void retire(struct store_worker *w, const struct index_hit *old)
{
	struct memory_place place = { slot_extent(old->slot), slot_offset(old->slot) };

	reclaim_retire(w->reclaim, place, hit_bytes(old));
}

/* Broken on purpose, for tests: what a PUT replaced goes OBSOLETE with the worker's next write. */
#ifdef GRACEKV_MUTANTS
static void retire_late(struct store_worker *w)
{
	if (w->late.block) {
		index_obsolete(w->late.block);
		retire(w, &w->late);
	}
	w->late.block = NULL;
}

static void retire_old(struct store_worker *w, const struct index_hit *old)
{
	if (MUTANT(acknowledge_first))
		w->late = *old;
	else
		retire(w, old);
}
#else
#define retire_late(w)	   ((void)(w))
#define retire_old(w, old) retire(w, old)
#endif

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
	retire_late(w);
	reclaim_worker_destroy(w->reclaim);
	memory_cache_destroy(w->cache);
}

static void describe(const struct index_hit *hit, struct store_result *out)
{
	const struct block *b = hit->block;

	out->version = b->version;
	out->slot = hit->slot;
	out->expiry_ms = b->expiry_ms;
	out->incarnation = block_state_incarnation(
		atomic_load_explicit(&b->state, memory_order_relaxed)); /* ordered by the look-up */
	out->value_len = b->value_len;
	out->block = b;
	out->place.extent = slot_extent(hit->slot);
	out->place.offset = slot_offset(hit->slot);
}

int store_put_begin(struct store_worker *w, const void *key, uint32_t key_len, uint32_t value_len,
		    uint64_t expiry_ms, struct store_put *put)
{
	struct block *b;
	int rc;

	rc = memory_alloc(w->cache, block_bytes(key_len, value_len), &put->place, &b);
	if (rc)
		return rc;
	put->block = b;
	put->hash = hash_key(w->store->hash_seed, key, key_len);
	b->key_hash = put->hash;
	b->expiry_ms = expiry_ms;
	b->key_len = (uint16_t)key_len;
	b->value_len = value_len;
	b->flags = 0;
	memcpy(b->data, key, key_len);
	return 0;
}

static void retire_all(struct store_worker *w, const struct index_retired *r)
{
	for (unsigned i = 0; i < r->count; i++)
		reclaim_retire(w->reclaim, r->piece[i].place, r->piece[i].bytes);
}

/*
 * Lock the bucket of the PUT with a slot for it, splitting its segment where that has to come
 * first. Each split adds a bit to the prefix, so there is an end; a segment that can not be split
 * gives what overflow buckets it has left; one whose split has to wait gives none, so that chains
 * stay short. Returns 0, the lock is held; -EAGAIN, -ENOMEM or, where too much is deferred, -EBUSY:
 * it is not.
 */
static int lock_with_room(struct store_worker *w, const struct store_put *put,
			  struct index_hit *old, bool *found)
{
	struct index *ix = w->store->index;
	const struct block *b = put->block;
	struct index_retired retired;
	int rc, why = 0;

	for (unsigned i = 0;; i++) {
		index_lock(ix, put->hash);
		rc = index_reserve(ix, put->hash, b->data, b->key_len, why || i == SPLITS_MAX, old,
				   found);
		if (rc == 0)
			return 0;
		index_unlock(ix, put->hash);
		if (rc != -EAGAIN)
			return why == -EAGAIN ? why : rc;
		if (!reclaim_reserve_index(w->reclaim, SEGMENT_BYTES))
			return -EBUSY;
		why = index_split(ix, put->hash, &retired);
		retire_all(w, &retired);
	}
}

int store_put_commit(struct store_worker *w, struct store_put *put, struct store_result *out)
{
	struct store *s = w->store;
	struct block *b = put->block;
	uint64_t body = block_body_hash(b);
	struct index_hit old, fresh;
	bool found;
	int rc;

	retire_late(w);
	fresh.block = b;
	fresh.slot = slot_make(slot_fingerprint_of_hash(put->hash),
			       size_code_for(block_bytes(b->key_len, b->value_len)),
			       put->place.extent, put->place.offset);
	rc = lock_with_room(w, put, &old, &found);
	if (rc == 0 && found && !reclaim_reserve(w->reclaim, hit_bytes(&old))) {
		index_unlock(s->index, put->hash);
		rc = -EBUSY;
	}
	if (rc) {
		if (rc != -EAGAIN)
			store_put_abort(w, put);
		return rc;
	}
	/* Relaxed: writers of one key are ordered by its bucket's lock. */
	b->version = atomic_fetch_add_explicit(&s->version, 1, memory_order_relaxed) + 1;
	b->checksum = block_checksum(b, body);
	index_publish(s->index, put->hash, &old, found, b, fresh.slot);
	describe(&fresh, out);
	index_unlock(s->index, put->hash);
	if (found)
		retire_old(w, &old);
	return 0;
}

void store_put_abort(struct store_worker *w, struct store_put *put)
{
	memory_free(w->store->memory, put->place);
	put->block = NULL;
}

/*
 * Under the bucket's lock: delete the record if it is (still) there, and has expired by @now_ms,
 * where that is not 0. Returns 1: it was deleted; 0: it is there, and has not expired; -ENOENT;
 * -EBUSY.
 */
static int delete_if(struct store_worker *w, uint64_t hash, const void *key, uint32_t key_len,
		     uint64_t now_ms, bool force, struct store_result *out)
{
	struct store *s = w->store;
	struct index_retired retired;
	struct index_hit old;
	bool sparse = false;
	int rc;

	retire_late(w);
	index_lock(s->index, hash);
	rc = index_lookup_locked(s->index, hash, key, key_len, &old);
	if (rc == 0 && now_ms && (!old.block->expiry_ms || old.block->expiry_ms > now_ms)) {
		describe(&old, out);
		index_unlock(s->index, hash);
		return 0; /* it was written anew */
	}
	if (rc == 0 && !force && !reclaim_reserve(w->reclaim, hit_bytes(&old)))
		rc = -EBUSY;
	if (rc == 0) {
		describe(&old, out);
		out->version = atomic_fetch_add_explicit(&s->version, 1, memory_order_relaxed) + 1;
		sparse = index_remove(s->index, hash, &old);
	}
	index_unlock(s->index, hash);
	if (rc == 0)
		retire(w, &old);
	if (sparse) {
		index_shrink(s->index, hash, &retired);
		retire_all(w, &retired);
	}
	return rc ? rc : 1;
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

/* What is found stays until the caller's quiescent state. Returns 0 or -ENOENT. */
static int look_up(struct store *s, uint64_t hash, const void *key, uint32_t key_len,
		   struct index_hit *hit)
{
	int rc = index_lookup(s->index, hash, key, key_len, hit);

	if (rc == -EAGAIN) { /* a write is between OBSOLETE and publish: wait for its lock */
		index_lock(s->index, hash);
		rc = index_lookup_locked(s->index, hash, key, key_len, hit);
		index_unlock(s->index, hash);
	}
	return rc;
}

bool store_put_waits(struct store_worker *w, const void *key, uint32_t key_len)
{
	struct index_hit old;

	if (reclaim_ample(w->reclaim, size_code_bytes(size_code_for(RECORD_BYTES_MAX))))
		return false; /* whatever the record is */
	return look_up(w->store, hash_key(w->store->hash_seed, key, key_len), key, key_len, &old) ==
		       0 &&
	       reclaim_full(w->reclaim, hit_bytes(&old));
}

int store_get(struct store_worker *w, const void *key, uint32_t key_len, uint64_t now_ms,
	      bool force, struct store_result *out)
{
	struct store *s = w->store;
	uint64_t hash = hash_key(s->hash_seed, key, key_len);
	struct index_hit hit;
	int rc = look_up(s, hash, key, key_len, &hit);

	if (rc)
		return rc;
	if (!hit.block->expiry_ms || hit.block->expiry_ms > now_ms) {
		describe(&hit, out);
		return 0;
	}
	rc = delete_if(w, hash, key, key_len, now_ms, force, out); /* before "absent" is said */
	return rc == 1 ? -ENOENT : rc;
}

int store_del(struct store_worker *w, const void *key, uint32_t key_len, bool force,
	      struct store_result *out)
{
	uint64_t hash = hash_key(w->store->hash_seed, key, key_len);
	int rc = delete_if(w, hash, key, key_len, 0, force, out);

	out->block = NULL;
	out->slot = 0;
	return rc < 0 ? rc : 0;
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
	retire_all(w, &retired);
	return changed;
}
