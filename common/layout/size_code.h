/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The 8-bit read-size code of a slot: how many bytes one READ of the block fetches.
 *
 *   code 0         not used: a slot of all zero bits is empty
 *   code 1..15     code * 64 B
 *   code 16..255   (16 + (code & 15)) << ((code >> 4) - 1) units of 64 B: 16 steps an octave,
 *                  1 KiB to 31 MiB
 *
 * Rounding up wastes at most 1/16 of a READ above 1 KiB.
 */
#include <stdint.h>

#include "common/layout/limits.h"

#define SIZE_CODE_MAX 255u

/* size_code_bytes - the length that a code stands for, a multiple of 64; 0 for code 0. */
static inline uint32_t size_code_bytes(unsigned code)
{
	if (code < 16)
		return code * OFFSET_UNIT;
	return ((16u + (code & 15u)) << ((code >> 4) - 1)) * OFFSET_UNIT;
}

/* size_code_for - the smallest code of at least @bytes; 0 where there is none. */
static inline unsigned size_code_for(uint32_t bytes)
{
	uint32_t units = (bytes + OFFSET_UNIT - 1) / OFFSET_UNIT;
	unsigned shift, mantissa;

	if (bytes == 0 || bytes > size_code_bytes(SIZE_CODE_MAX))
		return 0;
	if (units < 16)
		return units;
	shift = 31u - (unsigned)__builtin_clz(units) - 4u;
	mantissa = (units + (1u << shift) - 1) >> shift;
	if (mantissa == 32) {
		mantissa = 16;
		shift++;
	}
	return ((shift + 1) << 4) + (mantissa - 16);
}
