/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * DIR/meta: what a data directory is. Replaced as a whole, by rename. 128 B:
 *     0  checksum   8 B  XXH3 of bytes 8 to 127
 *     8  magic      8 B  "GKVMETA1"
 *    16  format     4 B  of the directory: META_FORMAT
 *    20  place      4 B  of the member's directory that wrote the following: of XXH3 of its inode
 *                        number and its time of birth, never 0; 0: it is in no group, or
 *                        the kernel does not tell
 *    24  store     16 B  identity of the directory, random
 *    40  cluster   16 B  identity of the cluster; 0, 0: none
 *    56  hash_seed  8 B
 *    64  life       8 B  versions of this life, and of none after it, may have been given out
 *    72  clock_ms   8 B  wall clock when it was written
 *    80  group      8 B  XXH3 of the group's name; 0: it is in none
 *    88  whole     16 B  two lives of a member: if it was its group's primary in one of them, all
 *                        that it acknowledged is in this directory; 0: none. In another one that it
 *                        has had with this directory it has acknowledged nothing
 *   104  boot      16 B  that is so until the machine starts another time, this being XXH3 of its
 *                        boot_id, and 1; 0, 0: for good; 0, 2: no longer, as there is no boot_id
 *   120  term       8 B  of its group, at least, when it led or learned last; 0: it has not
 */
#include <stdint.h>

#include "common/layout/fields.h"

#define META_MAGIC  0x314154454d564b47ull /* "GKVMETA1" */
#define META_FORMAT 1u

struct data_meta {
	uint64_t checksum;
	uint64_t magic;
	uint32_t format;
	uint32_t place;
	uint64_t store[2];
	uint64_t cluster[2];
	uint64_t hash_seed;
	uint64_t life;
	uint64_t clock_ms;
	uint64_t group;
	uint64_t whole[2];
	uint64_t boot[2];
	uint64_t term;
};

LAYOUT(struct data_meta, 128, checksum, 0, magic, 8, format, 16, place, 20, store, 24, cluster, 40,
       hash_seed, 56, life, 64, clock_ms, 72, group, 80, whole, 88, boot, 104, term, 120);

/* A version of a record: the server's life, then a count in it. */
#define LIFE_BITS  20u
#define COUNT_BITS 44u
#define LIFE_MAX   ((1ull << LIFE_BITS) - 1)

/* life_first - no version of the life @life is less or equal to it; each of lives before is. */
static inline uint64_t life_first(uint64_t life)
{
	return life << COUNT_BITS;
}

uint64_t meta_checksum(const struct data_meta *m);

/* meta_decode - as the decoders of log_format.h. -EPROTO: sound, but of another format. */
int meta_decode(const void *bytes, uint64_t len, const struct data_meta **out, const char **why);
