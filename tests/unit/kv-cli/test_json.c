/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* --json without memory: no document lacks a part, and nothing is kept. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "tests/unit/kv-cli/run_cli.h"

#define WORDS 4u
#define PARTS 6u

static unsigned asked, fails, held; /* blocks: asked for; the one that is not given; not freed */

static void *take(size_t bytes)
{
	void *at = ++asked == fails ? NULL : malloc(bytes);

	held += at != NULL;
	return at;
}

static void give(void *at)
{
	held -= at != NULL;
	free(at);
}

static int json_setup(void **state)
{
	json_set_alloc_funcs(take, give);
	asked = fails = held = 0;
	return setup(state);
}

static int json_teardown(void **state)
{
	json_set_alloc_funcs(malloc, free);
	return 0;
}

struct document {
	const char *words[WORDS]; /* after --json */
	const char *parts[PARTS]; /* beginnings of its fields: those with _b64 do as well */
	int code;
	const char *text; /* that stands in it as well; NULL: none */
};

static const struct document documents[] = {
	{ .words = { "get", "k", "--meta" },
	  .parts = { "key", "value", "version", "size", "expiry", "ttl" } },
	{ .words = { "mget", "k", "none" }, .parts = { "key", "value", "found" }, .code = CLI_NO },
	{ .words = { "exists", "k" }, .parts = { "key", "found" } },
	{ .words = { "ttl", "k" }, .parts = { "key", "expiry_ms", "ttl_ms" } },
	{ .words = { "put", "n", "1" }, .parts = { "key", "version" } },
	{ .words = { "incr", "n" }, .parts = { "key", "sum" } },
	{ .words = { "del", "none" }, .parts = { "key", "found" }, .code = CLI_NO },
	{ .words = { "stats" }, .parts = { "records", "data_bytes" } },
	{ .words = { "stats", "--watch", "-c", "1" },
	  .parts = { "server", "software_device", "interval_s", "records", "data_bytes",
		     "rates" } },
	{ .words = { "ping", "-c", "1" },
	  .parts = { "server", "sent", "answered", "times_us" },
	  .text = "[\n    12" },
};

/* Returns whether it was given all the memory that it asked for. */
static bool try(const struct document *d, unsigned failing)
{
	int code;

	asked = held = 0;
	fails = failing;
	code = run("", "--json", d->words[0], d->words[1], d->words[2], d->words[3], NULL);
	if (held)
		fail_msg("%s keeps %u blocks without the %u. one", d->words[0], held, failing);
	if (code == CLI_FAILED) {
		has(errors, "no memory");
		assert_true(asked >= failing && failing);
		return false;
	}
	if (code != d->code)
		fail_msg("%s without block %u: exit %d", d->words[0], failing, code);
	for (unsigned i = 0; i < PARTS && d->parts[i]; i++) {
		char part[32];

		snprintf(part, sizeof(part), "\"%s", d->parts[i]);
		if (!strstr(out, part))
			fail_msg("%s without block %u: no %s in %s", d->words[0], failing,
				 d->parts[i], out);
	}
	if (d->text)
		has(out, d->text);
	return asked < failing || !failing;
}

UNIT_TEST(test_no_part_is_missing, json_setup, json_teardown)
{
	for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
		unsigned n = 1;

		assert_int_equal(run("", "put", "k", "value", NULL), CLI_OK);
		assert_true(try(&documents[i], 0));
		while (!try(&documents[i], n))
			n++;
		assert_true(n > 3); /* it was given less than it needs some times */
	}
}

UNIT_TEST(test_ends_that_come_early_keep_nothing, json_setup, json_teardown)
{
	assert_int_equal(run("", "mget", "--json", "k", "", NULL), CLI_USAGE);
	assert_int_equal(held, 0);
	fake_faults.unreachable = true;
	assert_int_equal(run("", "mget", "--json", "k", NULL), CLI_FAILED);
	assert_int_equal(held, 0);
	assert_int_equal(run("", "ping", "--json", NULL), CLI_FAILED);
	assert_int_equal(run("", "stats", "--json", NULL), CLI_FAILED);
	assert_int_equal(held, 0);
}

UNIT_GROUP(make_folder, folder_remove);
