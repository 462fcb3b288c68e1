/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* SOFTRDMA_FAULT on calls: which of them are slow, and which fail. Each in a process of its own. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/time.h"
#include "ends.h"

/* A process that opens the device under @spec, and ends without giving anything back. */
static void in_child(const char *spec, void (*run)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		alarm(30);
		setenv("SOFTRDMA_FAULT", spec, 1);
		run();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static uint64_t took(int (*call)(struct end *end), struct end *end)
{
	uint64_t start = time_now_ns();

	assert(call(end) == 0);
	return time_now_ns() - start;
}

static int to_self(struct end *end)
{
	return end_rtr(end, end->qp->qp_num);
}

static int destroy(struct end *end)
{
	int rc = softrdma_destroy_qp(end->qp);

	end->qp = NULL;
	return rc;
}

/* The parent saw none of this: what is slow here is slow by the fault. */
static void slow_child(void)
{
	struct end_options options = { .mapped = false };
	struct end end;

	end_open(&end, &options);
	assert(took(end_init, &end) >= 2 * NS_PER_MS);
	assert(took(to_self, &end) >= 42 * NS_PER_MS);
	assert(took(end_rts, &end) >= 2 * NS_PER_MS);
	assert(took(destroy, &end) >= 80 * NS_PER_MS);
}

UNIT_TEST(test_slow_calls)
{
	in_child("slow_modify_qp=2000,slow_rtr=40000,slow_destroy_qp=80000#1", slow_child);
}

/* Of calls one is slow, or each n-th, or all from the n-th on. */
static void which_child(void)
{
	struct end_options options = { .mapped = false };
	struct end end;

	end_open(&end, &options); /* the first of each, and the second CQ */
	for (unsigned call = 2; call <= 7; call++) {
		uint64_t start = time_now_ns();
		struct ibv_mr *mr = softrdma_reg_mr(end.pd, end.mem, 64, 0);

		assert(!mr == (call % 3 == 0));
		assert(mr || errno == EIO);
		assert(time_now_ns() - start >= (call == 5) * 60 * NS_PER_MS);
		assert(!softrdma_alloc_pd(end.context) == (call >= 4));
		assert(!softrdma_create_cq(end.context, 1, NULL, NULL, 0) == (call == 3));
	}
}

UNIT_TEST(test_which_calls)
{
	in_child("reg_mr=EIO/3,slow_reg_mr=60000#5,alloc_pd=EAGAIN@4,create_cq=EBUSY#4",
		 which_child);
}

/* Half of the queue pairs cannot be destroyed, now or later, and go on working. */
static void lasting_child(void)
{
	struct end_options options = { .mapped = false };
	struct end end[8];
	unsigned stay = 0;

	for (unsigned i = 0; i < 8; i++) {
		end_open(&end[i], &options);
		end_connect(&end[i], end[i].qp->qp_num);
	}
	for (unsigned i = 0; i < 8; i++) {
		int rc = softrdma_destroy_qp(end[i].qp);

		assert(rc == (i % 2 ? EBUSY : 0));
		if (rc == 0)
			continue;
		assert(softrdma_destroy_qp(end[i].qp) == EBUSY);
		stay++;
		assert(end_rdma(&end[i], IBV_WR_RDMA_WRITE, i, 0, 8, end[i].base + 64,
				end[i].mr->rkey, IBV_SEND_SIGNALED) == 0);
		end_expect(end[i].send_cq, i, IBV_WC_SUCCESS);
	}
	assert(stay == 4);
	assert(softrdma_dereg_mr(end[0].mr) == 0);
	assert(softrdma_dereg_mr(end[1].mr) == EIO);
	assert(softrdma_dereg_mr(end[1].mr) == EIO);
}

UNIT_TEST(test_failed_for_good)
{
	in_child("destroy_qp=EBUSY/2,dereg_mr=EIO#2", lasting_child);
}

static char gate[64];

static void gate_child(void)
{
	struct ibv_context *context = softrdma_open_device(softrdma_device());

	for (unsigned i = 0; i < 9; i++) {
		if (i % 3 == 0)
			unlink(gate);
		else if (i % 3 == 1)
			close(open(gate, O_CREAT | O_CLOEXEC, 0600));
		/* With the gate there: calls 1, 2, 4, 5, 7, 8, of which the fault counts six. */
		assert(!softrdma_alloc_pd(context) == (i == 5 || i == 7 || i == 8));
	}
	unlink(gate);
}

UNIT_TEST(test_while_a_file_exists)
{
	char spec[128];

	snprintf(gate, sizeof(gate), "/tmp/softrdma-gate-%d", (int)getpid());
	snprintf(spec, sizeof(spec), "while=%s,alloc_pd=ENOMEM@4", gate);
	in_child(spec, gate_child);
}
