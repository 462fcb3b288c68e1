/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/hash.h"

#include <string.h>

uint64_t hash_key(uint64_t seed, const void *key, size_t len)
{
	return XXH3_64bits_withSeed(key, len, seed);
}

uint64_t hash_bytes(const void *data, size_t len)
{
	return XXH3_64bits(data, len);
}

uint64_t hash_bytes_seeded(const void *data, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(data, len, seed);
}

uint64_t hash_two(const void *a, size_t a_len, const void *b, size_t b_len)
{
	XXH3_state_t state;

	XXH3_64bits_reset(&state);
	XXH3_64bits_update(&state, a, a_len);
	XXH3_64bits_update(&state, b, b_len);
	return XXH3_64bits_digest(&state);
}
