/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The index against a plain array, with random operations; collisions; a full table. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <urcu/urcu-qsbr.h>

#include "common/base/hash.h"
#include "tests/unit/index/table.h"

#define SEED 20260712

static void name_of(unsigned i, char key[24])
{
	snprintf(key, 24, "key-%u", i);
}

/* How the keys of a run are hashed. */
typedef uint64_t (*hash_fn)(const char *key, unsigned i);

static uint64_t real_hash(const char *key, unsigned i)
{
	return hash_key(1, key, strlen(key));
}

/* All in one bucket, with four fingerprints: chains, and keys that only differ in full. */
static uint64_t crowded_hash(const char *key, unsigned i)
{
	return (uint64_t)(i % 4);
}

static void differential(unsigned keys, unsigned operations, uint64_t slots, hash_fn hash_of)
{
	uint64_t *model = calloc(keys, sizeof(*model)), seed = SEED;
	struct index_stats stats;
	unsigned live = 0;
	struct table t;

	table_open(&t, 256 << 20, slots);
	for (unsigned n = 1; n <= operations; n++) {
		unsigned i = (unsigned)(unit_random(&seed) % keys);
		unsigned what = (unsigned)(unit_random(&seed) % 10);
		struct memory_place old;
		struct index_hit hit;
		int replaced, rc;
		char key[24];

		name_of(i, key);
		if (what < 4) {
			rc = table_put(&t, hash_of(key, i), key, n, &old, &replaced);
			if (rc == -ENOMEM)
				continue; /* the chain is full: nothing may have changed */
			assert_int_equal(rc, 0);
			assert_int_equal(replaced, model[i] != 0);
			live += !replaced;
			model[i] = n;
			if (replaced)
				memory_free(t.memory, old);
		} else if (what < 6) {
			rc = table_del(&t, hash_of(key, i), key, &old);
			assert_int_equal(rc, model[i] ? 0 : -ENOENT);
			live -= model[i] != 0;
			model[i] = 0;
			if (rc == 0)
				memory_free(t.memory, old);
		} else {
			rc = index_lookup(t.index, hash_of(key, i), key, (uint32_t)strlen(key),
					  &hit);
			assert_int_equal(rc, model[i] ? 0 : -ENOENT);
			if (rc == 0)
				assert_int_equal(table_value(hit.block), model[i]);
		}
	}
	index_stats_get(t.index, &stats);
	assert_int_equal(stats.records, live);
	table_close(&t);
	free(model);
}

UNIT_TEST(few_keys)
{
	differential(50, 200000, 2000, real_hash);
}

UNIT_TEST(many_keys)
{
	differential(100000, 600000, 200000, real_hash);
}

UNIT_TEST(one_crowded_chain)
{
	differential(300, 300000, 2000, crowded_hash);
}

/* A chain longer than its segment's overflow buckets: -ENOMEM, and every record is still there. */
UNIT_TEST(a_full_chain_loses_nothing)
{
	const unsigned room = BUCKET_SLOTS * (1 + SEGMENT_OVERFLOW);
	struct memory_place old;
	struct index_hit hit;
	struct table t;
	int replaced;
	char key[24];

	table_open(&t, 64 << 20, 1);
	for (unsigned i = 0; i < room; i++) {
		name_of(i, key);
		assert_int_equal(table_put(&t, i % 3, key, i, &old, &replaced), 0);
	}
	for (unsigned i = room; i < room + 100; i++) {
		name_of(i, key);
		assert_int_equal(table_put(&t, i % 3, key, i, &old, &replaced), -ENOMEM);
	}
	for (unsigned i = 0; i < room; i++) {
		name_of(i, key);
		assert_int_equal(index_lookup(t.index, i % 3, key, (uint32_t)strlen(key), &hit), 0);
		assert_int_equal(table_value(hit.block), i);
		assert_int_equal(table_put(&t, i % 3, key, i + 1, &old, &replaced), 0);
		assert_true(replaced); /* a full chain still takes new values */
		memory_free(t.memory, old);
	}
	name_of(7, key);
	assert_int_equal(table_del(&t, 7 % 3, key, &old), 0);
	name_of(room, key);
	assert_int_equal(table_put(&t, room % 3, key, 1, &old, &replaced), 0);
	table_close(&t);
}

/* What remote readers rely on: headers that fit the directory, all the way down a chain. */
UNIT_TEST(headers_name_themselves)
{
	struct root_directory described;
	struct directory *d;
	struct table t;

	table_open(&t, 64 << 20, 20000);
	index_describe(t.index, &described);
	assert_true(root_directory_sound(&described));
	d = memory_addr(t.memory, described.extent, described.offset, sizeof(*d));
	assert_non_null(d);
	assert_int_equal(d->magic, DIRECTORY_MAGIC);
	assert_int_equal(d->depth, described.depth);
	for (uint64_t i = 0; i < 1ull << d->depth; i++) {
		uint64_t entry = atomic_load(&d->entry[i]), hash = i << (64 - d->depth);
		struct segment *s = memory_addr(
			t.memory, directory_entry_extent(entry),
			(uint64_t)directory_entry_segment(entry) * SEGMENT_BYTES, SEGMENT_BYTES);

		assert_non_null(s);
		for (unsigned b = 0; b < SEGMENT_BUCKETS; b++)
			assert_true(
				bucket_header_fits(atomic_load(&s->bucket[b].header), entry, hash));
	}
	table_close(&t);
}

int main(void)
{
	int rc;

	printf("seed %d\n", SEED);
	urcu_qsbr_register_thread();
	rc = unit_run(NULL, NULL);
	urcu_qsbr_unregister_thread();
	return rc;
}
