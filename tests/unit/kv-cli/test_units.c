/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Times and numbers as people write them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/unit.h"

#include "tools/kv-cli/units.h"

static struct error err;

UNIT_TEST(test_numbers)
{
	static const char *const no_number[] = {
		"", "-", "+", "1x", "--1", "1.5", " 1", "0x1", "1 "
	};
	int64_t n;

	assert_int_equal(units_i64("N", "-9223372036854775808", &n, &err), 0);
	assert_true(n == INT64_MIN);
	assert_int_equal(units_i64("N", "9223372036854775807", &n, &err), 0);
	assert_true(n == INT64_MAX);
	assert_int_equal(units_i64("N", "+7", &n, &err), 0);
	assert_int_equal(n, 7);
	assert_int_equal(units_i64("N", "9223372036854775808", &n, &err), -ERANGE);
	assert_int_equal(units_i64("N", "-9223372036854775809", &n, &err), -ERANGE);
	for (size_t i = 0; i < sizeof(no_number) / sizeof(no_number[0]); i++)
		assert_int_equal(units_i64("N", no_number[i], &n, &err), -EINVAL);
}

UNIT_TEST(test_times)
{
	char time[UNITS_TIME_MAX], left[UNITS_LEFT_MAX];

	assert_string_equal(units_time(time, 0), "never");
	assert_string_equal(units_time(time, 1), "1970-01-01T00:00:00.001Z");
	assert_string_equal(units_time(time, 951827696789), "2000-02-29T12:34:56.789Z");
	units_time(time, UINT64_MAX); /* no year that fits: still a string */
	assert_true(strlen(time) < UNITS_TIME_MAX);
	assert_string_equal(units_left(left, 0, 0), "never");
	assert_string_equal(units_left(left, 0, 5), "never");
	assert_string_equal(units_left(left, 1, 0), "0.001");
	assert_string_equal(units_left(left, 1, 1), "0.000");
	assert_string_equal(units_left(left, 1, 2), "0.000");
	assert_string_equal(units_left(left, 1, UINT64_MAX), "0.000");
	assert_string_equal(units_left(left, 951827696789 + 90000070, 951827696789), "90000.070");
	assert_string_equal(units_left(left, UINT64_MAX, 0), "18446744073709551.615");
	assert_int_equal(units_left_ms(951827696789, 951827690000), 6789);
	assert_int_equal(units_left_ms(951827690000, 951827696789), 0);
}
