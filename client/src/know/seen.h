/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A set of keys, by two independent 64-bit hashes of each: what a scan has visited in one group of
 * buckets. Small, emptied often. One thread.
 */
#include <stddef.h>
#include <stdint.h>

struct seen_key {
	uint64_t a;
	uint64_t b;
};

struct seen {
	struct seen_key *table; /* power of two entries; both words 0: empty */
	size_t size;
	size_t count;
};

/* seen_add - returns 1: it was not there; 0: it was; -ENOMEM. */
int seen_add(struct seen *s, uint64_t key_hash, const void *key, size_t key_len);

/*
 * seen_keep_above - forget keys whose first hash is @hash or less. Without memory it forgets
 * none.
 */
void seen_keep_above(struct seen *s, uint64_t hash);
void seen_clear(struct seen *s);
void seen_free(struct seen *s);
