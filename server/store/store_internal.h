/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the files of the store share. */
#include <errno.h>

#include "common/base/mutant.h"
#include "common/layout/size_code.h"
#include "common/layout/slot.h"
#include "server/store/store.h"

static inline uint32_t hit_bytes(const struct index_hit *hit)
{
	return size_code_bytes(slot_size_code(hit->slot));
}

static inline bool block_expired(const struct block *b, uint64_t now_ms)
{
	return b->expiry_ms && b->expiry_ms <= now_ms;
}

/* store_retire - the block of @old was unlinked; store_retire_all - what the index replaced. */
static inline void store_retire(struct store_worker *w, const struct index_hit *old)
{
	struct memory_place place = { slot_extent(old->slot), slot_offset(old->slot) };

	reclaim_retire(w->reclaim, place, hit_bytes(old));
}

static inline void store_retire_all(struct store_worker *w, const struct index_retired *r)
{
	for (unsigned i = 0; i < r->count; i++)
		reclaim_retire(w->reclaim, r->piece[i].place, r->piece[i].bytes);
}

/* Broken on purpose, for tests: what a PUT replaced goes OBSOLETE with the worker's next write. */
#ifdef GRACEKV_MUTANTS
static inline void store_retire_late(struct store_worker *w)
{
	if (w->late.block) {
		index_obsolete(w->late.block);
		store_retire(w, &w->late);
	}
	w->late.block = NULL;
}

static inline void store_retire_old(struct store_worker *w, const struct index_hit *old)
{
	if (MUTANT(acknowledge_first))
		w->late = *old;
	else
		store_retire(w, old);
}
#else
#define store_retire_late(w)	 ((void)(w))
#define store_retire_old(w, old) store_retire(w, old)
#endif

/* store_pending_list - must hold the lock of @hash: what waits under it. */
static inline struct cds_list_head *store_pending_list(const struct store *s, uint64_t hash)
{
	return &s->pending[index_lock_number(s->index, hash)];
}

/* store_pending_last - must hold the lock: the newest write of the key that waits, or NULL. */
struct store_pending *store_pending_last(const struct store *s, uint64_t hash, const void *key,
					 uint32_t key_len);

/*
 * store_newest_pending - must hold the lock: whether a write of the key is pending, which decides
 * what the key's newest state is: then @hit has its block, NULL where it is a DEL, its slot, and no
 * place. *w->decision says what a refusal is judged against. False without a log.
 */
bool store_newest_logged(struct store_worker *w, uint64_t hash, const void *key, uint32_t key_len,
			 struct index_hit *hit);

static inline bool store_newest_pending(struct store_worker *w, uint64_t hash, const void *key,
					uint32_t key_len, struct index_hit *hit)
{
	return w->store->log && store_newest_logged(w, hash, key, key_len, hit);
}

/*
 * store_look_up_newest - no lock held: as store_look_up(), but of the key's newest state, which may
 * be pending. *w->decision as above.
 */
int store_look_up_newest(struct store_worker *w, uint64_t hash, const void *key, uint32_t key_len,
			 struct index_hit *hit);

/*
 * store_append_put, store_append_del - must hold the lock, with the deferred budget of what is
 * replaced, and, of an insert, with a place: append the write to the log, enter it into the pending
 * list, and unlock. @put: its block is final but for version, checksum and state; @body:
 * block_body_hash() of it; @old, @found: its newest state; @slot: what the index will hold.
 * Returns 0, or as log_append_begin(): nothing has changed, and it is unlocked.
 */
int store_append_put(struct store_worker *w, const struct store_put *put, uint64_t body,
		     const struct index_hit *old, bool found, uint64_t slot);
int store_append_del(struct store_worker *w, uint64_t hash, const struct index_hit *old,
		     struct store_result *out);

/* store_outcome - of a write: what says nothing of a record waits for none. Returns @rc. */
static inline int store_outcome(struct store_worker *w, int rc)
{
	if (w->decision && (rc == 0 || rc == -EBUSY || rc == -EAGAIN || rc == -ENOMEM ||
			    rc == -ENOSPC || rc == -EIO))
		w->decision->awaits = 0;
	return rc;
}

/* store_version - must hold the bucket's lock: the next one. */
static inline uint64_t store_version(struct store *s)
{
	/* Relaxed: writers of one key are ordered by its bucket's lock. */
	return atomic_fetch_add_explicit(&s->version, 1, memory_order_relaxed) + 1;
}

/* store_slot_of - what the index holds of a block. */
static inline uint64_t store_slot_of(const struct store_put *put)
{
	const struct block *b = put->block;

	return slot_make(slot_fingerprint_of_hash(put->hash),
			 size_code_for(block_bytes(b->key_len, b->value_len)), put->place.extent,
			 put->place.offset);
}

/* store_sweep_leave - the worker goes: another one may sweep. */
void store_sweep_leave(struct store_worker *w);

/* store_describe - of a record that was found, or published. */
void store_describe(const struct index_hit *hit, struct store_result *out);

/* store_look_up - what is found stays until the caller's quiescent state. Returns 0 or -ENOENT. */
int store_look_up(struct store *s, uint64_t hash, const void *key, uint32_t key_len,
		  struct index_hit *hit);

/*
 * store_check_terms - must hold the bucket's lock. @b: the record that is there and has not
 * expired; NULL: none. Returns 0, -ENOENT, or -EEXIST with out->version.
 */
int store_check_terms(const struct store_terms *t, const struct block *b, struct store_result *out);

/*
 * store_delete_expired - delete the record, if it is there still and has expired by terms->now_ms:
 * before "absent" is said, or somebody may find it later. Returns 0: it is not there (any more);
 * 1: it was rewritten, @out; -EBUSY, unless terms->force; -EBUSY also where a write of the key is
 * pending: then it is neither deleted nor said to be absent.
 */
int store_delete_expired(struct store_worker *w, uint64_t hash, const void *key, uint32_t key_len,
			 const struct store_terms *t, struct store_result *out);

/*
 * store_put_lock, store_put_finish - store_put_publish() in two halves, for a caller that makes the
 * record between them, out of what is there. The first returns 0 with the lock held: @terms
 * hold, and where @found, *@old is the record that stands there, expired or not. Otherwise it
 * returns what store_put_publish() does, and holds nothing. The caller then calls the second, which
 * unlocks, or unlocks itself. @body: block_body_hash() of the block.
 */
int store_put_lock(struct store_worker *w, const struct store_put *put,
		   const struct store_terms *terms, struct index_hit *old, bool *found,
		   struct store_result *out);
int store_put_finish(struct store_worker *w, struct store_put *put, uint64_t body,
		     const struct store_terms *terms, const struct index_hit *old, bool found,
		     struct store_result *out);
