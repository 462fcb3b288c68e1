/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The root page, the extent table and the epoch slot.
 *
 * Root, 4 KiB, LOCAL_WRITE|REMOTE_READ:
 *     0  magic               8 B
 *     8  layout_version      4 B
 *    12  segment_buckets     4 B
 *    16  layout_hash         8 B
 *    24  server_incarnation  8 B  random, never 0, new with each start of the server
 *    32  hash_seed           8 B
 *    40  reserved0          24 B
 *    64  directory          64 B  struct root_directory
 *   128  extent_table       64 B  struct root_extents
 *   192  epoch               8 B  E; on a cache line of its own, so is each of the next two
 *   256  hint_floor          8 B
 *   320  clock_ms            8 B  the server's wall clock, at most CLOCK_PERIOD_MS old
 *   328  lease_until         8 B  of a primary: lease_word.h; 0: the server is in no group
 *   336  lease_clock         8 B  the same
 *   344  reserved            up to 4096
 *
 * Parts that change are 8-byte words, or carry a checksum over themselves: a READ that tears one
 * is seen and repeated.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/layout/fields.h"
#include "common/layout/limits.h"

#define ROOT_MAGIC	0x31544f4f52564b47ull /* "GKVROOT1" in memory */
#define ROOT_BYTES	4096u
#define CLOCK_PERIOD_MS 100u

/*
 * Where the directory is.
 *     0  extent       4 B    4  depth        4 B
 *     8  offset       8 B, bytes from the start of the extent
 *    16  incarnation  4 B   20  reserved     4 B
 *    24  checksum     8 B, of bytes 0..23
 *    32  reserved1   32 B
 */
struct root_directory {
	uint32_t extent;
	uint32_t depth;
	uint64_t offset;
	uint32_t incarnation;
	uint32_t reserved;
	uint64_t checksum;
	uint64_t reserved1[4];
};

LAYOUT(struct root_directory, 64, extent, 0, depth, 4, offset, 8, incarnation, 16, reserved, 20,
       checksum, 24, reserved1, 32);

/*
 * Where the extent table is. Constant while the server lives.
 *     0  addr      8 B    8  rkey   4 B   12  entries  4 B (EXTENTS_MAX)
 *    16  checksum  8 B, of bytes 0..15    24  reserved 40 B
 */
struct root_extents {
	uint64_t addr;
	uint32_t rkey;
	uint32_t entries;
	uint64_t checksum;
	uint64_t reserved[5];
};

LAYOUT(struct root_extents, 64, addr, 0, rkey, 8, entries, 12, checksum, 16, reserved, 24);

struct root {
	uint64_t magic;
	uint32_t layout_version;
	uint32_t segment_buckets;
	uint64_t layout_hash;
	uint64_t server_incarnation;
	uint64_t hash_seed;
	uint64_t reserved0[3];
	struct root_directory directory;
	struct root_extents extents;
	_Atomic uint64_t epoch;
	uint64_t reserved1[7];
	_Atomic uint64_t hint_floor;
	uint64_t reserved2[7];
	_Atomic uint64_t clock_ms;
	_Atomic uint64_t lease_until;
	_Atomic uint64_t lease_clock;
	uint8_t reserved3[ROOT_BYTES - 344];
};

LAYOUT(struct root, ROOT_BYTES, magic, 0, layout_version, 8, segment_buckets, 12, layout_hash, 16,
       server_incarnation, 24, hash_seed, 32, reserved0, 40, directory, 64, extents, 128, epoch,
       192, reserved1, 200, hint_floor, 256, reserved2, 264, clock_ms, 320, lease_until, 328,
       lease_clock, 336, reserved3, 344);

/*
 * One entry of the extent table, 32 B:
 *     0  addr      8 B  remote address of the extent
 *     8  length    8 B  bytes
 *    16  rkey      4 B   20  kind  4 B  enum extent_kind; 0: there is no such extent
 *    24  checksum  8 B  of bytes 0..23
 */
enum extent_kind { EXTENT_NONE = 0, EXTENT_INDEX = 1, EXTENT_DIR = 2, EXTENT_DATA = 3 };

struct extent_entry {
	uint64_t addr;
	uint64_t length;
	uint32_t rkey;
	uint32_t kind;
	uint64_t checksum;
};

#define EXTENT_TABLE_BYTES (EXTENTS_MAX * sizeof(struct extent_entry))

LAYOUT(struct extent_entry, 32, addr, 0, length, 8, rkey, 16, kind, 20, checksum, 24);

/*
 * A session's epoch slot, 64 B, the only memory of the server that its client may write:
 *     0  generation  8 B   of the session; anything else is not quiescent
 *     8  e           8 B   newest epoch announced
 *    16  not_e       8 B   ~e: a torn slot shows
 *    24  beat        8 B   grows with each announcement
 *    32  h           8 B   no hint older than epoch h is held
 *    40  gets        8 B   keys that its handles looked up, on this connection
 *    48  reads       8 B   READs that they posted for them
 *    56  retries     8 B   looks that had to be repeated: of blocks, of the directory
 *
 * The last three are figures for people to watch: nothing depends on them.
 */
struct epoch_slot {
	_Atomic uint64_t generation;
	_Atomic uint64_t e;
	_Atomic uint64_t not_e;
	_Atomic uint64_t beat;
	_Atomic uint64_t h;
	_Atomic uint64_t gets;
	_Atomic uint64_t reads;
	_Atomic uint64_t retries;
};

LAYOUT(struct epoch_slot, 64, generation, 0, e, 8, not_e, 16, beat, 24, h, 32, gets, 40, reads, 48,
       retries, 56);

/* Checksums of the parts above: seal before publishing, sound after fetching. */
void root_directory_seal(struct root_directory *d);
bool root_directory_sound(const struct root_directory *d);
void root_extents_seal(struct root_extents *x);
bool root_extents_sound(const struct root_extents *x);
void extent_entry_seal(struct extent_entry *e);
bool extent_entry_sound(const struct extent_entry *e);

#define LAYOUT_VERSION 4u

/* layout_hash - of every size, offset and constant of the layout. Equal in equal builds. */
uint64_t layout_hash(void);
