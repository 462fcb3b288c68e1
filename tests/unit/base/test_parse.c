/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Sizes, numbers, addresses and error sentences. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "common/base/parse.h"

static void sizes(void **state)
{
	struct error err;
	uint64_t v;

	assert_int_equal(parse_size("s", "4096", &v, &err), 0);
	assert_int_equal(v, 4096);
	assert_int_equal(parse_size("s", "3k", &v, &err), 0);
	assert_int_equal(v, 3072);
	assert_int_equal(parse_size("s", "4G", &v, &err), 0);
	assert_int_equal(v, 4ull << 30);
	assert_int_equal(parse_size("s", "16777216T", &v, &err), -ERANGE);
	assert_int_equal(parse_size("s", "99999999999999999999", &v, &err), -ERANGE);
	for (const char *const *bad =
		     (const char *const[]){ "", "G", "4X", "4GB", "-1", " 1", "0x10", NULL };
	     *bad; bad++) {
		assert_int_equal(parse_size("--memory", *bad, &v, &err), -EINVAL);
		assert_non_null(strstr(err.text, "--memory"));
	}
}

static void numbers(void **state)
{
	struct error err;
	uint64_t v;

	assert_int_equal(parse_u64("n", "7", 0, 7, &v, &err), 0);
	assert_int_equal(v, 7);
	assert_int_equal(parse_u64("n", "8", 0, 7, &v, &err), -ERANGE);
	assert_int_equal(parse_u64("n", "seven", 0, 7, &v, &err), -EINVAL);
	assert_int_equal(parse_u64("n", "7x", 0, 70, &v, &err), -EINVAL);
}

static void addresses(void **state)
{
	char host[256] = "default", port[8] = "1";
	struct error err;

	assert_int_equal(parse_host_port("a", "127.0.0.1:80", host, port, &err), 0);
	assert_string_equal(host, "127.0.0.1");
	assert_string_equal(port, "80");
	assert_int_equal(parse_host_port("a", "[::1]:7471", host, port, &err), 0);
	assert_string_equal(host, "::1");
	assert_string_equal(port, "7471");
	assert_int_equal(parse_host_port("a", ":0", host, port, &err), 0);
	assert_string_equal(host, "::1");
	assert_string_equal(port, "0");
	assert_int_equal(parse_host_port("a", "7472", host, port, &err), 0);
	assert_string_equal(host, "::1");
	assert_string_equal(port, "7472");
	assert_int_equal(parse_host_port("a", "747200", host, port, &err), -EINVAL);
	assert_int_equal(parse_host_port("a", "host", host, port, &err), 0);
	assert_string_equal(host, "host");
	for (const char *const *bad =
		     (const char *const[]){ "a:65536", "a:b", "::1", "[::1", "a:", "a:000080",
					    "[::1]x", "a b", "\033[31m:1", "h\xff", "[::1]\n:1",
					    "\x7f", NULL };
	     *bad; bad++)
		assert_int_equal(parse_host_port("a", *bad, host, port, &err), -EINVAL);
}

static void sentences(void **state)
{
	struct error err;
	char lots[2000];

	memset(lots, 'x', sizeof(lots) - 1);
	lots[sizeof(lots) - 1] = '\0';
	assert_int_equal(error_set(&err, -ENOENT, "no %s", "file"), -ENOENT);
	assert_int_equal(error_prefix(&err, "line %d", 3), -ENOENT);
	assert_string_equal(err.text, "line 3: no file");
	error_set(&err, -EIO, "%s", lots);
	assert_int_equal(strlen(err.text), ERROR_TEXT_MAX - 1);
	error_prefix(&err, "%s", lots);
	assert_int_equal(strlen(err.text), ERROR_TEXT_MAX - 1);
	assert_int_equal(error_set(NULL, -EIO, "x"), -EIO);
	assert_string_equal(error_name(-ENOENT), error_name(ENOENT));
	assert_string_equal(error_name(INT_MIN), "unknown error");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test(numbers),
		cmocka_unit_test(addresses),
		cmocka_unit_test(sentences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
