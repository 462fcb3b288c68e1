/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* stats --watch where stdout is no terminal: pages, documents, words, exit codes. */
#include <jansson.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "tests/unit/kv-cli/run_cli.h"

static json_t *documents[8];

/* The lines of the output, each a document. Returns how many. */
static unsigned parse(void)
{
	unsigned count = 0;
	char *rest = out;

	while (rest && *rest) {
		char *line = strsep(&rest, "\n");

		assert_true(count < 8);
		json_decref(documents[count]);
		documents[count] = json_loads(line, 0, NULL);
		if (!documents[count++])
			fail_msg("no document: %s", line);
	}
	return count;
}

static json_t *field(unsigned document, const char *name)
{
	return json_object_get(documents[document], name);
}

static json_t *rpc_puts(json_t *in)
{
	return json_object_get(json_object_get(in, "rpc"), "puts");
}

static int end(void **state)
{
	for (unsigned i = 0; i < 8; i++) {
		json_decref(documents[i]);
		documents[i] = NULL;
	}
	return 0;
}

UNIT_TEST(test_wrong_usage, setup, end)
{
	static const struct {
		const char *words[4], *says;
	} cases[] = {
		{ { "--count", "2" }, "--count goes with --watch only" },
		{ { "--interval", "1" }, "--interval goes with --watch only" },
		{ { "--watch", "--interval", "0" },
		  "--interval: 0 is out of range (give 100ms to 1d)" },
		{ { "--watch", "--interval", "99ms" }, "out of range" },
		{ { "--watch", "--interval", "86400.001" }, "out of range" },
		{ { "--watch", "--interval", "-1" }, "is not a duration" },
		{ { "--watch", "--interval", "x" }, "is not a duration" },
		{ { "--watch", "--interval" }, "needs a value" },
		{ { "--watch", "--count", "0" }, "out of range" },
		{ { "--watch", "now" }, "one word too many" },
		{ { "--watch=1" }, "--watch" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(run("", "stats", cases[i].words[0], cases[i].words[1],
				     cases[i].words[2], cases[i].words[3], NULL),
				 CLI_USAGE);
		has(errors, cases[i].says);
	}
	assert_int_equal(run("", "ping", "--watch", NULL), CLI_USAGE);
	has(errors, "ping: does not know --watch");
	assert_int_equal(run("", "ping", "--interval", "1", NULL), CLI_USAGE);
	fake_faults.unreachable = true;
	assert_int_equal(run("", "stats", "--watch", NULL), CLI_FAILED);
	assert_string_equal(errors, "kv-cli: nobody listens there (start kv-server)\n");
}

UNIT_TEST(test_pages, setup, end)
{
	static const char *const looks[] = { "pid 1\nuptime_ms 1000\nrpc_puts 10\n",
					     "pid 1\nuptime_ms 3000\nrpc_puts 110\n", NULL };
	const char *second;

	fake_faults.statistics = looks;
	assert_int_equal(run("", "stats", "--watch", "-c", "2", "--interval", "0.1", NULL), CLI_OK);
	assert_string_equal(errors, "");
	assert_null(strchr(out, '\033'));
	has(out, "PUT           -");
	second = strstr(out + 1, "\nkv-server 127.0.0.1:7471 on fake0\npid 1   up 0d 00:00:03\n");
	assert_non_null(second);
	has(second, "PUT        50.0");
	assert_null(strstr(second + 1, "\nkv-server"));
}

UNIT_TEST(test_documents, setup, end)
{
	static const char *const looks[] = { "pid 1\nuptime_ms 1000\nrpc_puts 10\nrecords 3\n",
					     "pid 1\nuptime_ms 3000\nrpc_puts 110\nrecords 4\n",
					     NULL };

	fake_faults.statistics = looks;
	assert_int_equal(
		run("", "stats", "--json", "--watch", "-c", "3", "--interval", "0.1", NULL),
		CLI_OK);
	assert_int_equal(parse(), 3);
	assert_true(json_is_null(field(0, "interval_s")));
	assert_true(json_is_null(rpc_puts(field(0, "rates"))));
	assert_true(json_is_false(field(0, "software_device")));
	assert_string_equal(json_string_value(field(0, "device")), "fake0");
	assert_int_equal(json_integer_value(rpc_puts(documents[1])), 110);
	assert_int_equal(json_integer_value(json_object_get(field(1, "records"), "records")), 4);
	assert_true(json_real_value(field(1, "interval_s")) == 2);
	assert_true(json_real_value(rpc_puts(field(1, "rates"))) == 50);
	assert_true(
		json_is_null(rpc_puts(field(2, "rates")))); /* no time has passed for the server */
}

UNIT_TEST(test_a_server_that_goes_and_comes, setup, end)
{
	static const char *const looks[] = { "pid 1\nuptime_ms 1000\nrpc_puts 10\n", "",
					     "pid 1\nuptime_ms 2000\nrpc_puts 20\n",
					     "pid 1\nuptime_ms 4000\nrpc_puts 30\n", NULL };
	static const char *const gone[] = { looks[0], "", NULL };

	fake_faults.statistics = looks;
	assert_int_equal(
		run("", "stats", "--json", "--watch", "-c", "4", "--interval", "0.1", NULL),
		CLI_OK);
	assert_string_equal(errors, "");
	assert_int_equal(parse(), 4);
	assert_null(field(0, "reconnecting"));
	has(json_string_value(field(1, "reconnecting")), "nobody listens there any more");
	assert_null(rpc_puts(documents[1]));
	assert_true(json_is_null(rpc_puts(field(2, "rates"))));
	assert_int_equal(json_integer_value(rpc_puts(documents[2])), 20);
	assert_true(json_real_value(rpc_puts(field(3, "rates"))) == 5);
	fake_faults.statistics = looks;
	assert_int_equal(run("", "stats", "--watch", "-c", "3", "--interval", "0.1", NULL), CLI_OK);
	has(out, "Z reconnecting for ");
	has(out, " s: nobody listens there any more (start kv-server)\n\n");
	fake_faults.statistics = gone;
	assert_int_equal(run("", "stats", "--watch", "-c", "3", "--interval", "0.1", NULL),
			 CLI_FAILED);
	assert_string_equal(errors, "kv-cli: stats: nobody listens there any more (start "
				    "kv-server)\n");
}

UNIT_TEST(test_what_is_missing_is_said, setup, end)
{
	static const char *const looks[] = { "pid 1\nlines_left_out 17\n", "pid 1\nx y\nz\n",
					     NULL };

	fake_faults.statistics = looks;
	assert_int_equal(run("", "stats", "--watch", "-c", "2", "--interval", "0.1", NULL), CLI_OK);
	has(out, "\n17 lines left out by the server: not all sessions are shown\n");
	has(out, "\n2 lines of the server that are no figures were left out\n");
	assert_int_equal(run("stats --watch -c 1\nexists x\n", NULL), CLI_NO);
	has(out, "\nno\n");
}

UNIT_TEST(test_output_that_fails, setup, end)
{
	stdout_path = "/dev/full";
	assert_int_equal(run("", "stats", "--watch", "-c", "5", NULL), CLI_FAILED);
	has(errors, "writing to stdout: No space left on device (");
	stdout_path = "/dev/full";
	assert_int_equal(run("", "stats", "--json", "--watch", "-c", "5", NULL), CLI_FAILED);
	has(errors, "\"writing to stdout\",\"why\":\"No space left on device\"");
}

UNIT_GROUP(make_folder, folder_remove);
