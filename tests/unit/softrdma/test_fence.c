/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Taking memory back while a peer uses it as fast as it can. The owner deregisters or re-registers
 * it, or puts its QP into ERR or destroys it, then fills the memory with REWRITTEN. No READ that
 * succeeds may show that byte, and no WRITE, SEND or atomic may change it afterwards.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/time.h"
#include "common/softrdma/objects/qp.h"
#include "ends.h"

#define GOOD	  0x11
#define REWRITTEN 0xee
#define ROUNDS	  60
#define LENGTH	  8192
#define ADD	  IBV_WR_ATOMIC_FETCH_AND_ADD

#define CONNECTS_NS (3 * NS_PER_S)

static void reconnect(struct far *far, struct end *a)
{
	far_do(far, FAR_STATE, IBV_QPS_RESET);
	assert_ok(end_to(a, IBV_QPS_RESET));
	end_connect(a, far->info.qpn);
	far_do(far, FAR_CONNECT, a->qp->qp_num);
}

/* Use the far memory until that fails. Returns how often it went well. */
static unsigned hammer(struct far *far, struct end *a, enum ibv_wr_opcode opcode, uint32_t rkey,
		       enum far_op op)
{
	unsigned good = 0;
	struct ibv_wc wc;

	for (;; good++) {
		uint64_t at = far->info.addr + good % 8 * LENGTH;

		if (good == 50)
			far_ask(far, op, REWRITTEN);
		memset(a->mem, opcode == IBV_WR_RDMA_READ ? 0 : GOOD, LENGTH);
		if (opcode == ADD)
			assert_ok(end_atomic(a, opcode, good, 0, at, rkey, 1, 0));
		else
			assert_ok(
				end_rdma(a, opcode, good, 0, LENGTH, at, rkey, IBV_SEND_SIGNALED));
		end_wait(a->send_cq, &wc);
		if (wc.status != IBV_WC_SUCCESS)
			break;
		for (unsigned i = opcode == ADD ? 8 : 0; i < LENGTH; i++)
			assert_int_equal(a->mem[i], GOOD);
	}
	if (good < 50) /* at least what came before the order */
		fail_msg("operation %u of 50 failed: status %d", good, (int)wc.status);
	return good;
}

static void fence_run(bool mapped, enum ibv_wr_opcode opcode, enum far_op op)
{
	struct end_options near = { .timeout = 20 };
	struct end_options other = { .mapped = mapped, .size = 8 * LENGTH };
	uint32_t rkey;
	unsigned good = 0;
	struct ibv_wc wc;
	struct far far;
	struct end a;

	far_pair_open(&far, &a, &other, &near);
	rkey = far.info.rkey;
	for (unsigned round = 0; round < (op == FAR_DESTROY ? 1 : ROUNDS); round++) {
		far_do(&far, FAR_FILL, GOOD);
		good += hammer(&far, &a, opcode, rkey, op);
		wc = far_answer(&far);
		if (op == FAR_DESTROY)
			break;
		reconnect(&far, &a);
		if (op == FAR_CHANGE)
			rkey = wc.byte_len;
		if (op == FAR_DEREG)
			rkey = far_do(&far, FAR_REREG, 0).byte_len;
	}
	print_message("  %u operations\n", good);
	far_pair_close(&far, &a);
}

UNIT_TEST(test_read_dereg)
{
	fence_run(true, IBV_WR_RDMA_READ, FAR_DEREG);
	fence_run(false, IBV_WR_RDMA_READ, FAR_DEREG);
}

UNIT_TEST(test_read_error)
{
	fence_run(true, IBV_WR_RDMA_READ, FAR_ERROR);
	fence_run(false, IBV_WR_RDMA_READ, FAR_ERROR);
}

UNIT_TEST(test_write_dereg)
{
	fence_run(true, IBV_WR_RDMA_WRITE, FAR_DEREG);
	fence_run(false, IBV_WR_RDMA_WRITE, FAR_DEREG);
}

UNIT_TEST(test_write_error)
{
	fence_run(true, IBV_WR_RDMA_WRITE, FAR_ERROR);
	fence_run(false, IBV_WR_RDMA_WRITE, FAR_ERROR);
}

UNIT_TEST(test_rereg)
{
	fence_run(true, IBV_WR_RDMA_READ, FAR_CHANGE);
	fence_run(false, IBV_WR_RDMA_READ, FAR_CHANGE);
	fence_run(true, IBV_WR_RDMA_WRITE, FAR_CHANGE);
	fence_run(false, IBV_WR_RDMA_WRITE, FAR_CHANGE);
}

UNIT_TEST(test_atomic_dereg)
{
	fence_run(true, ADD, FAR_DEREG);
	fence_run(false, ADD, FAR_DEREG);
}

UNIT_TEST(test_atomic_error)
{
	fence_run(true, ADD, FAR_ERROR);
	fence_run(false, ADD, FAR_ERROR);
}

UNIT_TEST(test_destroy)
{
	for (unsigned i = 0; i < 10; i++) {
		fence_run(i & 1, IBV_WR_RDMA_READ, FAR_DESTROY);
		fence_run(i & 1, IBV_WR_RDMA_WRITE, FAR_DESTROY);
		fence_run(i & 1, ADD, FAR_DESTROY);
	}
}

static _Atomic bool stop;

static void *connect_again(void *arg)
{
	struct end *a = arg;

	while (!atomic_load(&stop)) {
		assert_ok(end_to(a, IBV_QPS_RESET));
		assert_ok(end_init(a));
		assert_ok(end_rtr(a, a->qp->qp_num));
	}
	return NULL;
}

/* A QP that connects takes walk under its sq, dereg_mr waits for sq: not for each other. */
UNIT_TEST(test_dereg_while_another_connects)
{
	const struct end_options options = { .size = LENGTH };
	uint64_t end, slowest = 0;
	pthread_t thread;
	struct end a;

	end_open(&a, &options);
	assert_ok(pthread_create(&thread, NULL, connect_again, &a));
	end = time_now_ns() + CONNECTS_NS;
	while (time_now_ns() < end) {
		struct ibv_mr *mr = softrdma_reg_mr(a.pd, a.mem, LENGTH, END_ALL);
		uint64_t begun = time_now_ns();

		assert_non_null(mr);
		assert_ok(softrdma_dereg_mr(mr));
		if (time_now_ns() - begun > slowest)
			slowest = time_now_ns() - begun;
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	print_message("  slowest: %u us\n", (unsigned)(slowest / 1000));
	assert_true(slowest < 2 * NS_PER_S); /* after which it gives up, fence.c */
	end_close(&a);
}

/* Its process was stopped, say. ERR waits for it, two seconds; destroy_qp does not wait again. */
UNIT_TEST(test_writer_that_is_stuck)
{
	const struct end_options options = { .mapped = true };
	struct end a, b;
	uint64_t start;

	pair_open(&a, &b, &options, &options);
	atomic_fetch_add(&soft_qp(b.qp)->shared->busy, 1);
	start = time_now_ns();
	assert_ok(end_to(&a, IBV_QPS_ERR));
	assert_true(time_now_ns() - start > NS_PER_S);
	start = time_now_ns();
	end_close(&a);
	assert_true(time_now_ns() - start < NS_PER_S);
	atomic_fetch_add(&soft_qp(b.qp)->shared->busy, 1);
	end_close(&b);
}
