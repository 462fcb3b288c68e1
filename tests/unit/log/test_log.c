/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The log's writing half: what was appended is read back, whoever appended, and whoever waited. */
#include "tests/unit/log/writing.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct writing w;
static uint64_t counts[WRITERS];

struct appender {
	pthread_t thread;
	unsigned number;
	uint64_t records, seed;
	uint32_t value_max;
	bool waits; /* for each of its records, with a waiter */
};

/* As a worker does: arm, look, sleep. */
static void wait_for(struct log_waiter *waiter, uint64_t position)
{
	struct pollfd p = { .fd = waiter->fd, .events = POLLIN };
	uint64_t kicks;

	while (log_committed(w.log) < position) {
		if (!log_wait_arm(w.log, waiter, position))
			break;
		assert_int_equal(poll(&p, 1, (int)(LONG_TIME_NS / NS_PER_MS)), 1);
		log_wait_disarm(waiter);
		assert_int_equal(read(waiter->fd, &kicks, sizeof(kicks)), sizeof(kicks));
	}
	assert_true(log_committed(w.log) >= position);
}

static void *append_many(void *arg)
{
	struct appender *a = arg;
	struct log_waiter waiter = { .fd = eventfd(0, EFD_CLOEXEC) };

	log_wait_join(w.log, &waiter);
	for (uint64_t i = 0; i < a->records; i++) {
		uint32_t len = (uint32_t)(unit_random(&a->seed) % (a->value_max + 1));
		uint64_t end = append(w.log, a->number, i, len);

		if (a->waits)
			wait_for(&waiter, end);
	}
	log_wait_leave(w.log, &waiter);
	close(waiter.fd);
	return NULL;
}

static void append_by_threads(uint64_t records, uint32_t value_max, bool waits)
{
	struct appender a[WRITERS];
	uint64_t seed = (uint64_t)getpid() ^ time_wall_ns();

	print_message("seed %llu\n", (unsigned long long)seed);
	for (unsigned i = 0; i < WRITERS; i++) {
		a[i] = (struct appender){ .number = i,
					  .records = records,
					  .seed = seed + i,
					  .value_max = value_max,
					  .waits = waits };
		assert_ok(pthread_create(&a[i].thread, NULL, append_many, &a[i]));
	}
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(a[i].thread, NULL);
}

static void threads_in_mode(enum log_sync sync, unsigned ms, bool waits)
{
	const uint64_t records = UNIT_LESS(waits ? 2000 : 5000, 4);

	writing_disk(&w);
	writing_open(&w, sync, ms, 800);
	append_by_threads(records, 3000, waits);
	await_committed(w.log, log_tail(w.log));
	assert_ok(log_close(w.log));
	read_back(w.io, 800, counts);
	for (unsigned i = 0; i < WRITERS; i++)
		assert_int_equal(counts[i], records);
	sim_disk_destroy(w.disk);
}

UNIT_TEST(records_of_threads_are_read_back)
{
	threads_in_mode(LOG_SYNC_ALWAYS, 0, false);
	threads_in_mode(LOG_SYNC_MS, 2, false);
	threads_in_mode(LOG_SYNC_NEVER, 0, false);
}

UNIT_TEST(no_wake_up_of_a_waiter_is_lost)
{
	threads_in_mode(LOG_SYNC_ALWAYS, 0, true);
	threads_in_mode(LOG_SYNC_MS, 1, true);
}

UNIT_TEST(a_sync_takes_all_that_came_meanwhile)
{
	struct log_stats s;
	uint64_t end = 0;

	writing_disk(&w);
	writing_open(&w, LOG_SYNC_ALWAYS, 0, 0);
	sim_disk_delay(w.disk, SIM_SYNC, 20 * NS_PER_MS);
	for (unsigned i = 0; i < 640; i++)
		end = append(w.log, 0, i, 100);
	await_committed(w.log, end);
	log_stats_get(w.log, &s);
	assert_int_equal(s.records, 640);
	assert_true(s.batches <= 10);
	assert_int_equal(s.syncs, s.batches);
	assert_true(s.sync_ns_max >= 20 * NS_PER_MS &&
		    s.sync_bins[56] + s.sync_bins[57] + s.sync_bins[58] + s.sync_bins[59] +
				    s.sync_bins[60] >
			    0);
	writing_over(&w, 0);
}

UNIT_TEST(a_ring_that_is_full_refuses_and_recovers)
{
	uint64_t end = 0, i = 0;

	writing_disk(&w);
	writing_open(&w, LOG_SYNC_ALWAYS, 0, 0);
	sim_disk_delay(w.disk, SIM_SYNC, 300 * NS_PER_MS);
	while (try_append(w.log, 0, i, 1 << 20, &end) == 0)
		assert_true(++i < 60);
	assert_int_equal(try_append(w.log, 0, i, 1 << 20, &end), -EBUSY);
	assert_false(log_is_full(w.log));
	sim_disk_delay(w.disk, SIM_SYNC, 0);
	end = append(w.log, 0, i++, 1 << 20);
	await_committed(w.log, end);
	assert_ok(log_close(w.log));
	read_back(w.io, 0, counts);
	assert_int_equal(counts[0], i);
	sim_disk_destroy(w.disk);
}

static _Atomic bool no_more;

static void *append_short(void *writer)
{
	for (uint64_t i = 0; !atomic_load(&no_more); i++)
		append(w.log, (unsigned)(uintptr_t)writer, i, 64 << 10);
	return NULL;
}

/* Those with short records take what room there is, as soon as there is some. */
UNIT_TEST(long_records_get_room_beside_short_ones)
{
	uint64_t end = 0, n = 0;
	pthread_t thread[3];

	writing_disk(&w);
	writing_open(&w, LOG_SYNC_ALWAYS, 0, 0);
	sim_disk_delay(w.disk, SIM_SYNC, 40 * NS_PER_MS);
	atomic_store(&no_more, false);
	for (uintptr_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, append_short, (void *)(i + 1)),
				 0);
	while (try_append(w.log, 0, n, 64 << 10, &end) == 0)
		n++;
	append(w.log, 0, n, VALUE_MAX);
	atomic_store(&no_more, true);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_ok(log_close(w.log));
	read_back(w.io, 0, counts);
	assert_int_equal(counts[0], n + 1);
	sim_disk_destroy(w.disk);
}

/* Any length of records, the longest included, over several segments. */
static void over_segments(enum log_sync sync, uint32_t value_len, unsigned records)
{
	struct log_stats s;
	uint64_t end = 0;

	writing_disk(&w);
	writing_open(&w, sync, 5, 64);
	for (unsigned i = 0; i < records; i++)
		end = append(w.log, 1, i, value_len);
	await_committed(w.log, end);
	log_stats_get(w.log, &s);
	assert_true(s.segments > 2);
	assert_int_equal(s.first, 64);
	if (sync != LOG_SYNC_NEVER)
		assert_ok(log_await_durable(w.log, end));
	assert_ok(log_close(w.log));
	read_back(w.io, 64, counts);
	assert_int_equal(counts[1], records);
	sim_disk_destroy(w.disk);
}

UNIT_TEST(segments_follow_each_other)
{
	over_segments(LOG_SYNC_ALWAYS, VALUE_MAX, 8);
	over_segments(LOG_SYNC_MS, (3 << 20) + 1, 46);
	over_segments(LOG_SYNC_NEVER, 70000, 2000);
}

UNIT_TEST(segments_are_dropped_but_for_the_current_one)
{
	const uint64_t until_ns = time_now_ns() + LONG_TIME_NS;
	struct log_stats s;
	uint64_t end = 0;

	writing_disk(&w);
	writing_open(&w, LOG_SYNC_ALWAYS, 0, 0);
	for (unsigned i = 0; i < 150; i++)
		end = append(w.log, 1, i, 1 << 20);
	await_committed(w.log, end);
	log_drop(w.log, 1 << 20);
	log_stats_get(w.log, &s);
	assert_int_equal(s.first, 0);
	assert_int_equal(s.segments, 3);
	log_drop(w.log, UINT64_MAX);
	do {
		time_sleep(NS_PER_MS);
		log_stats_get(w.log, &s);
	} while (s.segments > 1 && time_now_ns() < until_ns);
	assert_int_equal(s.segments, 1);
	assert_true(s.first > 0 && s.first <= end);
	assert_ok(log_close(w.log));
	assert_int_equal(sim_disk_size(w.disk, "log/0000000000000000.log"), -ENOENT);
	assert_int_equal(sim_disk_size(w.disk, "log/next.tmp"), -ENOENT);
	sim_disk_destroy(w.disk);
}

UNIT_TEST(sync_by_time_comes_by_itself_and_never_does_not)
{
	const uint64_t until_ns = time_now_ns() + LONG_TIME_NS;
	uint64_t end;

	writing_disk(&w);
	writing_open(&w, LOG_SYNC_MS, 20, 0);
	end = append(w.log, 0, 0, 100);
	await_committed(w.log, end);
	while (log_durable(w.log) < end && time_now_ns() < until_ns)
		time_sleep(NS_PER_MS);
	assert_int_equal(log_durable(w.log), end);
	writing_over(&w, 0);

	writing_disk(&w);
	writing_open(&w, LOG_SYNC_NEVER, 0, 0);
	end = append(w.log, 0, 0, 100);
	await_committed(w.log, end);
	time_sleep(50 * NS_PER_MS);
	assert_int_equal(log_durable(w.log), 0);
	assert_ok(log_await_durable(w.log, end));
	assert_int_equal(log_durable(w.log), end);
	end = append(w.log, 0, 1, 100);
	assert_ok(log_await_durable(w.log, end)); /* before it is written */
	writing_over(&w, 0);
}

/* Nobody asks for it, and the segment has room for more. */
UNIT_TEST(no_more_than_a_part_of_a_segment_is_left_unsynced)
{
	const uint64_t until_ns = time_now_ns() + LONG_TIME_NS;
	uint64_t bytes = 0;

	writing_disk(&w);
	writing_open(&w, LOG_SYNC_NEVER, 0, 0);
	for (unsigned i = 0; bytes < 40 * MIB; i++)
		bytes = append(w.log, 0, i, (uint32_t)MIB);
	await_committed(w.log, bytes);
	while (log_durable(w.log) < 24 * MIB && time_now_ns() < until_ns)
		time_sleep(NS_PER_MS);
	assert_true(log_durable(w.log) >= 24 * MIB);
	writing_over(&w, 0);
}

static unsigned cached;

static int count_cached(struct log_file *f, const void *buf, size_t len, uint64_t offset)
{
	cached++;
	return sim_disk_io(w.disk)->write(f, buf, len, offset);
}

/* A write that need not wait for the disk does not. */
UNIT_TEST(batches_without_a_sync_of_their_own_go_to_the_kernel)
{
	for (enum log_sync sync = LOG_SYNC_ALWAYS; sync <= LOG_SYNC_NEVER; sync++) {
		struct log_io io;

		cached = 0;
		writing_disk(&w);
		io = *w.io;
		io.write_cached = count_cached;
		w.io = &io;
		writing_open(&w, sync, 20, 0);
		await_committed(w.log, append(w.log, 0, 0, 100));
		assert_int_equal(cached, sync != LOG_SYNC_ALWAYS);
		writing_over(&w, 0);
	}
}
