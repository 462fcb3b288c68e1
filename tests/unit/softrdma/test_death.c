/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Processes killed in the middle of what they do to others, again and again, each time a little
 * later: the survivor gets errors and goes on, and nothing is left behind.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/time.h"
#include "ends.h"

#define FOR_EVER  7
#define ROUNDS	  48
#define RECEIVES  32
#define MESSAGE	  64
#define TARGET	  65536 /* so much of the survivor's memory is written to */
#define GUARD	  0x7e
#define OTHERS	  500 /* messages of the survivor */
#define SHARERS	  10 /* rounds */
#define GROUPS	  20
#define GROUP	  3
#define EXIT_SKIP 77

/* What the far end does without end. */
enum storm { STORM_SEND, STORM_WRITE, STORM_IMM, STORM_READ, STORM_ADD, STORM_ALL, STORMS };

/* In memory that all processes of the test share. */
static struct shared {
	uint64_t addr; /* of the survivor's memory */
	uint32_t rkey;
	_Atomic uint32_t storming;
} * shared;

static void storm_one(struct end *end, enum storm storm, uint64_t i)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						      IBV_WR_RDMA_WRITE_WITH_IMM,
						      IBV_WR_RDMA_READ };
	uint64_t at = shared->addr + i * 64 % (TARGET / 2);
	uint32_t length = storm == STORM_SEND ? MESSAGE : TARGET / 2;

	if (storm == STORM_ADD) {
		assert(end_atomic(end, IBV_WR_ATOMIC_FETCH_AND_ADD, i, 0, at, shared->rkey, 1, 0) ==
		       0);
		return;
	}
	memcpy(end->mem, &i, sizeof(i));
	assert(end_rdma(end, opcodes[storm], i, 0, length, at, shared->rkey, IBV_SEND_SIGNALED) ==
	       0);
}

static struct ibv_wc storm_do(struct end *end, uint64_t storm)
{
	struct ibv_wc wc;

	for (uint64_t i = 0;; i++) {
		storm_one(end, storm == STORM_ALL ? i % STORM_ALL : storm, i);
		end_wait(end->send_cq, &wc);
		assert(wc.status == IBV_WC_SUCCESS);
		atomic_fetch_add(&shared->storming, 1);
	}
	return wc;
}

/* What the survivor received: the numbers in order, and none twice. */
struct received {
	uint64_t next;
	unsigned posted, done;
};

static void receive_some(struct end *a, struct received *r, bool numbered)
{
	struct ibv_wc wc;

	/* no more at once: on a slow machine they may come as fast as they are taken */
	for (unsigned i = 0; i < RECEIVES && ibv_poll_cq(a->recv_cq, 1, &wc) == 1; i++) {
		uint64_t number;

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		r->done++;
		memcpy(&number, a->mem + TARGET * 2 + wc.wr_id * MESSAGE, sizeof(number));
		if (numbered)
			assert_int_equal(number, r->next++);
		assert_ok(end_recv(a, wc.wr_id, TARGET * 2 + wc.wr_id * MESSAGE, MESSAGE));
		r->posted++;
	}
}

/* All that is posted comes back, but one that the dead may have taken along. */
static void receive_rest(struct end *a, struct received *r)
{
	struct ibv_wc wc;

	assert_ok(end_to(a, IBV_QPS_ERR));
	while (ibv_poll_cq(a->recv_cq, 1, &wc) == 1)
		r->done++;
	assert_in_range(r->posted - r->done, 0, 1);
}

/* The dead is operated on: the first fails, and soon. */
static void operate_on_dead(struct end *a, const struct far *far, unsigned round)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE,
						      IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM };
	uint64_t start = time_now_ns();

	if (round % 5 == 4)
		assert_ok(end_atomic(a, IBV_WR_ATOMIC_CMP_AND_SWP, 1, 0, far->info.addr,
				     far->info.rkey, 0, 0));
	else
		assert_ok(end_rdma(a, opcodes[round % 5], 1, 0, 64, far->info.addr, far->info.rkey,
				   0));
	end_expect(a->send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	assert_true(time_now_ns() - start < NS_PER_S);
}

static void storm_round(struct end *a, unsigned round)
{
	struct end_options other = {
		.mapped = round / 2 % 2, .rnr_retry = FOR_EVER, .timeout = 20, .call = storm_do
	};
	enum storm storm = round % STORMS;
	struct received r = { .next = 0 };
	uint64_t end_ns;
	struct far far;

	memset(a->mem, GUARD, a->size);
	atomic_store(&shared->storming, 0);
	far_start(&far, &other);
	far_connect(&far, a);
	/* mapped, if it is ever: the mapping outlives the dead */
	assert_ok(end_rdma(a, IBV_WR_RDMA_READ, 2, TARGET, 8, far.info.addr, far.info.rkey,
			   IBV_SEND_SIGNALED));
	end_expect(a->send_cq, 2, IBV_WC_SUCCESS);
	for (; r.posted < RECEIVES; r.posted++)
		assert_ok(end_recv(a, r.posted, TARGET * 2 + r.posted * MESSAGE, MESSAGE));
	far_ask(&far, FAR_CALL, storm);
	while (!atomic_load(&shared->storming))
		receive_some(a, &r, storm == STORM_SEND);
	end_ns = time_now_ns() + round * 37 % 64 * 20000;
	while (time_now_ns() < end_ns)
		receive_some(a, &r, storm == STORM_SEND);
	far_kill(&far);
	operate_on_dead(a, &far, round);
	receive_rest(a, &r);
	for (size_t i = TARGET + 8; i < TARGET * 2; i++)
		assert_int_equal(a->mem[i], GUARD);
	assert_ok(end_to(a, IBV_QPS_RESET));
}

/* One queue pair survives all its peers. */
UNIT_TEST(test_storm)
{
	for (int mapped = 0; mapped < 2; mapped++) {
		struct end_options near = { .mapped = mapped, .rnr_retry = FOR_EVER };
		struct end a;

		end_open(&a, &near);
		shared->addr = (uintptr_t)a.mem;
		shared->rkey = a.mr->rkey;
		for (unsigned round = 0; round < ROUNDS; round++)
			storm_round(&a, round);
		end_close(&a);
	}
}

/* Destroyed at once, with all that was posted and never polled. */
UNIT_TEST(test_destroy)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct end_options other = { .mapped = round / 2 % 2,
					     .rnr_retry = FOR_EVER,
					     .call = storm_do };
		struct end_options near = { .mapped = round % 2, .rnr_retry = FOR_EVER };
		struct far far;
		uint64_t start;
		struct end a;

		far_start(&far, &other);
		end_open(&a, &near);
		shared->addr = (uintptr_t)a.mem;
		shared->rkey = a.mr->rkey;
		far_connect(&far, &a);
		for (unsigned i = 0; i < RECEIVES; i++)
			assert_ok(end_recv(&a, i, i * MESSAGE, MESSAGE));
		far_ask(&far, FAR_CALL, round % STORMS);
		for (unsigned i = 0; i < RECEIVES; i++)
			assert_ok(end_send(&a, i, 0, MESSAGE, 0)); /* they wait */
		usleep(round * 50);
		far_kill(&far);
		start = time_now_ns();
		end_close(&a);
		assert_true(time_now_ns() - start < NS_PER_S);
	}
}

/* A process that shares a receive queue with the dead goes on. */
UNIT_TEST(test_others_go_on)
{
	struct end_options other = { .rnr_retry = FOR_EVER, .timeout = 20, .call = storm_do };
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = RECEIVES, .max_sge = 1 } };
	struct end_options options = { .channel = false };

	options.context = softrdma_open_device(softrdma_device());
	options.pd = softrdma_alloc_pd(options.context);
	for (unsigned round = 0; round < SHARERS; round++) {
		struct far killed, good;
		struct end a, b;
		struct ibv_wc wc;
		uint64_t count = 0, deadline;

		options.srq = softrdma_create_srq(options.pd, &attr);
		far_start(&killed, &other);
		far_start(&good, &other);
		end_open(&a, &options);
		end_open(&b, &options);
		far_connect(&killed, &a);
		far_connect(&good, &b);
		for (unsigned i = 0; i < RECEIVES; i++)
			assert_ok(end_recv(&a, i, i * MESSAGE, MESSAGE));
		far_ask(&killed, FAR_CALL, STORM_SEND);
		far_ask(&good, FAR_FLOOD, OTHERS);
		deadline = time_now_ns() + 60 * NS_PER_S;
		while (count < OTHERS && time_now_ns() < deadline) {
			struct ibv_cq *cqs[] = { a.recv_cq, b.recv_cq };

			if (count == 20 + round * 10)
				kill(killed.pid, SIGKILL);
			for (unsigned i = 0; i < 2; i++) {
				if (ibv_poll_cq(cqs[i], 1, &wc) == 0)
					continue;
				assert_int_equal(wc.status, IBV_WC_SUCCESS);
				assert_ok(end_recv(&a, wc.wr_id, wc.wr_id * MESSAGE, MESSAGE));
				count += i;
			}
		}
		assert_int_equal(count, OTHERS);
		far_answer(&good);
		far_stop(&good);
		far_kill(&killed);
		end_close(&a);
		end_close(&b);
		assert_ok(softrdma_destroy_srq(options.srq));
	}
	assert_ok(softrdma_dealloc_pd(options.pd));
	assert_ok(softrdma_close_device(options.context));
}

/* Abstract sockets of the device in our network namespace. */
static unsigned sockets(void)
{
	FILE *file = fopen("/proc/self/net/unix", "re");
	unsigned count = 0;
	char line[512];

	assert(file);
	while (fgets(line, sizeof(line), file))
		count += strstr(line, "@softrdma/") != NULL;
	fclose(file);
	return count;
}

static unsigned files(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	unsigned count = 0;

	assert(dir);
	while ((entry = readdir(dir)) != NULL)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

/* Processes that are connected to each other and busy with it. Does not return. */
static void group_run(int ready)
{
	struct end_options other = { .rnr_retry = FOR_EVER, .timeout = 20, .call = storm_do };
	struct end_options near = { .mapped = true, .rnr_retry = FOR_EVER };
	struct far far[GROUP];
	struct end end[GROUP];

	for (unsigned i = 0; i < GROUP; i++)
		far_start(&far[i], &other);
	for (unsigned i = 0; i < GROUP; i++) {
		end_open(&end[i], &near);
		far_connect(&far[i], &end[i]);
	}
	shared->addr = (uintptr_t)end[0].mem;
	shared->rkey = end[0].mr->rkey;
	far_ask(&far[0], FAR_CALL, STORM_WRITE);
	assert(write(ready, far, sizeof(far)) == sizeof(far));
	for (;;)
		assert(end_rdma(&end[1], IBV_WR_RDMA_READ, 1, 0, 64, far[1].info.addr,
				far[1].info.rkey, 0) == 0 ||
		       errno);
}

/* In namespaces of its own, so that what there is, is of this test. Exits. */
static void nothing_left(void)
{
	int flags = CLONE_NEWNET | CLONE_NEWNS | (getuid() ? CLONE_NEWUSER : 0);

	if (unshare(flags) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", "/dev/shm", "tmpfs", 0, NULL) < 0) {
		perror("  namespaces");
		_exit(EXIT_SKIP);
	}
	assert(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	for (unsigned round = 0; round < GROUPS; round++) {
		struct far far[GROUP];
		int ready[2];
		pid_t pid;

		assert(pipe(ready) == 0);
		pid = fork();
		if (pid == 0)
			group_run(ready[1]);
		assert(read(ready[0], far, sizeof(far)) == sizeof(far));
		assert(sockets() >= GROUP + 1);
		usleep(round * 100);
		for (unsigned i = 0; i < GROUP; i++)
			kill(far[i].pid, SIGKILL);
		kill(pid, SIGKILL);
		for (unsigned i = 0; i < GROUP + 1; i++)
			assert(wait(NULL) > 0);
		assert(wait(NULL) < 0 && errno == ECHILD);
		assert(sockets() == 0);
		assert(files("/dev/shm") == 0);
		close(ready[0]);
		close(ready[1]);
	}
	_exit(0);
}

UNIT_TEST(test_nothing_left)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		nothing_left();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIP) {
		print_message("skipped: namespaces can not be made here\n");
		skip();
	}
	assert_int_equal(status, 0);
}

int main(void)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert(shared != MAP_FAILED);
	return unit_run(NULL, NULL);
}
