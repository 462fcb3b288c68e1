/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* fork() with an open device, and faults on request (which are read once a process). */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

#include "common/softrdma/objects/ah.h"

#define CHILDREN 8 /* of each kind */
#define REST_MS	 5000u

/* Of all threads but the caller's; 'S' and 'D' rest. */
static bool others_rest(void)
{
	DIR *dir = opendir("/proc/self/task");
	char path[300], line[400], state = 0;
	const struct dirent *d;
	bool rest = true;

	assert_non_null(dir);
	while (rest && (d = readdir(dir))) {
		FILE *f;

		if (d->d_name[0] == '.' || atoi(d->d_name) == getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/stat", d->d_name);
		f = fopen(path, "re");
		if (f && fgets(line, sizeof(line), f) && strrchr(line, ')'))
			rest = sscanf(strrchr(line, ')'), ") %c", &state) == 1 && state != 'R';
		if (f)
			fclose(f);
	}
	closedir(dir);
	return rest;
}

/*
 * fork(), when no other thread is on its way: AddressSanitizer's allocator (of GCC 12) has a lock
 * that a child would find held for ever. The C library's is made ready for that by fork() itself.
 */
static pid_t fork_at_rest(void)
{
	for (unsigned i = 0; i < REST_MS && !others_rest(); i++)
		usleep(1000);
	return fork();
}

static void fault_child(const char *spec, unsigned mr_good, unsigned qp_good)
{
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC };
	static char mem[64];

	setenv("SOFTRDMA_FAULT", spec, 1);
	context = softrdma_open_device(softrdma_device());
	assert(context);
	pd = softrdma_alloc_pd(context);
	cq = softrdma_create_cq(context, 1, NULL, NULL, 0);
	init.send_cq = init.recv_cq = cq;
	for (unsigned i = 0; i < 6; i++) {
		struct ibv_mr *mr = softrdma_reg_mr(pd, mem, sizeof(mem), 0);
		int code = errno;
		struct ibv_qp *qp = softrdma_create_qp(pd, &init);

		assert(mr ? i < mr_good : i >= mr_good && code == ENOMEM);
		assert(qp ? i < qp_good : i >= qp_good && errno == ENOMEM);
	}
	_exit(0);
}

/* First of all: before anything is read in this process. */
UNIT_TEST(test_fault)
{
	const struct {
		const char *spec;
		unsigned mr_good, qp_good;
	} runs[] = { { "reg_mr=ENOMEM@3", 2, 6 },
		     { "create_qp=ENOMEM@1", 6, 0 },
		     { "reg_mr=ENOMEM@2,create_qp=ENOMEM@4", 1, 3 },
		     { "", 6, 6 } };

	for (unsigned i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		pid_t pid = fork_at_rest();
		int status;

		if (pid == 0)
			fault_child(runs[i].spec, runs[i].mr_good, runs[i].qp_good);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

static void child_uses_it(struct end *a, struct end *b, struct ibv_ah *ah)
{
	struct ibv_ah_attr path = soft_ah(ah)->attr;
	struct ibv_device_attr_ex device;
	struct ibv_gid_entry gids[8];
	struct end_options options = { .mapped = false };
	struct end c, d;
	struct ibv_wc wc;

	assert(end_send(a, 1, 0, 8, 0) == EINVAL);
	assert(end_recv(b, 1, 0, 8) == EINVAL);
	assert(ibv_poll_cq(a->send_cq, 1, &wc) == -1);
	assert(ibv_req_notify_cq(a->send_cq, 0) == EINVAL);
	assert(end_to(a, IBV_QPS_ERR) == EINVAL);
	assert(!softrdma_reg_mr(a->pd, a->mem, 64, 0) && errno == EINVAL);
	assert(softrdma_dereg_mr(a->mr) == EINVAL);
	assert(softrdma_rereg_mr(a->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) ==
		       IBV_REREG_MR_ERR_INPUT &&
	       errno == EINVAL);
	assert(softrdma_resize_cq(a->send_cq, 512) == EINVAL);
	assert(!softrdma_create_ah(a->pd, &path) && errno == EINVAL);
	assert(softrdma_destroy_ah(ah) == EINVAL);
	assert(softrdma_query_device_ex(a->context, NULL, &device, sizeof(device)) == EINVAL);
	assert(softrdma_query_gid_table(a->context, gids, 8, 0, sizeof(gids[0])) == -EINVAL);
	assert(softrdma_destroy_qp(a->qp) == EINVAL);
	assert(softrdma_close_device(a->context) == EINVAL);
#if defined(__SANITIZE_THREAD__)
	_exit(0); /* it cannot follow new threads of a forked child */
#endif
	/* a device of its own works */
	end_open(&c, &options);
	end_open(&d, &options);
	end_connect(&c, d.qp->qp_num);
	end_connect(&d, c.qp->qp_num);
	memset(d.mem, 3, 8);
	assert(end_rdma(&c, IBV_WR_RDMA_READ, 1, 0, 8, (uintptr_t)d.mem, d.mr->rkey,
			IBV_SEND_SIGNALED) == 0);
	end_wait(c.send_cq, &wc);
	assert(wc.status == IBV_WC_SUCCESS && c.mem[7] == 3);
	end_close(&c);
	end_close(&d);
	_exit(0);
}

UNIT_TEST(test_fork)
{
	struct end_options options = { .mapped = false };
	struct ibv_ah_attr path;
	struct ibv_ah *ah;
	struct end a, b;
	int status;
	pid_t pid;

	pair_open(&a, &b, &options, &options);
	path = end_path(a.context);
	ah = softrdma_create_ah(a.pd, &path);
	assert_non_null(ah);
	pid = fork_at_rest();
	if (pid == 0)
		child_uses_it(&a, &b, ah);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_ok(end_recv(&b, 1, 0, 8));
	assert_ok(end_send(&a, 2, 0, 8, IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 2, IBV_WC_SUCCESS);
	end_expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	assert_ok(softrdma_destroy_ah(ah));
	pair_close(&a, &b);
}

/* How a child ends. */
enum ending { END_LEAVES, END_EXITS, END_FREES, END_EXECS, END_SCRIBBLES, ENDINGS };

static void child_ends(struct end *a, struct end *b, enum ending ending)
{
	switch (ending) {
	case END_EXITS:
#if !defined(__SANITIZE_ADDRESS__)
		exit(0); /* with what atexit() was told; the sanitizer would call it all leaked */
#endif
		break;
	case END_FREES:
		munmap(a->mem, a->size);
		munmap(b->mem, b->size);
		free(malloc(1 << 20));
		softrdma_destroy_qp(a->qp);
		softrdma_close_device(a->context);
		break;
	case END_EXECS:
		execl("/proc/self/exe", "test", "--nothing", NULL);
		_exit(1);
	case END_SCRIBBLES:
		memset(a->mem, 0xff, a->size); /* its copies */
		memset(b->mem, 0xff, b->size);
		usleep(3000);
		break;
	default:
		break;
	}
	_exit(0);
}

/* READ, WRITE, SEND and an atomic between the two, of contents that differ each time. */
static void work(struct end *a, struct end *b, unsigned round)
{
	uint64_t word = round, before;

	memset(b->mem + 256, (int)round & 0x7f, 256);
	memset(a->mem + 512, (int)round & 0x3f, 256);
	memcpy(b->mem + 1024, &word, sizeof(word));
	assert_ok(end_recv(b, 4, 2048, 256));
	assert_ok(end_rdma(a, IBV_WR_RDMA_READ, 1, 256, 256, (uintptr_t)b->mem + 256, b->mr->rkey,
			   IBV_SEND_SIGNALED));
	assert_ok(end_rdma(a, IBV_WR_RDMA_WRITE, 2, 512, 256, (uintptr_t)b->mem + 512, b->mr->rkey,
			   IBV_SEND_SIGNALED));
	assert_ok(end_atomic(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 1024, (uintptr_t)b->mem + 1024,
			     b->mr->rkey, 1, 0));
	assert_ok(end_send(a, 4, 512, 256, IBV_SEND_SIGNALED));
	for (unsigned i = 1; i <= 4; i++)
		end_expect(a->send_cq, i, IBV_WC_SUCCESS);
	end_expect(b->recv_cq, 4, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 256; i++) {
		assert_int_equal(a->mem[256 + i], round & 0x7f);
		assert_int_equal(b->mem[512 + i], round & 0x3f);
		assert_int_equal(b->mem[2048 + i], round & 0x3f);
	}
	memcpy(&before, a->mem + 1024, sizeof(before));
	memcpy(&word, b->mem + 1024, sizeof(word));
	assert_int_equal(before, round);
	assert_int_equal(word, round + 1);
}

/* Children come and go, in every way, and the parent works on. */
UNIT_TEST(test_children)
{
	struct end_options options = { .mapped = false, .size = 65536, .rnr_retry = 7 };
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	for (unsigned round = 0; round < CHILDREN * ENDINGS; round++) {
		pid_t pid = fork_at_rest();
		int status;

		assert_true(pid >= 0);
		if (pid == 0)
			child_ends(&a, &b, round % ENDINGS);
		for (unsigned i = 0; i < 20; i++)
			work(&a, &b, round + i);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		work(&a, &b, round);
	}
	pair_close(&a, &b);
}

/* What a peer writes comes to the parent and not to the child, though they shared the pages. */
UNIT_TEST(test_peer_writes)
{
	struct end_options options = { .rnr_retry = 7, .timeout = 20 };
	struct far far;
	struct end a;

	far_pair_open(&far, &a, &options, &options);
	for (unsigned round = 1; round < 20; round++) {
		struct ibv_wc wc;
		pid_t child;

		far_do(&far, FAR_FILL, 0x11);
		child = (pid_t)far_do(&far, FAR_FORK, 0).byte_len;
		memset(a.mem, (int)round, 8192);
		assert_ok(end_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, 8192, far.info.addr + 100,
				   far.info.rkey, IBV_SEND_SIGNALED));
		end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
		assert_int_equal(far_do(&far, FAR_PEEK, 100).byte_len, round);
		assert_int_equal(far_do(&far, FAR_PEEK, 8291).byte_len, round);
		assert_int_equal(far_do(&far, FAR_PEEK, 8292).byte_len, 0x11);
		assert_ok(end_atomic(&a, IBV_WR_ATOMIC_CMP_AND_SWP, 2, 0, far.info.addr + 104,
				     far.info.rkey, round * 0x0101010101010101ull, 0));
		end_wait(a.send_cq, &wc);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(far_do(&far, FAR_PEEK, 104).byte_len, 0);
		kill(child, SIGKILL);
	}
	far_pair_close(&far, &a);
}

/* The death of a process is noticed although a child of it lives on. */
UNIT_TEST(test_child_survives)
{
	struct end_options options = { .rnr_retry = 7 };
	struct far far;
	struct end a;
	pid_t child;

	far_pair_open(&far, &a, &options, &options);
	child = (pid_t)far_do(&far, FAR_FORK, 0).byte_len;
	assert_ok(end_send(&a, 1, 0, 8, 0)); /* waits for a receive */
	end_quiet(a.send_cq);
	far_kill(&far);
	end_expect(a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	assert_ok(kill(child, 0));
	kill(child, SIGKILL);
	end_close(&a);
}

/* The lock of the batch is held here as in the parent. */
static void extended_child(struct ibv_cq_ex *cq)
{
	struct ibv_wc wc;

	alarm(10);
	assert(ibv_start_poll(cq, NULL) == EINVAL);
	assert(ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1, &wc) == -1);
	_exit(0);
}

/* An extended CQ of the parent is none of the child, in the middle of a batch too. */
UNIT_TEST(test_extended_cq)
{
	const struct end_options options = { .cq_ex = true };
	struct ibv_cq_ex *cq;
	struct end a, b;
	int status;
	pid_t pid;

	pair_open(&a, &b, &options, &options);
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 1, 0, 8, (uintptr_t)b.mem, b.mr->rkey,
			   IBV_SEND_SIGNALED));
	cq = (struct ibv_cq_ex *)a.send_cq;
	assert_ok(ibv_start_poll(cq, NULL));
	pid = fork_at_rest();
	assert_true(pid >= 0);
	if (pid == 0)
		extended_child(cq);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(cq->wr_id, 1);
	assert_int_equal(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	pair_close(&a, &b);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return 0; /* executed by a child */
	return unit_run(NULL, NULL);
}
