/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Deleting records. */
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
	out->version = store_version(s);
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
	if (rc == 0 && block_expired(old.block, t->now_ms)) {
		if (!s->log || !store_pending_last(s, hash, key, key_len))
			return remove_locked(w, hash, &old, t, out);
		index_unlock(s->index, hash);
		return -EBUSY;
	}
	if (rc == 0)
		store_describe(&old, out);
	index_unlock(s->index, hash);
	return rc == 0;
}

/*
 * Must hold the lock: the key's newest state, on @terms. Returns 0: it is to be deleted, which is
 * logged unless it is @late: has expired. Otherwise -ENOENT or -EEXIST.
 */
static int judge(struct store_worker *w, uint64_t hash, const void *key, uint32_t key_len,
		 const struct store_terms *terms, struct index_hit *old, bool *late,
		 struct store_result *out)
{
	bool pending = store_newest_pending(w, hash, key, key_len, old);
	int rc = pending ? (old->block ? 0 : -ENOENT)
			 : index_lookup_locked(w->store->index, hash, key, key_len, old);

	*late = rc == 0 && block_expired(old->block, terms->now_ms);
	if (rc || (*late && !pending))
		return rc;
	if (*late) /* it stays: what is pending is published first, and expired then */
		return -ENOENT;
	return store_check_terms(terms, old->block, out);
}

int store_del(struct store_worker *w, const void *key, uint32_t key_len,
	      const struct store_terms *terms, struct store_result *out)
{
	struct store *s = w->store;
	uint64_t hash = hash_key(s->hash_seed, key, key_len);
	struct index_hit old;
	bool late;
	int rc;

	store_retire_late(w);
	index_lock(s->index, hash);
	rc = judge(w, hash, key, key_len, terms, &old, &late, out);
	if (rc) {
		index_unlock(s->index, hash);
	} else if (s->log && !late) {
		if (terms->force || reclaim_reserve(w->reclaim, hit_bytes(&old))) {
			rc = store_append_del(w, hash, &old, out);
		} else {
			index_unlock(s->index, hash);
			rc = -EBUSY;
		}
	} else {
		rc = remove_locked(w, hash, &old, terms, out);
	}
	out->block = NULL;
	out->slot = 0;
	return store_outcome(w, rc == 0 && late ? -ENOENT : rc);
}
