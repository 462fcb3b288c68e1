/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Events of SOFTRDMA_FAULT: what a program is told, and what it then finds. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/time.h"
#include "ends.h"

#define IPV4_INDEX 3 /* GID of RoCE v2 */

static char gate[64]; /* events come once this file is there */

static void in_child(const char *events, const char *link, void (*run)(void))
{
	char spec[256];
	pid_t pid;
	int status;

	snprintf(gate, sizeof(gate), "/tmp/softrdma-events-%d", (int)getpid());
	snprintf(spec, sizeof(spec), "while=%s,%s", gate, events);
	pid = fork();
	if (pid == 0) {
		alarm(30);
		setenv("SOFTRDMA_LINK", link, 1);
		setenv("SOFTRDMA_FAULT", spec, 1);
		run();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	unlink(gate);
	assert_int_equal(status, 0);
}

static void gate_open(void)
{
	int fd = open(gate, O_CREAT | O_CLOEXEC, 0600);

	assert(fd >= 0);
	close(fd);
}

static bool told(struct ibv_context *context, int timeout_ms)
{
	struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };

	return poll(&fd, 1, timeout_ms) == 1;
}

static void expect_event(struct ibv_context *context, enum ibv_event_type type)
{
	struct ibv_async_event event;

	assert(told(context, 5000));
	assert(softrdma_get_async_event(context, &event) == 0);
	assert(event.event_type == type);
	softrdma_ack_async_event(&event);
}

static struct ibv_port_attr port_of(struct ibv_context *context)
{
	struct ibv_port_attr port;

	assert(softrdma_query_port(context, 1, &port) == 0);
	return port;
}

static union ibv_gid gid_of(struct ibv_context *context, int index)
{
	union ibv_gid gid;

	assert(softrdma_query_gid(context, 1, index, &gid) == 0);
	return gid;
}

/* Two contexts are told the same. Nothing happens before the gate opens. */
static void port_child(void)
{
	struct end_options options = { .mapped = true, .timeout = 8 };
	struct end a, b;

	end_open(&a, &options);
	end_open(&b, &options);
	end_connect(&a, b.qp->qp_num);
	end_connect(&b, a.qp->qp_num);
	assert(!told(a.context, 60));
	gate_open();
	expect_event(a.context, IBV_EVENT_PORT_ERR);
	expect_event(b.context, IBV_EVENT_PORT_ERR);
	assert(port_of(a.context).state == IBV_PORT_DOWN);
	assert(end_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, 8, b.base, b.mr->rkey, IBV_SEND_SIGNALED) ==
	       0);
	end_expect(a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	expect_event(a.context, IBV_EVENT_PORT_ACTIVE);
	assert(port_of(a.context).state == IBV_PORT_ACTIVE);
	assert(end_to(&a, IBV_QPS_RESET) == 0 && end_to(&b, IBV_QPS_RESET) == 0);
	end_connect(&a, b.qp->qp_num);
	end_connect(&b, a.qp->qp_num);
	assert(end_rdma(&a, IBV_WR_RDMA_WRITE, 2, 0, 8, b.base, b.mr->rkey, IBV_SEND_SIGNALED) ==
	       0);
	end_expect(a.send_cq, 2, IBV_WC_SUCCESS);
}

UNIT_TEST(test_port_goes_down_and_up)
{
	in_child("event=port_active@400,event=port_err@20", "roce", port_child);
}

/* What a context was told and never read goes with it: exit() has leaks looked for, _exit() not. */
static void unread_child(void)
{
	struct ibv_context *context = softrdma_open_device(softrdma_device());

	assert(context);
	gate_open();
	assert(told(context, 5000));
	assert(softrdma_close_device(context) == 0);
	exit(0);
}

UNIT_TEST(test_an_event_that_nobody_reads_is_freed)
{
	in_child("event=port_err@20", "roce", unread_child);
}

/* Connect @end to itself at @path, and try a WRITE. */
static void try_path(struct end *end, const struct ibv_ah_attr *path, enum ibv_wc_status status)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_4096,
				    .dest_qp_num = end->qp->qp_num,
				    .max_dest_rd_atomic = 1,
				    .ah_attr = *path };

	assert(end_to(end, IBV_QPS_RESET) == 0 && end_init(end) == 0);
	assert(softrdma_modify_qp(end->qp, &attr,
				  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					  IBV_QP_MIN_RNR_TIMER) == 0);
	assert(end_rts(end) == 0);
	assert(end_rdma(end, IBV_WR_RDMA_WRITE, 7, 0, 8, end->base + 64, end->mr->rkey,
			IBV_SEND_SIGNALED) == 0);
	end_expect(end->send_cq, 7, status);
}

/* An address that was asked for before the change leads nowhere, one asked for later does. */
static void gid_child(void)
{
	struct end_options options = { .mapped = true };
	struct ibv_ah_attr path = { .port_num = 1, .is_global = 1 };
	union ibv_gid before;
	struct end end;

	end_open(&end, &options);
	path.grh.sgid_index = IPV4_INDEX;
	path.grh.dgid = before = gid_of(end.context, IPV4_INDEX);
	try_path(&end, &path, IBV_WC_SUCCESS);
	gate_open();
	expect_event(end.context, IBV_EVENT_GID_CHANGE);
	assert(end_rdma(&end, IBV_WR_RDMA_WRITE, 8, 0, 8, end.base + 64, end.mr->rkey,
			IBV_SEND_SIGNALED) == 0);
	end_expect(end.send_cq, 8, IBV_WC_SUCCESS); /* the connection stands */
	try_path(&end, &path, IBV_WC_RETRY_EXC_ERR);
	path.grh.dgid = gid_of(end.context, IPV4_INDEX);
	assert(memcmp(&path.grh.dgid, &before, sizeof(before)) != 0);
	try_path(&end, &path, IBV_WC_SUCCESS);
	path.grh.dgid = gid_of(end.context, 0); /* link-local: it stays */
	try_path(&end, &path, IBV_WC_SUCCESS);
}

UNIT_TEST(test_gid_changes)
{
	in_child("event=gid_change@0", "roce", gid_child);
}

static void lid_child(void)
{
	struct end_options options = { .mapped = true };
	struct ibv_ah_attr path = { .port_num = 1 };
	struct end end;

	end_open(&end, &options);
	path.dlid = port_of(end.context).lid;
	try_path(&end, &path, IBV_WC_SUCCESS);
	gate_open();
	expect_event(end.context, IBV_EVENT_LID_CHANGE);
	try_path(&end, &path, IBV_WC_RETRY_EXC_ERR);
	assert(port_of(end.context).lid != path.dlid);
	path.dlid = port_of(end.context).lid;
	try_path(&end, &path, IBV_WC_SUCCESS);
}

UNIT_TEST(test_lid_changes)
{
	in_child("event=lid_change@0", "ib", lid_child);
}

/* What was open is good for closing only; what is opened afterwards works. */
static void fatal_child(void)
{
	struct end_options options = { .mapped = true };
	struct ibv_port_attr port;
	struct end a, b;

	end_open(&a, &options);
	end_connect(&a, a.qp->qp_num);
	assert(end_recv(&a, 1, 0, 8) == 0);
	gate_open();
	expect_event(a.context, IBV_EVENT_DEVICE_FATAL);
	end_expect(a.recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	assert(end_rdma(&a, IBV_WR_RDMA_WRITE, 2, 0, 8, a.base + 64, a.mr->rkey,
			IBV_SEND_SIGNALED) == 0);
	end_expect(a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert(end_to(&a, IBV_QPS_RESET) == EIO);
	assert(!softrdma_alloc_pd(a.context) && errno == EIO);
	assert(!softrdma_reg_mr(a.pd, a.mem, 8, 0) && errno == EIO);
	assert(!softrdma_create_cq(a.context, 1, NULL, NULL, 0) && errno == EIO);
	assert(softrdma_query_port(a.context, 1, &port) == EIO);
	end_open(&b, &options);
	end_connect(&b, b.qp->qp_num);
	assert(end_rdma(&b, IBV_WR_RDMA_WRITE, 3, 0, 8, b.base + 64, b.mr->rkey,
			IBV_SEND_SIGNALED) == 0);
	end_expect(b.send_cq, 3, IBV_WC_SUCCESS);
	end_close(&a);
	end_close(&b);
}

UNIT_TEST(test_device_is_lost)
{
	in_child("event=device_fatal@5", "roce", fatal_child);
}
