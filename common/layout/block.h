/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A block: one immutable key/value record, 64 B aligned in a DATA extent.
 *
 *     0  checksum     8 B  see below
 *     8  state        8 B  bits 0..31 state, bits 32..63 incarnation of this address
 *    16  version      8 B  server-wide log sequence number
 *    24  key_hash     8 B
 *    32  expiry_ms    8 B  wall clock of the server, ms since 1970; 0: never
 *    40  value_len    4 B
 *    44  key_len      2 B
 *    46  flags        2 B  zero
 *    48  key, then value, without padding
 *
 * checksum = XXH3(bytes 12..47, seeded with XXH3(key, value)): it covers the incarnation and
 * every other field but not the state, which changes while the block lives. Two steps, so that
 * the long part is computed before the version is known, outside the bucket's lock.
 *
 * Life of an address: INVALID (incarnation + 1) -> LIVE -> OBSOLETE -> (grace period) ->
 * INVALID (incarnation + 1) ... An address whose incarnation is exhausted is never reused.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "common/layout/fields.h"

enum block_state { BLOCK_INVALID = 0, BLOCK_LIVE = 1, BLOCK_OBSOLETE = 2 };

struct block {
	uint64_t checksum;
	_Atomic uint64_t state;
	uint64_t version;
	uint64_t key_hash;
	uint64_t expiry_ms;
	uint32_t value_len;
	uint16_t key_len;
	uint16_t flags;
	uint8_t data[];
};

#define BLOCK_HEADER_BYTES  48u
#define BLOCK_CHECKED_START 12u /* first byte that the checksum covers */

LAYOUT(struct block, BLOCK_HEADER_BYTES, checksum, 0, state, 8, version, 16, key_hash, 24,
       expiry_ms, 32, value_len, 40, key_len, 44, flags, 46, data, 48);

static inline uint64_t block_state_make(uint32_t incarnation, enum block_state state)
{
	return (uint64_t)incarnation << 32 | (uint32_t)state;
}

static inline uint32_t block_state_incarnation(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static inline uint32_t block_state_of(uint64_t word)
{
	return (uint32_t)word;
}

/* block_bytes - length of a record in memory. */
static inline uint32_t block_bytes(uint32_t key_len, uint32_t value_len)
{
	return BLOCK_HEADER_BYTES + key_len + value_len;
}

/*
 * block_checksum - of a block whose header fields and incarnation are final.
 * @body_hash: XXH3 of key and value, from block_body_hash().
 */
uint64_t block_checksum(const struct block *b, uint64_t body_hash);

/* block_body_hash - of the key and value that stand in b->data; lengths must be set. */
uint64_t block_body_hash(const struct block *b);

enum block_verdict {
	BLOCK_OK, /* LIVE, the key asked for, checksum right */
	BLOCK_GONE, /* not LIVE, or another incarnation: look at the bucket again */
	BLOCK_OTHER_KEY, /* a sound block of another key: fingerprints collided */
	BLOCK_BAD, /* lengths or checksum wrong: torn, or not a block */
};

/*
 * block_verify - judge a fetched copy of a block (DESIGN 4.1).
 * @b: private copy, 8-byte aligned, @len bytes of it fetched; nothing beyond is touched.
 * @key: the full key wanted, with its @hash.
 * @incarnation: what a hint promised, or 0 where the slot led here.
 * Lengths are untrusted. No ordering: the copy is private. Any thread.
 */
enum block_verdict block_verify(const struct block *b, uint32_t len, const void *key,
				uint32_t key_len, uint64_t hash, uint32_t incarnation);

/* Bytes of a block that were fetched to another place than its header. */
struct block_part {
	const void *at; /* any alignment; may be NULL where len is 0 */
	uint32_t len;
};

/*
 * block_verify_split - the same for a block that was scattered when it was fetched: @len bytes at
 * @b, at least header and @key_len more, then the two parts. The verdict is that of block_verify()
 * on the three joined.
 */
enum block_verdict block_verify_split(const struct block *b, uint32_t len,
				      const struct block_part part[2], const void *key,
				      uint32_t key_len, uint64_t hash, uint32_t incarnation);

/* block_verify_any - the same for a block of an unknown key, as scans need; OTHER_KEY never. */
enum block_verdict block_verify_any(const struct block *b, uint32_t len);

/*
 * block_verify_key - judge the first @len bytes of a block of @whole, header and key at least: it
 * is LIVE, its lengths fit into @whole, and its key has the hash that stands there, by @seed. The
 * checksum is over the value too: only the grace period vouches for the other fields. So a slot
 * that was READ in the same section led to the block.
 */
enum block_verdict block_verify_key(const struct block *b, uint32_t len, uint32_t whole,
				    uint64_t seed);
