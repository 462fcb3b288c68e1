/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Buckets and segments, the contents of INDEX extents, and the directory that finds them.
 *
 * A key's hash is cut into: the top `depth` bits choose the directory entry, bits 22..27 the
 * bucket of the segment, bits 0..21 are the fingerprint.
 *
 * Bucket, 256 B, 256 B aligned; one READ fetches it whole:
 *     0  header  8 B
 *     8  slot    8 B each, 31 of them
 *
 * Bucket header (one 8-byte word, 0 is invalid):
 *   bits  0..23  segment incarnation, counted from 1, never repeated at an address
 *   bits 24..47  prefix: the top local_depth bits of every hash that belongs here
 *   bits 48..52  local depth
 *   bit  53      MOVED: the segment was replaced; read the directory again
 *   bits 54..63  overflow: 0, or 1 + the number of the next bucket of the chain among the
 *                segment's overflow buckets
 *
 * Segment, SEGMENT_BYTES, at multiples of SEGMENT_BYTES from the start of its extent:
 * SEGMENT_BUCKETS buckets that hashes choose, then SEGMENT_OVERFLOW overflow buckets.
 *
 * Directory entry (one aligned 8-byte word, 0 is invalid):
 *   bits  0..23  segment incarnation
 *   bits 24..28  local depth
 *   bits 29..44  number of the segment in its extent
 *   bits 45..56  extent number
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/mutant.h"
#include "common/layout/fields.h"

#define BUCKET_BYTES	 256u
#define BUCKET_SLOTS	 31u
#define SEGMENT_BUCKETS	 64u
#define SEGMENT_OVERFLOW 16u
#define SEGMENT_BYTES	 ((SEGMENT_BUCKETS + SEGMENT_OVERFLOW) * BUCKET_BYTES)
#define DEPTH_MAX	 24u
#define BUCKET_SHIFT	 22u /* of a hash: where the number of its bucket stands */

struct bucket {
	_Atomic uint64_t header;
	_Atomic uint64_t slot[BUCKET_SLOTS];
};

LAYOUT(struct bucket, BUCKET_BYTES, header, 0, slot, 8);

struct segment {
	struct bucket bucket[SEGMENT_BUCKETS];
	struct bucket overflow[SEGMENT_OVERFLOW];
};

LAYOUT(struct segment, SEGMENT_BYTES, bucket, 0, overflow, (SEGMENT_BUCKETS * BUCKET_BYTES));

static inline uint64_t bucket_header_make(uint32_t incarnation, uint32_t prefix, unsigned depth,
					  bool moved, unsigned overflow)
{
	return (uint64_t)(incarnation & 0xffffff) | (uint64_t)(prefix & 0xffffff) << 24 |
	       (uint64_t)(depth & 31) << 48 | (uint64_t)moved << 53 |
	       (uint64_t)(overflow & 1023) << 54;
}

static inline uint32_t bucket_header_incarnation(uint64_t header)
{
	return (uint32_t)header & 0xffffff;
}

static inline uint32_t bucket_header_prefix(uint64_t header)
{
	return (uint32_t)(header >> 24) & 0xffffff;
}

static inline unsigned bucket_header_depth(uint64_t header)
{
	return (unsigned)(header >> 48) & 31;
}

static inline bool bucket_header_moved(uint64_t header)
{
	return header >> 53 & 1;
}

/* bucket_header_overflow - 0: the chain ends here; otherwise 1 + number of the next bucket. */
static inline unsigned bucket_header_overflow(uint64_t header)
{
	return (unsigned)(header >> 54);
}

static inline uint64_t directory_entry_make(uint32_t incarnation, unsigned depth, unsigned extent,
					    unsigned segment)
{
	return (uint64_t)(incarnation & 0xffffff) | (uint64_t)(depth & 31) << 24 |
	       (uint64_t)(segment & 0xffff) << 29 | (uint64_t)(extent & 0xfff) << 45;
}

static inline uint32_t directory_entry_incarnation(uint64_t entry)
{
	return (uint32_t)entry & 0xffffff;
}

static inline unsigned directory_entry_depth(uint64_t entry)
{
	return (unsigned)(entry >> 24) & 31;
}

static inline unsigned directory_entry_segment(uint64_t entry)
{
	return (unsigned)(entry >> 29) & 0xffff;
}

static inline unsigned directory_entry_extent(uint64_t entry)
{
	return (unsigned)(entry >> 45) & 0xfff;
}

/* hash_prefix - the top @depth bits of a hash, as a number; @depth 0 gives 0. */
static inline uint32_t hash_prefix(uint64_t hash, unsigned depth)
{
	return depth ? (uint32_t)(hash >> (64 - depth)) : 0;
}

/* hash_bucket - which of the SEGMENT_BUCKETS buckets of its segment a hash belongs to. */
static inline unsigned hash_bucket(uint64_t hash)
{
	return (unsigned)(hash >> BUCKET_SHIFT) & (SEGMENT_BUCKETS - 1);
}

/*
 * bucket_header_fits - whether a fetched bucket is the one that a directory entry promised:
 * not MOVED, the entry's incarnation and depth, and the hash's own prefix.
 */
static inline bool bucket_header_fits(uint64_t header, uint64_t entry, uint64_t hash)
{
	unsigned depth = directory_entry_depth(entry);

	return header && !bucket_header_moved(header) &&
	       (bucket_header_incarnation(header) == directory_entry_incarnation(entry) ||
		MUTANT(no_incarnation)) &&
	       bucket_header_depth(header) == depth &&
	       bucket_header_prefix(header) == hash_prefix(hash, depth);
}

/*
 * Directory, in a DIR extent, 64 B aligned: a 64 B header, then 2^depth entries.
 *     0  magic               8 B
 *     8  depth               4 B
 *    12  incarnation         4 B, counted from 1, never repeated while the server lives
 *    16  server_incarnation  8 B
 *    24  checksum            8 B, of bytes 0..23
 *    32  reserved           32 B, zero
 */
#define DIRECTORY_MAGIC 0x5249444b56564b47ull /* "GKVVKDIR" in memory */

struct directory {
	uint64_t magic;
	uint32_t depth;
	uint32_t incarnation;
	uint64_t server_incarnation;
	uint64_t checksum;
	uint64_t reserved[4];
	_Atomic uint64_t entry[];
};

LAYOUT(struct directory, 64, magic, 0, depth, 8, incarnation, 12, server_incarnation, 16, checksum,
       24, reserved, 32, entry, 64);
