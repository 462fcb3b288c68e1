/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Finding records; what has expired is deleted by its finder. */

#include "common/base/hash.h"
#include "server/store/store_internal.h"

void store_describe(const struct index_hit *hit, struct store_result *out)
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

int store_look_up(struct store *s, uint64_t hash, const void *key, uint32_t key_len,
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

int store_look_up_newest(struct store_worker *w, uint64_t hash, const void *key, uint32_t key_len,
			 struct index_hit *hit)
{
	struct index *ix = w->store->index;
	int rc;

	if (!w->store->log || MUTANT(judge_published))
		return store_look_up(w->store, hash, key, key_len, hit);
	index_lock(ix, hash);
	if (store_newest_pending(w, hash, key, key_len, hit))
		rc = hit->block ? 0 : -ENOENT;
	else
		rc = index_lookup_locked(ix, hash, key, key_len, hit);
	index_unlock(ix, hash);
	return rc;
}

int store_get(struct store_worker *w, const void *key, uint32_t key_len, uint64_t now_ms,
	      bool force, struct store_result *out)
{
	struct store *s = w->store;
	uint64_t hash = hash_key(s->hash_seed, key, key_len);
	struct index_hit hit;
	int rc = store_look_up(s, hash, key, key_len, &hit);

	if (rc)
		return rc;
	if (!block_expired(hit.block, now_ms)) {
		store_describe(&hit, out);
		return 0;
	}
	rc = store_delete_expired(w, hash, key, key_len,
				  &(const struct store_terms){ .now_ms = now_ms, .force = force },
				  out);
	return rc == 0 ? -ENOENT : rc < 0 ? rc : 0;
}

int store_check_terms(const struct store_terms *t, const struct block *b, struct store_result *out)
{
	if (b)
		out->version = b->version;
	switch (t->condition) {
	case STORE_ALWAYS:
		return 0;
	case STORE_IF_ABSENT:
		return b ? -EEXIST : 0;
	case STORE_IF_PRESENT:
		return b ? 0 : -ENOENT;
	case STORE_IF_VERSION:
		return !b ? -ENOENT : b->version == t->version ? 0 : -EEXIST;
	}
	return -EINVAL;
}
