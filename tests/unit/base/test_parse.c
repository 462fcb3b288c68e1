/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Sizes, numbers, addresses and error sentences. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "common/base/nearest.h"
#include "common/base/parse.h"

UNIT_TEST(sizes)
{
	struct error err;
	uint64_t v;

	assert_int_equal(parse_size("s", "4096", &v, &err), 0);
	assert_int_equal(v, 4096);
	assert_int_equal(parse_size("s", "3k", &v, &err), 0);
	assert_int_equal(v, 3072);
	assert_int_equal(parse_size("s", "4G", &v, &err), 0);
	assert_int_equal(v, 4ull << 30);
	assert_int_equal(parse_size("s", "512MiB", &v, &err), 0);
	assert_int_equal(v, 512 << 20);
	assert_int_equal(parse_size("s", "2kib", &v, &err), 0);
	assert_int_equal(v, 2048);
	assert_int_equal(parse_size("s", "16777216T", &v, &err), -ERANGE);
	assert_int_equal(parse_size("s", "99999999999999999999", &v, &err), -ERANGE);
	for (const char *const *bad =
		     (const char *const[]){ "", "G", "4X", "4GB", "4GiBs", "4Gi", "4iB", "4B", "-1",
					    " 1", "0x10", NULL };
	     *bad; bad++) {
		assert_int_equal(parse_size("--memory", *bad, &v, &err), -EINVAL);
		assert_non_null(strstr(err.text, "--memory"));
	}
	/* elsewhere MB is a power of ten: it is not guessed */
	assert_int_equal(parse_size("--memory", "512MB", &v, &err), -EINVAL);
	assert_non_null(strstr(err.text, "(give 512M or 512MiB)"));
}

UNIT_TEST(durations)
{
	static const struct {
		const char *text, *unit;
		uint64_t ms;
	} good[] = {
		{ "30s", "s", 30000 },
		{ "30", "s", 30000 },
		{ "30", "ms", 30 },
		{ "250ms", "s", 250 },
		{ "5m", "s", 300000 },
		{ "2h", "ms", 7200000 },
		{ "1D", "s", 86400000 },
		{ "1.5s", "ms", 1500 },
		{ "0.5", "s", 500 },
		{ ".25", "s", 250 },
		{ "1.05", "s", 1050 },
		{ "007.100000", "s", 7100 },
		{ "0.0000000000000", "s", 0 },
		{ "0.001h", "s", 3600 },
		{ "9223372036854775.807", "s", INT64_MAX },
	};
	static const char *const no_duration[] = { "",	   ".",	   "5.",   "1e3",  "inf",  "nan",
						   "0x10", "+5",   "-5",   " 5",   "5 ",   "5 s",
						   "s",	   "1,5",  "1.-5", "\xff", "1.5e", "--5",
						   "5mm",  "5sec", "1m30s" };
	static const char *const no_range[] = { "0.0001",
						"1.2345",
						"0.5ms",
						"0.1234567890123",
						"1000000000d",
						"18446744073709552", /* 384 ms */
						"18446744073709551616",
						"213503982334d",
						"99999999999999999999999999999999999999999" };
	struct error err;
	uint64_t ms;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (parse_duration("--ttl", good[i].text, good[i].unit, 0, INT64_MAX, &ms, &err))
			fail_msg("%s", err.text);
		assert_int_equal(ms, good[i].ms);
	}
	for (size_t i = 0; i < sizeof(no_duration) / sizeof(no_duration[0]); i++) {
		assert_int_equal(parse_duration("--ttl", no_duration[i], "s", 0, 9, &ms, &err),
				 -EINVAL);
		assert_non_null(strstr(err.text, "--ttl: '"));
		assert_non_null(strstr(err.text, "30s"));
	}
	for (size_t i = 0; i < sizeof(no_range) / sizeof(no_range[0]); i++)
		assert_int_equal(parse_duration("--ttl", no_range[i], "s", 0, 86400000, &ms, &err),
				 -ERANGE);
	assert_int_equal(parse_duration("--lease", "9", "ms", 10, 600000, &ms, &err), -ERANGE);
	assert_string_equal(err.text, "--lease: 9 is out of range (give 10ms to 10m)");
	assert_int_equal(parse_duration("--lease", "10", "ms", 10, 600000, &ms, &err), 0);
	assert_int_equal(parse_duration("--lease", "10m", "ms", 10, 600000, &ms, &err), 0);
	assert_int_equal(ms, 600000);
}

static const char *meant(const char *word)
{
	static const char *const names[] = { "get",	  "put",	"mget",	     "memory",
					     "log-level", "log-format", "if-absent", NULL };
	struct nearest n = nearest_to(word);

	for (const char *const *name = names; *name; name++)
		nearest_try(&n, *name);
	return n.name;
}

/* A letter more, less, wrong or swapped, another case, a beginning; and words that are not near. */
UNIT_TEST(misspelt_names)
{
	static const char *const near[][2] = {
		{ "gett", "get" },
		{ "gt", "get" },
		{ "GET", "get" },
		{ "gte", "get" },
		{ "memroy", "memory" },
		{ "memmory", "memory" },
		{ "mem", "memory" },
		{ "log_level", "log-level" },
		{ "log-f", "log-format" },
		{ "loglevel", "log-level" },
		{ "ifabsent", "if-absent" },
		{ "mgt", "mget" },
	};
	static const char *const far[] = {
		"",
		"g",
		"frobnicate",
		"xyz",
		"memoryandmore",
		"levels",
		"a word that is much longer than any name could ever be"
	};

	for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++) {
		assert_non_null(meant(near[i][0]));
		assert_string_equal(meant(near[i][0]), near[i][1]);
	}
	for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++)
		assert_null(meant(far[i]));
}

UNIT_TEST(numbers)
{
	struct error err;
	uint64_t v;

	assert_int_equal(parse_u64("n", "7", 0, 7, &v, &err), 0);
	assert_int_equal(v, 7);
	assert_int_equal(parse_u64("n", "8", 0, 7, &v, &err), -ERANGE);
	assert_int_equal(parse_u64("n", "seven", 0, 7, &v, &err), -EINVAL);
	assert_int_equal(parse_u64("n", "7x", 0, 70, &v, &err), -EINVAL);
}

UNIT_TEST(addresses)
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

UNIT_TEST(sentences)
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
