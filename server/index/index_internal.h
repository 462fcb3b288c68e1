/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Private to server/index.
 *
 * A stripe's lock protects every bucket that maps to it: header, slots, and chain. The number of
 * overflow buckets that a segment has given out is an atomic, since chains of one segment are
 * under different locks.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "server/index/index.h"

#define INDEX_STRIPES 4096u

/* Records are counted by stripe, so that writers of different buckets share no line. */
struct index_stripe {
	pthread_mutex_t lock;
	_Atomic uint64_t records; /* written under lock */
} __attribute__((aligned(64)));

struct index_segment {
	struct segment *segment;
	_Atomic unsigned overflow_used; /* at most SEGMENT_OVERFLOW */
};

struct index {
	struct memory *memory;
	unsigned depth;
	struct index_segment *segment; /* 2^depth, by the hash's top bits; constant */
	struct index_stripe *stripe; /* INDEX_STRIPES */
	_Atomic uint64_t overflow_used; /* of all segments: a statistic */
	struct root_directory described;
};

static inline struct index_segment *index_segment_of(const struct index *ix, uint64_t hash)
{
	return &ix->segment[hash_prefix(hash, ix->depth)];
}

static inline struct index_stripe *index_stripe_of(const struct index *ix, uint64_t hash)
{
	return &ix->stripe[(hash_prefix(hash, ix->depth) * SEGMENT_BUCKETS + hash_bucket(hash)) %
			   INDEX_STRIPES];
}

/* index_next - the bucket after the one with @header in its chain, or NULL. */
static inline struct bucket *index_next(struct segment *s, uint64_t header)
{
	unsigned overflow = bucket_header_overflow(header);

	return overflow ? &s->overflow[overflow - 1] : NULL;
}
