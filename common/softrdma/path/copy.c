/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/softrdma/path/copy.h"

#include <stdint.h>

#define WORD  sizeof(uint64_t)
#define BATCH 8 /* words in a round of the loop: independent loads */

static inline uint64_t word_load(const uint8_t *p)
{
	return __atomic_load_n((const uint64_t *)(const void *)p, __ATOMIC_RELAXED);
}

static inline void word_store(uint8_t *p, uint64_t word)
{
	__atomic_store_n((uint64_t *)(void *)p, word, __ATOMIC_RELAXED);
}

void soft_copy_from(void *to, const void *shared, size_t len)
{
	const uint8_t *s = shared;
	uint8_t *t = to;

	for (; len && ((uintptr_t)s & (WORD - 1)); len--)
		*t++ = __atomic_load_n(s++, __ATOMIC_RELAXED);
	for (; len >= BATCH * WORD; len -= BATCH * WORD, s += BATCH * WORD, t += BATCH * WORD) {
		uint64_t words[BATCH];

		for (unsigned i = 0; i < BATCH; i++)
			words[i] = word_load(s + i * WORD);
		for (unsigned i = 0; i < BATCH; i++)
			__builtin_memcpy(t + i * WORD, &words[i], WORD);
	}
	for (; len >= WORD; len -= WORD, s += WORD, t += WORD) {
		uint64_t word = word_load(s);

		__builtin_memcpy(t, &word, WORD);
	}
	while (len--)
		*t++ = __atomic_load_n(s++, __ATOMIC_RELAXED);
}

void soft_copy_to(void *shared, const void *from, size_t len)
{
	const uint8_t *f = from;
	uint8_t *s = shared;

	for (; len && ((uintptr_t)s & (WORD - 1)); len--)
		__atomic_store_n(s++, *f++, __ATOMIC_RELAXED);
	for (; len >= BATCH * WORD; len -= BATCH * WORD, s += BATCH * WORD, f += BATCH * WORD) {
		uint64_t words[BATCH];

		for (unsigned i = 0; i < BATCH; i++)
			__builtin_memcpy(&words[i], f + i * WORD, WORD);
		for (unsigned i = 0; i < BATCH; i++)
			word_store(s + i * WORD, words[i]);
	}
	for (; len >= WORD; len -= WORD, s += WORD, f += WORD) {
		uint64_t word;

		__builtin_memcpy(&word, f, WORD);
		word_store(s, word);
	}
	while (len--)
		__atomic_store_n(s++, *f++, __ATOMIC_RELAXED);
}
