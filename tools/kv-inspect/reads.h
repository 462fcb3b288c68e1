/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * READs of the server's structures into private memory. Unless it says otherwise the caller has a
 * section open, and each returns 0; -ECONNRESET, -ETIMEDOUT or -ENOMEM, with the sentence in
 * in->r->err. No READ leaves what it is meant for (inspect.c, BOUNDS).
 */
#include <stdbool.h>
#include <stdint.h>

#include "common/layout/block.h"
#include "common/layout/bucket.h"
#include "common/layout/root.h"
#include "tools/kv-inspect/inspect.h"
#include "tools/kv-inspect/judge.h"

#define SEGMENT_ALL (SEGMENT_BUCKETS + SEGMENT_OVERFLOW)

/* reads_bytes - @len bytes, in pieces: words may be of different moments. */
int reads_bytes(struct inspect *in, uint64_t remote, uint32_t rkey, void *to, uint64_t len);

/* reads_arena - at most a block, into the reader's arena: valid until the next READ of anything
 * large. */
int reads_arena(struct inspect *in, uint64_t remote, uint32_t rkey, uint32_t len, const void **out);

/* reads_root - the whole page. */
int reads_root(struct inspect *in, struct root *out);

/*
 * reads_prepare - no section open: READ the root, and let the reader know what never changes in it:
 * all below needs that. Returns as above; -EPROTO: it is not sound.
 */
int reads_prepare(struct inspect *in, struct root *out);

/* reads_extent - an entry of the extent table, as it is now. @number: below EXTENTS_MAX. */
int reads_extent(struct inspect *in, unsigned number, struct extent_entry *out);

/* reads_known - an extent that is named by what was READ in this section. @x: NULL where there is
 * none; else it points to @room. */
int reads_known(struct inspect *in, unsigned number, struct extent *room, const struct extent **x);

/* The extent table: @entry[0] to @entry[@count - 1]. */
struct table_look {
	struct extent_entry entry[EXTENTS_MAX];
	uint32_t count;
};

/* reads_table - a look at a struct table_look; its entries may be unsound. */
int reads_table(struct inspect *in, void *table_look);

/* A directory, and what is wrong with it. */
struct directory_look {
	struct root_directory at; /* root's descriptor */
	struct directory header;
	uint64_t addr; /* of it; 0: it cannot be where root says */
	struct dir_cache *entries; /* counted; NULL: it is not sound */
	const char *fault; /* of descriptor or header */
	char text[JUDGE_TEXT];
};

/* reads_directory - a look at a struct directory_look; INSPECT_AGAIN: it has a fault. What was in
 * it before is let go of. */
int reads_directory(struct inspect *in, void *directory_look);

/* reads_use - the reader goes by this directory from now on. No section needed. */
void reads_use(struct inspect *in, const struct directory_look *d);

/* A segment: that of @hash by the cached directory. */
struct segment_look {
	uint64_t hash;
	uint64_t entry, addr;
	uint32_t rkey;
	bool placed; /* the entry leads to where a segment may be: addr, rkey, buckets are set */
	bool fits; /* all main buckets are the entry's */
	struct bucket bucket[SEGMENT_ALL];
};

/* reads_segment - a look at a struct segment_look; INSPECT_AGAIN: it does not fit, and the
 * directory's entry was READ again; -EPROTO: the directory is not sound. */
int reads_segment(struct inspect *in, void *segment_look);

/* Where a slot leads to. */
struct placed {
	uint64_t addr;
	uint32_t rkey, bytes;
	const char *fault; /* it leads nowhere; text */
	char text[JUDGE_TEXT];
};

int reads_place(struct inspect *in, uint64_t slot, struct placed *out);

/* Loads of private copies. */
static inline uint64_t reads_header(const struct bucket *b)
{
	return atomic_load_explicit(&b->header, memory_order_relaxed); /* a copy */
}

static inline uint64_t reads_slot(const struct bucket *b, unsigned i)
{
	return atomic_load_explicit(&b->slot[i], memory_order_relaxed); /* a copy */
}

/* reads_used - slots of a bucket that are not empty. */
unsigned reads_used(const struct bucket *b);
