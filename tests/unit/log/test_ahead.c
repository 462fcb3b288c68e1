/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Zeroes ahead of the log's writer: where they go, and that they never meet what it writes. */
#include "tests/unit/log/writing.h"

#include <pthread.h>

#include "common/base/mutant.h"

#define PIECE_NS (2 * NS_PER_MS) /* a piece takes that at least: batches come meanwhile */

/* The disk's table, with an eye on the segment that is written. */
static struct {
	struct log_io io;
	const struct log_io *disk;
	pthread_mutex_t lock;
	const struct log_file *file;
	uint64_t written; /* batches, and the one under way, end there */
	uint64_t from, until; /* of the piece under way */
	unsigned files, pieces; /* segments; pieces of the last one */
	unsigned met; /* writes that had to do with bytes of another one */
	int piece_rc; /* what the next piece is told */
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Of those who sync by themselves: only the keeper writes so. */
static int write_piece(struct log_file *f, const void *buf, size_t len, uint64_t offset)
{
	int rc;

	pthread_mutex_lock(&seen.lock);
	seen.met += f != seen.file || offset < seen.written;
	seen.from = offset;
	seen.until = offset + len;
	rc = seen.piece_rc;
	pthread_mutex_unlock(&seen.lock);
	time_sleep(PIECE_NS);
	if (rc == 0)
		rc = seen.disk->write(f, buf, len, offset);
	pthread_mutex_lock(&seen.lock);
	seen.from = seen.until = 0;
	seen.pieces++;
	pthread_mutex_unlock(&seen.lock);
	return rc;
}

static int write_batch(struct log_file *f, const void *buf, size_t len, uint64_t offset)
{
	pthread_mutex_lock(&seen.lock);
	if (f != seen.file) {
		seen.met += seen.until != 0; /* a piece of the segment before */
		seen.file = f;
		seen.files++;
		seen.pieces = 0;
	}
	seen.met += offset < seen.until && offset + len > seen.from;
	seen.written = offset + len;
	pthread_mutex_unlock(&seen.lock);
	return seen.disk->write_durable(f, buf, len, offset);
}

static struct writing w;
static uint64_t counts[WRITERS];

static void open_watched(enum log_sync sync, bool zeroes_pay)
{
	writing_disk(&w);
	seen.disk = w.io;
	seen.io = *w.io;
	seen.io.zeroes_pay = zeroes_pay;
	seen.io.write_durable = write_batch;
	if (sync == LOG_SYNC_ALWAYS)
		seen.io.write = write_piece;
	seen.file = NULL;
	seen.files = seen.pieces = seen.met = 0;
	seen.piece_rc = 0;
	w.io = &seen.io;
	writing_open(&w, sync, 10, 0);
}

static unsigned look(const unsigned *figure)
{
	unsigned n;

	pthread_mutex_lock(&seen.lock);
	n = *figure;
	pthread_mutex_unlock(&seen.lock);
	return n;
}

/* A batch of its own. False: writing has failed. */
static bool append_alone(uint64_t i, uint32_t bytes)
{
	const uint64_t until_ns = time_now_ns() + LONG_TIME_NS;
	uint64_t end = 0;
	int rc;

	while ((rc = try_append(w.log, 0, i, bytes, &end)) == -EBUSY && time_now_ns() < until_ns)
		time_give_way();
	if (rc == -EIO)
		return false;
	assert_int_equal(rc, 0);
	while (log_committed(w.log) < end && time_now_ns() < until_ns) {
		if (log_has_failed(w.log))
			return false;
		time_give_way();
	}
	return true;
}

static void check_all(uint64_t count)
{
	assert_int_equal(atomic_load(&w.failures), 0);
	assert_ok(log_close(w.log));
	if (MUTANT(zero_behind)) {
		assert_true(seen.met > 0);
	} else {
		assert_int_equal(seen.met, 0);
		read_back(w.io, 0, counts);
		assert_int_equal(counts[0], count);
	}
	sim_disk_destroy(w.disk);
}

/* Through a whole segment, and on in the next one. */
UNIT_TEST(small_batches_find_zeroes)
{
	const uint64_t until_ns = time_now_ns() + 2 * LONG_TIME_NS;
	uint64_t i = 0;

	open_watched(LOG_SYNC_ALWAYS, true);
	while ((look(&seen.files) < 2 || look(&seen.pieces) < 2) && time_now_ns() < until_ns) {
		if (look(&seen.files) < 2)
			for (unsigned k = 0; k < 1000; k++)
				append(w.log, 0, i++, 100);
		append_alone(i++, 100);
		if (MUTANT(zero_behind) && look(&seen.met))
			break;
	}
	if (!MUTANT(zero_behind))
		assert_true(look(&seen.files) >= 2 && look(&seen.pieces) >= 2);
	check_all(i);
}

UNIT_TEST(large_batches_want_none)
{
	uint64_t i = 0;

	open_watched(LOG_SYNC_ALWAYS, true);
	while (i < 20)
		append_alone(i++, 1 << 20);
	assert_int_equal(look(&seen.pieces), 0);
	if (MUTANT(zero_behind))
		writing_over(&w, 0);
	else
		check_all(i);
}

/* Where they gain nothing, and where a sync does not follow each batch. */
UNIT_TEST(none_where_they_do_not_pay)
{
	for (unsigned round = 0; round < 2; round++) {
		uint64_t i = 0;

		open_watched(round ? LOG_SYNC_MS : LOG_SYNC_ALWAYS, round);
		while (i < 600)
			append_alone(i++, 100);
		assert_int_equal(look(&seen.pieces), 0);
		assert_ok(log_close(w.log));
		read_back(w.io, 0, counts);
		assert_int_equal(counts[0], i);
		sim_disk_destroy(w.disk);
	}
}

UNIT_TEST(zeroes_that_fail_end_writing)
{
	const uint64_t until_ns = time_now_ns() + LONG_TIME_NS;
	uint64_t end, i = 0;

	open_watched(LOG_SYNC_ALWAYS, true);
	pthread_mutex_lock(&seen.lock);
	seen.piece_rc = -EIO;
	pthread_mutex_unlock(&seen.lock);
	while (append_alone(i, 100) && time_now_ns() < until_ns)
		i++;
	assert_true(log_has_failed(w.log));
	assert_int_equal(try_append(w.log, 0, i, 100, &end), -EIO);
	writing_over(&w, -EIO);
	assert_int_equal(atomic_load(&w.failures), 1);
	assert_non_null(strstr(w.why, "writing zeroes to log/"));
}
