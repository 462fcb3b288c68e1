/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A snapshot: snapshot/POSITION.snap, POSITION (16 hexadecimal digits) being where replay of the
 * log begins. It is written under another name and renamed when it is complete. Little-endian; a
 * row of chunks, each at a multiple of SNAPSHOT_BLOCK with zeroes up to the next one: a header,
 * then its body. The first is HEAD, the last FOOT.
 *
 * Chunk header, 64 B:
 *     0  checksum   8 B  XXH3 of bytes 8 to 63 and the body, seeded with the identity (HEAD: with
 * 0)
 *     8  magic      8 B  "GKVSNAP1"
 *    16  identity   8 B  random, of this snapshot
 *    24  number     4 B  of the chunk, from 0
 *    28  kind       4 B  enum snapshot_kind
 *    32  bytes      4 B  of the body
 *    36  items      4 B  in it
 *    40  zero      24 B
 *
 * HEAD has one struct snapshot_head, FOOT one struct snapshot_foot. RECORDS has records, each
 * padded to a multiple of 8:
 *     0  version    8 B
 *     8  expiry_ms  8 B
 *    16  value_len  4 B
 *    20  key_len    2 B
 *    22  zero       2 B
 *    24  key, then value
 * CLIENTS has replies that are remembered, 80 B each; one with sequence 0 says that the client is
 * known and nothing else:
 *     0  client        16 B
 *    16  first_sequence 8 B
 *    24  sequence       8 B
 *    32  version        8 B
 *    40  expiry_ms      8 B
 *    48  number         8 B
 *    56  value_len      4 B
 *    60  status         4 B  two's complement
 *    64  handle         2 B
 *    66  slot           2 B
 *    68  zero          12 B
 */
#include <stdint.h>

#include "common/layout/fields.h"
#include "common/layout/limits.h"

#define SNAPSHOT_BLOCK 4096u
#define SNAPSHOT_MAGIC 0x3150414e53564b47ull /* "GKVSNAP1" */

/* Of a chunk, header included: any record fits into one. */
#define SNAPSHOT_CHUNK_MAX ((VALUE_MAX + KEY_MAX + 2 * SNAPSHOT_BLOCK) & ~(SNAPSHOT_BLOCK - 1))

enum snapshot_kind {
	SNAPSHOT_HEAD = 1,
	SNAPSHOT_RECORDS = 2,
	SNAPSHOT_CLIENTS = 3,
	SNAPSHOT_FOOT = 4,
};

struct snapshot_chunk {
	uint64_t checksum;
	uint64_t magic;
	uint64_t identity;
	uint32_t number;
	uint32_t kind;
	uint32_t bytes;
	uint32_t items;
	uint64_t zero[3];
};

LAYOUT(struct snapshot_chunk, 64, checksum, 0, magic, 8, identity, 16, number, 24, kind, 28, bytes,
       32, items, 36, zero, 40);

struct snapshot_head {
	uint64_t store[2]; /* of the data directory */
	uint64_t hash_seed;
	uint64_t life;
	uint64_t start; /* S0: replay begins here; all below was published before the walk */
	uint64_t clock_ms;
};

LAYOUT(struct snapshot_head, 48, store, 0, hash_seed, 16, life, 24, start, 32, clock_ms, 40);

struct snapshot_foot {
	uint64_t start; /* as in HEAD */
	uint64_t end; /* nothing in it came from a record that ends above this position */
	uint64_t records;
	uint64_t record_bytes; /* block_bytes() of them all */
	uint64_t clients; /* items of all CLIENTS */
	uint64_t clock_ms;
	uint64_t version; /* the greatest that it has */
	uint64_t chunks; /* FOOT included */
};

LAYOUT(struct snapshot_foot, 64, start, 0, end, 8, records, 16, record_bytes, 24, clients, 32,
       clock_ms, 40, version, 48, chunks, 56);

struct snapshot_record {
	uint64_t version;
	uint64_t expiry_ms;
	uint32_t value_len;
	uint16_t key_len;
	uint16_t zero;
	uint8_t data[];
};

#define SNAPSHOT_RECORD_BYTES 24u

LAYOUT(struct snapshot_record, SNAPSHOT_RECORD_BYTES, version, 0, expiry_ms, 8, value_len, 16,
       key_len, 20, zero, 22, data, 24);

struct snapshot_client {
	uint64_t client[2];
	uint64_t first_sequence;
	uint64_t sequence;
	uint64_t version;
	uint64_t expiry_ms;
	int64_t number;
	uint32_t value_len;
	int32_t status;
	uint16_t handle;
	uint16_t slot;
	uint32_t zero[3];
};

LAYOUT(struct snapshot_client, 80, client, 0, first_sequence, 16, sequence, 24, version, 32,
       expiry_ms, 40, number, 48, value_len, 56, status, 60, handle, 64, slot, 66, zero, 68);

static inline uint32_t snapshot_record_length(uint32_t key_len, uint32_t value_len)
{
	return (SNAPSHOT_RECORD_BYTES + key_len + value_len + 7) & ~7u;
}

/* snapshot_chunk_bytes - on disk, of a chunk with a body of @bytes. */
static inline uint64_t snapshot_chunk_bytes(uint64_t bytes)
{
	return (sizeof(struct snapshot_chunk) + bytes + SNAPSHOT_BLOCK - 1) &
	       ~(uint64_t)(SNAPSHOT_BLOCK - 1);
}

/* snapshot_chunk_checksum - of @c with its body behind it, all other fields final. */
uint64_t snapshot_chunk_checksum(const struct snapshot_chunk *c);

/*
 * Decoders of untrusted bytes, as those of log_format.h: 0, or -EINVAL with *why.
 * snapshot_chunk_decode - header and body at @bytes; a body longer than @len is an error.
 * @identity: of the snapshot; 0: this is HEAD. @number: the one that is due.
 * snapshot_record_decode - the record at @offset of a chunk's body, of @len bytes: its header and
 * *next, where the next begins.
 */
int snapshot_chunk_decode(const void *bytes, uint64_t len, uint64_t identity, uint32_t number,
			  const struct snapshot_chunk **out, const char **why);
int snapshot_record_decode(const void *body, uint32_t len, uint32_t offset,
			   const struct snapshot_record **out, uint32_t *next, const char **why);
int snapshot_client_decode(const void *body, uint32_t len, uint32_t offset,
			   const struct snapshot_client **out, uint32_t *next, const char **why);
