/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * SOFTRDMA_WEAK: each feature shows what a program that relies on too much would meet, with the
 * feature and not without it; and what IBTA promises holds with all of them.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "common/softrdma/faults/fate.h"
#include "common/softrdma/faults/weak_copy.h"
#include "weakness.h"

#define ROUNDS 300
#define MORE   30 /* times as many, on a machine where a poll comes later than what it would miss */
#define FAR    4096 /* where a end keeps what it writes */

/*
 * Is it time to stop after @i rounds, which showed @n? What is to be shown comes often, or never;
 * a slow machine makes it rare, as its threads take longer than the device's delays.
 */
static bool enough(uint64_t i, unsigned n, unsigned want)
{
	return i > ROUNDS && (n >= want || i > MORE * ROUNDS);
}

/* How many WRITEs have arrived before a first poll shows their completion? */
static unsigned late_completions(const char *weak, unsigned want)
{
	struct weakness w = { .weak = weak, .timeout = 14, .retry_cnt = 7 };
	struct end a, b;
	unsigned late = 0;

	weakness_open(&w, &a, &b);
	for (uint64_t i = 1; !enough(i, late, want); i++) {
		struct ibv_wc wc;

		word_put(&a, FAR, i);
		assert_ok(weak_write(&a, &b, i, FAR, 8, IBV_SEND_SIGNALED));
		if (word_get(&b, 0) == i && ibv_poll_cq(a.send_cq, 1, &wc) == 0)
			late++;
		else if (word_get(&b, 0) == i)
			continue;
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	}
	weakness_close(&a, &b);
	return late;
}

UNIT_TEST(test_completions)
{
	assert_ok(late_completions(NULL, 0));
	assert_true(late_completions("1,completions", ROUNDS / 10) >= ROUNDS / 10);
}

/* How many READs fetch what a WRITE after them wrote? */
static unsigned overtaken(const char *weak, unsigned write_flags, unsigned want)
{
	struct weakness w = { .weak = weak, .timeout = 14, .retry_cnt = 7, .mapped = true };
	struct end a, b;
	unsigned n = 0;

	weakness_open(&w, &a, &b);
	for (uint64_t i = 1; !enough(i, n, want); i++) {
		word_put(&a, FAR, i);
		assert_ok(weak_read(&a, &b, i, 8, IBV_SEND_SIGNALED));
		assert_ok(weak_write(&a, &b, i, FAR, 8, write_flags | IBV_SEND_SIGNALED));
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
		n += word_get(&a, 0) == i;
		assert_int_equal(word_get(&b, 0), i);
	}
	weakness_close(&a, &b);
	return n;
}

UNIT_TEST(test_reorder)
{
	assert_ok(overtaken(NULL, 0, 0));
	assert_true(overtaken("1,reorder", 0, ROUNDS / 10) >= ROUNDS / 10);
	assert_ok(overtaken("1,reorder", IBV_SEND_FENCE, 0));
	assert_ok(overtaken("1,completions,lines,delay", 0, 0));
	/* executed again, after the WRITE */
	assert_true(overtaken("1,twice", 0, ROUNDS / 20) >= ROUNDS / 20);
	assert_ok(overtaken("1", IBV_SEND_FENCE, 0));
}

/* A READ after a WRITE fetches what it wrote, whatever the weakness: IBTA promises it. */
UNIT_TEST(test_read_after_write)
{
	struct weakness w = {
		.weak = "5", .fault = "delay=100", .timeout = 14, .retry_cnt = 7, .mapped = true
	};
	struct end a, b;

	weakness_open(&w, &a, &b);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		word_put(&a, FAR, i);
		assert_ok(weak_write(&a, &b, i, FAR, 8, 0));
		assert_ok(weak_read(&a, &b, i, 8, IBV_SEND_SIGNALED));
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
		assert_int_equal(word_get(&a, 0), i);
	}
	weakness_close(&a, &b);
}

/* How many READs give something newer than what had already arrived? */
static unsigned read_again(const char *weak, unsigned want)
{
	struct weakness w = { .weak = weak, .timeout = 14, .retry_cnt = 7, .mapped = true };
	struct end a, b;
	unsigned n = 0;

	weakness_open(&w, &a, &b);
	for (uint64_t i = 1; !enough(i, n, want); i++) {
		word_put(&b, 0, 2 * i);
		word_put(&a, 0, 0);
		assert_ok(weak_read(&a, &b, i, 8, IBV_SEND_SIGNALED));
		assert_int_equal(word_get(&a, 0), 2 * i); /* it has arrived, or so it seems */
		word_put(&b, 0, 2 * i + 1);
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
		n += word_get(&a, 0) == 2 * i + 1;
	}
	weakness_close(&a, &b);
	return n;
}

UNIT_TEST(test_twice)
{
	assert_ok(read_again(NULL, 0));
	assert_true(read_again("1,twice", ROUNDS / 20) >= ROUNDS / 20);
	assert_ok(read_again("1,completions", 0));
}

/* How many WRITEs carry what their buffer held only after they were posted? */
static unsigned changed(const char *weak, unsigned flags, unsigned want)
{
	struct weakness w = { .weak = weak, .timeout = 14, .retry_cnt = 7, .mapped = true };
	struct end a, b;
	unsigned n = 0;

	weakness_open(&w, &a, &b);
	for (uint64_t i = 1; !enough(i, n, want); i++) {
		word_put(&a, FAR, 2 * i);
		assert_ok(weak_write(&a, &b, i, FAR, 8, flags | IBV_SEND_SIGNALED));
		word_put(&a, FAR, 2 * i + 1);
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
		assert_int_equal(word_get(&b, 0) / 2, i);
		n += word_get(&b, 0) == 2 * i + 1;
	}
	weakness_close(&a, &b);
	return n;
}

UNIT_TEST(test_late)
{
	assert_ok(changed(NULL, 0, 0));
	assert_true(changed("1,late", 0, ROUNDS / 10) >= ROUNDS / 10);
	assert_ok(changed("1,late", IBV_SEND_INLINE, 0));
	assert_ok(changed("1,completions,reorder", 0, 0));
}

/* What soft_weak_copy() asks to be copied. */
static struct {
	unsigned count, backwards;
	uint64_t last;
	unsigned char seen[FAR];
	uint64_t sum;
} record;

static int record_copy(struct soft_qp *qp, const struct soft_remote *remote,
		       struct soft_local *local)
{
	(void)qp;
	assert_int_equal(local->pieces, 1);
	assert_int_equal(local->piece[0].iov_len, remote->length);
	/* the two sides correspond, and no line is crossed */
	assert_int_equal((uintptr_t)local->piece[0].iov_base, remote->addr - 1000000);
	assert_int_equal(remote->addr / 64, (remote->addr + remote->length - 1) / 64);
	record.backwards += remote->addr < record.last;
	record.last = remote->addr;
	record.sum = record.sum * 31 + remote->addr;
	record.count++;
	for (uint64_t i = 0; i < remote->length; i++)
		record.seen[remote->addr - 1000000 - 7 + i]++;
	return IBV_WC_SUCCESS;
}

/* Returns a number that tells orders apart. */
static uint64_t lines_order(unsigned features, uint32_t shuffle, unsigned *backwards)
{
	struct soft_remote remote = { .addr = 1000007, .length = 3000 };
	struct soft_local local = { .pieces = 2, .total = 3000 };
	struct soft_qp qp = { .shuffle = shuffle };

	memset(&record, 0, sizeof(record));
	local.piece[0] = (struct iovec){ (void *)7, 1000 };
	local.piece[1] = (struct iovec){ (void *)1007, 2000 };
	soft_weak = features;
	assert_int_equal(soft_weak_copy(&qp, &remote, &local, record_copy), IBV_WC_SUCCESS);
	soft_weak = 0;
	for (unsigned i = 0; i < sizeof(record.seen); i++)
		assert_int_equal(record.seen[i], i < 3000);
	*backwards = record.backwards;
	return record.sum;
}

UNIT_TEST(test_lines_order)
{
	unsigned backwards, straight, shuffled = 0;
	uint64_t first = lines_order(WEAK_LINES, 1, &backwards);

	lines_order(WEAK_DELAY, 1, &straight);
	assert_int_equal(straight, 0);
	assert_int_equal(lines_order(WEAK_LINES, 1, &backwards), first);
	for (uint32_t i = 2; i < 102; i++)
		shuffled += lines_order(WEAK_LINES, i, &backwards) != first && backwards > 2;
	assert_true(shuffled > 90);
}

static _Atomic bool writer_stop;

/* Numbers lines upwards for ever, each pass with the next number. */
static void *writer(void *arg)
{
	struct end *b = arg;

	for (uint64_t pass = 1; !atomic_load(&writer_stop); pass++) {
		for (size_t line = 0; line < FAR; line += 64)
			word_put(b, line, pass);
	}
	return NULL;
}

/* The most changes of direction along the lines of any of some READs of what a writer changes,
 * until there are @want. */
static unsigned most_turns(const char *weak, unsigned want)
{
	struct weakness w = { .weak = weak, .timeout = 14, .retry_cnt = 7, .mapped = true };
	struct end a, b;
	pthread_t thread;
	unsigned most = 0;

	weakness_open(&w, &a, &b);
	atomic_store(&writer_stop, false);
	assert_ok(pthread_create(&thread, NULL, writer, &b));
	for (uint64_t i = 0; !enough(i, most, want); i++) {
		unsigned turns = 0;
		int direction = 0;

		assert_ok(weak_read(&a, &b, i, FAR, IBV_SEND_SIGNALED));
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
		for (size_t line = 64; line < FAR; line += 64) {
			uint64_t before = word_get(&a, line - 64), now = word_get(&a, line);
			int way = (now > before) - (now < before);

			turns += way && direction && way != direction;
			direction = way ? way : direction;
		}
		most = turns > most ? turns : most;
	}
	atomic_store(&writer_stop, true);
	pthread_join(thread, NULL);
	weakness_close(&a, &b);
	return most;
}

/* A READ of what is being written is torn in places that no order of copying explains. */
UNIT_TEST(test_lines_torn)
{
	assert_true(most_turns("1,lines,delay", 11) >= 11);
}

static uint64_t time_of_reads(const char *weak)
{
	struct weakness w = { .weak = weak, .timeout = 14, .retry_cnt = 7, .mapped = true };
	struct end a, b;
	uint64_t start;

	weakness_open(&w, &a, &b);
	start = time_now_ns();
	for (uint64_t i = 0; i < 200; i++) {
		assert_ok(weak_read(&a, &b, i, 65536, IBV_SEND_SIGNALED));
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	}
	start = time_now_ns() - start;
	weakness_close(&a, &b);
	return start;
}

UNIT_TEST(test_delay)
{
	uint64_t delayed = UINT64_MAX, straight = UINT64_MAX;

	for (unsigned i = 0; i < 3; i++) { /* the least: another process may take the core */
		uint64_t with = time_of_reads("1,delay"), without = time_of_reads("1,lines");

		delayed = with < delayed ? with : delayed;
		straight = without < straight ? without : straight;
	}
	assert_true(delayed > 2 * straight);
}

/* All at once: chains of everything, in order, none lost, with the right contents. */
UNIT_TEST(test_all)
{
	struct weakness w = { .weak = "11", .timeout = 14, .retry_cnt = 7, .rnr_retry = 7 };
	struct end a, b;

	weakness_open(&w, &a, &b);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		assert_ok(end_recv(&b, i, 8192, 256));
		memset(a.mem + FAR, (int)i, 512);
		assert_ok(weak_write(&a, &b, 4 * i, FAR, 512, IBV_SEND_SIGNALED));
		assert_ok(weak_read(&a, &b, 4 * i + 1, 512, IBV_SEND_SIGNALED));
		assert_ok(end_send(&a, 4 * i + 2, FAR, 256, IBV_SEND_SIGNALED));
		for (unsigned j = 0; j < 3; j++)
			end_expect(a.send_cq, 4 * i + j, IBV_WC_SUCCESS);
		end_expect(b.recv_cq, i, IBV_WC_SUCCESS);
		assert_memory_equal(a.mem, a.mem + FAR, 512);
		assert_memory_equal(b.mem + 8192, a.mem + FAR, 256);
	}
	weakness_close(&a, &b);
}

/* Nobody polls, and all the same everything happens. */
UNIT_TEST(test_unattended)
{
	struct weakness w = { .weak = "3", .timeout = 14, .retry_cnt = 7, .mapped = true };
	struct end a, b;
	uint64_t deadline;

	weakness_open(&w, &a, &b);
	for (uint64_t i = 1; i <= 100; i++) {
		word_put(&a, FAR + 8 * i, i);
		assert_ok(weak_read(&a, &b, i, 8, 0));
		assert_ok(weak_write(&a, &b, i, FAR + 8 * i, 8, IBV_SEND_SIGNALED));
	}
	deadline = time_now_ns() + 60 * NS_PER_S;
	while (word_get(&b, 0) != 100)
		assert_true(time_now_ns() < deadline);
	for (uint64_t i = 1; i <= 100; i++)
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	weakness_close(&a, &b);
}

UNIT_TEST(test_grammar)
{
	static const char *const bad[] = { "x",	 "1,nonsense",	  ",",
					   "-1", "1,lines;twice", "99999999999999999999" };
	static const char *const good[] = { "", "0", "7,lines",
					    "18446744073709551615,delay,twice" };

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv("SOFTRDMA_WEAK", bad[i], 1);
		assert_null(softrdma_open_device(softrdma_device()));
		assert_int_equal(errno, EINVAL);
	}
	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct ibv_context *context;

		setenv("SOFTRDMA_WEAK", good[i], 1);
		context = softrdma_open_device(softrdma_device());
		assert_non_null(context);
		assert_ok(softrdma_close_device(context));
	}
	unsetenv("SOFTRDMA_WEAK");
}
