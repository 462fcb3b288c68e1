/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Lines of stdin as commands, against the store of fake_gkv.c. The prompt: test_cli_prompt.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "tests/unit/kv-cli/run_cli.h"
#include "tools/kv-cli/shell.h"

UNIT_TEST(test_script, setup)
{
	assert_int_equal(run("put a 'one two'\n"
			     "# a comment\n"
			     "\n"
			     "  get a  \r\n"
			     "put -- b -\n"
			     "get b\n"
			     "incr n -3\n"
			     "get --meta a\n"
			     "exists a", /* the last line without a newline */
			     NULL),
			 CLI_OK);
	assert_string_equal(out, "stored, version 1\none two\nstored, version 2\n-\n-3\none two\n"
				 "yes\n");
	assert_string_equal(errors, "version=1 size=7 expiry=never\n");
	assert_int_equal(fake_sessions, 1); /* for all lines */
}

/* A no goes on and is told at the end; the first failure ends it. */
UNIT_TEST(test_script_exit_codes, setup)
{
	assert_int_equal(run("get none\nput a 1\nget a\n", NULL), CLI_NO);
	assert_string_equal(errors, "kv-cli: line 1: get none: not found\n");
	has(out, "stored, version 1\n1\n");
	assert_int_equal(run("get none\n\nfrob\nput z 1\n", NULL), CLI_USAGE);
	has(errors, "kv-cli: line 3: frob: unknown command (see help)\n");
	assert_int_equal(run("", "exists", "z", NULL), CLI_NO);
	fake_faults.fail_put = 2;
	assert_int_equal(run("put a 1\nput b 1\nput z 1\n", NULL), CLI_FAILED);
	assert_string_equal(errors,
			    "kv-cli: line 2: put b: the store is full (start kv-server with "
			    "more --memory)\n");
	assert_int_equal(run("", "exists", "z", NULL), CLI_NO);
	/* outside of a script there are no lines */
	assert_int_equal(run("", "frob", NULL), CLI_USAGE);
	assert_string_equal(errors, "kv-cli: frob: unknown command (see kv-cli --help)\n");
}

UNIT_TEST(test_script_ends, setup)
{
	assert_int_equal(run("put a 1\nquit\nput z 1\n", NULL), CLI_OK);
	assert_int_equal(run("get none\nexit\nput z 1\n", NULL), CLI_NO);
	assert_int_equal(run("", "exists", "z", NULL), CLI_NO);
	assert_int_equal(run("quit now\n", NULL), CLI_USAGE);
	fake_sessions = 0;
	fake_faults.unreachable = true;
	assert_int_equal(run("# nothing\n\nhelp\n", NULL), CLI_OK); /* needs no server */
	assert_int_equal(run("help\nget a\nget b\n", NULL), CLI_FAILED);
	assert_string_equal(errors, "kv-cli: line 2: nobody listens there (start kv-server)\n");
}

UNIT_TEST(test_script_help, setup)
{
	assert_int_equal(run("help\n", NULL), CLI_OK);
	has(out, "  incr [--ttl S] KEY [N]\n");
	has(out, "quit, exit");
	assert_int_equal(run("help incr\n", NULL), CLI_OK);
	has(out, "Example: kv-cli incr");
	assert_int_equal(run("incr --help\n", NULL), CLI_OK);
	has(out, "Example: kv-cli incr");
	assert_int_equal(run("help frob\n", NULL), CLI_USAGE);
	assert_int_equal(run("help get put\n", NULL), CLI_USAGE);
}

/* stdin is the script: no command reads it. Where kv-cli connects is no matter of a line. */
UNIT_TEST(test_script_refuses, setup)
{
	static const char *const lines[] = {
		"put a -",     "cas a 1 -",	    "load --format tsv -",
		"load -",      "verify -",	    "-s x get a",
		"get -d x a",  "get --timeout 5 a", "--connect cm ping",
		"-i 1 ping",   "-x 1 ping",	    "get 'a",
		"get \"\\q\"", "get a\\",	    "get ''"
	};
	char key[GKV_KEY_MAX + 16];

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		assert_int_equal(run(lines[i], NULL), CLI_USAGE);
		has(errors, "kv-cli: line 1: ");
	}
	assert_int_equal(run("--json", NULL), CLI_USAGE);
	has(errors, "\"line\":1,\"what\":\"a command is missing\"");
	assert_int_equal(run("put a -\n", NULL), CLI_USAGE);
	has(errors, "put -: stdin is where the commands come from");
	assert_int_equal(run("get -s a:1 x\n", NULL), CLI_USAGE);
	has(errors, "--server: is an option of kv-cli as a whole");
	assert_int_equal(fake_count(), 0);
	memset(key, 'k', sizeof(key));
	memcpy(key, "get ", 4);
	key[4 + GKV_KEY_MAX + 1] = '\0';
	assert_int_equal(run(key, NULL), CLI_USAGE);
	has(errors, "the key has 1025 bytes");
	key[4 + GKV_KEY_MAX] = '\0';
	assert_int_equal(run(key, NULL), CLI_NO);
}

UNIT_TEST(test_script_bytes, setup)
{
	static const char zero[] = "put a 1\nput b\0 2\nput c 3\n";
	size_t max = SHELL_LINE_MAX + 64;
	char *line = malloc(max);
	int len;

	assert_non_null(line);
	assert_int_equal(run_script(zero, sizeof(zero) - 1, NULL), CLI_USAGE);
	has(errors, "kv-cli: line 2: the line has a zero byte");
	assert_int_equal(fake_count(), 1);
	memset(line, 'v', max);
	memcpy(line, "put a ", 6);
	assert_int_equal(run_script(line, SHELL_LINE_MAX, NULL), CLI_OK);
	line[SHELL_LINE_MAX] = '\n';
	assert_int_equal(run_script(line, SHELL_LINE_MAX + 1, NULL), CLI_OK);
	line[SHELL_LINE_MAX] = 'v';
	len = snprintf(line + SHELL_LINE_MAX + 1, 63, "\nput c 1\n");
	assert_int_equal(run_script(line, SHELL_LINE_MAX + 1 + (size_t)len, NULL), CLI_USAGE);
	has(errors, "kv-cli: line 1: the line has more than 1048576 bytes");
	assert_int_equal(fake_count(), 1);
	free(line);
}

/* Options of the program hold for each line, those of a line for it alone. */
UNIT_TEST(test_script_json, setup)
{
	assert_int_equal(run("put a 1\nget a\n", "--json", NULL), CLI_OK);
	has(out, "\"version\": 1");
	has(out, "\"value\": \"1\"");
	assert_int_equal(run("get --json a\nget a\n", NULL), CLI_OK);
	has(out, "}\n1\n");
	assert_int_equal(run("ping -c 1\nping -c 1\n", NULL), CLI_OK);
	has(out, "1 sent, 1 answered, min/avg/max 12.3/12.3/12.3 us\nreply from");
}

UNIT_GROUP(make_folder, folder_remove);
