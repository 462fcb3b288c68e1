/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Seconds and numbers as people write them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/unit.h"

#include "client/include/gracekv.h"
#include "tools/kv-cli/units.h"

static struct error err;

static void test_seconds(void **state)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} good[] = {
		{ "0.5", 500 },
		{ ".25", 250 },
		{ "5", 5000 },
		{ "0.001", 1 },
		{ "1.5", 1500 },
		{ "1.05", 1050 },
		{ "007.100000", 7100 },
		{ "3162240000", GKV_TTL_MAX },
		{ "3162240000.000", GKV_TTL_MAX },
		{ "3162239999.999", GKV_TTL_MAX - 1 },
	};
	uint64_t ms;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(units_seconds("--ttl", good[i].text, 1, &ms, &err), 0);
		assert_int_equal(ms, good[i].ms);
	}
	assert_int_equal(units_seconds("S", "0", 0, &ms, &err), 0);
	assert_int_equal(ms, 0);
}

static void test_seconds_refused(void **state)
{
	static const char *const no_number[] = { "",	  ".",	 "5.",	 "1e3",	 "inf",	 "nan",
						 "0x10",  "+5",	 "-5",	 " 5",	 "5 ",	 "5s",
						 "1.5.5", "1,5", "1.-5", "\xff", "1.5e", "--5" };
	static const char *const no_range[] = { "0",
						"0.000",
						".0009",
						"1.2345",
						"3162240000.001",
						"3162240001",
						"18446744073709552", /* 384 ms, modulo 2^64 */
						"18446744073709551615",
						"18446744073709551616",
						"99999999999999999999999999999999999999999999" };
	uint64_t ms;

	for (size_t i = 0; i < sizeof(no_number) / sizeof(no_number[0]); i++) {
		assert_int_equal(units_seconds("--ttl", no_number[i], 1, &ms, &err), -EINVAL);
		assert_non_null(strstr(err.text, "--ttl: '"));
	}
	for (size_t i = 0; i < sizeof(no_range) / sizeof(no_range[0]); i++)
		assert_int_equal(units_seconds("--ttl", no_range[i], 1, &ms, &err), -ERANGE);
}

static void test_numbers(void **state)
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

static void test_times(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seconds),
		cmocka_unit_test(test_seconds_refused),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
