/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Private to check: the segment under way. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/kv-inspect/check.h"

#define POSITIONS (SEGMENT_ALL * BUCKET_SLOTS)
#define NO_CHAIN  UINT8_MAX

/* A key that stands in the segment. */
struct met {
	uint64_t hash, other; /* two independent hashes of it */
	unsigned position; /* bucket * BUCKET_SLOTS + slot */
};

struct segment_walk {
	struct check *c;
	struct segment_look s;
	uint64_t last; /* hash of the step */
	bool counting; /* for the totals: these hashes were not walked over before */
	bool unfit; /* headers do not fit, however often we look: go on with those that do */
	bool left; /* slots were not dealt with */
	unsigned begun;
	size_t base; /* findings before it */

	uint64_t entry; /* that what follows belongs to */
	uint64_t done[(POSITIONS + 63) / 64]; /* positions dealt with, a bit each */
	unsigned keys;
	struct met met[POSITIONS];
	struct check_records records;

	/* Of the last pass. */
	uint8_t chain
		[SEGMENT_ALL]; /* main bucket of each one's chain; NO_CHAIN: none leads there */

	/* Blocks of one chain of READs. */
	unsigned count;
	size_t used;
	struct read_op op[READER_BATCH];
	unsigned position[READER_BATCH];
};

static inline uint64_t walk_header(const struct segment_walk *w, unsigned bucket)
{
	return reads_header(&w->s.bucket[bucket]);
}

static inline uint64_t walk_slot(const struct segment_walk *w, unsigned position)
{
	return reads_slot(&w->s.bucket[position / BUCKET_SLOTS], position % BUCKET_SLOTS);
}

static inline bool walk_fits(const struct segment_walk *w, unsigned bucket)
{
	return bucket_header_fits(walk_header(w, bucket), w->s.entry, w->s.hash);
}

/* walk_found_slot - something is wrong with a slot, or what it leads to. */
void walk_found_slot(struct segment_walk *w, enum finding_kind kind, unsigned position,
		     bool certain, const char *what);

/* walk_judge - what the passes have brought. */
void walk_judge(struct segment_walk *w);
