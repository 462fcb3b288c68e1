/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Private to server/index: comparison of keys. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t keys_word(const uint8_t *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

/*
 * keys_equal - @len bytes of both, and not a byte beyond. Not memcmp(), which may touch what lies
 * after: where a key of 16 bytes ends with its line, another miss, as long as the look-up's own.
 */
static inline bool keys_equal(const uint8_t *a, const uint8_t *b, uint32_t len)
{
	uint64_t differs = 0;
	uint32_t at;

	if (len < sizeof(uint64_t)) {
		for (at = 0; at < len; at++)
			differs |= a[at] ^ b[at];
		return differs == 0;
	}
	for (at = 0; at < len - sizeof(uint64_t); at += sizeof(uint64_t))
		differs |= keys_word(a + at) ^ keys_word(b + at);
	at = len - (uint32_t)sizeof(uint64_t);
	return (differs | (keys_word(a + at) ^ keys_word(b + at))) == 0;
}
