/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Whole command lines against the store of fake_gkv.c: exit codes, stdout, stderr, files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/unit.h"
#include "tests/unit/kv-cli/run_cli.h"

UNIT_TEST(test_records, setup)
{
	assert_int_equal(run("", "get", "k", NULL), CLI_NO);
	assert_string_equal(errors, "kv-cli: get k: not found\n");
	assert_int_equal(run("", "put", "k", "v\xff", NULL), CLI_OK);
	assert_int_equal(run("", "get", "k", NULL), CLI_OK);
	assert_string_equal(out, "v\xff");
	assert_int_equal(run("", "get", "--json", "k", NULL), CLI_OK);
	has(out, "\"value_b64\": \"dv8=\"");
	assert_int_equal(run("", "get", "k", "--meta", NULL), CLI_OK);
	has(errors, "size=2 expiry=never");
	assert_int_equal(run("from\nstdin", "put", "k", "-", NULL), CLI_OK);
	assert_int_equal(run("", "get", "k", NULL), CLI_OK);
	assert_string_equal(out, "from\nstdin");
	assert_int_equal(run("x", "put", "--", "k", "-", NULL), CLI_OK);
	assert_int_equal(run("", "get", "k", NULL), CLI_OK);
	assert_string_equal(out, "-");
	assert_int_equal(run("x", "put", "k", "--", "-", NULL), CLI_OK);
	assert_int_equal(run("", "put", "--", "-k", "--", NULL), CLI_OK);
	assert_int_equal(run("", "get", "--", "-k", NULL), CLI_OK);
	assert_string_equal(out, "--");
	assert_int_equal(run("", "put", "e", "", NULL), CLI_OK);
	assert_int_equal(run("", "get", "e", NULL), CLI_OK);
	assert_int_equal(out_len, 0);
	assert_int_equal(run("", "exists", "e", NULL), CLI_OK);
	assert_string_equal(out, "yes\n");
	assert_int_equal(run("", "del", "e", NULL), CLI_OK);
	assert_int_equal(run("", "exists", "e", NULL), CLI_NO);
	assert_string_equal(out, "no\n");
	assert_int_equal(run("", "del", "e", NULL), CLI_NO);
}

UNIT_TEST(test_mget, setup)
{
	char long_value[6001];

	memset(long_value, 'x', 6000);
	long_value[6000] = '\0';
	assert_int_equal(run("", "put", "a", "1\t2", NULL), CLI_OK);
	assert_int_equal(run("", "put", "b", long_value, NULL), CLI_OK);
	assert_int_equal(run("", "mget", "a", NULL), CLI_OK);
	assert_int_equal(run("", "mget", "b", "none", "a", NULL), CLI_NO);
	assert_memory_equal(out, "b\txxx", 5);
	assert_string_equal(out + 6002, "\nnone\t\\N\na\t1\\t2\n");
	has(errors, "mget: 1 of 3 keys were not found");
	/* values that look like that, or like what people say */
	assert_int_equal(run("", "put", "a", "\\N", NULL), CLI_OK);
	assert_int_equal(run("", "put", "c", "(not found)", NULL), CLI_OK);
	assert_int_equal(run("", "mget", "a", "c", NULL), CLI_OK);
	assert_string_equal(out, "a\t\\\\N\nc\t(not found)\n");
	assert_string_equal(errors, "");
	assert_int_equal(run("", "mget", "--json", "a", "none", NULL), CLI_NO);
	has(out, "\"found\": false");
}

/* Until it is there, and not before. */
UNIT_TEST(test_save, setup)
{
	static const char *const comes[] = {
		"snapshots 2\nsnapshots_failed 1\nsnapshot_progress 0\nsnapshot_total 0\n",
		"snapshots 2\nsnapshots_failed 1\nsnapshot_progress 70\nsnapshot_total 64\n",
		"snapshots 3\nsnapshots_failed 1\nsnapshot_bytes 4000000\n"
		"snapshot_took_ms 1250\nsnapshot_start 77\n",
		"", NULL /* it is not asked again */
	};
	static const char *const fails[] = { "snapshots 2\nsnapshots_failed 1\n",
					     "snapshots 2\nsnapshots_failed 2\n", NULL };

	fake_faults.save = 3;
	fake_faults.statistics = comes;
	assert_int_equal(run("", "save", NULL), CLI_OK);
	assert_string_equal(out, "snapshot 3: 4.0 MB in 1.2 s\n");
	assert_string_equal(errors, "");
	fake_faults.statistics = comes;
	assert_int_equal(run("", "--json", "save", NULL), CLI_OK);
	has(out, "\"complete\": true");
	has(out, "\"start\": 77");
	fake_faults.statistics = &comes[3]; /* nobody answers: it is not asked */
	assert_int_equal(run("", "save", "--no-wait", NULL), CLI_OK);
	assert_string_equal(out, "snapshot 3 is asked for\n");
	assert_int_equal(run("", "save", NULL), CLI_FAILED);
	fake_faults.statistics = fails;
	assert_int_equal(run("", "save", NULL), CLI_FAILED);
	has(errors, "could not write snapshot 3");
	fake_faults.statistics = fails;
	fake_faults.save = -EOPNOTSUPP;
	assert_int_equal(run("", "save", NULL), CLI_FAILED);
	has(errors, "--data-dir");
	assert_int_equal(run("", "save", "now", NULL), CLI_USAGE);
	assert_int_equal(run("", "get", "a", "--no-wait", NULL), CLI_USAGE);
	assert_int_equal(run("", "backup", NULL), CLI_USAGE);
	has(errors, "did you mean save?");
}

UNIT_TEST(test_usage, setup)
{
	char key[GKV_KEY_MAX + 2];

	memset(key, 'k', sizeof(key));
	key[GKV_KEY_MAX + 1] = '\0';
	assert_int_equal(run("", NULL), CLI_OK); /* a script without lines */
	assert_int_equal(out_len, 0);
	assert_int_equal(run("", "frobnicate", NULL), CLI_USAGE);
	assert_int_equal(run("", "get", NULL), CLI_USAGE);
	assert_int_equal(run("", "get", "a", "b", NULL), CLI_USAGE);
	assert_int_equal(run("", "get", "", NULL), CLI_USAGE);
	assert_int_equal(run("", "get", key, NULL), CLI_USAGE);
	assert_int_equal(run("", "put", "a", "-5", NULL), CLI_USAGE);
	has(errors, "-5: unknown option");
	assert_int_equal(run("", "get", "a", "--frob", NULL), CLI_USAGE);
	has(errors, "--frob: unknown");
	assert_int_equal(run("", "get", "a", "--verify", NULL), CLI_USAGE);
	assert_int_equal(run("", "ping", "-c", NULL), CLI_USAGE);
	assert_int_equal(run("", "ping", "-c", "0", NULL), CLI_USAGE);
	assert_int_equal(run("", "-s", "a:b:c", "ping", NULL), CLI_USAGE);
	assert_int_equal(run("", "--timeout", "1x", "ping", NULL), CLI_USAGE);
	assert_int_equal(run("", "--timeout", "2h", "ping", NULL), CLI_USAGE);
	has(errors, "--timeout: 2h is out of range (give 1ms to 1h)");
	assert_int_equal(run("", "--timeout", "1s", "ping", NULL), CLI_OK);
	assert_int_equal(run("", "-x", "256", "ping", NULL), CLI_USAGE); /* the library's limit */
	has(errors, "--gid-index: 256 is out of range (give 0 to 255)");
	assert_int_equal(run("", "-x", "-1", "ping", NULL), CLI_USAGE);
	assert_int_equal(run("", "-x", "255", "ping", NULL), CLI_OK);
	assert_int_equal(run("", "-x", "auto", "ping", NULL), CLI_OK);
	assert_int_equal(run("", "--pkey-index", "2", "--service-level", "15", "--traffic-class",
			     "255", "ping", NULL),
			 CLI_OK);
	assert_int_equal(run("", "--pkey-index", "65536", "ping", NULL), CLI_USAGE);
	has(errors, "--pkey-index: 65536 is out of range (give 0 to 65535)");
	assert_int_equal(run("", "--service-level", "16", "ping", NULL), CLI_USAGE);
	assert_int_equal(run("", "--traffic-class", "-1", "ping", NULL), CLI_USAGE);
	assert_int_equal(run("", "doctor", "--address", "10.0.0.1:7471", NULL), CLI_USAGE);
	has(errors, "--address: 10.0.0.1:7471 is no IP address (give one in digits");
	assert_int_equal(run("", "load", "x", "--format", "csv", NULL), CLI_USAGE);
	assert_int_equal(run("", "load", "-", NULL), CLI_USAGE);
	assert_int_equal(run("", "dump", "--format", "deb822", NULL), CLI_USAGE);
	key[GKV_KEY_MAX] = '\0';
	assert_int_equal(run("", "get", key, NULL), CLI_NO);
	assert_int_equal(run("", "load", "--help", NULL), CLI_OK);
	has(out, "Example: apt-cache");
	assert_int_equal(run("", "--version", NULL), CLI_OK);
	has(out, ", layout 4 hash ");
}

/* What is misspelt, or called as other stores call it, is told what it may have meant. */
UNIT_TEST(test_misspelt, setup)
{
	static const char *const meant[][2] = {
		{ "gett", "get" },   { "mgte", "mget" },     { "inc", "incr" },
		{ "set", "put" },    { "DELETE", "del" },    { "expire", "touch" },
		{ "stat", "stats" }, { "doktor", "doctor" }, { "import", "load" },
		{ "ls", "keys" },    { "dbsize", "count" },
	};
	static const char *const options[][2] = {
		{ "--jsn", "--json" },
		{ "--meat", "--meta" },
		{ "--if-absnet", "--if-absent" },
		{ "--sever=x:1", "--server" },
		{ "-json", "--json" },
		{ "-ttl", "--ttl" },
		{ "--if", "--if-absent" }, /* short for two: for none */
	};
	char text[80];

	for (size_t i = 0; i < sizeof(meant) / sizeof(meant[0]); i++) {
		assert_int_equal(run("", meant[i][0], "k", NULL), CLI_USAGE);
		snprintf(text, sizeof(text), "kv-cli: %s: unknown command (did you mean %s? See ",
			 meant[i][0], meant[i][1]);
		has(errors, text);
		assert_int_equal(run("", "help", meant[i][0], NULL), CLI_USAGE);
		has(errors, text);
	}
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		assert_int_equal(run("", "get", options[i][0], "k", NULL), CLI_USAGE);
		snprintf(text, sizeof(text), "kv-cli: %s: unknown option (did you mean %s?",
			 options[i][0], options[i][1]);
		has(errors, text);
	}
	assert_int_equal(run("", "PUT", "k", "v", NULL), CLI_OK);
	assert_int_equal(run("", "Get", "k", NULL), CLI_OK);
	assert_string_equal(out, "v");
	assert_int_equal(run("", "help", "get", NULL), CLI_OK);
	has(out, "Usage: kv-cli [OPTIONS] get [--meta] KEY\n");
	assert_int_equal(run("", "help", NULL), CLI_OK);
	has(out, "--server HOST:PORT");
	assert_int_equal(run("", "help", "get", "put", NULL), CLI_USAGE);
}

/* One error, and its fields; NULL: it has none. */
static void told(const char *line, const char *what, const char *why, const char *action)
{
	const char *const texts[] = { what, why, action }, *const names[] = { "what", "why",
									      "action" };
	json_t *doc = json_loads(line, 0, NULL);

	if (!json_is_object(doc))
		fail_msg("no document: %s", line);
	assert_string_equal(json_string_value(json_object_get(doc, "program")), "kv-cli");
	assert_true(json_is_integer(json_object_get(doc, "code")));
	for (unsigned i = 0; i < 3; i++) {
		const json_t *field = json_object_get(doc, names[i]);

		if (!texts[i]) {
			assert_true(json_is_null(field));
		} else {
			assert_true(json_is_string(field));
			assert_string_equal(json_string_value(field), texts[i]);
		}
	}
	json_decref(doc);
}

/* With --json each error is a document on one line of stderr, wherever --json stands. */
UNIT_TEST(test_errors_of_json, setup)
{
	assert_int_equal(run("", "--json", "get", NULL), CLI_USAGE);
	told(errors, "get", "too few words", "usage: kv-cli get [--meta] KEY");
	assert_int_equal(run("", "--bogus", "get", "--json", NULL), CLI_USAGE);
	told(errors, "--bogus", "unknown option",
	     "see kv-cli --help; put -- before a key or value that starts with a dash");
	has(errors, "\"line\":null,");
	has(errors, "\"code\":2}");
	assert_int_equal(run("", "get", "--json", "a", "b: c (d)", NULL), CLI_USAGE);
	told(errors, "get", "'b: c (d)' is one word too many",
	     "usage: kv-cli get [--meta] KEY; quote values with spaces");
	assert_int_equal(run("", "--json", "fr\xff: (b)", NULL), CLI_USAGE);
	told(errors, "fr\\xff: (b)", "unknown command", "see kv-cli --help");
	assert_int_equal(run("", "--json", "--\xff", "get", "a", NULL), CLI_USAGE);
	told(errors, "--\\xff", "unknown option",
	     "see kv-cli --help; put -- before a key or value that starts with a dash");
	fake_faults.fail_put = 1;
	assert_int_equal(run("", "put", "--json", "a: (b)", "1", NULL), CLI_FAILED);
	told(errors, "put a: (b)", "the store is full", "start kv-server with more --memory");
	has(errors, "\"code\":3,\"error\":\"ENOMEM\"}");
	assert_int_equal(run("put a 1\nput b\n", "--json", NULL), CLI_USAGE);
	told(errors, "put", "too few words",
	     "usage: kv-cli put [--ttl S] [--keep-ttl] [--if-absent|--if-version V] KEY VALUE|-");
	has(errors, "\"line\":2,");
	assert_int_equal(run("get --json\n", NULL), CLI_USAGE);
	told(errors, "get", "too few words", "usage: kv-cli get [--meta] KEY");
	/* a line's own --json is that line's */
	assert_int_equal(run("get --json none\nget none\nfrob\n", NULL), CLI_USAGE);
	assert_ok(strncmp(errors, "kv-cli: line 2: get none: not found\nkv-cli: line 3", 50));
	/* and an operand after -- is none */
	assert_int_equal(run("", "get", "--", "--json", NULL), CLI_NO);
	assert_string_equal(errors, "kv-cli: get --json: not found\n");
	fake_faults.unreachable = true;
	assert_int_equal(run("", "--json", "ping", NULL), CLI_FAILED);
	told(errors, "nobody listens there", NULL, "start kv-server");
}

UNIT_TEST(test_server_commands, setup)
{
	assert_int_equal(run("", "-s", "[::1]:99", "ping", "-c", "2", NULL), CLI_OK);
	has(out, "reply from [::1]:99: seq=1 time=12.3 us\n2 sent, 2 answered, min/avg/max "
		 "12.3/12.3/12.3 us\n");
	assert_int_equal(run("", "stats", NULL), CLI_OK);
	assert_string_equal(out, "counter       value\nrecords           2\ndata_bytes  4.0 MiB\n");
	assert_int_equal(run("", "stats", "--json", NULL), CLI_OK);
	has(out, "\"records\": 2");
	fake_faults.unreachable = true;
	assert_int_equal(run("", "-s", ":1", "ping", NULL), CLI_FAILED);
	assert_string_equal(errors, "kv-cli: nobody listens there (start kv-server)\n");
}

UNIT_TEST(test_load_and_verify, setup)
{
	const char *f = file("a.tsv", "a\t1\nb\t2\na\t3\nempty\t\n");

	assert_int_equal(run("", "load", "--verify", f, NULL), CLI_OK);
	has(out, "loaded 4 records");
	has(out, ", 1 repeat a key");
	has(out, "2.00 READs per GET), 0 mismatches\n");
	assert_int_equal(fake_count(), 3);
	assert_int_equal(run("", "get", "a", NULL), CLI_OK);
	assert_string_equal(out, "3");
	assert_int_equal(run("", "load", "--json", "--verify", f, NULL), CLI_OK);
	has(out, "\"mismatches\": 0");
	fake_faults.corrupt = "b";
	assert_int_equal(run("", "load", "--verify", f, NULL), CLI_NO);
	has(out, "1 mismatches");
	assert_string_equal(errors, "kv-cli: verify: line 2: b: differs from byte 0 on (1 bytes in "
				    "the file, 1 read)\n");
	assert_int_equal(run("", "verify", f, NULL), CLI_NO);
	has(out, "verified 4 records");
	assert_int_equal(run("", "verify", "-c", "3", f, NULL), CLI_NO);
	has(out, "verified 12 records");
	has(out, ", 1 mismatches");
	fake_faults.corrupt = NULL;
	assert_int_equal(run("b\t2\n", "verify", "--format", "tsv", "-", NULL), CLI_OK);
	assert_int_equal(run("b\t3\n", "verify", "--format", "tsv", "-", NULL), CLI_NO);
	fake_faults.corrupt = "b";
	fake_faults.lose = "empty";
	assert_int_equal(run("", "load", "--verify", "--json", f, NULL), CLI_NO);
	has(errors, "line 4: empty: not found");
	has(out, "\"mismatches\": 2");
	assert_int_equal(run("", "load", "--verify", "--format", "tsv", "/dev/null", NULL),
			 CLI_USAGE);
}

UNIT_TEST(test_load_bad, setup)
{
	const char *f = file("bad.tsv", "a\t1\nb\nc\t3\nd\\\t4\n");

	assert_int_equal(run("", "load", f, NULL), CLI_FAILED);
	has(errors, "bad.tsv: line 2: no tab");
	has(errors, "; 1 records were loaded before it (--skip-bad goes on)\n");
	assert_int_equal(fake_count(), 1);
	assert_int_equal(run("", "load", "--skip-bad", "--verify", f, NULL), CLI_NO);
	has(errors, "line 2: no tab");
	has(errors, "line 4: a backslash");
	has(out, "loaded 2 records");
	has(out, ", 2 bad ones skipped");
	has(out, "verified 2 records");
	fake_faults.fail_put = 2;
	assert_int_equal(run("", "load", "--skip-bad", f, NULL), CLI_FAILED);
	has(errors,
	    "line 3: put c: the store is full (start kv-server with more --memory); 1 records");
	assert_int_equal(run("", "load", "--format", "tsv", folder, NULL), CLI_FAILED);
	has(errors, "is a directory");
	assert_int_equal(run("", "load", path("none.tsv"), NULL), CLI_FAILED);
	has(errors, "No such file");
	assert_int_equal(run("", "load", file("empty.jsonl", "\n"), NULL), CLI_FAILED);
	has(errors, "there are no records in it");
	assert_int_equal(run("Package: p\n", "load", "--format", "deb822", "-", NULL), CLI_OK);
	assert_int_equal(run("", "get", "p", NULL), CLI_OK);
	assert_string_equal(out, "Package: p\n");
}

/* What is dumped loads again, bytes and all, in both formats. */
UNIT_TEST(test_dump_round_trip, setup)
{
	static const char *const names[] = { "d.tsv", "d.jsonl" };
	const char *f =
		file("in.tsv", "k\\x00\\xff\t\\x00\\xff\\n\\t\\\\\ngr\xc3\xbc\tx\nempty\t\n");

	for (int i = 0; i < 2; i++) {
		const char *dumped = path(names[i]);

		fake_clear();
		assert_int_equal(run("", "load", f, NULL), CLI_OK);
		assert_int_equal(run("", "dump", "-o", dumped, NULL), CLI_OK);
		has(out, "dumped 3 records");
		fake_clear();
		assert_int_equal(run("", "load", "--verify", dumped, NULL), CLI_OK);
		assert_int_equal(fake_count(), 3);
		assert_int_equal(run("", "load", "--verify", f, NULL), CLI_OK);
		assert_int_equal(fake_count(), 3);
	}
	assert_int_equal(run("", "dump", NULL), CLI_OK);
	has(out, "k\\x00\\xff\t\\x00\\xff\\n\\t\\\\\n");
	assert_int_equal(run("", "dump", "--format", "jsonl", NULL), CLI_OK);
	has(out, "{\"key\":\"gr\xc3\xbc\",\"value\":\"x\"}\n");
}

UNIT_TEST(test_keys_and_counts, setup)
{
	const char *f = file("in.tsv", "a\\x00\\xff\tvalue\na/b\tx\nb\ty\n");
	char prefix[GKV_KEY_MAX + 2];

	assert_int_equal(run("", "load", f, NULL), CLI_OK);
	assert_int_equal(run("", "keys", NULL), CLI_OK);
	assert_string_equal(out, "a\\x00\\xff\na/b\nb\n");
	assert_int_equal(run("", "keys", "a/", NULL), CLI_OK);
	assert_string_equal(out, "a/b\n");
	assert_int_equal(run("", "keys", "a/b/", NULL), CLI_OK);
	assert_string_equal(out, "");
	assert_int_equal(run("", "--json", "keys", "a", NULL), CLI_OK);
	assert_string_equal(out,
			    "{\"key_b64\":\"YQD/\",\"size\":5}\n{\"key\":\"a/b\",\"size\":1}\n");
	assert_int_equal(run("", "dump", "--prefix", "a/", NULL), CLI_OK);
	assert_string_equal(out, "a/b\tx\n");
	assert_int_equal(run("", "count", "a", NULL), CLI_OK);
	assert_string_equal(out, "2\n");
	assert_int_equal(run("", "count", NULL), CLI_OK);
	assert_string_equal(out, "2\n"); /* the server says so */
	assert_int_equal(run("", "count", "--json", "b", NULL), CLI_OK);
	assert_string_equal(out, "{\n  \"count\": 1\n}\n");
	assert_int_equal(run("", "count", "a*", NULL), CLI_OK);
	has(errors,
	    "kv-cli: count: no key begins with a* (a prefix is no pattern: leave out the *)");
	assert_int_equal(run("", "get", "--prefix", "a", "a", NULL), CLI_USAGE);
	has(errors, "get: does not know --prefix");
	memset(prefix, 'p', sizeof(prefix));
	prefix[GKV_KEY_MAX + 1] = '\0';
	assert_int_equal(run("", "keys", prefix, NULL), CLI_USAGE);
	has(errors, "keys: the prefix has 1025 bytes (keys have 1 to 1024)");
	stdout_path = "/dev/full";
	assert_int_equal(run("", "keys", NULL), CLI_FAILED);
	has(errors, "writing to stdout: No space left on device");
}

/* A dump that fails leaves what stood under its name, and no .part. */
UNIT_TEST(test_dump_failures, setup)
{
	const char *kept = file("kept.tsv", "old\t1\n"), *part;

	assert_int_equal(run("", "put", "k", "v", NULL), CLI_OK);
	assert_int_equal(run("", "dump", "-o", "/dev/full", NULL), CLI_FAILED);
	has(errors, "No space left on device");
	stdout_path = "/dev/full";
	assert_int_equal(run("", "dump", NULL), CLI_FAILED);
	has(errors, "writing to stdout: No space left on device");
	stdout_path = "/dev/full";
	assert_int_equal(run("", "get", "k", NULL), CLI_FAILED);
	has(errors, "writing to stdout: No space left on device");
	stdout_path = "/dev/full";
	assert_int_equal(run("", "get", "--json", "k", NULL), CLI_FAILED);
	told(errors, "writing to stdout", "No space left on device", "what was written is cut off");
	assert_int_equal(run("", "dump", "-o", folder, NULL), CLI_FAILED);
	assert_int_equal(run("", "dump", "-o", path("none/x"), NULL), CLI_FAILED);
	part = path("kept.tsv.part");
	assert_int_equal(mkdir(part, 0700), 0);
	assert_int_equal(run("", "dump", "-o", kept, NULL), CLI_FAILED);
	assert_int_equal(rmdir(part), 0);
	assert_int_equal(run("", "load", kept, NULL), CLI_OK);
	has(out, "loaded 1 records");
	assert_int_equal(run("", "dump", "-o", kept, NULL), CLI_OK);
	assert_int_equal(access(part, F_OK), -1);
}

UNIT_GROUP(make_folder, folder_remove);
