/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Memory that is taken before anybody needs it: by several threads, in what pieces, when not. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "common/base/time.h"
#include "server/memory/memory_internal.h"
#include "tests/unit/memory/recorder.h"

#define WAIT_MS 60000u /* of a busy machine */

static struct recorder recorder;
static atomic_uint made_ahead; /* extents that were there while the one before was registered */
static atomic_uint data_registered;
static atomic_bool told_to_stop, watch_ahead;
static atomic_uint asked;
static size_t largest; /* region */
static atomic_uint calls;
static struct memory *ended; /* while the next extent is there: registering waits for that */
static atomic_bool seen_ahead;
static struct memory *orders; /* where the index is asked for more, once, while it fills */
static atomic_size_t ordered_bytes; /* what was registered next */

static bool is_data(int fd)
{
	char path[64], name[64];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	len = readlink(path, name, sizeof(name) - 1);
	name[len > 0 ? len : 0] = '\0';
	return strstr(name, "memfd:gracekv-data") != NULL;
}

static unsigned data_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 64; fd++)
		n += is_data(fd);
	return n;
}

/* Ask for segments until there are none: the growth thread, which is here, has an order then. */
static void order_segments(struct memory *m)
{
	struct memory_segment segment;
	int rc;

	while ((rc = memory_segment_alloc(m, false, 1, &segment)) == 0)
		;
	check(rc == -EAGAIN);
}

/* A device that takes its time: until the next extent is being made, a second at most. */
static int slow_register(void *ctx, int fd, void *addr, size_t len, struct memory_region *out,
			 struct error *err)
{
	unsigned known = atomic_load(&data_registered) + 1; /* this one is */

	for (unsigned i = 0; i < 100 && atomic_load(&watch_ahead) && len == largest; i++) {
		if (data_fds() > known) {
			atomic_fetch_add(&made_ahead, 1);
			break;
		}
		time_sleep(10 * NS_PER_MS);
	}
	if (ended && data_fds() > known) {
		time_sleep(200 * NS_PER_MS); /* for its pages */
		atomic_store(&seen_ahead, true);
		for (unsigned i = 0; i < WAIT_MS / 5 && !memory_stopping(ended); i++)
			time_sleep(5 * NS_PER_MS);
	}
	atomic_fetch_add(&data_registered, is_data(fd));
	if (orders && len == largest) {
		order_segments(orders);
		orders = NULL;
	} else if (!orders && !atomic_load(&ordered_bytes)) {
		atomic_store(&ordered_bytes, len);
	}
	atomic_fetch_add(&calls, 1);
	return recorder_register(ctx, fd, addr, len, out, err);
}

static bool stopping(void *ctx)
{
	atomic_fetch_add(&asked, 1);
	return atomic_load(&told_to_stop);
}

static struct memory *begin(uint64_t bytes_max, uint64_t extent_bytes_max)
{
	const struct memory_config config = {
		.bytes_max = bytes_max,
		.extent_bytes_max = extent_bytes_max,
		.hooks = { slow_register, recorder_unregister, &recorder, stopping },
	};
	struct memory *m;
	struct error err;
	unsigned x;

	memset(&recorder, 0, sizeof(recorder));
	atomic_store(&told_to_stop, false);
	atomic_store(&data_registered, 0);
	largest = extent_bytes_max;
	assert_int_equal(memory_create(&m, &config, &err), 0);
	assert_int_equal(memory_extent_add(m, EXTENT_INDEX, 1, &x, &err), 0);
	assert_int_equal(memory_extent_add(m, EXTENT_DATA, 1, &x, &err), 0);
	return m;
}

static uint64_t committed(struct memory *m)
{
	struct memory_stats s;

	memory_stats_get(m, &s);
	return s.extent_bytes[EXTENT_INDEX] + s.extent_bytes[EXTENT_DIR] +
	       s.extent_bytes[EXTENT_DATA];
}

/* Wait until nothing is added for a while, or @bytes are there. */
static uint64_t committed_in_the_end(struct memory *m, uint64_t bytes)
{
	uint64_t until = time_now_ns() + WAIT_MS * NS_PER_MS;

	while (committed(m) < bytes && time_now_ns() < until)
		time_sleep(5 * NS_PER_MS);
	time_sleep(100 * NS_PER_MS); /* and no more than that */
	return committed(m);
}

static void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static size_t resident(void *p, size_t bytes)
{
	static unsigned char there[64 * MIB / 4096 + 1];
	size_t n = 0;

	assert_int_equal(mincore(p, bytes, there), 0);
	for (size_t i = 0; i < (bytes + 4095) / 4096; i++)
		n += there[i] & 1;
	return n;
}

/* Whatever the length and however many share the work: every page is there, none twice. */
UNIT_TEST(every_page_is_there)
{
	const size_t sizes[] = { 4096, 4 * MIB, 8 * MIB, 8 * MIB + 4096, 63 * MIB };

	for (unsigned threads = 1; threads <= 12; threads += threads < 4 ? 1 : 4) {
		for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			void *p = shared(sizes[i]);

			assert_int_equal(populate(p, sizes[i], threads, NULL), 0);
			assert_int_equal(resident(p, sizes[i]), (sizes[i] + 4095) / 4096);
			munmap(p, sizes[i]);
		}
	}
	assert_true(populate_threads() >= 1 && populate_threads() <= 8);
}

/* One piece that the kernel refuses fails the whole, however many threads have others. */
UNIT_TEST(a_piece_that_fails_is_told)
{
	for (unsigned threads = 1; threads <= 3; threads++) {
		uint8_t *p = shared(64 * MIB);

		munmap(p + 40 * MIB, 4096);
		assert_int_equal(populate(p, 64 * MIB, threads, NULL), -ENOMEM);
		munmap(p, 64 * MIB);
	}
}

/* A store that is told to stop does not go on to the end: a piece for each thread at the most. */
UNIT_TEST(stopping_is_asked_between_pieces)
{
	struct memory *m = begin(128 * MIB, 0);
	struct error err;
	unsigned x;
	void *p = shared(64 * MIB);

	atomic_store(&asked, 0);
	assert_int_equal(populate(p, 64 * MIB, 2, m), 0);
	assert_int_equal(asked, 8);
	munmap(p, 64 * MIB);
	p = shared(64 * MIB);
	atomic_store(&told_to_stop, true);
	assert_int_equal(populate(p, 64 * MIB, 2, m), -ECANCELED);
	assert_int_equal(resident(p, 64 * MIB), 0);
	munmap(p, 64 * MIB);

	/* The same of an extent: nothing is left of it, and no smaller one is tried. */
	assert_int_equal(memory_extent_add(m, EXTENT_DATA, MIB, &x, &err), -ECANCELED);
	assert_non_null(strstr(err.text, "told to stop"));
	assert_int_equal(committed(m), 8 * MIB);
	assert_int_equal(data_fds(), 1);
	recorder_end(&recorder, m);
}

/* All but what the index may need, and the next extent is made while one is registered. */
UNIT_TEST(a_store_fills_itself)
{
	struct memory *m = begin(256 * MIB, 32 * MIB);
	struct memory_stats s;

	atomic_store(&watch_ahead, true);
	assert_int_equal(committed(m), 8 * MIB); /* not before it is told */
	memory_fill(m);
	assert_int_equal(committed_in_the_end(m, 196 * MIB), 196 * MIB);
	atomic_store(&watch_ahead, false);
	memory_stats_get(m, &s);
	assert_int_equal(s.extent_bytes[EXTENT_INDEX], 4 * MIB);
	assert_true(made_ahead >= 3); /* of five extents of 32 MiB */
	assert_int_equal(data_fds(), s.extents - 1); /* none is left over */
	recorder_end(&recorder, m);
	assert_int_equal(data_fds(), 0);
}

/* A store that ends while it fills leaves nothing, what was made ahead included. */
UNIT_TEST(what_was_made_ahead_goes_with_the_store)
{
	struct memory *m = begin(256 * MIB, 32 * MIB);

	ended = m;
	atomic_store(&watch_ahead, true);
	memory_fill(m);
	for (unsigned i = 0; i < WAIT_MS / 5 && !atomic_load(&seen_ahead); i++)
		time_sleep(5 * NS_PER_MS);
	assert_true(seen_ahead);
	recorder_end(&recorder, m);
	ended = NULL;
	atomic_store(&watch_ahead, false);
	assert_int_equal(data_fds(), 0);
}

/* What is asked for meanwhile does not wait until the store is full. */
UNIT_TEST(orders_go_first)
{
	struct memory *m = begin(512 * MIB, 32 * MIB);

	orders = m;
	atomic_store(&ordered_bytes, 0);
	memory_fill(m);
	committed_in_the_end(m, 200 * MIB);
	assert_int_equal(ordered_bytes, EXTENT_BYTES_FIRST); /* of the index */
	recorder_end(&recorder, m); /* which stops it: */
	assert_int_equal(data_fds(), 0);
}

/* What the device or the system does not give is left, and asked for again when it is needed. */
UNIT_TEST(filling_ends_at_a_failure)
{
	struct memory *m = begin(128 * MIB, 0);
	struct memory_cache *cache;
	struct memory_place place;
	struct block *b;
	unsigned failing = atomic_load(&calls) + 2;

	recorder.fail_at = recorder.calls + 2;
	memory_fill(m);
	for (unsigned i = 0; i < WAIT_MS / 5 && atomic_load(&calls) < failing; i++)
		time_sleep(5 * NS_PER_MS);
	time_sleep(100 * NS_PER_MS);
	assert_int_equal(calls, failing);
	assert_int_equal(memory_cache_create(&cache, m), 0);
	for (unsigned i = 0; i < 40; i++) /* MiB, more than there are */ {
		int rc = -ENOMEM;

		for (unsigned k = 0; k < 100 && rc == -ENOMEM; k++) {
			rc = alloc_wait(m, cache, MIB, &place, &b);
			if (rc)
				time_sleep(50 * NS_PER_MS); /* it is not asked for a second */
		}
		assert_int_equal(rc, 0);
	}
	memory_cache_destroy(cache);
	recorder_end(&recorder, m);
}

/* A device that registers little at once has more extents, and all of the store is still used. */
UNIT_TEST(extents_are_what_the_device_registers)
{
	const struct memory_config config = {
		.bytes_max = 64 * MIB,
		.extent_bytes_max = 17 * MIB,
		.hooks = { slow_register, recorder_unregister, &recorder, NULL },
	};
	struct memory *m;
	struct error err;
	unsigned x;

	m = begin(256 * MIB, 33 * MIB); /* whole hugepages of it */
	assert_int_equal(memory_extent_most(m), 32 * MIB);
	assert_int_equal(memory_extent_add(m, EXTENT_INDEX, 33 * MIB, &x, &err), -EINVAL);
	for (unsigned i = 0; i < 7; i++) {
		int rc = memory_extent_add(m, EXTENT_DATA, 1, &x, &err);

		assert_int_equal(rc, 0);
		assert_true(memory_extent_bytes(m, x) <= 32 * MIB);
	}
	recorder_end(&recorder, m);
	m = begin(64 * MIB, UINT64_MAX); /* as devices say that have no limit */
	assert_int_equal(memory_extent_most(m), EXTENT_BYTES_MAX);
	recorder_end(&recorder, m);
	assert_int_equal(memory_create(&m, &config, &err), -EINVAL);
	assert_non_null(strstr(err.text, "registers 17 MiB at once"));
	assert_non_null(strstr(err.text, "take another device"));
}
