/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A scan under way. The essay is in scan.c. */
#include <stdbool.h>
#include <stdint.h>

#include "client/src/reader.h"
#include "client/src/seen.h"

#define SEGMENT_ALL   (SEGMENT_BUCKETS + SEGMENT_OVERFLOW)
#define SCAN_DONE_LEN ((SEGMENT_ALL * BUCKET_SLOTS + 63) / 64)

/* A record whose block was gone, or is past its expiry: to be looked up by its key. */
struct scan_key {
	uint32_t len;
	uint8_t bytes[KEY_MAX];
};

/* A slot found by a pass, in the order of the chains. */
struct scan_slot {
	uint64_t slot;
	unsigned position; /* bucket * BUCKET_SLOTS + slot */
};

/* A block that was fetched. */
struct scan_block {
	struct block *block; /* in the arena */
	uint32_t len;
	unsigned position;
};

struct scan {
	struct reader *r;

	/* The segment under way: its first hash; and the group of its buckets. */
	uint64_t at;
	unsigned bucket; /* first of the group */
	unsigned width;
	uint64_t entry; /* the directory entry that done belongs to */
	uint64_t done[SCAN_DONE_LEN]; /* positions dealt with, a bit each */

	/* Of the last pass. */
	uint64_t last; /* last hash of the segment */
	unsigned found_count; /* slots that the group holds */
	struct scan_slot found[SEGMENT_ALL * BUCKET_SLOTS];
	bool left; /* some were not fetched for want of room */
	unsigned bad; /* fetched or named in vain */
	unsigned count;
	struct scan_block fetched[READER_BATCH];
};

/* SCAN_AGAIN - the directory was stale: look again, nothing was fetched. */
#define SCAN_AGAIN 1

/*
 * scan_fetch - READ the group's buckets with their overflow, then blocks of positions that are not
 * done, as many as one batch takes. Caller has a section open.
 * Returns 0; SCAN_AGAIN; -ECONNRESET, -ETIMEDOUT, -ENOMEM, -EPROTO.
 */
int scan_fetch(struct scan *s);

static inline void scan_mark(struct scan *s, unsigned position)
{
	s->done[position / 64] |= 1ull << position % 64;
}

static inline bool scan_marked(const struct scan *s, unsigned position)
{
	return s->done[position / 64] >> position % 64 & 1;
}
