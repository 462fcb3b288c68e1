/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A message is being received, in the middle of its copy: its memory ends at a page whose first use
 * waits for us (userfaultfd). An owner that takes state, key or all of it back must wait as well.
 */
#include <assert.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "message.h"

#define PAGE	4096u
#define BEFORE	100 /* bytes of the message that lie before the page */
#define HELD_US 50000
#define QPS	6 /* more than one poll asks */

enum way { WAY_ERROR, WAY_RESET, WAY_DESTROY, WAY_DEREG, WAYS };

static struct held {
	struct end sender, owner;
	unsigned char *pages;
	struct ibv_mr *mr;
	int fault_fd;
	enum way way;
	_Atomic bool done;
} held;

/* Returns false where this system has no such thing. */
static bool held_open(void)
{
	struct end_options options = { .type = IBV_QPT_UD };
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	memset(&held, 0, sizeof(held));
	held.fault_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (held.fault_fd < 0 || ioctl(held.fault_fd, UFFDIO_API, &api) < 0) {
		print_message("skipped: userfaultfd is not to be had here\n");
		return false;
	}
	held.pages =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(held.pages, MAP_FAILED);
	held.pages[0] = 1;
	range.range.start = (uintptr_t)held.pages + PAGE;
	range.range.len = PAGE;
	assert_ok(ioctl(held.fault_fd, UFFDIO_REGISTER, &range));
	pair_open(&held.sender, &held.owner, &options, &options);
	held.mr = softrdma_reg_mr(held.owner.pd, held.pages, 2 * PAGE, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(held.mr);
	return true;
}

static void held_close(void)
{
	if (held.mr)
		assert_ok(softrdma_dereg_mr(held.mr));
	pair_close(&held.sender, &held.owner);
	munmap(held.pages, 2 * PAGE);
	close(held.fault_fd);
}

static void post(uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)held.pages + PAGE - BEFORE, 1024, held.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_ok(ibv_post_recv(held.owner.qp, &wr, &bad));
}

static void wait_fault(void)
{
	struct pollfd look = { .fd = held.fault_fd, .events = POLLIN };
	struct uffd_msg msg;

	assert_int_equal(poll(&look, 1, 5000), 1);
	assert_int_equal(read(held.fault_fd, &msg, sizeof(msg)), sizeof(msg));
	assert_int_equal(msg.event, UFFD_EVENT_PAGEFAULT);
}

static void *take_back(void *arg)
{
	switch (held.way) {
	case WAY_ERROR:
		assert(end_to(&held.owner, IBV_QPS_ERR) == 0);
		break;
	case WAY_RESET:
		assert(end_to(&held.owner, IBV_QPS_RESET) == 0);
		break;
	case WAY_DESTROY:
		assert(softrdma_destroy_qp(held.owner.qp) == 0);
		held.owner.qp = NULL;
		break;
	default:
		assert(softrdma_dereg_mr(held.mr) == 0);
		held.mr = NULL;
		break;
	}
	atomic_store(&held.done, true);
	return arg;
}

/* Let the service thread receive a message, up to the page: nobody polls. */
static void hold(void)
{
	struct message m = message_to(&held.sender, &held.owner);

	m.length = 500;
	memset(held.sender.mem, 0x37, 500);
	message_send(&held.sender, &m, IBV_WC_SUCCESS);
	wait_fault();
}

static void release(void)
{
	struct uffdio_zeropage fill = { .range = { .len = PAGE } };

	fill.range.start = (uintptr_t)held.pages + PAGE;
	assert_ok(ioctl(held.fault_fd, UFFDIO_ZEROPAGE, &fill));
}

static void held_run(enum way way)
{
	pthread_t thread;

	if (!held_open())
		skip();
	held.way = way;
	post(1);
	post(2);
	hold();
	assert_ok(pthread_create(&thread, NULL, take_back, NULL));
	usleep(HELD_US);
	assert_false(atomic_load(&held.done));
	release();
	assert_ok(pthread_join(thread, NULL));
	assert_int_equal(held.pages[PAGE - BEFORE + GRH + 499], 0x37);
	/* it was received before all that is flushed, or forgotten with the rest */
	if (way == WAY_ERROR || way == WAY_DEREG)
		end_expect(held.owner.recv_cq, 1, IBV_WC_SUCCESS);
	if (way == WAY_ERROR)
		end_expect(held.owner.recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	end_quiet(held.owner.recv_cq);
	held_close();
}

UNIT_TEST(test_error)
{
	held_run(WAY_ERROR);
}

UNIT_TEST(test_reset)
{
	held_run(WAY_RESET);
}

UNIT_TEST(test_destroy)
{
	held_run(WAY_DESTROY);
}

UNIT_TEST(test_dereg)
{
	held_run(WAY_DEREG);
}

/* While the service thread is held, a poll gets what comes for all QPs of the CQ. */
UNIT_TEST(test_polls)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD,
					 .cap = { .max_recv_wr = 1, .max_recv_sge = 1 } };
	struct end_options options = { .type = IBV_QPT_UD };
	struct end a, b[QPS];
	struct ibv_wc wc;

	if (!held_open())
		skip();
	post(1);
	hold();
	end_open(&a, &options);
	end_connect(&a, 0);
	init.send_cq = a.send_cq;
	init.recv_cq = a.recv_cq;
	for (unsigned i = 0; i < QPS; i++) {
		b[i] = a;
		b[i].qp = softrdma_create_qp(a.pd, &init);
		assert_non_null(b[i].qp);
		end_connect(&b[i], 0);
	}
	for (unsigned i = 0; i < 3 * QPS; i++) {
		struct message m = message_to(&a, &b[i % QPS]);

		assert_ok(end_recv(&b[i % QPS], i, 1024, 64));
		message_send(&a, &m, IBV_WC_SUCCESS);
		end_wait(a.recv_cq, &wc);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.qp_num, m.qpn);
	}
	release();
	for (unsigned i = 0; i < QPS; i++)
		assert_ok(softrdma_destroy_qp(b[i].qp));
	end_close(&a);
	end_expect(held.owner.recv_cq, 1, IBV_WC_SUCCESS);
	held_close();
}
