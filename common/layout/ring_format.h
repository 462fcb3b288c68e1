/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The ring that a backup offers: memory into which the primary of one term WRITEs its log.
 * Little-endian; a row of batches, each at a multiple of RING_UNIT: a header, then records as they
 * stand in the log (log_format.h), then anything up to the next multiple. A batch does not go round
 * the ring's end: where the rest does not hold it, a header of kind RING_SKIP fills the rest.
 *
 * Places count the bytes of the ring over all laps, from 0; the byte of place P is at P modulo the
 * ring's length.
 *
 * Batch header, 128 B:
 *     0  magic      8 B  "GKVRING1"
 *     8  checksum   8 B  XXH3 of bytes 16 to 127, seeded with the ring's key
 *    16  place      8 B  of this header
 *    24  position   8 B  in the log, of the first record; of none: of the next one
 *    32  committed  8 B  position: all below is committed
 *    40  term       8 B  in which the records were decided
 *    48  ring_term  8 B  whose primary has the ring
 *    56  end        8 B  position where that primary's log ended when it became it
 *    64  clock_ms   8 B  of the group: expiry goes by it
 *    72  body       8 B  XXH3 of the records, 0 where there are none
 *    80  bytes      4 B  of the records
 *    84  records    4 B  how many
 *    88  kind       4 B  enum ring_kind
 *    92  zero      36 B
 *
 * The key is random and known to the two servers alone. Without it a record's value, which a client
 * chooses, could pass for a batch once an earlier lap's bytes are looked at as a header.
 */
#include <stdint.h>

#include "common/layout/fields.h"
#include "common/layout/log_format.h"

#define RING_MAGIC 0x31474e4952564b47ull /* "GKVRING1" */
#define RING_UNIT  128u

enum ring_kind {
	RING_RECORDS = 1,
	RING_TELL = 2, /* no records: what is committed, and the clock */
	RING_SKIP = 3, /* no records: the next batch is at the ring's beginning */
};

struct ring_batch {
	uint64_t magic;
	uint64_t checksum;
	uint64_t place;
	uint64_t position;
	uint64_t committed;
	uint64_t term;
	uint64_t ring_term;
	uint64_t end;
	uint64_t clock_ms;
	uint64_t body;
	uint32_t bytes;
	uint32_t records;
	uint32_t kind;
	uint32_t zero[9];
};

LAYOUT(struct ring_batch, RING_UNIT, magic, 0, checksum, 8, place, 16, position, 24, committed, 32,
       term, 40, ring_term, 48, end, 56, clock_ms, 64, body, 72, bytes, 80, records, 84, kind, 88,
       zero, 92);

/* What a batch of @bytes takes in the ring. */
static inline uint64_t ring_batch_bytes(uint32_t bytes)
{
	return sizeof(struct ring_batch) +
	       (((uint64_t)bytes + RING_UNIT - 1) & ~(uint64_t)(RING_UNIT - 1));
}

/* A ring holds four of the longest batches at least. */
#define RING_BYTES_MIN (4 * (uint64_t)((LOG_RECORD_MAX + 2 * RING_UNIT) & ~(RING_UNIT - 1)))

uint64_t ring_batch_checksum(const struct ring_batch *b, uint64_t key);

/*
 * ring_batch_decode - the header of @place, of which @len bytes of the ring are left to its end. It
 * is a copy: nothing changes it meanwhile. Returns 0, or -EINVAL with @why: it has not come, or not
 * all of it, or is none. The records are not looked at.
 */
int ring_batch_decode(const void *bytes, uint64_t len, uint64_t key, uint64_t place,
		      const struct ring_batch **out, const char **why);
