/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Which keys were met before: a set of 64-bit hashes, 11 to 22 bytes a key, for a count that people
 * read. Two different keys of one hash count as one, which happens among a million keys with odds
 * below 1 in 10^7. The set has a limit, after which it learns no more. One thread at a time.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_SET_MAX (1u << 24) /* keys: at most 256 MiB */

struct key_set {
	uint64_t *slots; /* open addressing; 0 is free */
	size_t cap, used; /* cap is a power of two; used <= cap / 4 * 3 */
	bool full; /* some keys were not taken */
};

/* key_set_add - returns true if the key was there already. */
bool key_set_add(struct key_set *s, const void *key, size_t len);

void key_set_free(struct key_set *s);
