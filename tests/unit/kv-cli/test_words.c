/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Lines into words: what quotes and backslashes mean, and what is refused. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/unit.h"

#include "tools/kv-cli/words.h"

#define SEED   20261122u
#define ROUNDS 20000
#define LONG   (1u << 20)

static struct error err;

/* @line has these words, up to NULL. */
static void splits(const char *line, ...)
{
	struct words w;
	const char *word;
	va_list ap;
	int n = 1;

	assert_int_equal(words_split(&w, line, strlen(line), &err), 0);
	assert_string_equal(w.word[0], "kv-cli");
	va_start(ap, line);
	for (; (word = va_arg(ap, const char *)); n++) {
		assert_true(n < w.count);
		assert_string_equal(w.word[n], word);
	}
	va_end(ap);
	assert_int_equal(w.count, n);
	assert_null(w.word[n]);
	words_free(&w);
}

UNIT_TEST(test_words)
{
	splits("", NULL);
	splits(" \t\r\n ", NULL);
	splits("# put a b", NULL);
	splits("  #", NULL);
	splits("get #a", "get", "#a", NULL);
	splits("get a", "get", "a", NULL);
	splits("\tget\t a \r\n", "get", "a", NULL);
	splits("put a ''", "put", "a", "", NULL);
	splits("put a \"\"", "put", "a", "", NULL);
	splits("'a b'\"c d\"e\\ f", "a bc de f", NULL);
	splits("'\\n\"'", "\\n\"", NULL);
	splits("\"\\n\\t\\r\\\\\\\"'\\x41\\xfF\"", "\n\t\r\\\"'A\xff", NULL);
	splits("\\\\ \\' \\\" \\n \\#", "\\", "'", "\"", "n", "#", NULL);
	splits("it\\'s", "it's", NULL);
	splits("gr\xc3\xbc\xff", "gr\xc3\xbc\xff", NULL);
}

static void refuses(const char *line, size_t len, const char *part)
{
	struct words w;

	assert_int_equal(words_split(&w, line, len, &err), -EBADMSG);
	if (!strstr(err.text, part))
		fail_msg("'%s' has no '%s'", err.text, part);
}

UNIT_TEST(test_words_refused)
{
	static const char *const escapes[] = { "\"\\q\"",   "\"\\x\"", "\"\\x1\"", "\"\\xg0\"",
					       "\"\\x0g\"", "\"\\0\"", "\"\\X41\"" };

	refuses("put a 'b", 8, "the quote ' of column 7 is not closed");
	refuses("put a \"b", 8, "the quote \" of column 7 is not closed");
	refuses("'", 1, "column 1 is not closed");
	refuses("\"", 1, "column 1 is not closed");
	refuses("\"a\\", 3, "column 1 is not closed");
	refuses("\"a\\\"", 4, "column 1 is not closed");
	refuses("a\\", 2, "a backslash ends the line");
	refuses("a\0b", 3, "zero byte");
	refuses("a '\\x00' \"\\x00\"", 15, "\\x00 in column 11");
	for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++)
		refuses(escapes[i], strlen(escapes[i]), "the backslash of column 2 is no escape");
}

/* The longest lines, of the fewest and of the most words. */
UNIT_TEST(test_long_lines)
{
	char *line = malloc(LONG);
	struct words w;

	assert_non_null(line);
	memset(line, 'a', LONG);
	assert_int_equal(words_split(&w, line, LONG, &err), 0);
	assert_int_equal(w.count, 2);
	assert_int_equal(strlen(w.word[1]), LONG);
	words_free(&w);
	for (size_t i = 0; i < LONG; i += 2)
		line[i] = ' ';
	assert_int_equal(words_split(&w, line, LONG, &err), 0);
	assert_int_equal(w.count, 1 + LONG / 2);
	words_free(&w);
	free(line);
}

/* Any bytes, quoted in any of the three ways, come back. */
UNIT_TEST(test_round_trips)
{
	uint64_t seed = SEED;

	print_message("seed %u\n", SEED);
	for (int i = 0; i < ROUNDS; i++) {
		char word[24], line[128];
		size_t len = 1 + unit_random(&seed) % (sizeof(word) - 1), at = 0;
		unsigned how = unit_random(&seed) % 3;
		struct words w;

		for (size_t k = 0; k < len; k++) {
			unsigned char c = (unsigned char)(1 + unit_random(&seed) % 255);

			/* no backslash takes the end of a line away, no '...' holds a ' */
			word[k] = (char)(how == 1 && c == '\'' ? '"' : c);
		}
		if (how)
			line[at++] = how == 1 ? '\'' : '"';
		for (size_t k = 0; k < len; k++) {
			if (how == 2)
				at += (size_t)sprintf(line + at, "\\x%02x", (unsigned char)word[k]);
			else if (how == 0)
				line[at++] = '\\';
			if (how != 2)
				line[at++] = word[k];
		}
		if (how)
			line[at++] = how == 1 ? '\'' : '"';
		assert_int_equal(words_split(&w, line, at, &err), 0);
		assert_int_equal(w.count, 2);
		assert_int_equal(strlen(w.word[1]), len);
		assert_memory_equal(w.word[1], word, len);
		words_free(&w);
	}
}

/* Random lines of the bytes that mean something: split or refused, within bounds. */
UNIT_TEST(test_random_lines)
{
	static const char bytes[] = " \t'\"\\xX0n4a#\r";
	uint64_t seed = SEED;

	for (int i = 0; i < ROUNDS; i++) {
		size_t len = unit_random(&seed) % 20, text = 0;
		char *line = malloc(len ? len : 1); /* no byte after it, for sanitizers */
		struct words w;
		int rc;

		assert_non_null(line);
		for (size_t k = 0; k < len; k++)
			line[k] = bytes[unit_random(&seed) % (sizeof(bytes) - 1)];
		rc = words_split(&w, line, len, &err);
		assert_true(rc == 0 || rc == -EBADMSG);
		if (rc == 0) {
			for (int k = 1; k < w.count; k++)
				text += strlen(w.word[k]) + 1;
			assert_true(text <= len + 1);
			words_free(&w);
		}
		free(line);
	}
}
