/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Writing records: the block first, then the bucket (store.h says in which order). */
#include <string.h>

#include "common/base/hash.h"
#include "common/layout/bucket.h"
#include "server/memory/size_class.h"
#include "server/store/store_internal.h"

#define SPLITS_MAX   (2 * DEPTH_MAX) /* of one PUT: others may merge meanwhile */
#define WRITTEN_ANEW 1

int store_put_begin(struct store_worker *w, const void *key, uint32_t key_len, uint32_t value_len,
		    uint64_t expiry_ms, struct store_put *put)
{
	struct block *b;
	int rc;

	rc = memory_alloc(w->cache, block_bytes(key_len, value_len), &put->place, &b);
	if (rc)
		return rc;
	put->block = b;
	put->base = 0;
	put->sealed = false;
	put->hash = hash_key(w->store->hash_seed, key, key_len);
	b->key_hash = put->hash;
	b->expiry_ms = expiry_ms;
	b->key_len = (uint16_t)key_len;
	b->value_len = value_len;
	b->flags = 0;
	memcpy(b->data, key, key_len);
	return 0;
}

/*
 * Lock the bucket of the PUT with a slot for it, splitting its segment where that has to come
 * first. Each split adds a bit to the prefix, so there is an end; a segment that can not be split
 * gives what overflow buckets it has left; one whose split has to wait gives none, so that chains
 * stay short. Returns 0, the lock is held; -EAGAIN, -ENOMEM or, where too much is deferred, -EBUSY:
 * it is not. @old, @found: the key's newest state; where it is not @found, and nothing of the key
 * is pending, old->place is where the slot goes.
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
		if (store_newest_pending(w, put->hash, b->data, b->key_len, old)) {
			*found = old->block; /* its slot stands there, or will in time */
			return 0;
		}
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
		store_retire_all(w, &retired);
	}
}

/* What a condition is about: the newest state, and nothing where that has expired. */
static const struct block *judged(struct store_worker *w, const struct store_put *put,
				  const struct store_terms *t, const struct index_hit *old,
				  bool found)
{
	const struct block *b = found ? old->block : NULL;
	struct index_hit published;

	if (MUTANT(judge_published))
		b = index_lookup_locked(w->store->index, put->hash, put->block->data,
					put->block->key_len, &published) == 0
			    ? published.block
			    : NULL;
	return b && !block_expired(b, t->now_ms) ? b : NULL;
}

/*
 * The PUT has the lock of its bucket. Returns 0: go on with it; -EEXIST, -ENOENT, -EBUSY or
 * WRITTEN_ANEW, and it has it no more. A record that has expired is not there for the condition,
 * and deleted where that does not hold, unless it is pending.
 */
static int check_locked(struct store_worker *w, const struct store_put *put,
			const struct store_terms *t, const struct index_hit *old, bool found,
			struct store_result *out)
{
	bool late = found && old->place && block_expired(old->block, t->now_ms);
	int rc = store_check_terms(t, judged(w, put, t, old, found), out);

	if (rc == 0)
		return 0;
	index_unlock(w->store->index, put->hash);
	if (!late)
		return rc;
	rc = store_delete_expired(w, put->hash, put->block->data, put->block->key_len, t, out);
	return rc < 0 ? rc : rc ? WRITTEN_ANEW : -ENOENT;
}

int store_put_lock(struct store_worker *w, const struct store_put *put,
		   const struct store_terms *terms, struct index_hit *old, bool *found,
		   struct store_result *out)
{
	int rc;

	store_retire_late(w);
	do {
		rc = lock_with_room(w, put, old, found);
		if (rc == 0)
			rc = check_locked(w, put, terms, old, *found, out);
	} while (rc == WRITTEN_ANEW);
	return rc;
}

int store_put_finish(struct store_worker *w, struct store_put *put, uint64_t body,
		     const struct store_terms *terms, const struct index_hit *old, bool found,
		     struct store_result *out)
{
	struct store *s = w->store;
	struct block *b = put->block;
	const struct index_hit fresh = { .block = b, .slot = store_slot_of(put) };
	int rc;

	if (found && !reclaim_reserve(w->reclaim, hit_bytes(old))) {
		index_unlock(s->index, put->hash);
		return -EBUSY;
	}
	if (terms->keep && found && !block_expired(old->block, terms->now_ms))
		b->expiry_ms = old->block->expiry_ms;
	if (s->log) {
		rc = store_append_put(w, put, body, old, found, fresh.slot);
		if (rc == 0)
			store_describe(&fresh, out);
		return rc;
	}
	b->version = store_version(s);
	b->checksum = block_checksum(b, body);
	if (MUTANT(ack_unapplied) && b->version % 1000 == 0) { /* as if it were published */
		store_describe(&fresh, out);
		out->slot = 0; /* no hint */
		index_unlock(s->index, put->hash);
		store_put_abort(w, put);
		return 0;
	}
	index_publish(s->index, put->hash, old, found, b, fresh.slot);
	store_describe(&fresh, out);
	index_unlock(s->index, put->hash);
	if (found)
		store_retire_old(w, old);
	return 0;
}

void store_put_seal(struct store_put *put)
{
	put->body = block_body_hash(put->block);
	put->sealed = true;
}

int store_put_publish(struct store_worker *w, struct store_put *put,
		      const struct store_terms *terms, struct store_result *out)
{
	uint64_t body = put->sealed ? put->body : block_body_hash(put->block);
	struct index_hit old;
	bool found;
	int rc = store_put_lock(w, put, terms, &old, &found, out);

	if (rc == 0)
		rc = store_put_finish(w, put, body, terms, &old, found, out);
	return store_outcome(w, rc);
}

int store_put_commit(struct store_worker *w, struct store_put *put, const struct store_terms *terms,
		     struct store_result *out)
{
	int rc = store_put_publish(w, put, terms, out);

	if (rc && rc != -EAGAIN)
		store_put_abort(w, put);
	return rc;
}

void store_put_abort(struct store_worker *w, struct store_put *put)
{
	memory_free(w->store->memory, put->place);
	put->block = NULL;
}

int store_put_refused(struct store_worker *w, const void *key, uint32_t key_len,
		      const struct store_terms *terms, struct store_result *out)
{
	uint64_t hash = hash_key(w->store->hash_seed, key, key_len);
	struct index_hit hit;
	int rc = store_look_up_newest(w, hash, key, key_len, &hit);

	if (rc == 0 && block_expired(hit.block, terms->now_ms))
		return store_outcome(w, 0);
	return store_outcome(w, store_check_terms(terms, rc == 0 ? hit.block : NULL, out));
}

bool store_put_waits(struct store_worker *w, const void *key, uint32_t key_len)
{
	struct index_hit old;

	if (reclaim_ample(w->reclaim, size_code_bytes(size_code_for(RECORD_BYTES_MAX))))
		return false; /* whatever the record is */
	return store_look_up(w->store, hash_key(w->store->hash_seed, key, key_len), key, key_len,
			     &old) == 0 &&
	       reclaim_full(w->reclaim, hit_bytes(&old));
}
