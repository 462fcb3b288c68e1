/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The three formats: what is read, and what is refused on which line. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/include/gracekv.h"
#include "tests/lib/unit.h"
#include "tools/kv-cli/record_reader.h"

static struct record_reader reader;
static struct record record;
static struct error err;
static int input_fd = -1;

static void start(enum record_format format, const void *text, size_t len)
{
	input_fd = memfd_create("input", MFD_CLOEXEC);
	assert_true(input_fd >= 0);
	for (size_t done = 0; done < len;) {
		ssize_t n = write(input_fd, (const char *)text + done, len - done);

		assert_true(n > 0);
		done += (size_t)n;
	}
	assert_int_equal(lseek(input_fd, 0, SEEK_SET), 0);
	assert_int_equal(record_reader_init(&reader, input_fd, format), 0);
}

static void start_text(enum record_format format, const char *text)
{
	start(format, text, strlen(text));
}

static void expect(const char *key, const void *value, size_t value_len, uint64_t line)
{
	assert_int_equal(record_reader_next(&reader, &record, &err), 1);
	assert_int_equal(record.key_len, strlen(key));
	assert_memory_equal(record.key, key, record.key_len);
	assert_int_equal(record.value_len, value_len);
	assert_memory_equal(record.value, value, value_len);
	assert_int_equal(record.line, line);
}

static void expect_text(const char *key, const char *value, uint64_t line)
{
	expect(key, value, strlen(value), line);
}

static void expect_bad(const char *start_of_sentence)
{
	assert_int_equal(record_reader_next(&reader, &record, &err), -EBADMSG);
	if (strncmp(err.text, start_of_sentence, strlen(start_of_sentence)) != 0)
		fail_msg("'%s' does not begin with '%s'", err.text, start_of_sentence);
}

static void expect_end(void)
{
	assert_int_equal(record_reader_next(&reader, &record, &err), 0);
	assert_int_equal(record_reader_next(&reader, &record, &err), 0);
	record_reader_free(&reader);
	close(input_fd);
}

UNIT_TEST(test_stanzas)
{
	start_text(RECORD_DEB822,
		   "# a list\n\n\nPackage: a\nVersion: 1\nDescription: x\n more\n .\n"
		   "\tmore\n# inside\n\n# before\nVersion: 2\npackage:  b \n \t\n"
		   "Package: c\nEnd: 1");
	expect_text("a", "Package: a\nVersion: 1\nDescription: x\n more\n .\n\tmore\n# inside\n",
		    4);
	expect_text("b", "Version: 2\npackage:  b \n", 13);
	expect_text("c", "Package: c\nEnd: 1", 16);
	expect_end();
	start_text(RECORD_DEB822, "Package: a\r\nVersion: 1\r\n\r\nPackage: b\r\n");
	expect_text("a", "Package: a\r\nVersion: 1\r\n", 1);
	expect_text("b", "Package: b\r\n", 4);
	expect_end();
	start_text(RECORD_DEB822, "\n# nothing\n\n");
	expect_end();
	start_text(RECORD_DEB822, "");
	expect_end();
}

UNIT_TEST(test_bad_stanzas)
{
	start_text(RECORD_DEB822,
		   "Package: a\n\nVersion: 1\n\n more\nPackage: x\n\nPackage: b\nrubbish\n"
		   "More: 1\n\nPackage: c\nPackage: d\n\nPackage: e\n f\n\nPackage:\n\n"
		   ": x\n\nA B: x\n\nPackage: z\n");
	expect_text("a", "Package: a\n", 1);
	expect_bad("line 3: the stanza has no Package field");
	expect_bad("line 5: a continuation line");
	expect_bad("line 9: not a field");
	expect_bad("line 13: a second Package field");
	expect_bad("line 16: the Package field goes on");
	expect_bad("line 18: the key is empty");
	expect_bad("line 20: not a field");
	expect_bad("line 22: not a field");
	expect_text("z", "Package: z\n", 24);
	expect_end();
}

UNIT_TEST(test_tsv)
{
	static const char rows[] = "a\t1\n\nb\\x00\\t\t\\\\\\n\nc\t\nd\t\xff\0x";

	start(RECORD_TSV, rows, sizeof(rows) - 1);
	expect_text("a", "1", 1);
	assert_int_equal(record_reader_next(&reader, &record, &err), 1);
	assert_int_equal(record.key_len, 3);
	assert_memory_equal(record.key, "b\0\t", 3);
	assert_memory_equal(record.value, "\\\n", 2);
	expect_text("c", "", 4);
	expect("d", "\xff\0x", 3, 5);
	expect_end();
	start_text(RECORD_TSV, "no tab\nk\tv\tw\n\tv\nk\t\\q\nok\tok\n");
	expect_bad("line 1: no tab");
	expect_bad("line 2: a second tab");
	expect_bad("line 3: the key is empty");
	expect_bad("line 4: a backslash");
	expect_text("ok", "ok", 5);
	expect_end();
	start_text(RECORD_TSV, "a\tends as on Windows\r\nb\twithout a newline");
	expect_text("a", "ends as on Windows\r", 1);
	expect_text("b", "without a newline", 2);
	expect_end();
}

UNIT_TEST(test_jsonl)
{
	start_text(RECORD_JSONL, "{\"key\": \"a\", \"value\": \"1\\u0000\\n\"}\n\n"
				 "{\"value_b64\": \"/w==\", \"key_b64\": \"Yg==\"}\n");
	expect("a", "1\0\n", 3, 1);
	expect("b", "\xff", 1, 3);
	expect_end();
	start_text(RECORD_JSONL,
		   "{\n[]\n{\"key\": \"a\"}\n{\"key\": 1, \"value\": \"\"}\n"
		   "{\"key\": \"a\", \"key_b64\": \"\", \"value\": \"\"}\n"
		   "{\"key\": \"a\", \"value_b64\": \"x\"}\n"
		   "{\"key\": \"a\", \"value\": \"\", \"ttl\": 1}\n"
		   "{\"key\": \"\", \"value\": \"\"}\n"
		   "{\"key\": \"a\", \"key\": \"b\", \"value\": \"\"}\n"
		   "{\"key\": \"a\", \"value\": \"\"} x\n{\"key\": \"a\", \"value\": \"\"}");
	expect_bad("line 1: not JSON");
	expect_bad("line 2: not a JSON object");
	expect_bad("line 3: neither value nor value_b64");
	expect_bad("line 4: key is not a string");
	expect_bad("line 5: both key and key_b64");
	expect_bad("line 6: value_b64 is not base64");
	expect_bad("line 7: unknown field 'ttl'");
	expect_bad("line 8: the key is empty");
	expect_bad("line 9: not JSON");
	expect_bad("line 10: not JSON");
	expect_text("a", "", 11);
	expect_end();
}

UNIT_TEST(test_jsonl_expiry)
{
	static const char *const bad[] = { "\"5\"",
					   "-1",
					   "5.0",
					   "1e3",
					   "null",
					   "true",
					   "[5]",
					   "253402300800000",
					   "-9223372036854775808",
					   "9223372036854775807" };
	char line[128];

	start_text(RECORD_JSONL,
		   "{\"key\": \"a\", \"value\": \"\"}\n"
		   "{\"key\": \"b\", \"value\": \"\", \"expiry_ms\": 951827696789}\n"
		   "{\"key\": \"c\", \"value\": \"\", \"expiry_ms\": 0}\n"
		   "{\"key\": \"d\", \"value\": \"\", \"expiry_ms\": 253402300799999}\n"
		   "{\"key\": \"e\", \"value\": \"\"}\n");
	expect_text("a", "", 1);
	assert_int_equal(record.expiry_ms, 0);
	expect_text("b", "", 2);
	assert_int_equal(record.expiry_ms, 951827696789);
	expect_text("c", "", 3);
	assert_int_equal(record.expiry_ms, 0);
	expect_text("d", "", 4);
	assert_int_equal(record.expiry_ms, RECORD_EXPIRY_MAX);
	expect_text("e", "", 5);
	assert_int_equal(record.expiry_ms, 0);
	expect_end();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(line, sizeof(line), "\n{\"key\":\"a\",\"value\":\"\",\"expiry_ms\":%s}\n",
			 bad[i]);
		start_text(RECORD_JSONL, line);
		expect_bad("line 2: expiry_ms is ");
		expect_end();
	}
	start_text(RECORD_JSONL,
		   "{\"key\":\"a\",\"value\":\"\",\"expiry_ms\":9223372036854775808}\n"
		   "{\"key\":\"a\",\"value\":\"\",\"expiry_ms\":1,\"expiry_ms\":1}");
	expect_bad("line 1: not JSON");
	expect_bad("line 2: not JSON");
	expect_end();
}

/* Keys and values at their limits are read, one byte more is refused and the next record comes. */
static void limits_of(enum record_format format, const char *head, const char *middle,
		      const char *tail, size_t key_len, size_t value_len, const char *sentence)
{
	size_t room = strlen(head) + strlen(middle) + strlen(tail) + key_len + value_len + 64;
	char *text = malloc(room), *to = text, *value;

	assert_non_null(text);
	to = stpcpy(to, head);
	memset(to, 'k', key_len);
	to = value = stpcpy(to + key_len, middle);
	if (format == RECORD_DEB822)
		value_len -= (size_t)(value - text) + strlen(tail);
	memset(to, 'v', value_len);
	to = stpcpy(to + value_len, tail);
	to = stpcpy(to, format == RECORD_DEB822 ? "\nPackage: z\n"
			: format == RECORD_TSV	? "z\t1\n"
						: "{\"key\":\"z\",\"value\":\"1\"}\n");
	start(format, text, (size_t)(to - text));
	if (sentence) {
		expect_bad(sentence);
	} else {
		assert_int_equal(record_reader_next(&reader, &record, &err), 1);
		assert_int_equal(record.key_len, key_len);
		assert_int_equal(((const char *)record.value)[record.value_len / 2], 'v');
	}
	assert_int_equal(record_reader_next(&reader, &record, &err), 1);
	assert_memory_equal(record.key, "z", 1);
	expect_end();
	free(text);
}

UNIT_TEST(test_limits)
{
	static const struct {
		enum record_format format;
		const char *head, *middle, *tail;
	} forms[] = {
		{ RECORD_DEB822, "Package: ", "\nA: ", "\n" },
		{ RECORD_TSV, "", "\t", "\n" },
		{ RECORD_JSONL, "{\"key\":\"", "\",\"value\":\"", "\"}\n" },
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		enum record_format f = forms[i].format;
		const char *h = forms[i].head, *m = forms[i].middle, *t = forms[i].tail;

		limits_of(f, h, m, t, GKV_KEY_MAX, GKV_VALUE_MAX, NULL);
		limits_of(f, h, m, t, GKV_KEY_MAX + 1, 2000, "line 1: the key is longer than 1024");
		limits_of(f, h, m, t, 5000, 6000, "line 1: the key is longer than 1024");
		limits_of(f, h, m, t, 1, GKV_VALUE_MAX + 1,
			  "line 1: the value is longer than 16777216");
		limits_of(f, h, m, t, 1, GKV_VALUE_MAX + 5,
			  f == RECORD_DEB822 ? "line 2: the stanza is longer"
					     : "line 1: the value is longer than 16777216");
	}
}

/* A line that no record can fill is skipped without being kept. */
UNIT_TEST(test_endless_line)
{
	size_t len = (size_t)5 * GKV_VALUE_MAX;
	char *text = malloc(len + 16);

	assert_non_null(text);
	memset(text, 'x', len);
	strcpy(text + len, "\nk\tv\n");
	start_text(RECORD_TSV, text);
	expect_bad("line 1: longer than any record");
	assert_true(reader.lines.split.cap < (size_t)7 * GKV_VALUE_MAX);
	expect_text("k", "v", 2);
	expect_end();
	start_text(RECORD_DEB822, text);
	expect_bad("line 1: the line is longer");
	expect_end();
	free(text);
}

/* Lines that lie across the reader's input pieces. */
UNIT_TEST(test_pieces)
{
	size_t len = 0, rows = 40000;
	char *text = malloc(rows * 32);
	char key[16], value[16];

	assert_non_null(text);
	for (size_t i = 0; i < rows; i++)
		len += (size_t)sprintf(text + len, "key%zu\tvalue%zu\n", i, i);
	start(RECORD_TSV, text, len);
	for (size_t i = 0; i < rows; i++) {
		snprintf(key, sizeof(key), "key%zu", i);
		snprintf(value, sizeof(value), "value%zu", i);
		expect_text(key, value, i + 1);
	}
	assert_int_equal(reader.lines.consumed, len);
	expect_end();
	free(text);
}

UNIT_TEST(test_format_names)
{
	enum record_format f;

	assert_int_equal(record_format_guess("a/b.tsv", &f), 0);
	assert_int_equal(f, RECORD_TSV);
	assert_int_equal(record_format_guess("x_main_binary-amd64_Packages", &f), 0);
	assert_int_equal(f, RECORD_DEB822);
	assert_int_equal(record_format_guess("x.JSONL", &f), 0);
	assert_int_equal(f, RECORD_JSONL);
	assert_int_equal(record_format_guess("-", &f), -EINVAL);
	assert_int_equal(record_format_parse("csv", &f), -EINVAL);
}

UNIT_TEST(test_unreadable)
{
	assert_int_equal(record_reader_init(&reader, -1, RECORD_TSV), 0);
	assert_int_equal(record_reader_next(&reader, &record, &err), -EBADF);
	record_reader_free(&reader);
}
