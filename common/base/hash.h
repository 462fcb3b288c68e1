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
