/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* A log whose records others must hold, with a disk and without: what it sends, and commits. */
#include <errno.h>
#include <pthread.h>

#include "common/layout/log_format.h"
#include "server/log/log_internal.h"
#include "tests/unit/log/writing.h"

#define RECORDS 20000u

/* Two that hold the log: each has what it was sent as soon as it is let. */
struct holders {
	struct log_mirror table;
	struct writing w;
	_Atomic bool must[2]; /* it must hold the log */
	_Atomic uint64_t may[2]; /* it completes what lies below */
	_Atomic uint64_t sent; /* position */
	_Atomic uint64_t told; /* committed position */
	_Atomic unsigned under_way; /* buffers, bits */
	_Atomic unsigned records_sent;
	/* Of the log's writer. */
	uint8_t *base;
	uint64_t bytes, ends[LOG_BUFFERS], hashes[LOG_BUFFERS];
	const void *records[LOG_BUFFERS];
	uint32_t lengths[LOG_BUFFERS];
	uint64_t counts[WRITERS];
	bool wrong;
};

static int memory(void *ctx, void *base, uint64_t bytes)
{
	struct holders *h = ctx;

	h->base = base;
	h->bytes = bytes;
	return 0;
}

/* Each record is whole, and the next of its writer. */
static void look_at(struct holders *h, const struct log_sent *s)
{
	const uint8_t *at = s->records;
	uint64_t position = s->position;

	h->wrong |= at < h->base || at + s->bytes > h->base + h->bytes;
	for (uint32_t i = 0; i < s->count; i++) {
		const struct log_record *r = (const void *)at;

		h->wrong |= r->position != position || r->client[1] >= WRITERS ||
			    r->sequence != h->counts[r->client[1]]++;
		at += r->length;
		position += r->length;
	}
	h->wrong |= position != s->position + s->bytes;
	atomic_fetch_add(&h->records_sent, s->count);
}

/* Of the log's writer alone, as are the fields it looks at. */
static void take_back(struct holders *h)
{
	const uint64_t done = atomic_load(&h->may[0]) < atomic_load(&h->may[1])
				      ? atomic_load(&h->may[0])
				      : atomic_load(&h->may[1]);

	for (unsigned i = 0; i < LOG_BUFFERS; i++) {
		if (!(atomic_load(&h->under_way) >> i & 1) || h->ends[i] > done)
			continue;
		h->wrong |= hash_bytes(h->records[i], h->lengths[i]) != h->hashes[i];
		atomic_fetch_and(&h->under_way, ~(1u << i));
	}
}

static void take(void *ctx, const struct log_sent *s)
{
	struct holders *h = ctx;

	h->wrong |= s->position != atomic_load(&h->sent) || s->committed > s->position;
	atomic_store(&h->told, s->committed);
	if (!s->count) {
		h->wrong |= s->bytes || s->buffer != LOG_BUFFERS;
		return;
	}
	h->wrong |= atomic_load(&h->under_way) >> s->buffer & 1;
	look_at(h, s);
	h->records[s->buffer] = s->records;
	h->lengths[s->buffer] = s->bytes;
	h->hashes[s->buffer] = hash_bytes(s->records, s->bytes);
	h->ends[s->buffer] = s->position + s->bytes;
	atomic_fetch_or(&h->under_way, 1u << s->buffer);
	atomic_store(&h->sent, s->position + s->bytes);
}

static uint64_t held(void *ctx)
{
	struct holders *h = ctx;
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < 2; i++) {
		uint64_t has = atomic_load(&h->may[i]);

		if (has > atomic_load(&h->sent))
			has = atomic_load(&h->sent);
		if (atomic_load(&h->must[i]) && has < least)
			least = has;
	}
	return least;
}

static bool is_free(void *ctx, unsigned buffer)
{
	struct holders *h = ctx;

	take_back(h);
	return !(atomic_load(&h->under_way) >> buffer & 1);
}

/* On the heap: where a test has failed, the log goes on. */
static struct holders *open_log(bool disk, enum log_sync sync)
{
	struct holders *h = malloc(sizeof(*h));

	assert_non_null(h);
	*h = (struct holders){ .table = { h, memory, take, held, is_free } };
	if (disk)
		writing_disk(&h->w);
	writing_open_mirrored(&h->w, sync, 20, &h->table);
	return h;
}

static void close_log(struct holders *h, int rc)
{
	assert_int_equal(log_close(h->w.log), rc);
	assert_false(h->wrong);
	if (h->w.disk)
		sim_disk_destroy(h->w.disk);
	free(h);
}

static void may(struct holders *h, unsigned i, uint64_t below)
{
	atomic_store(&h->may[i], below);
}

static void await(_Atomic uint64_t *position, uint64_t least)
{
	const uint64_t until = time_now_ns() + LONG_TIME_NS;

	while (atomic_load(position) < least) {
		assert_true(time_now_ns() < until);
		time_sleep(NS_PER_MS);
	}
}

/* What is not committed stays so: long enough that it would have been seen. */
static void stays(struct holders *h, uint64_t committed)
{
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(log_committed(h->w.log), committed);
		time_sleep(NS_PER_MS);
	}
}

static void each_must_hold(bool disk, enum log_sync sync)
{
	struct holders *h = open_log(disk, sync);
	uint64_t end;

	atomic_store(&h->must[0], true);
	atomic_store(&h->must[1], true);
	end = append(h->w.log, 0, 0, 100);
	await(&h->sent, end);
	if (disk && sync == LOG_SYNC_ALWAYS)
		assert_ok(log_await_durable(h->w.log, end));
	stays(h, 0);
	may(h, 1, end);
	stays(h, 0);
	may(h, 0, end);
	await_committed(h->w.log, end);
	await(&h->told, end);
	close_log(h, 0);
}

UNIT_TEST(each_must_hold_what_is_committed)
{
	each_must_hold(false, LOG_SYNC_ALWAYS);
	each_must_hold(true, LOG_SYNC_ALWAYS);
	each_must_hold(true, LOG_SYNC_MS);
	each_must_hold(true, LOG_SYNC_NEVER);
}

/* One that need not hold it holds nothing up, until it must. */
UNIT_TEST(who_must_changes)
{
	struct holders *h = open_log(false, LOG_SYNC_NEVER);
	uint64_t first, second, third;

	may(h, 0, UINT64_MAX);
	atomic_store(&h->must[0], true);
	first = append(h->w.log, 0, 0, 100);
	await_committed(h->w.log, first);
	atomic_store(&h->must[1], true);
	second = append(h->w.log, 0, 1, 100);
	await(&h->sent, second);
	stays(h, first);
	atomic_store(&h->must[1], false); /* it was taken out */
	await_committed(h->w.log, second);
	atomic_store(&h->must[0], false); /* and the other one: it is alone */
	third = append(h->w.log, 0, 2, 100);
	await_committed(h->w.log, third);
	atomic_store(&h->must[1], true);
	may(h, 1, third);
	append(h->w.log, 0, 3, 100);
	stays(h, third);
	may(h, 1, UINT64_MAX);
	close_log(h, 0);
}

/* A log that was its server's alone becomes its group's: what was there others have already, and
 * what comes they must hold, too. */
UNIT_TEST(others_hold_it_from_some_day_on)
{
	struct holders *h = malloc(sizeof(*h));
	struct error err;
	uint64_t end;

	assert_non_null(h);
	*h = (struct holders){ .table = { h, memory, take, held, is_free } };
	writing_disk(&h->w);
	writing_open_mirrored(&h->w, LOG_SYNC_ALWAYS, 20, NULL);
	end = append(h->w.log, 0, 0, 100);
	assert_ok(log_await_durable(h->w.log, end));
	h->counts[0] = 1;
	may(h, 0, end);
	may(h, 1, UINT64_MAX);
	atomic_store(&h->sent, end);
	atomic_store(&h->must[0], true);
	assert_ok(log_mirror(h->w.log, &h->table, &err));
	assert_int_equal(log_committed(h->w.log), end);
	for (unsigned i = 1; i < 20; i++) {
		const uint64_t before = end;

		end = append(h->w.log, 0, i, 100);
		await(&h->sent, end);
		assert_ok(log_await_durable(h->w.log, end));
		assert_int_equal(log_committed(h->w.log), before);
		may(h, 0, end);
		await_committed(h->w.log, end);
	}
	close_log(h, 0);
}

/* One that need not hold the log has not got the last batch yet when a segment is full: what it
 * gets is what was sent, all the same. */
UNIT_TEST(a_new_segment_while_one_lags)
{
	struct holders *h = open_log(true, LOG_SYNC_NEVER);
	uint64_t end = 0;

	may(h, 0, UINT64_MAX);
	atomic_store(&h->must[0], true);
	for (unsigned i = 0; i < 40; i++) {
		const uint64_t before = end;

		end = append(h->w.log, 0, i, 4 << 20);
		await_committed(h->w.log, end);
		may(h, 1, before);
	}
	close_log(h, 0);
}

/* A disk that fails ends the wait for those who hold the log; so does nothing else. */
UNIT_TEST(the_disk_fails)
{
	struct holders *h = open_log(true, LOG_SYNC_MS);
	uint64_t end;

	atomic_store(&h->must[0], true);
	sim_disk_fail(h->w.disk, SIM_SYNC, 0, -EIO);
	end = append(h->w.log, 0, 0, 100);
	await(&h->sent, end);
	while (!log_has_failed(h->w.log))
		time_sleep(NS_PER_MS);
	may(h, 0, UINT64_MAX);
	assert_int_equal(log_committed(h->w.log), 0);
	close_log(h, -EIO);
}

static uint64_t put(struct holders *h, unsigned writer, uint64_t i, uint32_t len)
{
	uint64_t end = 0;

	assert_ok(try_put(h->w.log, writer, i, len, &end));
	return end;
}

/* Without a disk, and the log's thread asleep. One must hold it; the other one takes it at once. */
static struct holders *open_asleep(void)
{
	struct holders *h = open_log(false, LOG_SYNC_NEVER);
	const uint64_t until = time_now_ns() + LONG_TIME_NS;

	atomic_store(&h->must[0], true);
	may(h, 1, UINT64_MAX);
	for (unsigned times = 0; times < 20;
	     times = atomic_load(&h->w.log->asleep) ? times + 1 : 0) {
		assert_true(time_now_ns() < until);
		time_sleep(NS_PER_MS); /* it says so before its last look */
	}
	return h;
}

/* No other thread is needed, nor is one woken. */
UNIT_TEST(who_waits_writes_it)
{
	struct holders *h = open_asleep();
	uint64_t first, second;

	first = put(h, 0, 0, 100);
	log_step(h->w.log);
	assert_int_equal(atomic_load(&h->sent), first);
	second = put(h, 0, 1, 100);
	log_step(h->w.log);
	assert_int_equal(atomic_load(&h->sent), first); /* one batch after the other */
	stays(h, 0);
	may(h, 0, first);
	log_push(h->w.log);
	assert_int_equal(log_committed(h->w.log), first);
	assert_int_equal(atomic_load(&h->sent), second);
	may(h, 0, UINT64_MAX);
	log_step(h->w.log);
	assert_int_equal(log_committed(h->w.log), second);
	assert_int_equal(atomic_load(&h->told), first);
	assert_true(atomic_load(&h->w.log->asleep));
	close_log(h, 0);
}

/* What is under way, has been appended, or is to be told when nobody looks any more, the log's
 * thread goes on with; it may have come to rest before. */
UNIT_TEST(who_leaves_hands_it_on)
{
	struct holders *h = open_asleep();
	uint64_t end = 0;

	for (unsigned i = 0; i < 60; i += 3) {
		may(h, 0, end);
		put(h, 0, i, 100);
		log_push(h->w.log);
		end = put(h, 0, i + 1, 100);
		log_leave(h->w.log, true);
		may(h, 0, end);
		await_committed(h->w.log, end);
		await(&h->told, end);
		may(h, 0, UINT64_MAX);
		end = put(h, 0, i + 2, 100);
		log_push(h->w.log);
		while (log_committed(h->w.log) < end)
			log_step(h->w.log); /* the thread may be on its way to sleep */
		for (uint64_t ns; (ns = log_leave(h->w.log, false)) != UINT64_MAX;)
			time_sleep(ns);
		await(&h->told, end);
	}
	close_log(h, 0);
}

/* What is long is copied by nobody who answers others. */
UNIT_TEST(a_long_batch_is_the_threads)
{
	struct holders *h = open_asleep();
	uint64_t end;

	may(h, 0, UINT64_MAX);
	end = put(h, 0, 0, 1 << 20);
	log_step(h->w.log);
	await_committed(h->w.log, end);
	close_log(h, 0);
}

struct writer {
	struct holders *h;
	unsigned number;
};

/* As a worker does: it looks for a while, and leaves then. */
static void step(struct log *l, uint64_t end, uint64_t *seed)
{
	log_push(l);
	for (uint64_t n = unit_random(seed) % 8; n && log_committed(l) < end; n--)
		log_step(l);
	if (unit_random(seed) % 4 == 0) {
		log_leave(l, true);
		if (unit_random(seed) % 4 == 0)
			await_committed(l, end);
	}
}

static void *write_many(void *arg)
{
	const struct writer *w = arg;
	struct log *l = w->h->w.log;
	uint64_t seed = w->number, end = 0;
	int rc;

	for (uint64_t i = 0; i < RECORDS / WRITERS; i++) {
		const uint32_t len = (uint32_t)(unit_random(&seed) % (i % 500 ? 300 : 200000));

		if (w->number % 3 == 0) {
			end = append(l, w->number, i, len);
			continue;
		}
		while ((rc = try_put(l, w->number, i, len, &end)) == -EBUSY)
			log_step(l);
		assert_int_equal(rc, 0);
		step(l, end, &seed);
	}
	log_leave(l, true);
	return NULL;
}

/* Writers, and holders that complete in jumps: each record is sent once, in order, and stays as it
 * is until all have it. */
static void many(bool disk)
{
	struct holders *h = open_log(disk, LOG_SYNC_NEVER);
	pthread_t thread[WRITERS];
	struct writer writer[WRITERS];
	uint64_t seed = 5;

	atomic_store(&h->must[0], true);
	for (unsigned i = 0; i < WRITERS; i++) {
		writer[i] = (struct writer){ h, i };
		assert_ok(pthread_create(&thread[i], NULL, write_many, &writer[i]));
	}
	while (atomic_load(&h->records_sent) < RECORDS) {
		const unsigned i = (unsigned)(unit_random(&seed) % 2);
		const uint64_t committed = log_committed(h->w.log), sent = atomic_load(&h->sent);

		assert_true(committed <= sent);
		may(h, i, sent);
		if (unit_random(&seed) % 64 == 0)
			atomic_store(&h->must[1], unit_random(&seed) % 2);
		time_sleep(20000);
	}
	may(h, 0, UINT64_MAX);
	may(h, 1, UINT64_MAX);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(thread[i], NULL);
	await_committed(h->w.log, log_tail(h->w.log));
	close_log(h, 0);
}

UNIT_TEST(many_writers)
{
	many(false);
	many(true);
}
