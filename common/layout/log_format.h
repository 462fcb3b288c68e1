/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The log on disk, little-endian. A POSITION counts bytes of records, from 0 at a directory's
 * beginning, over all its lives; headers and padding have none.
 *
 * A segment is a file, log/POSITION.log, POSITION (16 hexadecimal digits) being that of its first
 * record. It begins with a header, LOG_BLOCK bytes with what follows it; batches come after it,
 * each at a multiple of LOG_BLOCK, one behind the other: a header, its records, zeroes up to the
 * next multiple. A sector that was acknowledged is never written again.
 *
 * Segment header, 96 B:
 *     0  checksum   8 B  XXH3 of bytes 8 to 95
 *     8  magic      8 B  "GKVLOG01"
 *    16  identity   8 B  random, not 0: the seed of the checksums of all that follows
 *    24  first      8 B  position of its first record
 *    32  durable    8 B  all below it was durable when this was written
 *    40  life       8 B  of the server that made it
 *    48  store     16 B  identity of the data directory
 *    64  bytes      8 B  length of the file
 *    72  clock_ms   8 B  wall clock, ms since 1970, that expiry went by
 *    80  zero      16 B
 *
 * Batch header, 64 B:
 *     0  checksum   8 B  XXH3 of bytes 8 to 63, seeded with the identity
 *     8  magic      8 B  "GKVBATCH"
 *    16  position   8 B  of its first record
 *    24  durable    8 B  all below it was durable when the batch was written
 *    32  clock_ms   8 B  as above
 *    40  bytes      4 B  of its records
 *    44  records    4 B
 *    48  zero      16 B
 *
 * Record, 96 B, then key, value, zeroes up to a multiple of 8:
 *     0  checksum   8 B  XXH3 of bytes 8 to 95, seeded with body + identity
 *     8  length     4 B  of all of it, a multiple of 8
 *    12  key_len    2 B
 *    14  kind       1 B  enum log_kind
 *    15  handle     1 B  queue pair of the client
 *    16  position   8 B
 *    24  version    8 B  PUT: of the record; DEL: of the deletion; CLIENT: its first_sequence
 *    32  client    16 B  its id; 0, 0: no client's
 *    48  sequence   8 B  of its request
 *    56  number     8 B  of its reply: INCR's sum, two's complement
 *    64  expiry_ms  8 B  PUT; 0: never
 *    72  value_len  4 B  PUT
 *    76  slot       2 B  request slot
 *    78  zero       2 B
 *    80  body       8 B  XXH3 of key and value, as block_body_hash()
 *    88  zero       8 B
 */
#include <stdbool.h>
#include <stdint.h>

#include "common/layout/fields.h"
#include "common/layout/limits.h"

#define LOG_BLOCK	  4096u
#define LOG_SEGMENT_MAGIC 0x3130474f4c564b47ull /* "GKVLOG01" */
#define LOG_BATCH_MAGIC	  0x4843544142564b47ull /* "GKVBATCH" */

/* A file's length: --log-segment. */
#define LOG_SEGMENT_MIN (64ull << 20)
#define LOG_SEGMENT_MAX (16ull << 30)

enum log_kind {
	LOG_PUT = 1,
	LOG_DEL = 2,
	LOG_CLIENT = 3, /* a client's id was registered */
	LOG_FORGET = 4, /* and forgotten */
};

struct log_segment_header {
	uint64_t checksum;
	uint64_t magic;
	uint64_t identity;
	uint64_t first;
	uint64_t durable;
	uint64_t life;
	uint64_t store[2];
	uint64_t bytes;
	uint64_t clock_ms;
	uint64_t zero[2];
};

LAYOUT(struct log_segment_header, 96, checksum, 0, magic, 8, identity, 16, first, 24, durable, 32,
       life, 40, store, 48, bytes, 64, clock_ms, 72, zero, 80);

struct log_batch_header {
	uint64_t checksum;
	uint64_t magic;
	uint64_t position;
	uint64_t durable;
	uint64_t clock_ms;
	uint32_t bytes;
	uint32_t records;
	uint64_t zero[2];
};

LAYOUT(struct log_batch_header, 64, checksum, 0, magic, 8, position, 16, durable, 24, clock_ms, 32,
       bytes, 40, records, 44, zero, 48);

struct log_record {
	uint64_t checksum;
	uint32_t length;
	uint16_t key_len;
	uint8_t kind;
	uint8_t handle;
	uint64_t position;
	uint64_t version;
	uint64_t client[2];
	uint64_t sequence;
	int64_t number;
	uint64_t expiry_ms;
	uint32_t value_len;
	uint16_t slot;
	uint16_t zero;
	uint64_t body;
	uint64_t zero_too;
	uint8_t data[];
};

#define LOG_RECORD_BYTES 96u

LAYOUT(struct log_record, LOG_RECORD_BYTES, checksum, 0, length, 8, key_len, 12, kind, 14, handle,
       15, position, 16, version, 24, client, 32, sequence, 48, number, 56, expiry_ms, 64,
       value_len, 72, slot, 76, zero, 78, body, 80, zero_too, 88, data, 96);

/* log_record_length - of one with so much key and value. */
static inline uint32_t log_record_length(uint32_t key_len, uint32_t value_len)
{
	return (LOG_RECORD_BYTES + key_len + value_len + 7) & ~7u;
}

#define LOG_RECORD_MAX ((LOG_RECORD_BYTES + KEY_MAX + VALUE_MAX + 7) & ~7u)

/* Bytes of records in a batch, at most: any record fits. */
#define LOG_BATCH_RECORDS_MAX LOG_RECORD_MAX

/* log_batch_bytes - on disk, of a batch with @bytes of records. */
static inline uint64_t log_batch_bytes(uint64_t bytes)
{
	return (sizeof(struct log_batch_header) + bytes + LOG_BLOCK - 1) &
	       ~(uint64_t)(LOG_BLOCK - 1);
}

/* The checksum of each: all other fields are final. */
uint64_t log_segment_checksum(const struct log_segment_header *h);
uint64_t log_batch_checksum(const struct log_batch_header *h, uint64_t identity);
uint64_t log_record_checksum(const struct log_record *r, uint64_t identity);

/*
 * Decoders of untrusted bytes; any thread. Each returns 0, or -EINVAL with *why, a static text that
 * says what is wrong with them. They read @len bytes at most, 8-byte aligned.
 *
 * log_record_decode - the record at @bytes, whole and right, position included. What it returns 0
 * for has lengths within @len, a kind that there is, key and value within their limits, zero
 * padding, and both checksums right.
 * log_record_shape - the same but for the checksum of the fields: of a record that came another way
 * than from a segment, which has an identity.
 */
int log_segment_decode(const void *bytes, uint64_t len, const struct log_segment_header **out,
		       const char **why);
int log_batch_decode(const void *bytes, uint64_t len, uint64_t identity,
		     const struct log_batch_header **out, const char **why);
int log_record_decode(const void *bytes, uint64_t len, uint64_t identity, uint64_t position,
		      const struct log_record **out, const char **why);
int log_record_shape(const void *bytes, uint64_t len, uint64_t position,
		     const struct log_record **out, const char **why);
