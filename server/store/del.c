/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Deleting records. */
#include <errno.h>

#include "common/base/hash.h"
#include "server/store/store_internal.h"

/*
 * Take what was looked up out of the index, and unlock. Returns 0, or -EBUSY, unlocked as well.
 */
static int remove_locked(struct store_worker *w, uint64_t hash, const struct index_hit *old,
			 const struct store_terms *t, struct store_result *out)
{
	struct store *s = w->store;
	struct index_retired retired;
	bool sparse;

	if (!t->force && !reclaim_reserve(w->reclaim, hit_bytes(old))) {
		index_unlock(s->index, hash);
		return -EBUSY;
	}
	if (block_expired(old->block, t->now_ms))
		atomic_fetch_add_explicit(&s->expired, 1, memory_order_relaxed); /* a counter */
	store_describe(old, out);
	out->version = atomic_fetch_add_explicit(&s->version, 1, memory_order_relaxed) + 1;
	sparse = index_remove(s->index, hash, old);
	index_unlock(s->index, hash);
	store_retire(w, old);
	if (sparse) {
		index_shrink(s->index, hash, &retired);
		store_retire_all(w, &retired);
	}
	return 0;
}

int store_delete_expired(struct store_worker *w, uint64_t hash, const void *key, uint32_t key_len,
			 const struct store_terms *t, struct store_result *out)
{
	struct store *s = w->store;
	struct index_hit old;
	int rc;

	store_retire_late(w);
	index_lock(s->index, hash);
	rc = index_lookup_locked(s->index, hash, key, key_len, &old);
	if (rc == 0 && block_expired(old.block, t->now_ms))
		return remove_locked(w, hash, &old, t, out);
	if (rc == 0)
		store_describe(&old, out);
	index_unlock(s->index, hash);
	return rc == 0;
}

int store_del(struct store_worker *w, const void *key, uint32_t key_len,
	      const struct store_terms *terms, struct store_result *out)
{
	struct store *s = w->store;
	uint64_t hash = hash_key(s->hash_seed, key, key_len);
	struct index_hit old;
	bool late = false;
	int rc;

	store_retire_late(w);
	index_lock(s->index, hash);
	rc = index_lookup_locked(s->index, hash, key, key_len, &old);
	if (rc == 0) {
		late = block_expired(old.block, terms->now_ms);
		rc = late ? 0 : store_check_terms(terms, old.block, out);
	}
	if (rc)
		index_unlock(s->index, hash);
	else
		rc = remove_locked(w, hash, &old, terms, out);
	out->block = NULL;
	out->slot = 0;
	return rc == 0 && late ? -ENOENT : rc;
}
