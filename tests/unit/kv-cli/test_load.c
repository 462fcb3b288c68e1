/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* How load puts many records together, against the store of fake_gkv.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "tests/unit/kv-cli/run_cli.h"
#include "tools/kv-cli/put_batch.h"

/* Lines of tsv: keys with numbers from @from to @to - 1, each with @len bytes of value. */
static char *write_lines(char *to_text, unsigned from, unsigned to, size_t len)
{
	for (unsigned i = from; i < to; i++) {
		to_text += sprintf(to_text, "k%u\t", i);
		memset(to_text, 'a' + (int)(i % 26), len);
		to_text += len;
		*to_text++ = '\n';
	}
	*to_text = '\0';
	return to_text;
}

static void last_of(unsigned number, const char *want)
{
	char key[16];

	snprintf(key, sizeof(key), "k%u", number);
	assert_int_equal(run("", "get", key, NULL), CLI_OK);
	assert_string_equal(out, want);
}

/* Many are in flight; of two with one key the later one wins wherever they are. */
UNIT_TEST(test_load_many_at_once, setup)
{
	const unsigned n = 2 * PUT_BATCH_MAX + 10;
	char *text = malloc(n * 32), *end;

	assert_non_null(text);
	end = write_lines(text, 0, n, 1);
	assert_int_equal(run("", "load", "--verify", file("n.tsv", text), NULL), CLI_OK);
	assert_int_equal(fake_batches, 0);
	assert_int_equal(fake_submitted, n);
	assert_int_equal(fake_count(), n);
	for (unsigned i = 1; i < PUT_LANE_DEPTH; i++) /* near and nearer */
		end += sprintf(end, "k%u\tlast\n", n - 1 - (i % 4) * i);
	end += sprintf(end, "k0\tfirst\n");
	write_lines(end, n, n + 2 * PUT_LANE_DEPTH, 1);
	assert_int_equal(run("", "load", file("again.tsv", text), NULL), CLI_OK);
	has(out, ", 8 repeat a key");
	assert_int_equal(fake_repeats, 0);
	last_of(n - 1, "last");
	last_of(0, "first");
	free(text);
}

/* Few go over the handle that there is, and so do many where the server grants no other. */
UNIT_TEST(test_load_without_lanes, setup)
{
	const unsigned n = PUT_BATCH_MAX + PUT_LANE_DEPTH + 1;
	char *text = malloc(n * 32);

	assert_non_null(text);
	write_lines(text, 0, PUT_LANE_DEPTH, 1);
	assert_int_equal(run("", "load", file("few.tsv", text), NULL), CLI_OK);
	assert_int_equal(fake_submitted, 0);
	assert_int_equal(fake_batches, 1);
	write_lines(text, 0, n, 1);
	fake_faults.handles = 1;
	assert_int_equal(run("", "load", file("n.tsv", text), NULL), CLI_OK);
	assert_int_equal(fake_submitted, 0);
	assert_int_equal(fake_count(), n);
	fake_faults.handles = 2;
	assert_int_equal(run("", "load", "--verify", path("n.tsv"), NULL), CLI_OK);
	assert_int_equal(fake_submitted, n);
	free(text);
}

/* By their bytes: two of a half go together, one that is larger than a batch goes alone. */
UNIT_TEST(test_load_large, setup)
{
	const size_t large = PUT_BATCH_BYTES + 7;
	char *text = malloc(5 * large), *end;

	assert_non_null(text);
	end = write_lines(text, 0, 3, PUT_BATCH_BYTES / 2 - 8);
	end = write_lines(end, 3, 4, large);
	write_lines(end, 4, 5, 0);
	assert_int_equal(run("", "load", "--verify", file("large.tsv", text), NULL), CLI_OK);
	assert_int_equal(fake_batches, 4);
	has(out, "loaded 5 records");
	has(out, " 0 mismatches\n");
	free(text);
}

/* One that is not put ends it: those before it are counted, wherever in a batch it was. */
UNIT_TEST(test_load_fails_within_a_batch, setup)
{
	const unsigned n = 2 * PUT_BATCH_MAX;
	char *text = malloc(n * 32), want[80];

	assert_non_null(text);
	write_lines(text, 0, n, 1);
	file("n.tsv", text);
	for (unsigned at = 1; at <= n; at += PUT_BATCH_MAX / 2 - 1) {
		fake_clear();
		fake_faults.fail_put = at;
		fake_faults.fail_more = 2;
		assert_int_equal(run("", "load", path("n.tsv"), NULL), CLI_FAILED);
		snprintf(want, sizeof(want), "n.tsv: line %u: put k%u: the store is full", at,
			 at - 1);
		has(errors, want);
		snprintf(want, sizeof(want), "; %u records were loaded before it\n", at - 1);
		has(errors, want);
		assert_true(fake_submitted < at + PUT_LANES * PUT_LANE_DEPTH);
	}
	free(text);
}

/* A bad record ends it after those before it were put. */
UNIT_TEST(test_load_ends_at_a_bad_record, setup)
{
	const unsigned n = PUT_BATCH_MAX + 3;
	char *text = malloc(n * 32), want[80];

	assert_non_null(text);
	strcpy(write_lines(text, 0, n, 1), "bad\nk0\tnot this\n");
	assert_int_equal(run("", "load", file("bad.tsv", text), NULL), CLI_FAILED);
	snprintf(want, sizeof(want), "line %u: no tab", n + 1);
	has(errors, want);
	snprintf(want, sizeof(want), "; %u records were loaded before it (--skip-bad", n);
	has(errors, want);
	assert_int_equal(fake_count(), n);
	last_of(0, "a");
	free(text);
}

UNIT_GROUP(make_folder, folder_remove);
