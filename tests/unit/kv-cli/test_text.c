/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Escapes, base64, figures, output files. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "tools/kv-cli/key_set.h"
#include "tools/kv-cli/text.h"
#include "tools/kv-cli/verify.h"

#define SEED   20240117u
#define ROUNDS 20000

static uint32_t rng_state;

static uint32_t rng(void)
{
	rng_state = rng_state * 1664525u + 1013904223u;
	return rng_state >> 8;
}

static void expect_escape(const void *data, size_t len, const char *text)
{
	struct buffer b = { 0 };

	assert_int_equal(text_escape(&b, data, len), 0);
	assert_int_equal(b.len, strlen(text));
	assert_memory_equal(b.data, text, b.len);
	buffer_free(&b);
}

UNIT_TEST(test_escape)
{
	expect_escape("plain", 5, "plain");
	expect_escape("a\tb\nc\\d", 7, "a\\tb\\nc\\\\d");
	expect_escape("\0\r\x7f\xff", 4, "\\x00\\x0d\\x7f\\xff");
	expect_escape("gr\xc3\xbc\xc3\x9f", 6, "gr\xc3\xbc\xc3\x9f");
	expect_escape("\xc3", 1, "\\xc3"); /* cut */
	expect_escape("\xc0\x80", 2, "\\xc0\\x80"); /* not the shortest form */
	expect_escape("\xed\xa0\x80", 3, "\\xed\\xa0\\x80"); /* a surrogate */
	expect_escape("\xf0\x9f\x98\x80", 4, "\xf0\x9f\x98\x80");
	expect_escape("\xf4\x90\x80\x80", 4, "\\xf4\\x90\\x80\\x80"); /* above U+10FFFF */
}

UNIT_TEST(test_unescape_refuses)
{
	static const char *const bad[] = { "\\",    "a\\",   "\\x", "\\x1",
					   "\\xg0", "\\x0g", "\\q", "\\N" };
	struct buffer b = { 0 };
	struct error err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(text_unescape(&b, bad[i], strlen(bad[i]), &err), -EBADMSG);
	assert_int_equal(text_unescape(&b, "\\\0n", 3, &err), -EBADMSG);
	buffer_free(&b);
}

/* Random bytes come back, through both encodings. */
UNIT_TEST(test_round_trips)
{
	struct buffer text = { 0 }, back = { 0 };
	unsigned char data[64];
	struct error err;

	print_message("seed %u\n", SEED);
	rng_state = SEED;
	for (int i = 0; i < ROUNDS; i++) {
		size_t len = rng() % sizeof(data);

		for (size_t k = 0; k < len; k++)
			data[k] = (unsigned char)rng();
		text.len = back.len = 0;
		assert_int_equal(text_escape(&text, data, len), 0);
		assert_int_equal(text_unescape(&back, text.data, text.len, &err), 0);
		assert_int_equal(back.len, len);
		assert_memory_equal(len ? back.data : "", data, len);
		assert_null(len ? memchr(text.data, '\n', text.len) : NULL);
		text.len = back.len = 0;
		assert_int_equal(text_base64(&text, data, len), 0);
		assert_int_equal(text_base64_decode(&back, text.data, text.len), 0);
		assert_int_equal(back.len, len);
		assert_memory_equal(len ? back.data : "", data, len);
	}
	buffer_free(&text);
	buffer_free(&back);
}

/* The vectors of RFC 4648, section 10, and texts that are not base64. */
UNIT_TEST(test_base64)
{
	static const char *const pairs[][2] = {
		{ "", "" },
		{ "f", "Zg==" },
		{ "fo", "Zm8=" },
		{ "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" },
		{ "fooba", "Zm9vYmE=" },
		{ "foobar", "Zm9vYmFy" },
	};
	static const char *const bad[] = { "Z",	   "Zg",       "Zg=",	"Zg===", "Z===", "Zh==",
					   "Zm9=", "Zg==Zg==", "Zm 9v", "Zm9\n", "=m9v", "Zm=v" };
	struct buffer b = { 0 };

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		b.len = 0;
		assert_int_equal(text_base64(&b, pairs[i][0], strlen(pairs[i][0])), 0);
		assert_int_equal(b.len, strlen(pairs[i][1]));
		assert_memory_equal(b.data, pairs[i][1], b.len);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(text_base64_decode(&b, bad[i], strlen(bad[i])), -EBADMSG);
	assert_int_equal(text_base64_decode(&b, "Zm9\0", 4), -EBADMSG);
	buffer_free(&b);
	/* padding is no part of what a limit counts */
	b.max = 4;
	assert_int_equal(text_base64_decode(&b, "Zm9vYg==", 8), 0);
	b.len = 0;
	assert_int_equal(text_base64_decode(&b, "Zm9vYmE=", 8), -E2BIG);
	buffer_free(&b);
}

UNIT_TEST(test_sizes)
{
	char out[TEXT_SIZE_MAX];

	assert_string_equal(text_size(out, 0), "0 B");
	assert_string_equal(text_size(out, 999), "999 B");
	assert_string_equal(text_size(out, 1000), "1.0 kB");
	assert_string_equal(text_size(out, 999999), "1.0 MB");
	assert_string_equal(text_size(out, 70100000), "70.1 MB");
	assert_string_equal(text_size_binary(out, 4ull << 30), "4.0 GiB");
	assert_string_equal(text_size_binary(out, 1023), "1023 B");
	assert_string_equal(text_size(out, UINT64_MAX), "18446.7 PB");
}

/* At most five characters, whatever is rounded. */
UNIT_TEST(test_short_figures)
{
	static const struct {
		double value;
		const char *rate, *number, *bytes;
	} cases[] = {
		{ 0, "0", "0", "0" },
		{ 7, "7.0", "7", "7" },
		{ 99, "99.0", "99", "99" },
		{ 100, "100", "100", "100" },
		{ 999, "999", "999", "999" },
		{ 1000, "1.00k", "1000", "1000" },
		{ 1023, "1.02k", "1023", "1023" },
		{ 1024, "1.02k", "1024", "1.00K" },
		{ 1536, "1.54k", "1536", "1.50K" },
		{ 9999, "10.0k", "9999", "9.76K" },
		{ 10000, "10.0k", "10.0k", "9.77K" },
		{ 99949, "99.9k", "99.9k", "97.6K" },
		{ 99950, "100k", "100k", "97.6K" },
		{ 999499, "999k", "999k", "976K" },
		{ 999500, "1.00M", "1.00M", "976K" },
		{ 1048575, "1.05M", "1.05M", "1.00M" },
		{ 1048064, "1.05M", "1.05M", "1.00M" },
		{ 1048063, "1.05M", "1.05M", "1023K" },
		{ 1e9, "1.00G", "1.00G", "954M" },
		{ 18446744073709551615., "18.4E", "18.4E", "16.0E" },
	};
	char text[TEXT_SHORT_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t n = cases[i].value < 1e19 ? (uint64_t)cases[i].value : UINT64_MAX;

		assert_string_equal(text_rate(text, cases[i].value), cases[i].rate);
		assert_string_equal(text_number(text, n), cases[i].number);
		assert_string_equal(text_bytes(text, n), cases[i].bytes);
	}
	assert_string_equal(text_rate(text, 0.04), "0.0");
	assert_string_equal(text_rate(text, 0.5), "0.5");
	assert_string_equal(text_rate(text, 99.96), "100");
	assert_string_equal(text_rate(text, -1), "-");
	assert_true(strlen(text_rate(text, 1e30)) < TEXT_SHORT_MAX);
}

UNIT_TEST(test_key_is_shortened)
{
	char out[TEXT_KEY_MAX], long_key[1024];

	memset(long_key, '\n', sizeof(long_key));
	text_key(out, long_key, sizeof(long_key));
	assert_true(strlen(out) < TEXT_KEY_MAX);
	assert_string_equal(out + strlen(out) - 5, "\\n...");
	assert_string_equal(text_key(out, "a", 1), "a");
	assert_string_equal(text_key(out, "", 0), "");
}

UNIT_TEST(test_key_set)
{
	struct key_set s = { 0 };

	for (unsigned i = 0; i < 100000; i++)
		assert_false(key_set_add(&s, &i, sizeof(i)));
	for (unsigned i = 0; i < 100000; i++)
		assert_true(key_set_add(&s, &i, sizeof(i)));
	assert_false(s.full);
	key_set_free(&s);
}

static unsigned sentences;

static void count_sentence(const char *sentence)
{
	sentences++;
}

/* The last record of a key decides, in any order and beyond the first growth of the table. */
UNIT_TEST(test_verify_last_record_decides)
{
	struct verify v = { 0 };

	for (unsigned i = 0; i < 1000; i++) {
		struct record r = { .key = &i,
				    .key_len = sizeof(i),
				    .value = "old",
				    .value_len = 3,
				    .line = i + 1 };

		assert_int_equal(verify_record(&v, &r, "new", 3), 0);
	}
	assert_int_equal(v.open, 1000);
	for (unsigned i = 0; i < 995; i++) {
		struct record r = {
			.key = &i, .key_len = sizeof(i), .value = "new", .value_len = 3
		};

		assert_int_equal(verify_record(&v, &r, "new", 3), 0);
		assert_int_equal(verify_record(&v, &r, "new", 3), 0); /* closed once */
	}
	for (unsigned i = 0; i < 2; i++) {
		struct record r = {
			.key = &i, .key_len = sizeof(i), .value = "new", .value_len = 3
		};

		assert_int_equal(verify_record(&v, &r, i ? "newer" : NULL, i ? 5 : 0), 0);
	}
	assert_int_equal(v.open, 7);
	sentences = 0;
	assert_int_equal(verify_report(&v, 4, count_sentence), 7);
	assert_int_equal(sentences, 4);
	verify_free(&v);
}
