/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The log on a disk that is full, and on one that fails. */
#include "tests/unit/log/writing.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct writing w;
static uint64_t counts[WRITERS];

/* Appends records of that value until the disk is full; returns how many. */
static unsigned fill(uint64_t *end, unsigned from, uint32_t bytes)
{
	const uint64_t until_ns = time_now_ns() + LONG_TIME_NS;
	unsigned i = from;
	int rc;

	while ((rc = try_append(w.log, 0, i, bytes, end)) != -ENOSPC && time_now_ns() < until_ns) {
		if (rc == 0)
			i++;
		else
			time_sleep(NS_PER_MS);
	}
	assert_int_equal(rc, -ENOSPC);
	assert_true(log_is_full(w.log));
	return i;
}

UNIT_TEST(a_full_disk_refuses_and_recovers)
{
	uint64_t end = 0;
	unsigned i;

	writing_disk(&w);
	sim_disk_capacity(w.disk, LOG_SEGMENT_MIN + 8 * MIB);
	writing_open(&w, LOG_SYNC_ALWAYS, 0, 0);
	i = fill(&end, 0, 1 << 20);
	assert_in_range(i, 40, 64);
	await_committed(w.log, end);
	sim_disk_capacity(w.disk, 2 * LOG_SEGMENT_MIN);
	do
		time_sleep(10 * NS_PER_MS);
	while (log_is_full(w.log));
	end = append(w.log, 0, i++, 1 << 20);
	i = fill(&end, i, 1 << 20);
	await_committed(w.log, end);
	/* Now by what is dropped. */
	log_drop(w.log, end);
	do
		time_sleep(10 * NS_PER_MS);
	while (log_is_full(w.log));
	end = append(w.log, 0, i++, 1 << 20);
	await_committed(w.log, end);
	assert_int_equal(atomic_load(&w.failures), 0);
	writing_over(&w, 0);
}

/* The end of a segment that the longest record does not fit into counts as no room. */
UNIT_TEST(a_full_disk_has_room_for_all_that_it_took)
{
	uint64_t end = 0;
	unsigned i;

	writing_disk(&w);
	sim_disk_capacity(w.disk, 2 * LOG_SEGMENT_MIN);
	writing_open(&w, LOG_SYNC_ALWAYS, 0, 0);
	i = fill(&end, 0, VALUE_MAX);
	await_committed(w.log, end);
	assert_ok(log_close(w.log));
	read_back(w.io, 0, counts);
	assert_int_equal(counts[0], i);
	assert_in_range(i, 5, 6); /* of segments that hold three each */
	sim_disk_destroy(w.disk);
}

/* What comes after one call of a kind has failed. */
static void after_failure(uint64_t committed, struct log_waiter *waiter)
{
	const uint64_t until_ns = time_now_ns() + LONG_TIME_NS;
	struct pollfd p = { .fd = waiter->fd, .events = POLLIN };
	uint64_t end;

	assert_int_equal(poll(&p, 1, (int)(LONG_TIME_NS / NS_PER_MS)), 1);
	while (!atomic_load(&w.failures) && time_now_ns() < until_ns)
		time_sleep(NS_PER_MS);
	assert_true(log_has_failed(w.log));
	assert_non_null(strstr(w.why, "Input/output error"));
	assert_int_equal(try_append(w.log, 0, 9, 10, &end), -EIO);
	assert_false(log_wait_arm(w.log, waiter, UINT64_MAX - 1));
	assert_int_equal(log_await_durable(w.log, log_tail(w.log)), -EIO);
	time_sleep(20 * NS_PER_MS);
	assert_int_equal(log_committed(w.log), committed);
	log_wait_leave(w.log, waiter);
	close(waiter->fd);
	writing_over(&w, -EIO);
	assert_int_equal(atomic_load(&w.failures), 1);
}

static void fails_at(enum log_sync sync, enum sim_call call)
{
	struct log_waiter waiter = { .fd = eventfd(0, EFD_CLOEXEC) };
	uint64_t committed, end;

	writing_disk(&w);
	writing_open(&w, sync, 5, 0);
	committed = append(w.log, 0, 0, 100);
	assert_ok(log_await_durable(w.log, committed)); /* the next sync is for what comes now */
	log_wait_join(w.log, &waiter);
	/* Armed for what will not be there, so that the failure alone wakes it. */
	assert_true(log_wait_arm(w.log, &waiter, committed + 1000));
	sim_disk_fail(w.disk, call, 0, -EIO);
	assert_ok(try_append(w.log, 0, 1, 100, &end));
	if (sync == LOG_SYNC_NEVER && call == SIM_SYNC)
		assert_int_equal(log_await_durable(w.log, end), -EIO);
	if (sync != LOG_SYNC_ALWAYS && call == SIM_SYNC)
		committed = end; /* written, and then the sync failed */
	after_failure(committed, &waiter);
}

UNIT_TEST(a_failed_write_ends_writing)
{
	fails_at(LOG_SYNC_ALWAYS, SIM_WRITE);
	fails_at(LOG_SYNC_MS, SIM_WRITE);
	fails_at(LOG_SYNC_NEVER, SIM_WRITE);
}

UNIT_TEST(a_failed_sync_ends_writing)
{
	fails_at(LOG_SYNC_ALWAYS, SIM_SYNC);
	fails_at(LOG_SYNC_MS, SIM_SYNC);
	fails_at(LOG_SYNC_NEVER, SIM_SYNC);
}

UNIT_TEST(a_failed_last_sync_is_said)
{
	uint64_t end;

	writing_disk(&w);
	writing_open(&w, LOG_SYNC_NEVER, 0, 0);
	end = append(w.log, 0, 0, 100);
	await_committed(w.log, end);
	sim_disk_fail(w.disk, SIM_SYNC, 0, -EIO);
	writing_over(&w, -EIO);
	assert_int_equal(atomic_load(&w.failures), 1);
}

/* Whatever fails at a switch: nothing is committed behind it, and the log before it is whole. */
static void switch_fails(enum sim_call call, unsigned after)
{
	const uint64_t until_ns = time_now_ns() + LONG_TIME_NS;
	uint64_t committed, end;
	unsigned i = 0;
	int rc = 0;

	writing_disk(&w);
	writing_open(&w, LOG_SYNC_ALWAYS, 0, 0);
	for (; i < 50; i++) /* the segment has no room for 17 MiB then */
		end = append(w.log, 0, i, 1 << 20);
	await_committed(w.log, end);
	committed = end;
	sim_disk_fail(w.disk, call, after, -EIO);
	while ((rc = try_append(w.log, 0, i, VALUE_MAX, &end)) == -EBUSY &&
	       time_now_ns() < until_ns)
		time_sleep(NS_PER_MS);
	assert_int_equal(rc, 0);
	while (!atomic_load(&w.failures) && time_now_ns() < until_ns)
		time_sleep(NS_PER_MS);
	assert_int_equal(log_committed(w.log), committed);
	assert_int_equal(log_close(w.log), -EIO);
	read_back(w.io, 0, counts);
	assert_int_equal(counts[0], 50);
	sim_disk_destroy(w.disk);
}

UNIT_TEST(a_switch_that_fails_ends_writing)
{
	switch_fails(SIM_WRITE, 0);
	switch_fails(SIM_SYNC, 0);
	switch_fails(SIM_RENAME, 0);
	switch_fails(SIM_SYNC_DIR, 0);
}
