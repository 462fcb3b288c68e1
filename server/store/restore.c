/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Records that come back from a snapshot and from the log. A version says which of two is the newer
 * one, so records may be applied again, and snapshot before log, as long as those of one key come
 * in the order of the log from some place on: what is newer than a record that comes late stays,
 * and a DEL, which leaves nothing behind, is followed by nothing older of its key.
 */
#include <string.h>

#include "common/base/hash.h"
#include "server/store/store_internal.h"

/* Whether what stands there is as new. Several threads may restore one key: a hint before the lock,
 * final under it. */
static bool as_new(const struct index_hit *old, uint64_t version)
{
	return old->block->version >= version;
}

/* The block is whole. Returns 0, -EAGAIN or -ENOMEM; the block is the caller's unless it is
 * published: put->block is NULL then. */
static int put_restored(struct store_worker *w, struct store_put *put, uint64_t version,
			uint64_t body)
{
	struct index *ix = w->store->index;
	struct block *b = put->block;
	struct index_hit old;
	bool found;
	struct store_result ignored;
	int rc = store_put_lock(w, put, &store_always, &old, &found, &ignored);

	if (rc)
		return rc == -EBUSY ? -EAGAIN : rc;
	if (found && as_new(&old, version)) {
		index_unlock(ix, put->hash);
		return 0;
	}
	if (found && !reclaim_reserve(w->reclaim, hit_bytes(&old))) {
		index_unlock(ix, put->hash);
		return -EAGAIN;
	}
	b->version = version;
	b->checksum = block_checksum(b, body);
	index_publish(ix, put->hash, &old, found, b, store_slot_of(put));
	index_unlock(ix, put->hash);
	if (found)
		store_retire(w, &old);
	put->block = NULL;
	return 0;
}

static int restore_put(struct store_worker *w, const void *key, uint32_t key_len, const void *value,
		       uint32_t value_len, uint64_t version, uint64_t expiry_ms, uint64_t body)
{
	struct store *s = w->store;
	struct store_put put;
	struct index_hit old;
	int rc;

	assert(!s->log);
	if (expiry_ms && expiry_ms <= store_now_ns(s) / NS_PER_MS) {
		rc = store_restore_del(w, key, key_len, version);
		return rc ? rc : STORE_EXPIRED;
	}
	rc = store_look_up(s, hash_key(s->hash_seed, key, key_len), key, key_len, &old);
	if (rc == 0 && as_new(&old, version))
		return 0;
	rc = store_put_begin(w, key, key_len, value_len, expiry_ms, &put);
	if (rc)
		return rc;
	memcpy(put.block->data + key_len, value, value_len);
	rc = put_restored(w, &put, version, body);
	if (put.block)
		store_put_abort(w, &put);
	return rc;
}

/* Memory comes back where something waits for a grace period, or slabs are cut for another size. */
static int comes(struct store_worker *w, int rc)
{
	if (rc != -EAGAIN && rc != -ENOMEM)
		return rc;
	return reclaim_wanting(w->store->reclaim) ? -EAGAIN : rc;
}

int store_restore_put(struct store_worker *w, const void *key, uint32_t key_len, const void *value,
		      uint32_t value_len, uint64_t version, uint64_t expiry_ms, uint64_t body)
{
	return comes(w, restore_put(w, key, key_len, value, value_len, version, expiry_ms, body));
}

int store_restore_del(struct store_worker *w, const void *key, uint32_t key_len, uint64_t version)
{
	struct store *s = w->store;
	uint64_t hash = hash_key(s->hash_seed, key, key_len);
	struct index_retired retired;
	struct index_hit old;
	bool sparse;

	assert(!s->log);
	index_lock(s->index, hash);
	if (index_lookup_locked(s->index, hash, key, key_len, &old) || as_new(&old, version)) {
		index_unlock(s->index, hash);
		return 0;
	}
	if (!reclaim_reserve(w->reclaim, hit_bytes(&old))) {
		index_unlock(s->index, hash);
		return -EAGAIN;
	}
	sparse = index_remove(s->index, hash, &old);
	index_unlock(s->index, hash);
	store_retire(w, &old);
	if (sparse) {
		index_shrink(s->index, hash, &retired);
		store_retire_all(w, &retired);
	}
	return 0;
}
