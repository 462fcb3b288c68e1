/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A scan under way. The essay is in scan.c. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "client/include/gracekv.h"
#include "client/src/know/reader.h"
#include "client/src/know/seen.h"

#define SEGMENT_ALL   (SEGMENT_BUCKETS + SEGMENT_OVERFLOW)
#define SCAN_DONE_LEN ((SEGMENT_ALL * BUCKET_SLOTS + 63) / 64)
#define SCAN_SEEN_MAX (1u << 16) /* keys; 2 MiB of memory */
#define SCAN_HEAD     128u /* bytes of a block that have its header and a key of 80 bytes */

/* A slot found by a pass, in the order of the chains. */
struct scan_slot {
	uint64_t slot;
	unsigned position; /* bucket * BUCKET_SLOTS + slot */
};

/* A block that was fetched. */
struct scan_block {
	struct block *block; /* in the arena */
	uint32_t len; /* fetched */
	uint32_t whole; /* that the slot promises */
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
	uint64_t whole[SCAN_DONE_LEN]; /* positions whose head is known: now all of the block */
	uint32_t head; /* READ so much of a block first, */
	uint32_t spared; /* where that leaves out so many bytes at least */
	uint32_t head_met; /* the longest head that the group has */

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

/* A record whose block was gone, or is past its expiry: to be looked up by its key. */
struct scan_key {
	unsigned position;
	bool again; /* it was in the scan's memory already, and expired there */
	uint32_t len;
	uint8_t bytes[KEY_MAX];
};

/* A record in the scan's memory: its key, and the value after it. */
struct scan_record {
	size_t at;
	uint32_t key_len;
	uint64_t asked_ns; /* when a look-up began to bring it; 0: a pass did */
	struct gkv_meta meta;
};

/* One scan: what it has to do next, and what it has found and not handed out. */
struct gkv_cursor {
	struct gkv *h;
	bool keys_only;
	uint32_t prefix_len;
	uint8_t prefix[KEY_MAX];
	struct scan pass;
	uint64_t incarnation; /* of the server that gave the first records; 0: none did yet */
	uint64_t range_first, range_last; /* hashes */
	bool range_known; /* range_last is set, by the range's first pass */
	bool settled; /* the group is finished in the segment under way */
	bool end; /* there is nothing more to READ */
	unsigned idle; /* passes in a row that dealt with nothing */
	unsigned width; /* wished for */
	uint64_t now_ms; /* estimate of the server's clock at the last pass */
	struct seen seen; /* keys met in the group, from pass.at on */

	/* READER_BATCH is enough for both together: each comes from a block of one pass. */
	unsigned keys; /* still to be looked up */
	struct scan_key key[READER_BATCH];
	unsigned count, next; /* records, and the first that was not handed out */
	struct scan_record record[READER_BATCH];
	uint8_t *memory;
	size_t memory_len, used;
};

/* scan_ready - the connection, to the server that the scan began on. Returns 0; -ESTALE; as
 * handle_ready(). */
int scan_ready(struct gkv_cursor *s);

/* scan_same_life - the handle's server is the one that the scan began on. Returns 0 or -ESTALE. */
int scan_same_life(struct gkv_cursor *s);

/* scan_judge - what the pass has brought. Returns how many positions it deals with, or -ENOMEM. */
int scan_judge(struct gkv_cursor *s);

/*
 * scan_keep - copy a record into the scan's memory, unless it is of another range or was met.
 * @asked_ns: when a look-up of its key began that brought it; 0: a pass did.
 * @again: it was met, and is wanted nevertheless.
 * Returns 0; 1: there is no room beside the others; -ENOMEM.
 */
int scan_keep(struct gkv_cursor *s, uint64_t hash, const struct gkv_record *rec, uint64_t asked_ns,
	      bool again);

/* scan_look_up - the keys that wait for it, as many as there is room for their records. All that
 * was found before is handed out. Returns 0, -ESTALE or as handle_lookup(). */
int scan_look_up(struct gkv_cursor *s);

/*
 * scan_take - hand out what was found, at most @max; what has expired is to be looked up instead.
 * It lies in the scan's memory until scan_clear(). Returns how many, or why the clock is not known.
 */
int scan_take(struct gkv_cursor *s, struct gkv_record *out, size_t max);

/* scan_clear - all records are handed out: their memory is used again. */
static inline void scan_clear(struct gkv_cursor *s)
{
	s->count = s->next = 0;
	s->used = 0;
}

/*
 * scan_fetch - READ the group's buckets with their overflow, then blocks of positions that are not
 * done, or their heads, as many as one batch takes. Caller has a section open.
 * Returns 0; SCAN_AGAIN; -ECONNRESET, -ETIMEDOUT, -ENOMEM, -EPROTO.
 */
int scan_fetch(struct scan *s);

static inline void scan_mark(struct scan *s, unsigned position)
{
	s->done[position / 64] |= 1ull << position % 64;
}

/* scan_unmark - all positions: the group is another one, or in another segment. */
static inline void scan_unmark(struct scan *s)
{
	memset(s->done, 0, sizeof(s->done));
	memset(s->whole, 0, sizeof(s->whole));
}

static inline bool scan_marked(const struct scan *s, unsigned position)
{
	return s->done[position / 64] >> position % 64 & 1;
}
