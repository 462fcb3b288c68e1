/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-bench/record.h"

#include <string.h>

#define WORD   sizeof(uint64_t)
#define LOOKS  16u /* words that are compared, beside the ends */
#define GOLDEN 0x9e3779b97f4a7c15ull

/* One to one: splitmix64's last steps. */
static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

unsigned record_digits(char *to, uint64_t v)
{
	char text[20];
	unsigned n = 0;

	do
		text[sizeof(text) - ++n] = (char)('0' + v % 10);
	while (v /= 10);
	memcpy(to, text + sizeof(text) - n, n);
	return n;
}

unsigned record_key(uint64_t number, char key[RECORD_KEY_MAX])
{
	memcpy(key, "user", 4);
	return 4 + record_digits(key + 4, mix(number + GOLDEN));
}

/*
 * The first word is the record's, the second the version, the others are of both and their
 * place.
 */
static uint64_t first_word(uint64_t number)
{
	return mix(number ^ GOLDEN);
}

static uint64_t word_at(uint64_t first, uint64_t version, size_t i)
{
	return i == 0 ? first : i == 1 ? version : first + (version + i) * GOLDEN;
}

void record_fill(char *to, size_t len, uint64_t number, uint64_t version)
{
	uint64_t first = first_word(number), word;
	size_t i = 0;

	for (; (i + 1) * WORD <= len; i++) {
		word = word_at(first, version, i);
		memcpy(to + i * WORD, &word, WORD);
	}
	word = word_at(first, version, i);
	memcpy(to + i * WORD, &word, len % WORD);
}

static bool word_right(const char *data, size_t i, size_t bytes, uint64_t first, uint64_t version)
{
	uint64_t word = word_at(first, version, i);

	return memcmp(data + i * WORD, &word, bytes) == 0;
}

bool record_right(const char *data, size_t len, uint64_t number)
{
	uint64_t first = first_word(number), version = 0;
	size_t words = len / WORD, step = (words + LOOKS - 1) / LOOKS;

	if (words < 2) /* of the version there is a part at most, which may be anything */
		return word_right(data, 0, len < WORD ? len : WORD, first, 0);
	memcpy(&version, data + WORD, WORD);
	for (size_t i = 0; i < words; i += step) {
		if (!word_right(data, i, WORD, first, version))
			return false;
	}
	return word_right(data, words - 1, WORD, first, version) &&
	       word_right(data, words, len % WORD, first, version);
}
