/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* An index with records of eight-byte values, as the tests need one. */
#include <stdint.h>

#include "server/index/index.h"
#include "server/memory/memory.h"

struct reclaim_worker;

struct table {
	struct memory *memory;
	struct memory_cache *cache;
	struct index *index;
	/* What splits and merges unlinked; table_open() sets one that frees it at once, for tests
	 * without readers. */
	void (*retire)(struct table *t, struct memory_place place, uint32_t bytes);
	struct reclaim_worker *reclaim; /* for @retire, of the tests that have readers */
};

void table_open(struct table *t, uint64_t memory_bytes, uint64_t slots);
void table_close(struct table *t);

/*
 * table_put - as a worker does it, but for the retiring: the old block, where there was one, goes
 * to @old (its place), to be freed by the caller. @hash is given, so that tests can make
 * collisions.
 * Returns 0 or -ENOMEM.
 */
int table_put(struct table *t, uint64_t hash, const char *key, uint64_t value,
	      struct memory_place *old, int *replaced);

/* table_del - returns 0 or -ENOENT. */
int table_del(struct table *t, uint64_t hash, const char *key, struct memory_place *old);

/* table_find - as store_get() does it. Returns 0 or -ENOENT. Any thread, in a read-side section. */
int table_find(const struct table *t, uint64_t hash, const char *key, uint64_t *value);

/* table_tidy - go on with merges that were put off. */
void table_tidy(struct table *t);

/* table_value - of a block that was found. */
uint64_t table_value(const struct block *b);
