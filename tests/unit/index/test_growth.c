/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The shape: splits, merges, directories. Against a plain array with random operations, and what
 * remote readers rely on after every step.
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <urcu/urcu-qsbr.h>

#include "common/base/hash.h"
#include "common/layout/slot.h"
#include "server/index/index_internal.h"
#include "server/memory/memory_test.h"
#include "tests/unit/index/table.h"

#define KEYS	    300000u
#define SMALL_DEPTH 6u /* the least that there is */
#define LARGE_DEPTH 8u /* with all keys */
#define MIB	    (1u << 20)

static uint64_t hash_of(const char *key)
{
	return hash_key(1, key, strlen(key));
}

static void name_of(unsigned i, char key[24])
{
	snprintf(key, 24, "key-%u", i);
}

static struct directory *directory_of(struct table *t)
{
	struct root_directory at;
	struct directory *d;

	index_describe(t->index, &at);
	assert_true(root_directory_sound(&at));
	d = memory_addr(t->memory, at.extent, at.offset, sizeof(*d) + (8ull << at.depth));
	assert_non_null(d);
	assert_int_equal(d->magic, DIRECTORY_MAGIC);
	assert_int_equal(d->incarnation, at.incarnation);
	assert_int_equal(d->depth, at.depth);
	assert_int_equal(d->checksum, hash_bytes(d, offsetof(struct directory, checksum)));
	return d;
}

static struct segment *segment_of(struct table *t, uint64_t entry)
{
	struct segment *s = memory_addr(t->memory, directory_entry_extent(entry),
					(uint64_t)directory_entry_segment(entry) * SEGMENT_BYTES,
					SEGMENT_BYTES);

	assert_non_null(s);
	return s;
}

/* Every chain of a segment: headers that fit the entry, all keys of the right prefix and bucket. */
static unsigned check_segment(struct table *t, uint64_t entry, uint64_t hash)
{
	struct segment *s = segment_of(t, entry);
	unsigned records = 0, links = 0;

	for (unsigned i = 0; i < SEGMENT_BUCKETS; i++) {
		struct bucket *b = &s->bucket[i];

		for (;;) {
			uint64_t header = atomic_load(&b->header);
			unsigned next = bucket_header_overflow(header);

			assert_true(bucket_header_fits(header, entry, hash));
			for (unsigned k = 0; k < BUCKET_SLOTS; k++) {
				uint64_t slot = atomic_load(&b->slot[k]);
				struct block *block;

				if (!slot)
					continue;
				block = memory_addr(t->memory, slot_extent(slot), slot_offset(slot),
						    64);
				assert_non_null(block);
				assert_int_equal(hash_bucket(block->key_hash), i);
				assert_int_equal(
					hash_prefix(block->key_hash, directory_entry_depth(entry)),
					bucket_header_prefix(header));
				records++;
			}
			if (!next)
				break;
			assert_true(next <= SEGMENT_OVERFLOW);
			assert_true(++links <= SEGMENT_OVERFLOW);
			b = &s->overflow[next - 1];
		}
	}
	return records;
}

/* The whole shape, from the root's descriptor down. Returns its depth. */
static unsigned check_shape(struct table *t)
{
	struct directory *d = directory_of(t);
	struct index_stats stats;
	uint64_t segments = 0, records = 0;

	for (uint64_t i = 0; i < 1ull << d->depth;) {
		uint64_t entry = atomic_load(&d->entry[i]), hash = i << (64 - d->depth);
		unsigned depth = directory_entry_depth(entry);
		uint64_t span = 1ull << (d->depth - depth);

		assert_true(depth <= d->depth && i % span == 0);
		for (uint64_t k = 1; k < span; k++)
			assert_int_equal(atomic_load(&d->entry[i + k]), entry);
		records += check_segment(t, entry, hash);
		segments++;
		i += span;
	}
	index_stats_get(t->index, &stats);
	assert_int_equal(stats.records, records);
	assert_int_equal(stats.segments, segments);
	assert_int_equal(stats.depth, d->depth);
	return d->depth;
}

struct model {
	struct table t;
	uint64_t *value; /* of each key, 0: absent */
	uint64_t seed;
	uint64_t n;
};

static void model_put(struct model *m, unsigned i)
{
	struct memory_place old;
	int replaced;
	char key[24];

	name_of(i, key);
	assert_int_equal(table_put(&m->t, hash_of(key), key, ++m->n, &old, &replaced), 0);
	assert_int_equal(replaced, m->value[i] != 0);
	if (replaced)
		memory_free(m->t.memory, old);
	m->value[i] = m->n;
}

static void model_del(struct model *m, unsigned i)
{
	struct memory_place old;
	char key[24];

	name_of(i, key);
	assert_int_equal(table_del(&m->t, hash_of(key), key, &old), m->value[i] ? 0 : -ENOENT);
	if (m->value[i])
		memory_free(m->t.memory, old);
	m->value[i] = 0;
}

static void model_get(struct model *m, unsigned i)
{
	struct index_hit hit;
	char key[24];
	int rc;

	name_of(i, key);
	rc = index_lookup(m->t.index, hash_of(key), key, (uint32_t)strlen(key), &hit);
	assert_int_equal(rc, m->value[i] ? 0 : -ENOENT);
	if (rc == 0)
		assert_int_equal(table_value(hit.block), m->value[i]);
}

/* Random operations; of 16, @puts are PUTs, @dels DELs, the rest GETs, over the first @keys. */
static void model_run(struct model *m, unsigned operations, unsigned keys, unsigned puts,
		      unsigned dels)
{
	for (unsigned n = 0; n < operations; n++) {
		unsigned i = (unsigned)(unit_random(&m->seed) % keys);
		unsigned what = (unsigned)(unit_random(&m->seed) % 16);

		if (what < puts)
			model_put(m, i);
		else if (what < puts + dels)
			model_del(m, i);
		else
			model_get(m, i);
	}
}

static void model_check_all(struct model *m)
{
	for (unsigned i = 0; i < KEYS; i++)
		model_get(m, i);
}

static void model_open(struct model *m)
{
	*m = (struct model){ .seed = 20261121, .value = calloc(KEYS, sizeof(uint64_t)) };
	table_open(&m->t, 256 * MIB, 0);
}

static void model_close(struct model *m)
{
	table_close(&m->t);
	free(m->value);
}

UNIT_TEST(it_grows_and_shrinks_as_a_plain_array_does)
{
	struct index_stats stats;
	struct model m;

	model_open(&m);
	assert_int_equal(check_shape(&m.t), SMALL_DEPTH);
	for (unsigned round = 0; round < 3; round++) {
		model_run(&m, 900000, KEYS, 13, 1);
		assert_int_equal(check_shape(&m.t), LARGE_DEPTH);
		model_check_all(&m);
		model_run(&m, 600000, KEYS, 1, 12);
		for (unsigned i = 0; i < KEYS; i++)
			model_del(&m, i);
		while (index_untidy(m.t.index))
			table_tidy(&m.t);
		assert_int_equal(check_shape(&m.t), SMALL_DEPTH + 1); /* halved but for the last */
		model_check_all(&m);
	}
	index_stats_get(m.t.index, &stats);
	assert_true(stats.splits >= 3 * 180 && stats.merges >= 3 * 180);
	assert_int_equal(stats.doublings, 2 + 1 + 1);
	assert_int_equal(stats.halvings, 1 + 1 + 1);
	assert_int_equal(stats.records, 0);
	assert_int_equal(stats.segments, 1 << SMALL_DEPTH);
	model_close(&m);
}

/* All segments that were replaced come back: growing and shrinking takes no memory in the end. */
UNIT_TEST(segments_are_used_again)
{
	struct memory_stats first, last;
	struct model m;

	model_open(&m);
	for (unsigned round = 0; round < 4; round++) {
		for (unsigned i = 0; i < KEYS; i++)
			model_put(&m, i);
		memory_stats_get(m.t.memory, round ? &last : &first);
		for (unsigned i = 0; i < KEYS; i++)
			model_del(&m, i);
		while (index_untidy(m.t.index))
			table_tidy(&m.t);
	}
	assert_int_equal(first.extent_bytes[EXTENT_INDEX], last.extent_bytes[EXTENT_INDEX]);
	assert_int_equal(first.extent_bytes[EXTENT_DIR], last.extent_bytes[EXTENT_DIR]);
	assert_int_equal(first.segments_used, last.segments_used);
	memory_stats_get(m.t.memory, &last);
	assert_int_equal(last.segments_used, 1 << SMALL_DEPTH);
	assert_int_equal(last.directory_bytes_used, 64 + (8 << (SMALL_DEPTH + 1)));
	model_close(&m);
}

/* With more segments than one call of index_tidy() looks at, and nothing to merge. */
UNIT_TEST(tidying_comes_to_an_end)
{
	struct index_stats before, after;
	struct memory_place old;
	unsigned calls = 0;
	struct table t;
	int replaced;
	char key[24];

	table_open(&t, 512 * MIB, 4000 * SEGMENT_SLOTS);
	for (unsigned i = 0; i < 2000000; i++) { /* 488 a segment: two of them are not sparse */
		name_of(i, key);
		assert_int_equal(table_put(&t, hash_of(key), key, i, &old, &replaced), 0);
	}
	index_stats_get(t.index, &before);
	assert_int_equal(before.segments, 4096);
	atomic_store(&t.index->untidy, true);
	while (index_untidy(t.index)) {
		table_tidy(&t);
		assert_true(++calls <= 5);
	}
	index_stats_get(t.index, &after);
	assert_int_equal(after.merges, 0);

	/* Once more, with records that go while a pass is under way. */
	atomic_store(&t.index->untidy, true);
	table_tidy(&t);
	for (unsigned i = 0; i < 2000000; i++) {
		name_of(i, key);
		assert_int_equal(table_del(&t, hash_of(key), key, &old), 0);
		memory_free(t.memory, old);
	}
	while (index_untidy(t.index))
		table_tidy(&t);
	assert_int_equal(check_shape(&t), SMALL_DEPTH + 1);
	table_close(&t);
}

/* Splits that find no memory use up no incarnation. */
UNIT_TEST(a_split_takes_both_halves_or_none)
{
	struct index_retired retired;
	struct memory_segment taken;
	struct memory_stats stats;
	struct memory_place old;
	uint32_t incarnation = 0;
	struct table t;
	int replaced, rc;
	char key[24];

	table_open(&t, 16 * MIB, 0);
	for (unsigned i = 0; i < BUCKET_SLOTS * (1 + SPLIT_OVERFLOW); i++) {
		name_of(i, key);
		assert_int_equal(table_put(&t, 5, key, i, &old, &replaced), 0);
	}
	/* All segments but one are taken, and there is no memory for more. */
	do {
		memory_growth_wait(t.memory, 1000);
		memory_stats_get(t.memory, &stats);
		if (stats.segments_free > 1)
			rc = memory_segment_alloc(t.memory, false, 1, &taken);
		else
			rc = memory_segment_alloc(t.memory, false, 2, &taken);
	} while (rc == 0 || rc == -EAGAIN);
	assert_int_equal(rc, -ENOMEM);
	memory_stats_get(t.memory, &stats);
	assert_int_equal(stats.segments_free, 1);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(index_split(t.index, 5, &retired), -ENOMEM);
	assert_int_equal(memory_segment_alloc(t.memory, false, 1, &taken), 0);
	incarnation = taken.incarnation;
	assert_int_equal(incarnation, 1);
	table_close(&t);
}

static void keep(struct table *t, struct memory_place place, uint32_t bytes)
{
}

/* Readers that took a directory entry before a split or merge, and look into the segment after. */
static void check_left_behind(struct model *m, const uint64_t *entry, unsigned depth)
{
	struct directory *d = directory_of(&m->t);
	unsigned replaced = 0;

	for (uint64_t i = 0; i < 1ull << depth; i++) {
		uint64_t hash = i << (64 - depth);
		struct segment *s = segment_of(&m->t, entry[i]);
		struct index_hit hit;

		if (atomic_load(&d->entry[hash_prefix(hash, d->depth)]) == entry[i])
			continue;
		replaced++;
		for (uint64_t b = 0; b < SEGMENT_BUCKETS; b++)
			assert_int_equal(
				segment_lookup(m->t.index, entry[i], hash | b << 22, "k", 1, &hit),
				-ESTALE);
		for (unsigned b = 0; b < SEGMENT_OVERFLOW; b++) {
			uint64_t header = atomic_load(&s->overflow[b].header);

			assert_true(header == 0 || bucket_header_moved(header));
		}
	}
	assert_true(replaced > 0);
}

UNIT_TEST(a_reader_left_behind_is_sent_on)
{
	uint64_t entry[1 << LARGE_DEPTH];
	struct directory *d = NULL;
	struct model m;

	model_open(&m);
	m.t.retire = keep; /* nothing is reused, so old segments can be looked into */
	for (unsigned i = 0; i < KEYS; i++) {
		if (i % (KEYS / 2) == 0) {
			d = directory_of(&m.t);
			for (unsigned k = 0; k < 1u << d->depth; k++)
				entry[k] = atomic_load(&d->entry[k]);
		}
		model_put(&m, i);
		if ((i + 1) % (KEYS / 2) == 0)
			check_left_behind(&m, entry, d->depth);
	}
	d = directory_of(&m.t);
	for (unsigned k = 0; k < 1u << d->depth; k++)
		entry[k] = atomic_load(&d->entry[k]);
	for (unsigned i = 0; i < KEYS; i++)
		model_del(&m, i);
	check_left_behind(&m, entry, d->depth);
	model_close(&m);
}

static unsigned retired_segments;
static uint64_t seen_incarnation[1 << 16];

/* A segment goes back: the incarnation that it had is never seen again at its address. */
static void watch_and_free(struct table *t, struct memory_place place, uint32_t bytes)
{
	struct segment *s;
	uint64_t header;

	if (bytes == SEGMENT_BYTES) {
		s = memory_addr(t->memory, place.extent, place.offset, SEGMENT_BYTES);
		header = atomic_load(&s->bucket[0].header);
		assert_true(bucket_header_moved(header));
		assert_true(bucket_header_incarnation(header) >
			    seen_incarnation[place.extent << 12 | place.offset / SEGMENT_BYTES]);
		seen_incarnation[place.extent << 12 | place.offset / SEGMENT_BYTES] =
			bucket_header_incarnation(header);
		retired_segments++;
	}
	memory_free(t->memory, place);
}

UNIT_TEST(an_exhausted_segment_is_never_used_again)
{
	struct memory_stats stats;
	struct model m;

	model_open(&m);
	m.t.retire = watch_and_free;
	memory_test_segment_incarnation(m.t.memory, 0xffffff - 2, UINT32_MAX);
	for (unsigned round = 0; round < 6; round++) {
		for (unsigned i = 0; i < KEYS; i++)
			model_put(&m, i);
		check_shape(&m.t);
		for (unsigned i = 0; i < KEYS; i++)
			model_del(&m, i);
		while (index_untidy(m.t.index))
			table_tidy(&m.t);
		check_shape(&m.t);
		if (round == 2)
			memory_test_segment_incarnation(m.t.memory, 0xffffff - 2, UINT32_MAX);
	}
	memory_stats_get(m.t.memory, &stats);
	assert_true(stats.segments_exhausted > 100);
	assert_true(retired_segments > 6 * 64);
	model_close(&m);
}

/* Keys that were chosen to collide: the directory stays small, and nothing is lost. */
UNIT_TEST(colliding_keys_do_not_grow_the_directory_for_ever)
{
	const unsigned room = BUCKET_SLOTS * (1 + SEGMENT_OVERFLOW);
	struct memory_place old;
	struct index_hit hit;
	struct table t;
	int replaced;
	char key[24];

	table_open(&t, 64 * MIB, 0);
	for (unsigned i = 0; i < room + 50; i++) {
		name_of(i, key);
		assert_int_equal(table_put(&t, 5, key, i, &old, &replaced), i < room ? 0 : -ENOMEM);
	}
	assert_true(check_shape(&t) <= 16);
	for (unsigned i = 0; i < room; i++) {
		name_of(i, key);
		assert_int_equal(index_lookup(t.index, 5, key, (uint32_t)strlen(key), &hit), 0);
	}
	for (unsigned i = 0; i < room; i++) {
		name_of(i, key);
		assert_int_equal(table_del(&t, 5, key, &old), 0);
		memory_free(t.memory, old);
	}
	while (index_untidy(t.index))
		table_tidy(&t);
	assert_int_equal(check_shape(&t), SMALL_DEPTH + 1);
	table_close(&t);
}

/* Without memory for segments the chains fill their overflow; then -ENOMEM, and all is there. */
UNIT_TEST(a_full_store_loses_nothing)
{
	struct memory_place old;
	struct index_hit hit;
	struct table t;
	int replaced, rc = 0;
	unsigned n = 0, taken;
	char key[24];

	table_open(&t, 16 * MIB, 0);
	for (; rc == 0; n++) {
		name_of(n, key);
		rc = table_put(&t, hash_of(key), key, n, &old, &replaced);
	}
	assert_int_equal(rc, -ENOMEM);
	taken = n - 1;
	check_shape(&t);
	for (unsigned i = 0; i < taken; i++) {
		name_of(i, key);
		rc = index_lookup(t.index, hash_of(key), key, (uint32_t)strlen(key), &hit);
		assert_int_equal(rc, 0);
	}
	for (unsigned i = 0; i < taken; i++) {
		name_of(i, key);
		assert_int_equal(table_del(&t, hash_of(key), key, &old), 0);
		memory_free(t.memory, old);
	}
	for (unsigned i = 0; i < taken; i++) {
		name_of(i, key);
		assert_int_equal(table_put(&t, hash_of(key), key, i, &old, &replaced), 0);
	}
	table_close(&t);
}

/* The descriptor in the root page follows the directory. */
UNIT_TEST(root_names_the_newest_directory)
{
	struct root_directory root = { 0 }, now;
	struct model m;

	model_open(&m);
	index_set_root(m.t.index, &root);
	for (unsigned i = 0; i < KEYS; i++) {
		model_put(&m, i);
		index_describe(m.t.index, &now);
		assert_memory_equal(&root, &now, sizeof(root));
	}
	assert_int_equal(root.depth, LARGE_DEPTH);
	index_set_root(m.t.index, NULL);
	model_close(&m);
}

int main(void)
{
	int rc;

	urcu_qsbr_register_thread();
	rc = unit_run(NULL, NULL);
	urcu_qsbr_unregister_thread();
	return rc;
}
