/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* SOFTRDMA_FAULT on requests: each fault bites, and the same seed gives the same faults. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/time.h"
#include "weakness.h"

#define ROUNDS 200
#define NONE   UINT64_MAX

enum kind { READS, SENDS };

/*
 * Post one request after the other. Returns the number of the first that fails, which must be with
 * @status, or NONE.
 */
static uint64_t first_failure(const struct weakness *w, enum kind kind, enum ibv_wc_status status)
{
	struct end a, b;
	uint64_t i;

	weakness_open(w, &a, &b);
	for (i = 0; i < ROUNDS; i++) {
		struct ibv_wc wc;

		assert_ok(end_recv(&b, i, 0, 64));
		if (kind == READS)
			assert_ok(weak_read(&a, &b, i, 64, IBV_SEND_SIGNALED));
		else
			assert_ok(end_send(&a, i, 0, 64, IBV_SEND_SIGNALED));
		end_wait(a.send_cq, &wc);
		assert_int_equal(wc.wr_id, i);
		if (wc.status != IBV_WC_SUCCESS) {
			assert_int_equal(wc.status, status);
			assert_int_equal(end_state(&a), IBV_QPS_ERR);
			break;
		}
		if (kind == SENDS)
			end_expect(b.recv_cq, i, IBV_WC_SUCCESS);
		else if (ibv_poll_cq(b.recv_cq, 1, &wc) != 0)
			fail();
		else if (i % 32 == 31) /* the queue has 64 places */
			assert_ok(end_to(&b, end_state(&b)));
		if (kind == READS && i == 60)
			break;
	}
	weakness_close(&a, &b);
	return i == ROUNDS || (kind == READS && i == 60) ? NONE : i;
}

UNIT_TEST(test_drop)
{
	struct weakness patient = { .fault = "drop=4,seed=1", .timeout = 6, .retry_cnt = 7 };
	struct weakness strict = { .fault = "drop=4,seed=1", .timeout = 6, .retry_cnt = 0 };
	uint64_t start = time_now_ns(), first;

	assert_int_equal(first_failure(&patient, SENDS, IBV_WC_RETRY_EXC_ERR), NONE);
	/* a quarter of 200 requests came again after 262 us at least */
	assert_true(time_now_ns() - start > 20 * 262144ull);
	assert_int_equal(first_failure(&patient, READS, IBV_WC_RETRY_EXC_ERR), NONE);
	first = first_failure(&strict, SENDS, IBV_WC_RETRY_EXC_ERR);
	assert_true(first < 60);
	assert_int_equal(first_failure(&strict, SENDS, IBV_WC_RETRY_EXC_ERR), first);
}

/* Seeds matter: of ten, some give something else. */
UNIT_TEST(test_seed)
{
	uint64_t first[10];
	unsigned differ = 0;

	for (unsigned i = 0; i < 10; i++) {
		char spec[64];
		struct weakness w = { .fault = spec, .timeout = 6 };

		snprintf(spec, sizeof(spec), "drop=8,seed=%u", i);
		first[i] = first_failure(&w, SENDS, IBV_WC_RETRY_EXC_ERR);
		differ += first[i] != first[0];
		assert_int_equal(first_failure(&w, SENDS, IBV_WC_RETRY_EXC_ERR), first[i]);
	}
	assert_true(differ > 3);
}

UNIT_TEST(test_rnr)
{
	struct weakness patient = { .fault = "rnr=4,seed=2", .timeout = 14, .rnr_retry = 7 };
	struct weakness strict = { .fault = "rnr=4,seed=2", .timeout = 14, .rnr_retry = 0 };
	struct weakness some = { .fault = "rnr=2,seed=2", .timeout = 14, .rnr_retry = 2 };
	uint64_t first;

	assert_int_equal(first_failure(&patient, SENDS, IBV_WC_RNR_RETRY_EXC_ERR), NONE);
	first = first_failure(&strict, SENDS, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_true(first < 60);
	assert_int_equal(first_failure(&strict, SENDS, IBV_WC_RNR_RETRY_EXC_ERR), first);
	/* three in a row among requests that mostly find fewer */
	first = first_failure(&some, SENDS, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_true(first > 0 && first != NONE);
	/* what needs no receive, meets none of it */
	assert_int_equal(first_failure(&strict, READS, IBV_WC_RNR_RETRY_EXC_ERR), NONE);
}

/* A READ whose answer was lost is executed again: it may give what was written since. */
UNIT_TEST(test_answer_lost)
{
	struct weakness w = {
		.fault = "drop=3,seed=3", .timeout = 6, .retry_cnt = 7, .mapped = true
	};
	struct end a, b;
	unsigned again = 0, lost = 0, done = 0;

	weakness_open(&w, &a, &b);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		uint64_t seen;

		word_put(&b, 0, 2 * i);
		word_put(&a, 0, 0);
		assert_ok(weak_read(&a, &b, i, 8, IBV_SEND_SIGNALED));
		seen = word_get(&a, 0);
		word_put(&b, 0, 2 * i + 1);
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
		again += seen == 2 * i && word_get(&a, 0) == 2 * i + 1;
		lost += seen == 0 && word_get(&a, 0) == 2 * i + 1;
		done += seen == 2 * i && word_get(&a, 0) == 2 * i;
	}
	weakness_close(&a, &b);
	assert_int_equal(again + lost + done, ROUNDS);
	assert_true(again > ROUNDS / 10);
	assert_true(lost > ROUNDS / 10);
	assert_true(done > ROUNDS / 10);
}

UNIT_TEST(test_qp_error)
{
	struct weakness w = {
		.fault = "qp_error=5", .timeout = 14, .retry_cnt = 7, .rnr_retry = 7
	};
	struct ibv_async_event event;
	struct pollfd fd = { .events = POLLIN };
	struct end a, b;

	weakness_open(&w, &a, &b);
	for (uint64_t i = 1; i <= 8; i++)
		assert_ok(weak_read(&a, &b, i, 8, i > 4 ? IBV_SEND_SIGNALED : 0));
	end_expect(a.send_cq, 5, IBV_WC_LOC_QP_OP_ERR);
	for (uint64_t i = 6; i <= 8; i++)
		end_expect(a.send_cq, i, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(end_state(&a), IBV_QPS_ERR);
	fd.fd = a.context->async_fd;
	assert_int_equal(poll(&fd, 1, 5000), 1);
	assert_ok(softrdma_get_async_event(a.context, &event));
	assert_int_equal(event.event_type, IBV_EVENT_QP_FATAL);
	assert_ptr_equal(event.element.qp, a.qp);
	softrdma_ack_async_event(&event);
	weakness_close(&a, &b);
}

UNIT_TEST(test_delay)
{
	struct weakness w = { .fault = "delay=4000", .timeout = 14, .retry_cnt = 7 };
	uint64_t start = time_now_ns();

	assert_int_equal(first_failure(&w, SENDS, IBV_WC_SUCCESS), NONE);
	/* 200 times 2 ms on average */
	assert_true(time_now_ns() - start > 100 * NS_PER_MS);
}

UNIT_TEST(test_grammar)
{
	static const char *const bad[] = { "drop",
					   "drop=0",
					   "drop=1/2",
					   "rnr=x",
					   "delay=9999999",
					   "seed=",
					   "reg_mr=ENOMEM",
					   "reg_mr=EX@1",
					   "qp_error=0",
					   "drop=4,what=1",
					   "destroy_qp=EBUSY/0",
					   "slow_rtr=0",
					   "slow_rtr=1#",
					   "slow_what=1",
					   "rtr=EIO",
					   "while=",
					   "event=fatal@1",
					   "event=port_err" };

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv("SOFTRDMA_FAULT", bad[i], 1);
		assert_null(softrdma_open_device(softrdma_device()));
		assert_int_equal(errno, EINVAL);
	}
	unsetenv("SOFTRDMA_FAULT");
}
