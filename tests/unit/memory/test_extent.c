/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Extents: limits, sizes, the table that clients fetch, failing hooks, growth. */
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/sysinfo.h>

#include "common/base/time.h"
#include "tests/lib/own_process.h"
#include "tests/unit/memory/recorder.h"

UNIT_TEST(limits_are_named)
{
	struct recorder r = { 0 };
	struct memory_config config = {
		.hooks = { recorder_register, recorder_unregister, &r },
	};
	struct sysinfo info;
	struct memory *m;
	struct error err;
	char text[32];

	config.bytes_max = 8 * MIB - 1;
	assert_int_equal(memory_create(&m, &config, &err), -EINVAL);
	assert_non_null(strstr(err.text, "8 MiB"));
	assert_int_equal(sysinfo(&info), 0);
	config.bytes_max = ((uint64_t)info.totalram * info.mem_unit / MIB + 1) * MIB;
	assert_int_equal(memory_create(&m, &config, &err), -EINVAL);
	snprintf(text, sizeof(text), "%llu MiB", (unsigned long long)(config.bytes_max / MIB));
	assert_non_null(strstr(err.text, text));
	snprintf(text, sizeof(text), "%llu MiB",
		 (unsigned long long)info.totalram * info.mem_unit / MIB);
	assert_non_null(strstr(err.text, text));
	assert_int_equal(r.calls, 0);
}

UNIT_TEST(sizes_double_within_the_limit)
{
	struct recorder r;
	struct memory *m = recorder_memory(&r, 64 * MIB + 12345);
	struct memory_stats stats;
	struct error err;
	unsigned x;

	assert_int_equal(memory_extent_add(m, EXTENT_DATA, 1, &x, &err), 0);
	assert_int_equal(x, 0);
	assert_int_equal(memory_extent_bytes(m, 0), 4 * MIB);
	assert_int_equal(memory_extent_add(m, EXTENT_INDEX, 5 * MIB, &x, &err), 0);
	assert_int_equal(memory_extent_bytes(m, 1), 6 * MIB);
	assert_int_equal(memory_extent_add(m, EXTENT_DATA, 1, &x, &err), 0);
	assert_int_equal(memory_extent_bytes(m, 2), 18 * MIB); /* room for the largest record */
	assert_int_equal(memory_extent_add(m, EXTENT_DATA, 19 * MIB, &x, &err), 0);
	assert_int_equal(memory_extent_bytes(m, 3), 20 * MIB);
	assert_int_equal(memory_extent_add(m, EXTENT_DATA, 17 * MIB, &x, &err), -ENOSPC);
	assert_non_null(strstr(err.text, "64 MiB"));
	assert_int_equal(memory_extent_add(m, EXTENT_DATA, 1, &x, &err), 0);
	assert_int_equal(memory_extent_bytes(m, 4), 16 * MIB);
	assert_int_equal(memory_extent_add(m, EXTENT_DIR, 59 * MIB, &x, &err), -ENOSPC);
	assert_int_equal(r.unregistered, 0); /* what DATA could give back would not suffice */
	assert_int_equal(memory_extent_add(m, EXTENT_DIR, EXTENT_BYTES_MAX + 1, &x, &err), -EINVAL);
	memory_stats_get(m, &stats);
	assert_int_equal(stats.extent_bytes[EXTENT_DATA], 58 * MIB);
	assert_int_equal(stats.extent_bytes[EXTENT_INDEX], 6 * MIB);
	assert_int_equal(stats.slabs_free, 58);

	assert_null(memory_addr(m, 5, 0, 1));
	assert_null(memory_addr(m, EXTENTS_MAX, 0, 1));
	assert_null(memory_addr(m, 0, 4 * MIB, 1));
	assert_null(memory_addr(m, 0, 4 * MIB - 8, 9));
	assert_null(memory_addr(m, 0, UINT64_MAX, 9));
	assert_non_null(memory_addr(m, 0, 4 * MIB - 8, 8));
	assert_null(memory_extent_region(m, 5));
	recorder_end(&r, m);
}

/* Take segments until they have a quarter of the bytes that DATA has. */
static void use_segments(struct memory *m)
{
	struct memory_segment segment;
	struct memory_stats stats;
	int rc;

	for (;;) {
		memory_stats_get(m, &stats);
		if (stats.segments_used * SEGMENT_BYTES * 4 >= stats.extent_bytes[EXTENT_DATA])
			return;
		while ((rc = memory_segment_alloc(m, false, 1, &segment)) == -EAGAIN)
			memory_growth_wait(m, 1000);
		assert_int_equal(rc, 0);
	}
}

/* Where records are small DATA leaves the index its share; the index grows in small steps. */
UNIT_TEST(the_index_finds_room)
{
	struct recorder r;
	struct memory *m = recorder_memory(&r, 256 * MIB);
	uint64_t index = 0, step = 0;
	struct memory_stats stats;
	struct error err;
	unsigned x;

	while (memory_extent_add(m, EXTENT_DATA, 1, &x, &err) == 0) {
		use_segments(m);
		memory_stats_get(m, &stats);
		if (stats.extent_bytes[EXTENT_DATA] > 190 * MIB)
			break;
	}
	memory_stats_get(m, &stats);
	assert_true(stats.extent_bytes[EXTENT_DATA] > 190 * MIB);
	assert_true(stats.segments_used * SEGMENT_BYTES > 47 * MIB);
	recorder_end(&r, m);

	m = recorder_memory(&r, 1024 * MIB);
	while (index < 512 * MIB) {
		assert_int_equal(memory_extent_add(m, EXTENT_INDEX, 1, &x, &err), 0);
		step = memory_extent_bytes(m, x);
		assert_true(step >= 4 * MIB && (step == 4 * MIB || step <= index / 8));
		index += step;
	}
	assert_true(step >= 48 * MIB);
	recorder_end(&r, m);
}

static void entry_copy(const struct memory *m, unsigned i, struct extent_entry *out)
{
	const _Atomic uint64_t *from = (const _Atomic uint64_t *)memory_extent_table(m) + i * 4;
	uint64_t word[4];

	/* Any order will do for the first three; the checksum is taken like a NIC might. */
	for (unsigned k = 0; k < 4; k++)
		word[k] = atomic_load_explicit(&from[k], memory_order_acquire);
	memcpy(out, word, sizeof(*out));
}

static void check_entry(const struct memory *m, unsigned i)
{
	struct extent_entry e;

	entry_copy(m, i, &e);
	check(extent_entry_sound(&e));
	check(e.addr == (uint64_t)(uintptr_t)memory_addr(m, i, 0, 1));
	check(e.length == memory_extent_bytes(m, i));
	check(e.rkey == memory_extent_region(m, i)->rkey);
}

struct watch {
	struct memory *m;
	_Atomic bool stop;
	unsigned seen;
};

/* A client that fetches entries while they are made. */
static void *watch_table(void *arg)
{
	struct watch *w = arg;

	while (!atomic_load(&w->stop)) {
		for (unsigned i = 0; i < 16; i++) {
			struct extent_entry e;

			entry_copy(w->m, i, &e);
			if (!extent_entry_sound(&e) || e.kind == EXTENT_NONE)
				continue;
			check(e.addr && e.length >= MIB && e.rkey > 1000 && e.kind <= EXTENT_DATA);
			w->seen++;
		}
	}
	return NULL;
}

UNIT_TEST(table_entries_are_sound)
{
	struct recorder r;
	struct memory *m = recorder_memory(&r, 512 * MIB);
	struct watch w = { .m = m };
	struct extent_entry e;
	struct error err;
	pthread_t thread;
	unsigned x;

	pthread_create(&thread, NULL, watch_table, &w);
	for (unsigned i = 0; i < 12; i++) {
		enum extent_kind kind = (enum extent_kind)(1 + i % 3);

		assert_int_equal(memory_extent_add(m, kind, 1, &x, &err), 0);
		check_entry(m, x);
		entry_copy(m, x, &e);
		assert_int_equal(e.kind, kind);
	}
	atomic_store(&w.stop, true);
	pthread_join(thread, NULL);
	entry_copy(m, 12, &e);
	assert_int_equal(e.kind, EXTENT_NONE);
	assert_false(extent_entry_sound(&e));
	recorder_end(&r, m);
}

UNIT_TEST(failing_hooks_leave_nothing)
{
	unsigned fds = own_descriptors();
	struct recorder r = { .fail_at = 1 };
	struct memory_config config = {
		.bytes_max = 32 * MIB,
		.hooks = { recorder_register, recorder_unregister, &r },
	};
	struct memory_stats before, after;
	struct extent_entry e;
	struct memory *m;
	struct error err;
	unsigned x;

	assert_int_equal(memory_create(&m, &config, &err), -ENOMEM);
	assert_int_equal(own_descriptors(), fds);
	m = recorder_memory(&r, 32 * MIB);
	assert_int_equal(memory_extent_add(m, EXTENT_DATA, 1, &x, &err), 0);
	for (int kind = EXTENT_INDEX; kind <= EXTENT_DATA; kind++) {
		unsigned open = own_descriptors();

		memory_stats_get(m, &before);
		r.fail_at = r.calls + 1;
		assert_int_equal(memory_extent_add(m, (enum extent_kind)kind, 1, &x, &err),
				 -ENOMEM);
		assert_string_equal(err.text, "the recorder was told to fail");
		memory_stats_get(m, &after);
		assert_memory_equal(&before, &after, sizeof(before));
		assert_int_equal(own_descriptors(), open);
		assert_int_equal(memory_extent_bytes(m, 1), 0);
		entry_copy(m, 1, &e);
		assert_int_equal(e.kind, EXTENT_NONE);
	}
	assert_int_equal(memory_extent_add(m, EXTENT_DATA, 1, &x, &err), 0);
	assert_int_equal(x, 1);
	check_entry(m, 1);
	recorder_end(&r, m);
	assert_int_equal(own_descriptors(), fds);
}

UNIT_TEST(failed_growth_is_tried_again_later)
{
	struct recorder r;
	struct memory *m = recorder_memory(&r, 16 * MIB);
	struct memory_cache *cache;
	struct memory_place place;
	struct timespec pause = { 1, 100000000 };
	struct block *b;
	unsigned calls;

	r.fail_all = 1;
	assert_int_equal(memory_cache_create(&cache, m), 0);
	assert_int_equal(alloc_wait(m, cache, 100, &place, &b), -ENOMEM);
	calls = r.calls;
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(memory_alloc(cache, 100, &place, &b), -ENOMEM);
	assert_int_equal(r.calls, calls); /* not asked over and over */
	r.fail_all = 0;
	nanosleep(&pause, NULL);
	assert_int_equal(alloc_wait(m, cache, 100, &place, &b), 0);
	memory_free(m, place);
	memory_cache_destroy(cache);
	recorder_end(&r, m);
}

UNIT_TEST(growth_comes_before_need_and_then_sleeps)
{
	struct recorder r;
	struct memory *m = recorder_memory(&r, 256 * MIB);
	struct memory_cache *cache;
	struct memory_place place;
	struct memory_stats stats;
	struct timespec pause = { 0, 300000000 };
	unsigned waits = 0;
	struct block *b;
	uint64_t cpu;

	assert_int_equal(memory_cache_create(&cache, m), 0);
	memory_growth_wait(m, 5000); /* the first extent comes with the first worker */
	for (unsigned i = 0; i < 100 * 4; i++) { /* 100 MiB, at a gentle pace */
		int rc = memory_alloc(cache, 256 << 10, &place, &b);

		if (rc == -EAGAIN) {
			waits++;
			memory_growth_wait(m, 5000);
			rc = memory_alloc(cache, 256 << 10, &place, &b);
		}
		assert_int_equal(rc, 0);
		if (i % 4 == 3)
			memory_growth_wait(m, 5000);
	}
	assert_int_equal(waits, 0);
	memory_stats_get(m, &stats);
	assert_true(stats.slabs_free > 0);
	assert_int_equal(stats.slabs_used, 100);
	cpu = cpu_ns();
	nanosleep(&pause, NULL);
	assert_true(cpu_ns() - cpu < 5 * NS_PER_MS);
	memory_cache_destroy(cache);
	recorder_end(&r, m);
}

/* The fewest slabs that are free while 40 are taken, each when no growth is under way. */
static unsigned fewest_free(bool ahead)
{
	struct recorder r = { 0 };
	const struct memory_config config = {
		.bytes_max = 160 * MIB,
		.extent_bytes_max = 32 * MIB,
		.hooks = { recorder_register, recorder_unregister, &r },
	};
	unsigned fewest = UINT_MAX;
	struct memory_cache *cache;
	struct memory_place place;
	struct memory_stats stats;
	struct block *b;
	struct memory *m;
	struct error err;

	assert_int_equal(memory_create(&m, &config, &err), 0);
	memory_growth_ahead(m, ahead);
	assert_int_equal(memory_cache_create(&cache, m), 0);
	memory_growth_wait(m, 5000);
	for (unsigned i = 0; i < 60; i++) {
		assert_int_equal(memory_alloc(cache, MIB / 2 + 1, &place, &b), 0);
		memory_growth_wait(m, 5000);
		memory_stats_get(m, &stats);
		if (i >= 20 && stats.slabs_free < fewest)
			fewest = (unsigned)stats.slabs_free;
	}
	memory_cache_destroy(cache);
	recorder_end(&r, m);
	return fewest;
}

UNIT_TEST(growth_is_an_extent_ahead_where_that_was_asked_for)
{
	assert_in_range(fewest_free(false), 1, 31);
	assert_in_range(fewest_free(true), 32, 96);
}
