/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Hints: where records were, by the hash of their keys. Bounded, shared by all handles of a
 * session; never trusted: what stands there is verified. The essay is in hints.c.
 */
#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

#define HINT_WAYS  4u
#define HINT_BYTES 64u /* of a set: a cache line */

struct hint_set {
	/* bits 0..15 sequence, odd while it is written; 16..19 a mark for each place that was of
	 * use lately; 20..21 the clock's hand; 32..63 the age of all that stands here */
	alignas(HINT_BYTES) _Atomic uint64_t head;
	_Atomic uint64_t slot[HINT_WAYS]; /* 0: none */
	_Atomic uint32_t incarnation[HINT_WAYS];
};

static_assert(sizeof(struct hint_set) == HINT_BYTES, "hint_set");

struct hints {
	struct hint_set *set; /* NULL: none are kept */
	uint64_t sets; /* a power of two */
	alignas(64) _Atomic uint32_t age; /* of what may be remembered and used now; from 1 */
};

/* What was found for a key. */
struct hint {
	uint64_t slot;
	uint32_t incarnation;
	uint32_t way; /* where it stands in its set */
};

/*
 * hints_create - @bytes: rounded down to a power of two of sets; less than one, or 0: none are
 * kept. The memory is taken from the system when it is first used. Returns 0 or -ENOMEM.
 */
int hints_create(struct hints *h, uint64_t bytes, struct error *err);
void hints_destroy(struct hints *h);

/* hints_age - of what a section may use and remember; see hints.c for when to ask. */
static inline uint32_t hints_age(const struct hints *h)
{
	/* acquire pairs with hints_drop_all(); a section has a full fence before it besides */
	return atomic_load_explicit(&h->age, memory_order_acquire);
}

/* hints_drop_all - nothing remembered until now is found any more. One thread at a time. */
void hints_drop_all(struct hints *h);

/* hints_prefetch - the key of @hash is looked for soon. */
static inline void hints_prefetch(const struct hints *h, uint64_t hash);

/*
 * hints_find - a hint of that age for a key of @hash, or one whose fingerprint is the same.
 * Any thread; no lock, no store. Returns whether there is one; of fingerprint 0 it may be missed.
 */
bool hints_find(const struct hints *h, uint64_t hash, uint32_t age, struct hint *out);

/*
 * hints_used - it led to its record: it is kept for longer. hints_forget - it did not: it goes,
 * where it stands still. hints_remember - the record of @hash stands at @slot. Any thread; they
 * give up where another thread writes the set.
 */
void hints_used(struct hints *h, uint64_t hash, const struct hint *hint);
void hints_forget(struct hints *h, uint64_t hash, const struct hint *hint);
void hints_remember(struct hints *h, uint64_t hash, uint32_t age, uint64_t slot,
		    uint32_t incarnation);

/* hints_count - about how many there are of the present age, from some of the sets. Any thread. */
uint64_t hints_count(const struct hints *h);

static inline struct hint_set *hints_set_of(const struct hints *h, uint64_t hash)
{
	/* the slot's fingerprint is the low 22 bits: others choose the set */
	return &h->set[hash >> 22 & (h->sets - 1)];
}

static inline void hints_prefetch(const struct hints *h, uint64_t hash)
{
	if (h->set)
		__builtin_prefetch(hints_set_of(h, hash));
}
