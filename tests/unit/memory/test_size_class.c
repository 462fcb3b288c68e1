/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Size classes: order, steps, and that a READ by size code never leaves the block. */
#include "common/layout/size_code.h"
#include "server/memory/size_class.h"
#include "tests/unit/memory/recorder.h"

static void classes_are_codes_in_order(void **state)
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
		if (c >= 16)
			assert_true(bytes - before <= before / 8);
		before = bytes;
	}
}

static void every_length_fits(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes_are_codes_in_order),
		cmocka_unit_test(every_length_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
