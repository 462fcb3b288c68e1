/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Writes on options, numbers and time to live, as command lines against the store of fake_gkv.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "tests/unit/kv-cli/run_cli.h"

UNIT_TEST(test_put_with_options, setup)
{
	assert_int_equal(run("", "put", "--ttl", "0.5", "k", "v", NULL), CLI_OK);
	assert_string_equal(out, "stored, version 1\n");
	assert_int_equal(fake_options.ttl_ms, 500);
	assert_int_equal(fake_options.condition, GKV_ALWAYS);
	assert_int_equal(run("", "put", "k", "v", NULL), CLI_OK);
	assert_int_equal(fake_options.ttl_ms, 0);
	assert_int_equal(run("", "put", "--if-absent", "k", "w", NULL), CLI_NO);
	assert_string_equal(errors, "kv-cli: put k: not stored: the key is there, in version 2\n");
	assert_int_equal(run("", "put", "--if-version=1", "k", "w", NULL), CLI_NO);
	assert_string_equal(errors, "kv-cli: put k: not stored: version 2 is there, not 1\n");
	assert_int_equal(run("", "put", "--if-version", "2", "--ttl", "3", "k", "w", NULL), CLI_OK);
	assert_string_equal(out, "stored, version 3\n");
	assert_int_equal(fake_options.ttl_ms, 3000);
	assert_int_equal(run("", "put", "--if-version", "2", "none", "w", NULL), CLI_NO);
	assert_string_equal(errors, "kv-cli: put none: not stored: there is no such key\n");
	assert_int_equal(run("in", "put", "--if-absent", "new", "-", NULL), CLI_OK);
	assert_int_equal(run("", "get", "new", NULL), CLI_OK);
	assert_string_equal(out, "in");
	assert_int_equal(run("", "put", "--if-absent", "--if-version", "1", "k", "v", NULL),
			 CLI_USAGE);
	assert_int_equal(run("", "put", "--ttl", "250ms", "k", "v", NULL), CLI_OK);
	assert_int_equal(fake_options.ttl_ms, 250);
	assert_int_equal(run("", "put", "--ttl", "2h", "k", "v", NULL), CLI_OK);
	assert_int_equal(fake_options.ttl_ms, 7200000);
	assert_int_equal(run("", "put", "--ttl", "0", "k", "v", NULL), CLI_USAGE);
	assert_int_equal(run("", "put", "--ttl", "-1", "k", "v", NULL), CLI_USAGE);
	assert_int_equal(run("", "put", "--if-version", "0", "k", "v", NULL), CLI_USAGE);
	assert_int_equal(run("", "put", "--if-version", "-1", "k", "v", NULL), CLI_USAGE);
	assert_int_equal(run("", "get", "--ttl", "1", "k", NULL), CLI_USAGE);
	has(errors, "get: does not know --ttl");
	assert_int_equal(run("", "del", "--if-absent", "k", NULL), CLI_USAGE);
}

UNIT_TEST(test_put_json, setup)
{
	assert_int_equal(run("", "--json", "put", "k", "v", NULL), CLI_OK);
	assert_string_equal(out, "{\n  \"key\": \"k\",\n  \"version\": 1\n}\n");
	assert_int_equal(run("", "--json", "put", "--if-absent", "k", "v", NULL), CLI_NO);
	assert_string_equal(out, "{\n  \"key\": \"k\",\n  \"found\": true,\n  \"version\": 1,\n"
				 "  \"stored\": false\n}\n");
	assert_string_equal(errors, "");
	assert_int_equal(run("", "--json", "cas", "none", "1", "v", NULL), CLI_NO);
	assert_string_equal(out, "{\n  \"key\": \"none\",\n  \"found\": false,\n"
				 "  \"stored\": false\n}\n");
	assert_int_equal(run("", "--json", "cas", "k", "1", "v", NULL), CLI_OK);
	assert_string_equal(out,
			    "{\n  \"key\": \"k\",\n  \"version\": 2,\n  \"stored\": true\n}\n");
	assert_int_equal(run("", "--json", "put", "--ttl", "100", "k", "v", NULL), CLI_OK);
	has(out, "\"version\": 3,\n  \"expiry_ms\": 951827796789,\n  \"ttl_ms\": 100000\n}");
	fake_faults.no_clock = true;
	assert_int_equal(run("", "--json", "put", "k", "v", NULL), CLI_OK); /* not asked for */
	assert_int_equal(run("", "--json", "put", "--ttl", "9", "k", "v", NULL), CLI_FAILED);
	has(errors,
	    "\"what\":\"put k\",\"why\":\"stored, version 5; reading the server's clock: the "
	    "clock stands still\",\"action\":\"wind it up\",\"code\":3}\n");
}

UNIT_TEST(test_cas, setup)
{
	assert_int_equal(run("", "put", "k", "v", NULL), CLI_OK);
	assert_int_equal(run("", "cas", "k", "1", "w", NULL), CLI_OK);
	assert_string_equal(out, "stored, version 2\n");
	assert_int_equal(run("", "cas", "k", "1", "x", NULL), CLI_NO);
	assert_string_equal(errors, "kv-cli: cas k: not stored: version 2 is there, not 1\n");
	assert_int_equal(run("piped", "cas", "k", "2", "-", NULL), CLI_OK);
	assert_int_equal(run("", "get", "k", NULL), CLI_OK);
	assert_string_equal(out, "piped");
	assert_int_equal(run("", "cas", "--", "k", "3", "-", NULL), CLI_OK);
	assert_int_equal(run("", "get", "k", NULL), CLI_OK);
	assert_string_equal(out, "-");
	assert_int_equal(run("piped", "cas", "k", "4", "--", "-", NULL), CLI_OK);
	assert_int_equal(run("", "get", "k", NULL), CLI_OK);
	assert_string_equal(out, "-");
	assert_int_equal(run("", "cas", "k", "x", "v", NULL), CLI_USAGE);
	has(errors, "cas: VERSION: 'x' is not a number");
	assert_int_equal(run("", "cas", "k", "0", "v", NULL), CLI_USAGE);
	assert_int_equal(run("", "cas", "k", "4", NULL), CLI_USAGE);
	assert_int_equal(run("", "cas", "", "4", "v", NULL), CLI_USAGE);
	fake_faults.fail_put = 1;
	assert_int_equal(run("", "cas", "k", "5", "v", NULL), CLI_FAILED);
	has(errors, "cas k: the store is full");
}

UNIT_TEST(test_del_if, setup)
{
	assert_int_equal(run("", "put", "k", "v", NULL), CLI_OK);
	assert_int_equal(run("", "del", "--if-version", "7", "k", NULL), CLI_NO);
	assert_string_equal(errors, "kv-cli: del k: not deleted: version 1 is there, not 7\n");
	assert_int_equal(run("", "--json", "del", "--if-version", "7", "k", NULL), CLI_NO);
	has(out, "\"version\": 1,\n  \"deleted\": false");
	assert_int_equal(run("", "del", "--if-version", "1", "none", NULL), CLI_NO);
	assert_string_equal(errors, "kv-cli: del none: not deleted: there is no such key\n");
	assert_int_equal(run("", "--json", "del", "--if-version", "1", "k", NULL), CLI_OK);
	has(out, "\"found\": true,\n  \"deleted\": true");
	assert_int_equal(fake_count(), 0);
	/* gone between the refusal and the question which version there is */
	assert_int_equal(run("", "put", "k", "v", NULL), CLI_OK);
	fake_faults.vanish = true;
	assert_int_equal(run("", "del", "--if-version", "7", "k", NULL), CLI_NO);
	assert_string_equal(errors, "kv-cli: del k: not deleted: there is no such key\n");
}

UNIT_TEST(test_incr, setup)
{
	assert_int_equal(run("", "incr", "n", NULL), CLI_OK);
	assert_string_equal(out, "1\n");
	assert_int_equal(run("", "incr", "n", "-5", NULL), CLI_OK);
	assert_string_equal(out, "-4\n");
	assert_int_equal(run("", "incr", "n", "-15", "--json", NULL), CLI_OK);
	assert_string_equal(out, "{\n  \"key\": \"n\",\n  \"sum\": -19\n}\n");
	assert_int_equal(run("", "incr", "--", "n", "-1", NULL), CLI_OK);
	assert_string_equal(out, "-20\n");
	assert_int_equal(run("", "incr", "--", "-5", "-5", NULL), CLI_OK);
	assert_int_equal(run("", "incr", "n", "9223372036854775807", NULL), CLI_OK);
	assert_string_equal(out, "9223372036854775787\n");
	assert_int_equal(run("", "incr", "n", "100", NULL), CLI_FAILED);
	assert_string_equal(errors, "kv-cli: incr n: the sum would have more than 64 bits (nothing "
				    "was changed)\n");
	assert_int_equal(run("", "put", "t", "text", NULL), CLI_OK);
	assert_int_equal(run("", "incr", "t", NULL), CLI_FAILED);
	assert_string_equal(errors,
			    "kv-cli: incr t: the value is no decimal number of 64 bits (get "
			    "shows it)\n");
	assert_int_equal(run("", "incr", "n", "9223372036854775808", NULL), CLI_USAGE);
	assert_int_equal(run("", "incr", "n", "1.5", NULL), CLI_USAGE);
	assert_int_equal(run("", "incr", "n", "-5x", NULL), CLI_USAGE);
	assert_int_equal(run("", "incr", "n", "-x", NULL), CLI_USAGE);
	has(errors, "-x: needs a value");
	assert_int_equal(run("", "incr", NULL), CLI_USAGE);
	assert_int_equal(run("", "incr", "n", "1", "2", NULL), CLI_USAGE);
	/* for others a word like this is still an option */
	assert_int_equal(run("", "get", "-5", NULL), CLI_USAGE);
	has(errors, "-5: unknown option");
}

UNIT_TEST(test_append_and_getdel, setup)
{
	assert_int_equal(run("", "append", "--ttl", "100", "k", "one", NULL), CLI_OK);
	assert_string_equal(out, "appended, version 1, size 3\n");
	assert_int_equal(run(", two", "--json", "append", "k", "-", NULL), CLI_OK);
	assert_string_equal(out, "{\n  \"key\": \"k\",\n  \"version\": 2,\n  \"size\": 8,\n"
				 "  \"expiry_ms\": 951827796789,\n  \"ttl_ms\": 100000\n}\n");
	assert_int_equal(run("", "append", "--if-version", "1", "k", "x", NULL), CLI_NO);
	assert_string_equal(errors, "kv-cli: append k: not appended: version 2 is there, not 1\n");
	assert_int_equal(run("", "append", "--keep-ttl", "k", "x", NULL), CLI_USAGE);
	memset(out, 'x', 4090); /* the fake's longest value is 4096 */
	out[4090] = 0;
	assert_int_equal(run(out, "append", "k", "-", NULL), CLI_FAILED);
	assert_string_equal(errors, "kv-cli: append k: the value would be longer than 16 MiB "
				    "(nothing was changed)\n");
	assert_int_equal(run("", "getdel", "--meta", "k", NULL), CLI_OK);
	assert_string_equal(out, "one, two");
	has(errors, "version=2 size=8 ");
	assert_int_equal(run("", "getdel", "k", NULL), CLI_NO);
	assert_string_equal(errors, "kv-cli: getdel k: not found\n");
	assert_int_equal(run("", "put", "k", "v", NULL), CLI_OK);
	assert_int_equal(run("", "--json", "getdel", "k", NULL), CLI_OK);
	has(out, "\"found\": true,\n  \"value\": \"v\"");
	assert_int_equal(fake_count(), 0);
}

UNIT_TEST(test_keep_ttl, setup)
{
	assert_int_equal(run("", "put", "--ttl", "100", "k", "v", NULL), CLI_OK);
	assert_int_equal(run("", "--json", "put", "--keep-ttl", "--ttl", "5", "k", "w", NULL),
			 CLI_OK);
	assert_int_equal(fake_options.flags, GKV_KEEP_EXPIRY);
	has(out, "\"ttl_ms\": 100000");
	assert_int_equal(run("", "put", "--keep-ttl", "--if-absent", "k", "v", NULL), CLI_USAGE);
	has(errors, "no expiry to keep");
	assert_int_equal(run("", "incr", "--ttl", "1m", "n", "-5", NULL), CLI_OK);
	assert_string_equal(out, "-5\n");
	assert_int_equal(fake_options.ttl_ms, 60000);
	assert_int_equal(run("", "incr", "--keep-ttl", "n", NULL), CLI_USAGE);
}

UNIT_TEST(test_ttl_and_touch, setup)
{
	assert_int_equal(run("", "ttl", "k", NULL), CLI_NO);
	assert_string_equal(errors, "kv-cli: ttl k: not found\n");
	assert_int_equal(run("", "put", "k", "v", NULL), CLI_OK);
	assert_int_equal(run("", "ttl", "k", NULL), CLI_OK);
	assert_string_equal(out, "never\n");
	assert_int_equal(run("", "--json", "ttl", "k", NULL), CLI_OK);
	has(out, "\"expiry_ms\": 0,\n  \"ttl_ms\": null\n");
	assert_int_equal(run("", "touch", "k", "1000.5", NULL), CLI_OK);
	assert_string_equal(out, "touched, version 2\n");
	assert_int_equal(run("", "ttl", "k", NULL), CLI_OK);
	assert_string_equal(out, "1000.500\n");
	fake_clock_ms += 400;
	assert_int_equal(run("", "ttl", "k", NULL), CLI_OK);
	assert_string_equal(out, "1000.100\n");
	assert_int_equal(run("", "--json", "ttl", "k", NULL), CLI_OK);
	has(out, "\"expiry_ms\": 951828697289,\n  \"ttl_ms\": 1000100\n");
	assert_int_equal(run("", "get", "--meta", "k", NULL), CLI_OK);
	assert_string_equal(out, "v");
	assert_string_equal(errors,
			    "version=2 size=1 expiry=2000-02-29T12:51:37.289Z ttl=1000.100\n");
	assert_int_equal(run("", "--json", "get", "--meta", "k", NULL), CLI_OK);
	has(out, "\"ttl_ms\": 1000100");
	has(out, "\"value\": \"v\"");
	assert_int_equal(run("ttl k\nget --meta k\n", NULL), CLI_OK); /* a script, as the prompt */
	assert_string_equal(out, "1000.100\nv\n");
	has(errors, " ttl=1000.100\n");
	fake_faults.no_clock = true;
	assert_int_equal(run("", "ttl", "k", NULL), CLI_FAILED);
	assert_string_equal(errors, "kv-cli: reading the server's clock: the clock stands still "
				    "(wind it up)\n");
	assert_int_equal(run("", "get", "--meta", "k", NULL), CLI_FAILED);
	assert_int_equal(out_len, 0);
	assert_int_equal(run("", "get", "k", NULL), CLI_OK); /* not asked for */
	fake_faults.no_clock = false;
	assert_int_equal(run("", "--json", "touch", "k", "0", NULL), CLI_OK);
	has(out, "\"version\": 3,\n  \"expiry_ms\": 0,\n  \"ttl_ms\": null\n");
	assert_int_equal(run("", "touch", "none", "1", NULL), CLI_NO);
	assert_int_equal(run("", "touch", "k", "-1", NULL), CLI_USAGE);
	has(errors, "touch: S: '-1' is not a duration");
	assert_int_equal(run("", "touch", "k", NULL), CLI_USAGE);
}

/* Each new command tells how it is used. */
UNIT_TEST(test_help, setup)
{
	static const char *const names[] = { "put",  "append", "cas", "del",
					     "incr", "getdel", "ttl", "touch" };
	char example[32];

	assert_int_equal(run("", "--help", NULL), CLI_OK);
	has(out, "  incr [--ttl S] KEY [N]\n");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(run("", names[i], "--help", NULL), CLI_OK);
		snprintf(example, sizeof(example), "Example: kv-cli %s ", names[i]);
		has(out, example);
	}
}

UNIT_GROUP(make_folder, folder_remove);
