/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A slot: the 8-byte index word of one record. 0 is empty. Written by the server with one
 * release store, fetched whole by a READ (aligned 8-byte words do not tear).
 *
 *   bits  0..21  offset of the block in its extent, units of 64 B
 *   bits 22..33  extent number
 *   bits 34..41  read-size code (size_code.h), never 0
 *   bits 42..63  fingerprint: the low 22 bits of the key's hash
 */
#include <stdint.h>

#include "common/layout/limits.h"

#define FINGERPRINT_BITS 22
#define FINGERPRINT_MASK ((1u << FINGERPRINT_BITS) - 1)

static inline uint32_t slot_fingerprint_of_hash(uint64_t hash)
{
	return (uint32_t)hash & FINGERPRINT_MASK;
}

static inline uint64_t slot_make(uint32_t fingerprint, unsigned size_code, unsigned extent,
				 uint32_t offset)
{
	return (uint64_t)fingerprint << 42 | (uint64_t)size_code << 34 | (uint64_t)extent << 22 |
	       offset / OFFSET_UNIT;
}

static inline uint32_t slot_fingerprint(uint64_t slot)
{
	return (uint32_t)(slot >> 42);
}

static inline unsigned slot_size_code(uint64_t slot)
{
	return (unsigned)(slot >> 34) & 0xff;
}

static inline unsigned slot_extent(uint64_t slot)
{
	return (unsigned)(slot >> 22) & 0xfff;
}

/* slot_offset - in bytes, a multiple of 64 below EXTENT_BYTES_MAX. */
static inline uint32_t slot_offset(uint64_t slot)
{
	return ((uint32_t)slot & 0x3fffff) * OFFSET_UNIT;
}
