/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The server's statistics: what is taken of a text, and what two of them tell. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "tests/lib/unit.h"
#include "tools/kv-cli/stats_json.h"
#include "tools/kv-cli/stats_table.h"

#define SESSIONS 900u

static struct stats_table table;

static int clear(void **state)
{
	stats_table_free(&table);
	return 0;
}

/* A look @ms after any moment. */
static void look(const char *text, uint64_t ms)
{
	assert_int_equal(stats_table_read(&table, text, NS_PER_S + ms * NS_PER_MS), 0);
}

static uint64_t value(const char *name)
{
	const struct stats_value *v = stats_find(&table, name);

	if (!v)
		fail_msg("no %s", name);
	return v->value;
}

static void same(double got, double wanted)
{
	if (got < wanted - 1e-9 || got > wanted + 1e-9)
		fail_msg("%g, not %g", got, wanted);
}

UNIT_TEST(test_lines, NULL, clear)
{
	look("pid 17\nb 2\na 18446744073709551615\n\nlast 00009", 0);
	assert_int_equal(table.count, 4);
	assert_int_equal(table.malformed, 0);
	assert_string_equal(table.values[0].name, "pid");
	assert_string_equal(table.values[3].name, "last");
	assert_int_equal(value("pid"), 17);
	assert_true(value("a") == UINT64_MAX);
	assert_int_equal(value("b"), 2);
	assert_int_equal(value("last"), 9);
	assert_null(stats_find(&table, "la"));
	assert_null(stats_find(&table, ""));
	assert_null(stats_find(&table, "lastly"));
	same(stats_rate(&table, "b"), STATS_UNKNOWN);
	look("", 1000);
	assert_int_equal(table.count, 0);
	assert_null(stats_find(&table, "b"));
}

UNIT_TEST(test_malformed_lines, NULL, clear)
{
	static const char *const lines[] = {
		"a",
		"a ",
		" 1",
		"a  1",
		"a 1 ",
		"a 1\r",
		"a -1",
		"a +1",
		"a 0x1",
		"a 1.5",
		"a b",
		"a\t1",
		"\xff 1",
		"a\x1b[2J 1",
		"a 18446744073709551616",
		"a 99999999999999999999",
		"a 100000000000000000000",
		"a 1 2",
		"a=1",
		/* 64 bytes */
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1",
	};
	char text[256];

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		snprintf(text, sizeof(text), "before 1\n%s\nbehind 2\n", lines[i]);
		look(text, i);
		if (table.count != 2 || table.malformed != 1)
			fail_msg("'%s': %zu lines, %u malformed", lines[i], table.count,
				 table.malformed);
		assert_int_equal(value("before"), 1);
		assert_int_equal(value("behind"), 2);
	}
	/* one byte less is a name */
	look("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1\n", 99);
	assert_int_equal(table.count, 1);
}

UNIT_TEST(test_rates, NULL, clear)
{
	look("gets 100\nreads 150\nsame 7\nless 5\ngone 1\n", 0);
	look("new 9\nreads 450\ngets 300\nless 4\nsame 7\n", 500);
	same(table.seconds, 0.5);
	same(stats_rate(&table, "gets"), 400);
	same(stats_rate(&table, "reads"), 600);
	same(stats_rate(&table, "same"), 0);
	same(stats_rate(&table, "less"), STATS_UNKNOWN); /* as of a client that started over */
	same(stats_rate(&table, "new"), STATS_UNKNOWN);
	same(stats_rate(&table, "gone"), STATS_UNKNOWN);
	same(stats_ratio(stats_find(&table, "reads"), stats_find(&table, "gets")), 1.5);
	same(stats_ratio(stats_find(&table, "reads"), stats_find(&table, "same")), STATS_UNKNOWN);
	same(stats_ratio(stats_find(&table, "reads"), NULL), STATS_UNKNOWN);
	same(stats_ratio(stats_find(&table, "new"), stats_find(&table, "gets")), STATS_UNKNOWN);
	look("gets 300\nless 9\n", 2500);
	same(stats_rate(&table, "gets"), 0);
	same(stats_rate(&table, "less"), 2.5);
}

/* Of the time between two looks the server knows best: an answer may have been late. */
UNIT_TEST(test_time_is_the_servers, NULL, clear)
{
	look("pid 5\nuptime_ms 1000\nputs 10\n", 0);
	look("pid 5\nuptime_ms 3000\nputs 30\n", 500);
	same(table.seconds, 2);
	same(stats_rate(&table, "puts"), 10);
	look("pid 5\nputs 40\n", 1500);
	same(stats_rate(&table, "puts"), 10);
	look("pid 5\nputs 50\n", 1500);
	same(stats_rate(&table, "puts"), STATS_UNKNOWN);
	look("pid 5\nuptime_ms 9000\nputs 60\n", 2500);
	look("pid 5\nuptime_ms 9000\nputs 60\n", 3500);
	same(stats_rate(&table, "puts"), STATS_UNKNOWN);
}

UNIT_TEST(test_another_server, NULL, clear)
{
	static const char *const others[] = { "pid 6\nuptime_ms 2000\nputs 100\n",
					      "pid 5\nuptime_ms 10\nputs 100\n" };

	for (unsigned i = 0; i < 2; i++) {
		look("pid 5\nuptime_ms 1000\nputs 10\n", 0);
		look(others[i], 1000);
		same(table.seconds, 0);
		same(stats_rate(&table, "puts"), STATS_UNKNOWN);
		assert_int_equal(value("puts"), 100);
		clear(NULL);
	}
	look("puts 10\n", 0);
	stats_table_lose(&table);
	assert_int_equal(value("puts"), 10);
	look("puts 20\n", 1000);
	same(stats_rate(&table, "puts"), STATS_UNKNOWN);
	look("puts 30\n", 2000);
	same(stats_rate(&table, "puts"), 10);
	stats_table_lose(&table);
	same(stats_rate(&table, "puts"), STATS_UNKNOWN);
}

static const char *const fields[] = { "gets", "epoch_lag", NULL };

UNIT_TEST(test_rows, NULL, clear)
{
	struct stats_row *rows;
	size_t count;

	look("sessions 3\nsession_7_gets 1\nsession_7_epoch_lag 2\nsession_x_gets 1\n"
	     "session_7_other 1\nsession__gets 1\nsession_8 1\nsession_9_getsy 1\nsession_12xgets 1\n"
	     "session_99999999999999999999_gets 1\nsession_18446744073709551615_epoch_lag 5\n"
	     "session_3_epoch_lag 4\nsession_3_gets 6\nsessions_resumed 4\nsession_9_other 1\n",
	     0);
	assert_int_equal(table.malformed, 0);
	assert_int_equal(stats_rows(&table, "session_", fields, &rows, &count), 0);
	assert_int_equal(count, 3);
	assert_int_equal(rows[0].number, 7);
	assert_int_equal(rows[0].field[0]->value, 1);
	assert_int_equal(rows[0].field[1]->value, 2);
	assert_true(rows[1].number == UINT64_MAX);
	assert_null(rows[1].field[0]);
	assert_int_equal(rows[1].field[1]->value, 5);
	assert_int_equal(rows[2].number, 3);
	assert_int_equal(rows[2].field[0]->value, 6);
	free(rows);
	look("a 1\n", 1000);
	assert_int_equal(stats_rows(&table, "session_", fields, &rows, &count), 0);
	assert_int_equal(count, 0);
	free(rows);
}

/* Lines of all sessions in another order each time. */
static char *crowd(unsigned looks)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	for (unsigned k = 0; k < 2; k++) {
		for (unsigned i = 0; i < SESSIONS; i++) {
			unsigned n = looks ? SESSIONS - i : i + 1;

			fprintf(f, "session_%u_%s %u\n", n, fields[k], k ? n : looks * n);
		}
	}
	assert_int_equal(fclose(f), 0);
	return text;
}

UNIT_TEST(test_hundreds_of_sessions, NULL, clear)
{
	struct stats_row *rows;
	size_t count;

	for (unsigned i = 0; i < 2; i++) {
		char *text = crowd(i);

		look(text, 2000 * i);
		free(text);
	}
	assert_int_equal(table.count, 2 * SESSIONS);
	assert_int_equal(stats_rows(&table, "session_", fields, &rows, &count), 0);
	assert_int_equal(count, SESSIONS);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(rows[i].number, SESSIONS - i);
		assert_int_equal(rows[i].field[1]->value, rows[i].number);
		same(stats_rate_of(&table, rows[i].field[0]), (double)rows[i].number / 2);
	}
	free(rows);
}

UNIT_TEST(test_more_lines_than_are_taken, NULL, clear)
{
	size_t lines = STATS_LINES_MAX + 10, len = 0;
	char *text = malloc(lines * 16);

	assert_non_null(text);
	for (size_t i = 0; i < lines; i++)
		len += (size_t)sprintf(text + len, "n%zu %zu\n", i, i);
	look(text, 0);
	assert_int_equal(table.count, STATS_LINES_MAX);
	assert_int_equal(value("n8191"), 8191);
	assert_null(stats_find(&table, "n8192"));
	free(text);
}

/* The value at @path of @doc, the words of which are keys, or places in lists. */
static json_t *at(json_t *doc, const char *path)
{
	char words[64], *rest = words;

	snprintf(words, sizeof(words), "%s", path);
	for (char *word; (word = strsep(&rest, "."));)
		doc = json_is_array(doc) ? json_array_get(doc, strtoul(word, NULL, 10))
					 : json_object_get(doc, word);
	return doc;
}

UNIT_TEST(test_json, NULL, clear)
{
	json_t *doc;

	look("pid 7\nsessions 2\nsessions_resumed 1\nrpc_puts 10\nrpc 1\nrecords 5\nclient_gets 10\n"
	     "client_reads 10\nclass_64_slabs 1\nclass_64_used 2\nclass_128_used 3\nclass_used 4\n"
	     "session_4_gets 10\nsession_4_reads 20\nsession_4_retries 0\nsession_5_gets 3\n"
	     "big 18446744073709551615\nmost 9223372036854775807\n",
	     0);
	doc = stats_json(&table);
	assert_int_equal(json_object_size(doc), 8);
	assert_int_equal(json_integer_value(at(doc, "process.pid")), 7);
	assert_int_equal(json_integer_value(at(doc, "sessions.sessions")), 2);
	assert_int_equal(json_integer_value(at(doc, "sessions.resumed")), 1);
	assert_int_equal(json_integer_value(at(doc, "rpc.puts")), 10);
	assert_int_equal(json_integer_value(at(doc, "other.rpc")), 1);
	assert_int_equal(json_array_size(at(doc, "classes")), 2);
	assert_int_equal(json_integer_value(at(doc, "classes.0.size")), 64);
	assert_int_equal(json_integer_value(at(doc, "classes.0.used")), 2);
	assert_int_equal(json_integer_value(at(doc, "classes.1.used")), 3);
	assert_int_equal(json_integer_value(at(doc, "other.class_used")), 4);
	assert_int_equal(json_integer_value(at(doc, "each_session.1.session")), 5);
	assert_true(json_integer_value(at(doc, "other.most")) == INT64_MAX);
	assert_true(json_real_value(at(doc, "other.big")) > 1.8e19);
	json_decref(doc);
	doc = stats_json_rates(&table);
	assert_true(json_is_null(at(doc, "rpc.puts")));
	assert_true(json_is_null(at(doc, "client.reads_per_get")));
	json_decref(doc);
	look("rpc_puts 30\nrecords 7\nclient_gets 20\nclient_reads 25\nsession_4_gets 14\n"
	     "session_4_reads 28\nsession_4_retries 0\n",
	     2000);
	doc = stats_json_rates(&table);
	assert_int_equal(json_object_size(doc), 3);
	same(json_real_value(at(doc, "rpc.puts")), 10);
	same(json_real_value(at(doc, "client.reads_per_get")), 1.5);
	same(json_real_value(at(doc, "each_session.0.gets")), 2);
	same(json_real_value(at(doc, "each_session.0.reads_per_get")), 2);
	assert_null(at(doc, "records")); /* no counter */
	json_decref(doc);
}
