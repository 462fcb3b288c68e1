/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What is asked for: mixes, keys, records, and when. */
#include <math.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "tools/kv-bench/keys.h"
#include "tools/kv-bench/kv_bench.h"
#include "tools/kv-bench/record.h"

#define DRAWS 200000u
#define SEED  20241101u

UNIT_TEST(workloads_are_mixed_as_ycsb_has_them)
{
	static const struct {
		const char *name;
		double read, update, insert, rmw;
	} wanted[] = { { "A", 0.5, 0.5, 0, 0 },
		       { "B", 0.95, 0.05, 0, 0 },
		       { "C", 1, 0, 0, 0 },
		       { "D", 0.95, 0, 0.05, 0 },
		       { "F", 0.5, 0, 0, 0.5 } };
	uint64_t seed = SEED;

	print_message("seed %u\n", SEED);
	for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		const struct workload *w = workload_find(wanted[i].name, NULL);
		unsigned count[OPERATIONS] = { 0 };

		assert_non_null(w);
		for (unsigned d = 0; d < DRAWS; d++)
			count[workload_choose(w, unit_random(&seed))]++;
		assert_true(fabs((double)count[OP_READ] / DRAWS - wanted[i].read) < 0.01);
		assert_true(fabs((double)count[OP_UPDATE] / DRAWS - wanted[i].update) < 0.01);
		assert_true(fabs((double)count[OP_INSERT] / DRAWS - wanted[i].insert) < 0.01);
		assert_true(fabs((double)count[OP_RMW] / DRAWS - wanted[i].rmw) < 0.01);
		assert_int_equal(count[OP_DELETE], 0);
		assert_true(w->share[workload_choose(w, UINT64_MAX)] > 0);
	}
}

UNIT_TEST(ordered_ranges_are_refused)
{
	struct error err;

	assert_null(workload_find("E", &err));
	assert_non_null(strstr(err.text, "ordered ranges"));
	assert_null(workload_find("e", &err));
	assert_null(workload_find("G", &err));
	assert_null(workload_find("", &err));
	assert_null(workload_find("AB", &err));
	assert_ptr_equal(workload_find("a", &err), workload_find("A", &err));
}

static struct key_chooser chooser(struct key_space *k, enum distribution d)
{
	struct key_chooser c = { .space = k, .distribution = d };

	zipf_init(&c.zipf, k->records, 0.99);
	return c;
}

UNIT_TEST(keys_are_all_there)
{
	const uint64_t records[] = { 1, 2, 3, 10, 1000 };

	for (unsigned i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
		for (enum distribution d = 0; d < DISTRIBUTIONS; d++) {
			struct key_space k;
			struct key_chooser c;
			uint64_t seed = SEED;

			assert_int_equal(key_space_init(&k, records[i], 5), 0);
			c = chooser(&k, d);
			for (unsigned n = 0; n < 20000; n++)
				assert_true(key_choose(&c, unit_random(&seed)) < records[i]);
			assert_true(key_choose(&c, 0) < records[i]);
			assert_true(key_choose(&c, UINT64_MAX) < records[i]);
			key_space_free(&k);
		}
	}
}

UNIT_TEST(uniform_is_even_and_zipfian_is_not)
{
	unsigned even[100] = { 0 }, law[100] = { 0 }, most = 0, place = 0;
	struct key_chooser u, z;
	uint64_t seed = SEED;
	struct key_space k;

	assert_int_equal(key_space_init(&k, 100, 0), 0);
	u = chooser(&k, DIST_UNIFORM);
	z = chooser(&k, DIST_ZIPFIAN);
	for (unsigned n = 0; n < DRAWS; n++) {
		even[key_choose(&u, unit_random(&seed))]++;
		law[key_choose(&z, unit_random(&seed))]++;
	}
	for (unsigned i = 0; i < 100; i++) {
		assert_in_range(even[i], DRAWS / 100 * 8 / 10, DRAWS / 100 * 12 / 10);
		if (law[i] > most) {
			most = law[i];
			place = i;
		}
	}
	assert_true(fabs((double)most / DRAWS - zipf_probability(&z.zipf, 0)) < 0.01);
	assert_int_equal(place, zipf_scatter(&z.zipf, 0)); /* and not the first one */
	key_space_free(&k);
}

/* Rank 0 is the newest that was acknowledged, whatever was inserted after it. */
UNIT_TEST(latest_follows_what_was_acknowledged)
{
	struct key_chooser c;
	struct key_space k;
	uint64_t a, b, d;

	assert_int_equal(key_space_init(&k, 10, 3), 0);
	c = chooser(&k, DIST_LATEST);
	assert_int_equal(key_choose(&c, 0), 9);
	assert_true(key_space_take(&k, &a) && key_space_take(&k, &b) && key_space_take(&k, &d));
	assert_true(a == 10 && b == 11 && d == 12);
	assert_int_equal(key_choose(&c, 0), 9);
	key_space_acknowledge(&k, b);
	assert_int_equal(key_choose(&c, 0), 9); /* 10 is not there yet */
	key_space_acknowledge(&k, a);
	assert_int_equal(key_choose(&c, 0), 11);
	assert_int_equal(key_choose(&c, UINT64_MAX), 0); /* the oldest is still read */
	key_space_acknowledge(&k, d);
	assert_int_equal(key_choose(&c, 0), 12);
	assert_int_equal(c.zipf.n, 13);
	assert_false(key_space_take(&k, &a));
	key_space_free(&k);
}

UNIT_TEST(latest_reads_what_is_new)
{
	unsigned newest = 0, of_ten = 0;
	struct key_chooser c;
	uint64_t seed = SEED;
	struct key_space k;

	assert_int_equal(key_space_init(&k, 1000, 0), 0);
	c = chooser(&k, DIST_LATEST);
	for (unsigned n = 0; n < DRAWS; n++) {
		uint64_t key = key_choose(&c, unit_random(&seed));

		newest += key == 999;
		of_ten += key >= 990;
	}
	assert_true(fabs((double)newest / DRAWS - zipf_probability(&c.zipf, 0)) < 0.01);
	assert_in_range(of_ten, DRAWS * 3 / 10, DRAWS * 5 / 10);
	key_space_free(&k);
}

UNIT_TEST(keys_differ)
{
	char key[RECORD_KEY_MAX], other[RECORD_KEY_MAX];
	unsigned neighbours = 0, n, m;

	for (uint64_t i = 0; i < 10000; i++) {
		n = record_key(i, key);
		m = record_key(i + 1, other);
		assert_in_range(n, 5, RECORD_KEY_MAX);
		assert_memory_equal(key, "user", 4);
		for (unsigned d = 4; d < n; d++)
			assert_in_range(key[d], '0', '9');
		assert_false(n == m && memcmp(key, other, n) == 0);
		neighbours += n == m && memcmp(key, other, 7) == 0;
	}
	assert_in_range(neighbours, 0, 100); /* three digits alike: one of a thousand */
	assert_int_equal(record_digits(key, 0), 1);
	assert_int_equal(key[0], '0');
	assert_int_equal(record_digits(key, UINT64_MAX), 20);
	assert_memory_equal(key, "18446744073709551615", 20);
}

/* Every byte of a small record is looked at; of a version by itself nothing can be said. */
UNIT_TEST(a_changed_byte_is_found)
{
	char value[200];

	for (size_t len = 1; len <= 128; len++) {
		record_fill(value, len, 77, 123456789);
		assert_true(record_right(value, len, 77));
		for (size_t i = 0; i < len; i++) {
			if (i >= 8 && i < 16 && len < 24)
				continue;
			value[i] ^= 0x10;
			if (record_right(value, len, 77))
				fail_msg("byte %u of %u", (unsigned)i, (unsigned)len);
			value[i] ^= 0x10;
		}
	}
}

UNIT_TEST(records_of_others_and_torn_ones_are_found)
{
	static char one[65536], other[65536];

	for (size_t len = 64; len <= sizeof(one); len *= 4) {
		record_fill(one, len, 5, 1);
		assert_false(record_right(one, len, 6));
		for (size_t cut = 16; cut <= len - 8; cut += len / 8) {
			record_fill(one, len, 5, 1);
			record_fill(other, len, 5, 2);
			memcpy(one + cut, other + cut, len - cut);
			assert_false(record_right(one, len, 5));
		}
		memset(one, 0, len);
		assert_false(record_right(one, len, 5));
		record_fill(one, len, 5, 1);
		memset(one + len - 8, 0, 8); /* cut short */
		assert_false(record_right(one, len, 5));
	}
}

/* Ours has whole slabs of 1 MiB for a large record, and 1 MiB with its header takes two. */
UNIT_TEST(stores_have_room_for_large_records)
{
	struct bench_options o = { .records = 300,
				   .fields = 1,
				   .field_len = 1 << 20,
				   .record_len = 1 << 20,
				   .threads = 1,
				   .depth = 64,
				   .workloads = 1 };
	struct error err;

	o.workload[0] = workload_find("A", &err);
	assert_true(options_memory(&o) >= (300 + 64) * 2ull << 20);
	o.workload[0] = workload_find("D", &err);
	assert_true(options_memory(&o) >= (2 * 300 + 64) * 2ull << 20);
	o.sizes = 1;
	o.size[0] = 512 << 10;
	assert_true(options_memory(&o) >= ((2 * 300 + 64) * 2ull + 128) << 20);
}
