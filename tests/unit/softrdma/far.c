/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* An end in another process. It reads orders from a pipe and answers each with an ibv_wc. */
#include "ends.h"

#include <assert.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MS 10000
#define SETTLE_US 300
#define CHILD_S	  20

struct order {
	uint64_t op, arg;
};

/* Wait for a receive, asleep: arm, look, sleep, look. */
static struct ibv_wc far_sleep(struct end *end)
{
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *context;

	for (;;) {
		assert(ibv_req_notify_cq(end->recv_cq, 0) == 0);
		if (ibv_poll_cq(end->recv_cq, 1, &wc) == 1)
			return wc;
		assert(softrdma_get_cq_event(end->channel, &cq, &context) == 0);
		assert(cq == end->recv_cq && context == end);
		softrdma_ack_cq_events(cq, 1);
		if (ibv_poll_cq(end->recv_cq, 1, &wc) == 1)
			return wc;
	}
}

/* Nobody may write here any more, and nobody may READ what we write. */
static void far_rewrite(struct end *end, int byte)
{
	memset(end->mem, byte, end->size);
	usleep(SETTLE_US);
	for (size_t i = 0; i < end->size; i++)
		assert(end->mem[i] == (unsigned char)byte);
}

static void far_flood(struct end *end, uint64_t count)
{
	struct ibv_wc wc;

	for (uint64_t i = 0; i < count; i++) {
		memcpy(end->mem, &i, sizeof(i));
		assert(end_send(end, i, 0, 64, IBV_SEND_SIGNALED) == 0);
		end_wait(end->send_cq, &wc);
		assert(wc.status == IBV_WC_SUCCESS && wc.wr_id == i);
	}
}

static uint32_t far_fork(void)
{
	pid_t pid = fork();

	assert(pid >= 0);
	if (pid > 0)
		return (uint32_t)pid;
	prctl(PR_SET_PDEATHSIG, 0);
	sleep(CHILD_S);
	_exit(0);
}

static struct ibv_wc far_obey(struct end *end, const struct order *order)
{
	struct ibv_wc wc = { .status = 0 };

	switch ((enum far_op)order->op) {
	case FAR_CONNECT:
		end_connect(end, (uint32_t)order->arg);
		break;
	case FAR_RECV:
		assert(end_recv(end, order->arg, 0, (uint32_t)order->arg) == 0);
		break;
	case FAR_POLL:
		end_wait(end->recv_cq, &wc);
		break;
	case FAR_SLEEP:
		wc = far_sleep(end);
		break;
	case FAR_SEND:
		assert(end_send(end, 1, 0, (uint32_t)order->arg, IBV_SEND_SIGNALED) == 0);
		end_wait(end->send_cq, &wc);
		break;
	case FAR_FLOOD:
		far_flood(end, order->arg);
		break;
	case FAR_FILL:
		memset(end->mem, (int)order->arg, end->size);
		break;
	case FAR_PEEK:
		wc.byte_len = end->mem[order->arg];
		break;
	case FAR_DEREG:
		assert(softrdma_dereg_mr(end->mr) == 0);
		end->mr = NULL;
		far_rewrite(end, (int)order->arg);
		break;
	case FAR_REREG:
		end->mr = softrdma_reg_mr(end->pd, end->mem, end->size, END_ALL);
		assert(end->mr);
		wc.byte_len = end->mr->rkey;
		break;
	case FAR_CHANGE:
		assert(softrdma_rereg_mr(end->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
					 END_ALL) == 0);
		wc.byte_len = end->mr->rkey;
		far_rewrite(end, (int)order->arg);
		break;
	case FAR_STATE:
		assert(end_to(end, (enum ibv_qp_state)order->arg) == 0);
		break;
	case FAR_DESTROY:
		assert(softrdma_destroy_qp(end->qp) == 0);
		end->qp = NULL;
		far_rewrite(end, (int)order->arg);
		break;
	case FAR_ERROR:
		assert(end_to(end, IBV_QPS_ERR) == 0);
		far_rewrite(end, (int)order->arg);
		break;
	case FAR_FORK:
		wc.byte_len = far_fork();
		break;
	case FAR_QUERY:
		wc.byte_len = end_state(end);
		break;
	case FAR_CALL:
		wc = end->options.call(end, order->arg);
		break;
	case FAR_QUIT:
		end_close(end);
		break;
	}
	return wc;
}

static void far_run(const struct end_options *options, int from, int to)
{
	struct end end;
	struct end_info info;
	struct order order;

	end_open(&end, options);
	info = end_info(&end);
	assert(write(to, &info, sizeof(info)) == sizeof(info));
	while (read(from, &order, sizeof(order)) == sizeof(order)) {
		struct ibv_wc wc = far_obey(&end, &order);

		assert(write(to, &wc, sizeof(wc)) == sizeof(wc));
		if (order.op == FAR_QUIT)
			_exit(0);
	}
	_exit(0); /* the test is gone */
}

void far_start(struct far *far, const struct end_options *options)
{
	int to[2], from[2];

	assert_ok(pipe(to));
	assert_ok(pipe(from));
	far->pid = fork();
	assert_true(far->pid >= 0);
	if (far->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(to[1]);
		close(from[0]);
		far_run(options, to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	far->to = to[1];
	far->from = from[0];
	assert_int_equal(read(far->from, &far->info, sizeof(far->info)), sizeof(far->info));
}

void far_ask(struct far *far, enum far_op op, uint64_t arg)
{
	struct order order = { .op = op, .arg = arg };

	assert_int_equal(write(far->to, &order, sizeof(order)), sizeof(order));
}

struct ibv_wc far_answer(struct far *far)
{
	struct pollfd wait = { .fd = far->from, .events = POLLIN };
	struct ibv_wc wc;

	assert_int_equal(poll(&wait, 1, ANSWER_MS), 1);
	assert_int_equal(read(far->from, &wc, sizeof(wc)), sizeof(wc));
	return wc;
}

struct ibv_wc far_do(struct far *far, enum far_op op, uint64_t arg)
{
	far_ask(far, op, arg);
	return far_answer(far);
}

void far_stop(struct far *far)
{
	int status;

	far_do(far, FAR_QUIT, 0);
	close(far->to);
	close(far->from);
	assert_int_equal(waitpid(far->pid, &status, 0), far->pid);
	assert_int_equal(status, 0);
}

void far_kill(struct far *far)
{
	kill(far->pid, SIGKILL);
	close(far->to);
	close(far->from);
	waitpid(far->pid, NULL, 0);
}

void far_connect(struct far *far, struct end *end)
{
	end_connect(end, far->info.qpn);
	far_do(far, FAR_CONNECT, end->qp->qp_num);
}

void far_pair_open(struct far *far, struct end *end, const struct end_options *other,
		   const struct end_options *near)
{
	far_start(far, other);
	end_open(end, near);
	far_connect(far, end);
}

void far_pair_close(struct far *far, struct end *end)
{
	end_close(end);
	far_stop(far);
}
