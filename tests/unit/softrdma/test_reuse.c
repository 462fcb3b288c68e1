/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The peer is gone, and another program has its pid and memory at the same addresses: another
 * process, made with that pid (clone3 with set_tid), or what the peer itself has executed. It must
 * be neither written to nor taken for the peer, even when that happens between our last look at the
 * peer and the system call: the calls are wrapped here, and it happens there.
 */
#include <assert.h>
#include <errno.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/softrdma/objects/qp.h"
#include "ends.h"

#define SIZE	  (1 << 20)
#define HINT	  ((void *)(1ul << 45)) /* away from what a program has anyway */
#define OTHERS	  0x3c
#define OURS	  0xd2
#define WAIT_MS	  20000
#define TRIES	  5
#define EXIT_SKIP 77

enum way { WAY_PID, WAY_EXEC, WAYS };

static struct {
	unsigned char *memory; /* of the peer and of its successors: at this address */
	int hello[2], bye[2]; /* it says that it is there; it is told to look and to go */
	struct far far;
	enum way way;
	bool armed; /* it happens at the next system call */
	bool lost; /* somebody else has got the pid */
} t;

/* The other program: has its own in the memory, and says in the end whether that is so still. */
static void other_run(unsigned char *memory, int hello, int bye)
{
	char byte = 1;

	memset(memory, OTHERS, SIZE);
	if (write(hello, &byte, 1) != 1 || read(bye, &byte, 1) != 1)
		_exit(2);
	for (size_t i = 0; i < SIZE; i++) {
		if (memory[i] != OTHERS)
			_exit(1);
	}
	_exit(0);
}

/* Called as a program: --other ADDRESS HELLO BYE */
static void other_main(char **argv)
{
	void *at = (void *)strtoul(argv[2], NULL, 16);
	void *memory = mmap(at, SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (memory != at)
		_exit(3);
	other_run(memory, atoi(argv[3]), atoi(argv[4]));
}

/* At the far end. Does not return. */
static struct ibv_wc become_other(struct end *end, uint64_t arg)
{
	char address[32], hello[16], bye[16];

	(void)arg;
	snprintf(address, sizeof(address), "%lx", (unsigned long)(uintptr_t)end->mem);
	snprintf(hello, sizeof(hello), "%d", t.hello[1]);
	snprintf(bye, sizeof(bye), "%d", t.bye[0]);
	execl("/proc/self/exe", "test", "--other", address, hello, bye, NULL);
	_exit(4);
}

/* A child of this process with a pid of our choice. Returns it, or a negative errno. */
static pid_t fork_as(pid_t pid)
{
	struct clone_args args = { .exit_signal = SIGCHLD,
				   .set_tid = (uintptr_t)&pid,
				   .set_tid_size = 1 };
	long rc = syscall(SYS_clone3, &args, sizeof(args));

	return rc < 0 ? -errno : (pid_t)rc;
}

static void happen(void)
{
	struct pollfd wait = { .fd = t.hello[0], .events = POLLIN };
	pid_t pid = t.far.pid;
	char byte;

	t.armed = false;
	if (t.way == WAY_EXEC) {
		far_ask(&t.far, FAR_CALL, 0);
	} else {
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		pid = fork_as(pid);
		if (pid == 0)
			other_run(t.memory, t.hello[1], t.bye[0]);
		t.lost = pid < 0;
		if (t.lost)
			return;
		assert_int_equal(pid, t.far.pid);
	}
	assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
	assert_int_equal(read(t.hello[0], &byte, 1), 1);
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *near, unsigned long nears,
			 const struct iovec *far, unsigned long fars, unsigned long flags)
{
	if (t.armed)
		happen();
	return syscall(SYS_process_vm_readv, pid, near, nears, far, fars, flags);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *near, unsigned long nears,
			  const struct iovec *far, unsigned long fars, unsigned long flags)
{
	if (t.armed)
		happen();
	return syscall(SYS_process_vm_writev, pid, near, nears, far, fars, flags);
}

ssize_t pwritev(int fd, const struct iovec *near, int nears, off_t at)
{
	if (t.armed)
		happen();
	return syscall(SYS_pwritev, fd, near, nears, at, 0);
}

/* A list of READs, of which the first alone has told the device that the memory is not mapped. */
static void post_reads(struct end *a, uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = { .addr = (uintptr_t)a->mem, .length = 64, .lkey = a->mr->lkey };
	struct ibv_send_wr wr[4], *bad;

	for (unsigned i = 0; i < 4; i++)
		wr[i] = (struct ibv_send_wr){ .wr_id = 1 + i,
					      .next = i < 3 ? &wr[i + 1] : NULL,
					      .sg_list = &sge,
					      .num_sge = 1,
					      .opcode = IBV_WR_RDMA_READ,
					      .wr.rdma = { .remote_addr = addr + i * 4096,
							   .rkey = rkey } };
	assert_ok(ibv_post_send(a->qp, wr, &bad));
}

enum operation { READ, READS, WRITE, WRITE_LONG, SEND, ADD, OPERATIONS };

static void post(struct end *a, enum operation operation)
{
	uint64_t addr = t.far.info.addr;
	uint32_t rkey = t.far.info.rkey;

	memset(a->mem, OURS, SIZE);
	if (operation == READS)
		post_reads(a, addr, rkey);
	else if (operation == SEND)
		assert_ok(end_send(a, 1, 0, 64, 0));
	else if (operation == ADD)
		assert_ok(end_atomic(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, addr, rkey, 1, 0));
	else
		assert_ok(end_rdma(a, operation == READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 1,
				   0, operation == WRITE_LONG ? SIZE : 64, addr, rkey, 0));
}

/* Returns false when it must be tried again. */
static bool reuse_try(enum way way, enum operation operation, bool within)
{
	struct end_options near = { .rnr_retry = 7, .timeout = 20 };
	struct end_options other = { .memory = t.memory, .size = SIZE, .call = become_other };
	struct end a;
	int status;

	far_start(&t.far, &other);
	end_open(&a, &near);
	far_connect(&t.far, &a);
	far_do(&t.far, FAR_RECV, 64);
	assert_int_equal(t.far.info.addr, (uintptr_t)t.memory);
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 0, 0, 64, t.far.info.addr, t.far.info.rkey,
			   IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 0, IBV_WC_SUCCESS);
	t.way = way;
	t.armed = true;
	if (!within)
		happen();
	post(&a, operation);
	assert_false(t.armed);
	if (!t.lost) {
		end_expect(a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
		assert_int_equal(end_state(&a), IBV_QPS_ERR);
		assert_int_equal(write(t.bye[1], "", 1), 1);
		assert_int_equal(waitpid(t.far.pid, &status, 0), t.far.pid);
		assert_int_equal(status, 0); /* its memory is as it was */
	}
	close(t.far.to);
	close(t.far.from);
	end_close(&a);
	return !t.lost;
}

static void reuse_run(enum way way, bool within)
{
	for (enum operation operation = READ; operation < OPERATIONS; operation++) {
		unsigned tries = 0;

		/* makes no such call: asked for in time, it may be done */
		if (within && operation == ADD)
			continue;
		while (!reuse_try(way, operation, within)) {
			if (++tries == TRIES)
				fail_msg("others take the pids too fast");
		}
	}
}

static void test_pid(void **state)
{
	reuse_run(WAY_PID, false);
}

static void test_pid_within(void **state)
{
	reuse_run(WAY_PID, true);
}

static void test_exec(void **state)
{
	reuse_run(WAY_EXEC, false);
}

static void test_exec_within(void **state)
{
	reuse_run(WAY_EXEC, true);
}

/* What lies under /proc/PID need not be the peer: that is noticed. */
static void test_not_the_peer(void **state)
{
	struct end_options near = { .rnr_retry = 7 };
	struct end_options other = { .memory = t.memory, .size = SIZE };
	static struct soft_peer peer;
	struct end a;
	int fd;

	far_start(&t.far, &other);
	end_open(&a, &near);
	far_connect(&t.far, &a);
	peer.arena = soft_qp(a.qp)->peer->arena;
	peer.incarnation = soft_qp(a.qp)->peer->incarnation;
	peer.pid = t.far.pid;
	fd = soft_peer_memory_open(&peer);
	assert_true(fd >= 0);
	close(fd);
	assert_true(soft_qp(a.qp)->peer->memory_fd >= 0);
	peer.pid = getpid();
	assert_int_equal(soft_peer_memory_open(&peer), -1);
	peer.pid = 0;
	assert_int_equal(soft_peer_memory_open(&peer), -1);
	end_close(&a);
	far_stop(&t.far);
}

/* Where /proc cannot be used: the pid has to do, and a peer that is known to be dead is left
 * alone. */
static void test_without_proc(void **state)
{
	struct end_options options = { .rnr_retry = 7 };
	struct soft_peer *peer;
	struct end a;

	far_start(&t.far, &options);
	end_open(&a, &options);
	far_connect(&t.far, &a);
	peer = soft_qp(a.qp)->peer;
	close(peer->memory_fd);
	peer->memory_fd = -1;
	memset(a.mem, OURS, SIZE);
	assert_ok(end_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, 64, t.far.info.addr + 128, t.far.info.rkey,
			   IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
	far_do(&t.far, FAR_RECV, 64);
	assert_ok(end_send(&a, 2, 0, 64, IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(far_do(&t.far, FAR_POLL, 0).byte_len, 64);
	for (unsigned at = 0; at < 256; at += 64)
		assert_int_equal(far_do(&t.far, FAR_PEEK, at).byte_len,
				 at == 0 || at == 128 ? OURS : 0);
	far_kill(&t.far);
	assert_ok(end_rdma(&a, IBV_WR_RDMA_WRITE, 3, 0, 64, t.far.info.addr, t.far.info.rkey,
			   IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 3, IBV_WC_RETRY_EXC_ERR);
	end_close(&a);
}

/* May this process choose pids? Returns 0 or a negative errno. */
static int may_choose(void)
{
	pid_t pid = fork(), again;

	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return -errno;
	waitpid(pid, NULL, 0);
	again = fork_as(pid);
	if (again == 0)
		_exit(0);
	if (again > 0)
		waitpid(again, NULL, 0);
	return again < 0 && again != -EEXIST ? again : 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest exec_tests[] = {
		cmocka_unit_test(test_not_the_peer),
		cmocka_unit_test(test_without_proc),
		cmocka_unit_test(test_exec),
		cmocka_unit_test(test_exec_within),
	};
	const struct CMUnitTest pid_tests[] = {
		cmocka_unit_test(test_pid),
		cmocka_unit_test(test_pid_within),
	};
	int rc;

	if (argc == 5)
		other_main(argv);
	t.memory = mmap(HINT, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert(t.memory != MAP_FAILED && pipe(t.hello) == 0 && pipe(t.bye) == 0);
	if (access("/proc/self/mem", R_OK | W_OK) != 0) {
		puts("skipped: without /proc/PID/mem a pid that changes hands is not noticed");
		return EXIT_SKIP;
	}
	if (cmocka_run_group_tests(exec_tests, NULL, NULL))
		return 1;
	rc = may_choose();
	if (rc < 0) {
		printf("skipped: processes with chosen pids: clone3: %s\n", strerror(-rc));
		return EXIT_SKIP;
	}
	return cmocka_run_group_tests(pid_tests, NULL, NULL);
}
