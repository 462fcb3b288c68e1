/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Size classes: order, steps, and that a READ by size code never leaves the block. */
#include "common/layout/size_code.h"
#include "server/memory/size_class.h"
#include "tests/unit/memory/recorder.h"

UNIT_TEST(classes_are_codes_in_order)
{
	uint32_t before = 0;

	assert_int_equal(size_class_bytes(0), 64);
	assert_int_equal(size_class_bytes(15), 1024);
	assert_int_equal(size_class_bytes(16), 1152);
	assert_int_equal(size_class_bytes(SIZE_CLASSES - 1), SIZE_CLASS_BYTES_MAX);
	for (unsigned c = 0; c < SIZE_CLASSES; c++) {
		uint32_t bytes = size_class_bytes(c);

		assert_true(bytes > before);
		assert_int_equal(bytes % OFFSET_UNIT, 0);
		assert_int_equal(size_code_bytes(size_code_for(bytes)), bytes);
		if (c >= 16 && c < SIZE_CLASS_STEPS_END)
			assert_true(bytes - before <= before / 8);
		before = bytes;
	}
}

UNIT_TEST(every_length_fits)
{
	for (uint32_t bytes = 1; bytes <= RECORD_BYTES_MAX; bytes++) {
		uint32_t read = size_code_bytes(size_code_for(bytes));
		uint32_t block;

		if (bytes <= SIZE_CLASS_BYTES_MAX) {
			unsigned c = size_class_for(bytes);

			block = size_class_bytes(c);
			if (c >= SIZE_CLASSES || (c && size_class_bytes(c - 1) >= bytes))
				fail_msg("%u bytes: class %u is not the smallest", bytes, c);
		} else {
			block = size_run_slabs(bytes) * SLAB_BYTES;
		}
		if (read < bytes || read > block)
			fail_msg("%u bytes: READ of %u, block of %u", bytes, read, block);
	}
}

/* Of large blocks, as many share a slab as READs of such a length allow. */
UNIT_TEST(large_blocks_fill_their_slabs)
{
	for (uint32_t bytes = SIZE_CLASS_STEPS_MAX + 1; bytes <= SIZE_CLASS_BYTES_MAX; bytes++) {
		uint32_t read = size_code_bytes(size_code_for(bytes));
		uint32_t block = size_class_bytes(size_class_for(bytes));

		if (SLAB_BYTES / block != SLAB_BYTES / read)
			fail_msg("%u bytes: %u blocks a slab, %u are possible", bytes,
				 SLAB_BYTES / block, SLAB_BYTES / read);
	}
}

/* What the rest of a slab after its last block comes to. */
UNIT_TEST(slabs_have_small_rests)
{
	for (unsigned c = 0; c < SIZE_CLASSES; c++) {
		uint32_t rest = SLAB_BYTES % size_class_bytes(c);

		if (rest > SLAB_BYTES / 100 * 6)
			fail_msg("class of %u bytes leaves %u of a slab", size_class_bytes(c),
				 rest);
	}
}
