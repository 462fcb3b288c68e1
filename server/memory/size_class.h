/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Size classes of blocks, in units of OFFSET_UNIT (64 B).
 *
 *   class 0..15    (class + 1) * 64 B: 64 B to 1 KiB
 *   class 16..63   8 steps an octave: 1152 B to 64 KiB
 *   class 64..75   68 to 256 KiB: 15 blocks a slab to 4, each as long as it can be
 *
 * The steps are lengths of the read-size codes (size_code.h): of the second range every second one,
 * of the third those that leave the least of a slab. So each class is itself a length that a code
 * expresses. Hence for every record that fits a class the smallest code that covers it is at most
 * the class: a READ as long as the code says never leaves the block. The same holds for runs, since
 * whole slabs up to 32 MiB are codes as well.
 */
#include <stdint.h>

#include "common/layout/block.h"
#include "common/layout/limits.h"

#define SIZE_CLASSES	      76u
#define SIZE_CLASS_BYTES_MAX  (SLAB_BYTES / 4)
#define SIZE_CLASS_BLOCKS_MAX (SLAB_BYTES / OFFSET_UNIT)
#define RECORD_BYTES_MAX      (BLOCK_HEADER_BYTES + KEY_MAX + VALUE_MAX)

#define SIZE_CLASS_STEPS_END 64u /* first class of the third range */
#define SIZE_CLASS_STEPS_MAX (64u << 10) /* length of the last one before it */

/* size_class_shared - the longest code of which @blocks (4..16) go into a slab, in KiB. */
static inline uint32_t size_class_shared(unsigned blocks)
{
	static const uint16_t kib[] = { 256, 200, 168, 144, 128, 112, 100, 92, 84, 76, 72, 68, 64 };

	return kib[blocks - 4];
}

/* size_class_bytes - the block length of a class. */
static inline uint32_t size_class_bytes(unsigned class_no)
{
	if (class_no < 16)
		return (class_no + 1) * OFFSET_UNIT;
	if (class_no < SIZE_CLASS_STEPS_END)
		return ((8u + (class_no - 15u) % 8u) << ((class_no - 15u) / 8u + 1u)) * OFFSET_UNIT;
	return size_class_shared(SIZE_CLASSES + 3 - class_no) << 10;
}

/* size_class_for - the smallest class of at least @bytes, which is 1..SIZE_CLASS_BYTES_MAX. */
static inline unsigned size_class_for(uint32_t bytes)
{
	uint32_t units = (bytes + OFFSET_UNIT - 1) / OFFSET_UNIT;
	unsigned shift, steps, blocks;

	if (units <= 16)
		return units - 1;
	if (bytes > SIZE_CLASS_STEPS_MAX) {
		blocks = SLAB_BYTES / bytes; /* 4..15 */
		if (size_class_shared(blocks) << 10 < bytes)
			blocks--;
		return SIZE_CLASSES + 3 - blocks;
	}
	shift = 31u - (unsigned)__builtin_clz(units) - 3u;
	steps = (units + (1u << shift) - 1) >> shift; /* 8..16; 16 is step 8 of the next octave */
	return 15u + (shift - 1u) * 8u + (steps - 8u);
}

/* size_run_slabs - how many consecutive slabs a record above SIZE_CLASS_BYTES_MAX takes. */
static inline unsigned size_run_slabs(uint32_t bytes)
{
	return (bytes + SLAB_BYTES - 1) / SLAB_BYTES;
}
