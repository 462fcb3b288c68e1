/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Hashes, all XXH3 with 64 bits (xxHash; https://github.com/Cyan4973/xxHash). Any thread. */
#include <stddef.h>
#include <stdint.h>

/* hash_key - the index hash of a key under the server's seed. */
uint64_t hash_key(uint64_t seed, const void *key, size_t len);

/* hash_bytes - checksum of @len bytes. @data may be NULL where @len is 0. */
uint64_t hash_bytes(const void *data, size_t len);

/* hash_bytes_seeded - the same, chained to an earlier hash. */
uint64_t hash_bytes_seeded(const void *data, size_t len, uint64_t seed);

/* A piece of what is hashed. @data may be NULL where @len is 0. */
struct hash_piece {
	const void *data;
	size_t len;
};

/* hash_pieces - hash_bytes() of @count pieces as if they stood one after the other. */
uint64_t hash_pieces(const struct hash_piece *piece, unsigned count);
