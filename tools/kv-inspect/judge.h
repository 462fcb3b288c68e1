/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What is wrong with a thing that was READ, in words; NULL: nothing. Pure: private copies, no
 * READs. Words are static, or stand in the caller's @text. Any thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "client/src/know/world.h"
#include "common/layout/block.h"
#include "common/layout/bucket.h"
#include "common/layout/root.h"

#define JUDGE_TEXT 200u

/* judge_root - without the parts that have a checksum. @incarnation: what WELCOME said; 0: any. */
const char *judge_root(const struct root *root, uint64_t incarnation, char text[JUDGE_TEXT]);

/* judge_root_extents - its place of the extent table. */
const char *judge_root_extents(const struct root_extents *x, char text[JUDGE_TEXT]);

/* judge_root_directory - its place of the directory, in the extent @x; NULL: there is none. */
const char *judge_root_directory(const struct root_directory *d, const struct extent *x,
				 char text[JUDGE_TEXT]);

/* judge_directory - the header that stands where @at says. */
const char *judge_directory(const struct directory *d, const struct root_directory *at,
			    uint64_t incarnation, char text[JUDGE_TEXT]);

/* judge_extent - an entry of the extent table; all zero is none, and good. */
const char *judge_extent(const struct extent_entry *e, char text[JUDGE_TEXT]);

/* judge_entry - a directory entry in a directory of @depth, without what it leads to. */
const char *judge_entry(uint64_t entry, unsigned depth, char text[JUDGE_TEXT]);

/* judge_run_length - how many entries from @first on are the same word. */
uint64_t judge_run_length(const struct dir_cache *d, uint64_t first);

/* judge_run - such a run, and where it leads to. @x: the entry's extent; NULL: there is none. */
const char *judge_run(const struct dir_cache *d, uint64_t first, uint64_t count,
		      const struct extent *x, char text[JUDGE_TEXT]);

/* judge_header - a bucket's, against the entry that led to it, of hashes with its prefix. */
const char *judge_header(uint64_t header, uint64_t entry, uint64_t hash, char text[JUDGE_TEXT]);

/* judge_slot - why its block can be at no such place. @x: its extent; NULL: there is none. */
const char *judge_slot(uint64_t slot, const struct extent *x, char text[JUDGE_TEXT]);

/* judge_entry_at - an entry of a directory that is nobody else's. */
static inline uint64_t judge_entry_at(const struct dir_cache *d, uint64_t i)
{
	/* relaxed: the word names itself, and what it leads to is checked against it */
	return atomic_load_explicit(&d->entry[i], memory_order_relaxed);
}

/* A block's copy, judged in all that it says of itself. */
struct judged {
	uint32_t state, incarnation;
	uint32_t bytes; /* header, key and value, as its lengths say; 0: they cannot be */
	bool checksum_good; /* never where the lengths cannot be */
	bool hash_good; /* the key's hash is what the header says; likewise */
	const char *fault; /* worst of it, static; NULL: LIVE and sound */
};

/* judge_block - @len bytes were fetched, at least the header. Lengths are untrusted. */
struct judged judge_block(const struct block *b, uint32_t len, uint64_t seed);

/* judge_state - "invalid", "live", "obsolete"; "none" for anything else. */
const char *judge_state(uint32_t state);

/* judge_record - of a sound block: is it where its hash belongs, under a slot that is its own?
 * @bucket: of its chain's begin. */
const char *judge_record(const struct block *b, uint64_t slot, uint64_t header, unsigned bucket,
			 char text[JUDGE_TEXT]);
