/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Many processes connected to one: each WRITEs to it, sends to it, and takes its messages; half of
 * them die at once, and the others do not notice. What each of them costs this process is measured.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tests/lib/own_process.h"
#include "weakness.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CROWD 64 /* a process of these is large */
#else
#define CROWD 400 /* more than the 8 bits that slots once had */
#endif
#define BYTES_MAX (128 << 10) /* of this process, for each of the others */
#define WAIT_NS	  (60 * NS_PER_S)
#define ROUNDS	  3u
#define FDS	  5 /* of this process, for each of the others */

/* What all processes see. The members of the crowd are forked before anything is opened. */
struct board {
	uint32_t rkey;
	uint64_t addr;
	struct place {
		uint32_t qpn, dest; /* 0: not there yet */
	} place[CROWD];
	uint32_t round; /* up to which the crowd may go */
};

static struct board *board;

static uint32_t get(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void put(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void await(const uint32_t *word, uint32_t at_least)
{
	uint64_t end = time_now_ns() + WAIT_NS;

	while (get(word) < at_least) {
		if (time_now_ns() > end) {
			fprintf(stderr, "nothing for %u s\n", (unsigned)(WAIT_NS / NS_PER_S));
			abort();
		}
		usleep(5000);
	}
}

/* One round: a WRITE of a word of its own, and a message. */
static void member_round(struct end *end, unsigned self, uint32_t round)
{
	*(uint64_t *)(void *)end->mem = (uint64_t)round << 32 | self;
	assert_ok(end_rdma(end, IBV_WR_RDMA_WRITE, 1, 0, 8, board->addr + self * 8, board->rkey,
			   IBV_SEND_SIGNALED));
	end_expect(end->send_cq, 1, IBV_WC_SUCCESS);
	assert_ok(end_send(end, 2, 0, 8, IBV_SEND_SIGNALED));
	end_expect(end->send_cq, 2, IBV_WC_SUCCESS);
}

static void member(unsigned self)
{
	const struct end_options options = { .size = 4096, .rnr_retry = 7 };
	struct place *place = &board->place[self];
	struct end end;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	await(&board->rkey, 1);
	end_open(&end, &options);
	put(&place->qpn, end.qp->qp_num);
	await(&place->dest, 1);
	end_connect(&end, place->dest);
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		await(&board->round, round);
		member_round(&end, self, round);
	}
	end_close(&end);
	_exit(0);
}

/* A line of /proc/self/status, in bytes. */
static uint64_t status_of(const char *name)
{
	FILE *file = fopen("/proc/self/status", "r");
	size_t length = strlen(name);
	unsigned long kib = 0;
	char line[128];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, length) == 0)
			kib = strtoul(line + length, NULL, 10);
	}
	fclose(file);
	return (uint64_t)kib << 10;
}

/* Resident memory, own and shared, and page tables. */
static uint64_t memory(void)
{
	return status_of("VmRSS:") + status_of("VmPTE:");
}

/* One end of this process for each of them: their own queue pairs, all else is shared. */
static void meet(struct end *all, struct end *end, struct place *place)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .send_cq = all->send_cq,
					 .recv_cq = all->recv_cq,
					 .cap = { .max_send_wr = 1,
						  .max_recv_wr = ROUNDS,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	*end = *all;
	end->qp = softrdma_create_qp(all->pd, &init);
	assert_non_null(end->qp);
	await(&place->qpn, 1);
	end_connect(end, place->qpn);
	for (uint32_t i = 1; i <= ROUNDS; i++)
		assert_ok(end_recv(end, i, CROWD * 8, 8));
	put(&place->dest, end->qp->qp_num);
}

/* The messages of @count members have come, and the WRITEs before them. */
static void round_over(struct end *all, unsigned count, uint32_t round)
{
	uint64_t last = time_now_ns() + WAIT_NS;
	unsigned words = 0;

	put(&board->round, round);
	for (unsigned i = 0; i < count;) {
		struct ibv_wc wc;
		int n = ibv_poll_cq(all->recv_cq, 1, &wc);

		assert_true(n >= 0 && time_now_ns() < last);
		if (n == 0) {
			usleep(1000);
			continue;
		}
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		i++;
	}
	for (unsigned i = 0; i < CROWD; i++)
		words += word_get(all, i * 8) == ((uint64_t)round << 32 | i);
	assert_int_equal(words, count);
}

static void member_ends(pid_t pid, bool killed)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (killed)
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	else
		assert_int_equal(status, 0);
}

static void descriptors_allow(void)
{
	struct rlimit limit;

	assert_ok(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = limit.rlim_max;
	assert_ok(setrlimit(RLIMIT_NOFILE, &limit));
	assert_true(limit.rlim_max >= (FDS + 1) * CROWD);
}

UNIT_TEST(test_crowd)
{
	const struct end_options options = { .size = 4096 * 4, .cqe = CROWD * ROUNDS };
	static struct end end[CROWD];
	pid_t pid[CROWD];
	unsigned fds_before;
	uint64_t before, each;
	struct end all;

	descriptors_allow();
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_true(board != MAP_FAILED);
	for (unsigned i = 0; i < CROWD; i++) {
		pid[i] = fork();
		assert_true(pid[i] >= 0);
		if (pid[i] == 0)
			member(i);
	}
	end_open(&all, &options);
	before = memory();
	fds_before = own_descriptors();
	board->addr = all.base;
	put(&board->rkey, all.mr->rkey);
	for (unsigned i = 0; i < CROWD; i++)
		meet(&all, &end[i], &board->place[i]);
	round_over(&all, CROWD, 1);
	each = (memory() - before) / CROWD;
	print_message("  %u processes, %u bytes each\n", CROWD, (unsigned)each);
	assert_true(each < BYTES_MAX);
	assert_int_equal(own_descriptors() - fds_before, FDS * CROWD);

	for (unsigned i = 0; i < CROWD; i += 2)
		kill(pid[i], SIGKILL);
	for (unsigned i = 0; i < CROWD; i += 2)
		member_ends(pid[i], true);
	round_over(&all, CROWD / 2, 2);
	for (unsigned i = 0; i < CROWD; i += 2)
		assert_ok(softrdma_destroy_qp(end[i].qp));
	round_over(&all, CROWD / 2, ROUNDS);
	for (unsigned i = 1; i < CROWD; i += 2) {
		member_ends(pid[i], false);
		assert_ok(softrdma_destroy_qp(end[i].qp));
	}
	end_close(&all);
}
