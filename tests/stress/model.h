/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What the store must answer: per key, how far its writer is, in memory that all processes share.
 *
 * Keys are numbers; each has one writer, whose operations on it are numbered from 1: a put has an
 * odd number, a delete an even one (a put that replaces skips one). Before an operation its number
 * goes into `begun`, of a delete into `deleted` first; after it into `done`. A value carries its
 * key and its number.
 *
 * A reader takes the floor, the greater of `done` and of the greatest number that anyone has been
 * given so far (`seen`), then looks up, then loads `begun` and `deleted`. What it found must be of
 * that key and have a number from the floor to `begun`: not older than what was acknowledged or
 * returned before it began (DESIGN, I2), not one that nobody wrote yet. That it found nothing is
 * right only where a delete from the floor on had begun.
 *
 * All words are sequentially consistent: the argument needs the floor loaded before the look-up, in
 * whatever form it reads memory, and `begun` after it.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_KEY_MAX	24u
#define MODEL_VALUE_MAX (20u << 10)
#define MODEL_WRITERS	8u
#define MODEL_DEEDS	(1u << 15) /* remembered of each writer, a power of two */

enum wrong {
	WRONG_MISS, /* a key that lives was not found */
	WRONG_STALE, /* an older value than one that was acknowledged or returned before */
	WRONG_EARLY, /* a value that was not written yet */
	WRONG_FOREIGN, /* another key's value */
	WRONG_TORN, /* no value that was ever written */
	WRONG_CHANGED, /* a block changed in the hands of a local reader */
	WRONG_SCAN, /* a scan did not visit exactly once a key that lived throughout */
	WRONG_REUSED, /* an address came back with an incarnation that it had before */
	WRONG_STATE, /* counts or sizes are not what they must be */
	WRONG_ERROR, /* a call failed */
	WRONG_PIPE, /* freed under a reader: a whole grace period went by */
	WRONG_LIFE, /* a READ brought another life of a block than the bucket named */
	WRONG_HINT, /* another incarnation than the hint's was accepted */
	WRONG_FORGED, /* the inside of another record was accepted as a block */
	WRONG_CHECKSUM, /* a block that a bucket named was torn */
	WRONG_KINDS,
};

struct key_state {
	_Atomic uint32_t begun, done;
	_Atomic uint32_t deleted; /* the newest delete that has begun */
	_Atomic uint32_t seen;
};

/* An operation that was done: for the history of a key. */
struct deed {
	_Atomic uint32_t key, number;
	_Atomic uint64_t ns; /* since the start */
	_Atomic uint64_t place; /* extent and offset of the block of a put */
	_Atomic uint32_t incarnation;
};

struct deeds {
	_Atomic uint64_t count;
	struct deed deed[MODEL_DEEDS];
};

struct model {
	uint64_t seed, start_ns;
	uint32_t keys;
	/* Bytes of values; max 0: short ones for the most part. Set before anyone writes. */
	uint32_t value_min, value_max;
	struct key_state *key;
	struct deeds *deeds; /* MODEL_WRITERS of them */
	_Atomic uint64_t wrong[WRONG_KINDS];
	_Atomic uint32_t shown; /* wrong answers that were printed */
	_Atomic bool any_wrong;
	_Atomic uint32_t phase;
};

/* model_create - shared with the processes forked later. NULL: no memory. Never freed. */
struct model *model_create(uint64_t seed, uint32_t keys);

/* model_who - the calling thread's name in reports of what is wrong; kept, not copied. */
void model_who(const char *name);

/* model_key - the text of key @k. Returns its length; not terminated. */
uint32_t model_key(uint32_t k, char text[MODEL_KEY_MAX]);

/* model_value_len, model_value - what put @number of key @k writes. */
uint32_t model_value_len(const struct model *m, uint32_t k, uint32_t number);
void model_value(const struct model *m, uint32_t k, uint32_t number, void *value, uint32_t len);

/* The writer's side: the number of its next put or delete, and its begin and end. */
uint32_t model_next_put(const struct model *m, uint32_t k);
uint32_t model_next_del(const struct model *m, uint32_t k);
void model_begin(struct model *m, uint32_t k, uint32_t number);
/* model_end - @place, @incarnation: of a put's block, for the history. */
void model_end(struct model *m, unsigned writer, uint32_t k, uint32_t number, uint64_t place,
	       uint32_t incarnation);

/* model_lives - by its last operation that is done. */
bool model_lives(const struct model *m, uint32_t k);

/* The reader's side: the floor before the look-up, and the verdict after it. */
uint32_t model_floor(const struct model *m, uint32_t k);
void model_found(struct model *m, uint32_t k, uint32_t floor, const void *value, size_t len);
void model_missed(struct model *m, uint32_t k, uint32_t floor);

/*
 * model_recognise - which key's value this is, by its own words; for scans, which do not know.
 * Returns false, and counts it as torn, where it cannot be any's.
 */
bool model_recognise(struct model *m, const void *value, size_t len, uint32_t *k);

/* model_wrong - count one, and say what it is, with the history of @k where it is a key's. */
#define MODEL_NO_KEY UINT32_MAX
void model_wrong(struct model *m, enum wrong kind, uint32_t k, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

uint64_t model_wrongs(const struct model *m);
/* model_report - counts of wrong answers by kind, one line. */
void model_report(const struct model *m);

/* count - what was done, for reports: relaxed, from any process. */
static inline void count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static inline uint64_t model_mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15ull;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static inline uint64_t model_random(uint64_t *state)
{
	uint64_t z = model_mix(*state);

	*state += 0x9e3779b97f4a7c15ull;
	return z;
}
