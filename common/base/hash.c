/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/hash.h"

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

uint64_t hash_pieces(const struct hash_piece *piece, unsigned count)
{
	XXH3_state_t state;

	XXH3_64bits_reset(&state);
	for (unsigned i = 0; i < count; i++) {
		if (piece[i].len)
			XXH3_64bits_update(&state, piece[i].data, piece[i].len);
	}
	return XXH3_64bits_digest(&state);
}
