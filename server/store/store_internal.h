/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the files of the store share. */
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
 * 1: it was rewritten, @out; -EBUSY, unless terms->force.
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
