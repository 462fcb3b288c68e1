/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* dump, load and verify of records that expire, against the store and the clock of fake_gkv.c. */
#include <stdio.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "tests/unit/kv-cli/run_cli.h"

/* The time that a record has left, or "never"; it is there. */
static void left(const char *key, const char *want)
{
	assert_int_equal(run("", "ttl", key, NULL), CLI_OK);
	assert_string_equal(out, want);
}

static void two_records(void)
{
	assert_int_equal(run("", "put", "stays", "1", NULL), CLI_OK);
	assert_int_equal(run("", "put", "--ttl", "100", "goes", "2", NULL), CLI_OK);
}

UNIT_TEST(test_jsonl_keeps_the_time_that_is_left, setup)
{
	const char *dumped = path("d.jsonl");

	two_records();
	assert_int_equal(run("", "dump", "--format", "jsonl", NULL), CLI_OK);
	assert_string_equal(out, "{\"key\":\"stays\",\"value\":\"1\"}\n"
				 "{\"key\":\"goes\",\"value\":\"2\",\"expiry_ms\":951827796789}\n");
	assert_string_equal(errors, "");
	assert_int_equal(run("", "--json", "dump", "-o", dumped, NULL), CLI_OK);
	has(out, "\"expiring\": 1");
	assert_string_equal(errors, "");
	fake_clear();
	fake_clock_ms += 30000;
	assert_int_equal(run("", "load", "--verify", dumped, NULL), CLI_OK);
	assert_null(strstr(out, "expired"));
	left("goes", "70.000\n");
	left("stays", "never\n");
	fake_clear();
	fake_clock_ms += 100000; /* to the moment */
	assert_int_equal(run("", "load", "--verify", dumped, NULL), CLI_OK);
	has(out, "loaded 1 records");
	has(out, ", skipped 1 expired\nverified 1 records");
	has(out, ", 0 mismatches, 1 expired\n");
	assert_int_equal(fake_count(), 1);
	assert_int_equal(run("", "--json", "load", "--verify", dumped, NULL), CLI_OK);
	has(out, "\"expired\": 1,\n  \"verify\": {");
	has(out, "\"expired\": 1\n  }");
	has(out, "\"records\": 1");
}

UNIT_TEST(test_tsv_says_what_it_loses, setup)
{
	const char *sentence = "kv-cli: dump: 1 records had a time to live, which tsv does not "
			       "keep: loaded again they never expire (use --format jsonl)\n";

	assert_int_equal(run("", "put", "stays", "1", NULL), CLI_OK);
	assert_int_equal(run("", "dump", NULL), CLI_OK);
	assert_string_equal(errors, "");
	assert_int_equal(run("", "put", "--ttl", "100", "goes", "2", NULL), CLI_OK);
	assert_int_equal(run("", "dump", NULL), CLI_OK);
	assert_string_equal(out, "stays\t1\ngoes\t2\n");
	assert_string_equal(errors, sentence);
	assert_int_equal(run("", "dump", "-o", path("d.tsv"), NULL), CLI_OK);
	assert_string_equal(errors, sentence);
}

UNIT_TEST(test_load_of_a_file_with_expiries, setup)
{
	const char *f = file("e.jsonl",
			     "{\"key\":\"over\",\"value\":\"1\",\"expiry_ms\":951827696788}\n"
			     "{\"key\":\"last\",\"value\":\"2\",\"expiry_ms\":951827696790}\n"
			     "{\"key\":\"never\",\"value\":\"3\",\"expiry_ms\":0}\n"
			     "{\"key\":\"far\",\"value\":\"4\",\"expiry_ms\":253402300799999}\n");

	assert_int_equal(run("", "load", f, NULL), CLI_OK);
	has(out, "loaded 3 records");
	has(out, ", skipped 1 expired\n");
	left("last", "0.001\n");
	left("never", "never\n");
	left("far", "3162240000.000\n"); /* no server takes more */
	assert_int_equal(run("", "exists", "over", NULL), CLI_NO);
	/* all of a file: there were records in it */
	fake_clock_ms = 253402300799999;
	assert_int_equal(run("{\"key\":\"a\",\"value\":\"\",\"expiry_ms\":1}", "load", "--format",
			     "jsonl", "-", NULL),
			 CLI_OK);
	has(out, "loaded 0 records");
	has(out, ", skipped 1 expired\n");
	fake_clock_ms = FAKE_CLOCK_MS;
	fake_faults.no_clock = true;
	assert_int_equal(run("", "load", f, NULL), CLI_FAILED);
	has(errors, "reading the server's clock: the clock stands still");
	fake_faults.no_clock = false;
	f = file("bad.jsonl", "{\"key\":\"a\",\"value\":\"\"}\n"
			      "{\"key\":\"b\",\"value\":\"\",\"expiry_ms\":-1}\n");
	assert_int_equal(run("", "load", f, NULL), CLI_FAILED);
	has(errors, "bad.jsonl: line 2: expiry_ms is -1, it must be between 0 and ");
	assert_int_equal(run("", "load", "--skip-bad", f, NULL), CLI_NO);
	has(out, "loaded 1 records");
}

UNIT_TEST(test_verify_of_what_has_expired, setup)
{
	const char *f = path("v.jsonl");

	two_records();
	assert_int_equal(run("", "dump", "-o", f, NULL), CLI_OK);
	fake_faults.lose = "goes";
	fake_clock_ms += 98999; /* 1.001 s before its time: it should be there */
	assert_int_equal(run("", "verify", f, NULL), CLI_NO);
	has(errors, "line 2: goes: not found");
	has(out, "verified 2 records");
	has(out, ", 1 mismatches\n");
	fake_clock_ms += 1; /* so near to it the server may know better */
	assert_int_equal(run("", "verify", f, NULL), CLI_OK);
	has(out, ", 0 mismatches, 1 expired\n");
	has(out, "verified 1 records");
	assert_string_equal(errors, "");
	fake_faults.lose = NULL;
	assert_int_equal(run("", "verify", f, NULL), CLI_OK); /* it is there, and is compared */
	has(out, "verified 2 records");
	assert_null(strstr(out, "expired"));
	fake_faults.corrupt = "goes";
	assert_int_equal(run("", "verify", f, NULL), CLI_NO);
	fake_clock_ms += 1000; /* what is there now is another one */
	assert_int_equal(run("", "verify", f, NULL), CLI_OK);
	fake_faults.corrupt = "stays"; /* a record that never expires is never over */
	assert_int_equal(run("", "verify", f, NULL), CLI_NO);
	fake_faults.corrupt = NULL;
	fake_faults.lose = "stays";
	assert_int_equal(run("", "--json", "verify", f, NULL), CLI_NO);
	has(out, "\"mismatches\": 1");
	has(out, "\"expired\": 1");
}

UNIT_GROUP(make_folder, folder_remove);
