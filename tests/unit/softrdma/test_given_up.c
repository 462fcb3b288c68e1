/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A process is stopped in the middle of copying to memory of another one, which takes the memory
 * or the queue pair back meanwhile and waits for the copy in vain. When the first one goes on, its
 * operation must fail: fence.c. Each case has a process of its own, which stands between the two.
 * The stop is exact: this program wraps what copies.
 *
 * In the program that is built with the mutant, the look after the copy is left out, and each case
 * in which something was taken back must be found to be wrong.
 */
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/time.h"
#include "common/softrdma/objects/mr.h"
#include "common/softrdma/path/copy.h"
#include "common/softrdma/path/execute.h"
#include "ends.h"

#define LENGTH	 4096
#define CASE_S	 60
#define KEYS	 65536
#define HURRY_US 200000
#define ADD	 IBV_WR_ATOMIC_FETCH_AND_ADD
#define NONE	 -1
#define MANY	 6u

/* How the process of a case ends; a failed assertion of cmocka ends it otherwise. */
enum { RIGHT = 40, WRONG };

/* What the owner does while the other process stands still. */
enum act {
	/* taking it back */
	DEREG, /* deregister the memory */
	SAME_KEY, /* and register it again, until it has the same key */
	ERROR, /* the queue pair to ERR */
	DESTROY, /* destroy it */
	/* not, or not so */
	OTHER, /* deregister some other memory */
	HURRY, /* DEREG, but the other process goes on while the owner waits */
	DIE,
};

static const char *const act_names[] = { "dereg_mr", "the same key",   "ERR",  "destroy_qp",
					 "another",  "dereg_mr waits", "death" };

struct trial {
	enum ibv_wr_opcode opcode;
	enum act act;
	int status; /* of the operation */
	int receive; /* status of the receive, or NONE */
	bool mapped;
};

/* The executor stops itself, once. */
static bool armed;

static bool disarm(void)
{
	bool was = armed;

	armed = false;
	return was;
}

/* Function names of ld's --wrap. */
void __real_soft_copy_to(void *shared, const void *from, size_t len);
void __wrap_soft_copy_to(void *shared, const void *from, size_t len);
ssize_t __real_soft_peer_write(const struct soft_peer *peer, const struct iovec *near,
			       unsigned nears, const struct iovec *far);
ssize_t __wrap_soft_peer_write(const struct soft_peer *peer, const struct iovec *near,
			       unsigned nears, const struct iovec *far);
bool __real_soft_remote_resolve(struct soft_qp *qp, uint32_t key, uint64_t addr, uint64_t length,
				uint32_t access, uint32_t pd, struct soft_remote *out);
bool __wrap_soft_remote_resolve(struct soft_qp *qp, uint32_t key, uint64_t addr, uint64_t length,
				uint32_t access, uint32_t pd, struct soft_remote *out);

void __wrap_soft_copy_to(void *shared, const void *from, size_t len)
{
	size_t half = len / 2;

	__real_soft_copy_to(shared, from, half);
	if (disarm())
		raise(SIGSTOP);
	__real_soft_copy_to((char *)shared + half, (const char *)from + half, len - half);
}

ssize_t __wrap_soft_peer_write(const struct soft_peer *peer, const struct iovec *near,
			       unsigned nears, const struct iovec *far)
{
	struct iovec half = { .iov_base = near->iov_base, .iov_len = near->iov_len / 2 };
	ssize_t done;

	if (!disarm())
		return __real_soft_peer_write(peer, near, nears, far);
	done = __real_soft_peer_write(peer, &half, 1, far);
	raise(SIGSTOP);
	return done;
}

/* Of an atomic the middle is between its checks and its instruction. */
bool __wrap_soft_remote_resolve(struct soft_qp *qp, uint32_t key, uint64_t addr, uint64_t length,
				uint32_t access, uint32_t pd, struct soft_remote *out)
{
	bool found = __real_soft_remote_resolve(qp, key, addr, length, access, pd, out);

	if (access == IBV_ACCESS_REMOTE_ATOMIC && disarm())
		raise(SIGSTOP);
	return found;
}

/* The executor: says its QP number, waits until it is connected, and tells how it went. */
static void executor(const struct trial *t, const struct end_info *info, int from, int to)
{
	const struct end_options options = { .timeout = 10 };
	struct ibv_wc wc;
	struct end end;
	char go;
	int rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	end_open(&end, &options);
	memset(end.mem, 0x77, LENGTH);
	end_connect(&end, info->qpn);
	assert(write(to, &end.qp->qp_num, sizeof(end.qp->qp_num)) == sizeof(end.qp->qp_num));
	assert(read(from, &go, 1) == 1);
	armed = true;
	if (t->opcode == ADD)
		rc = end_atomic(&end, ADD, 1, 0, info->addr, info->rkey, 1, 0);
	else
		rc = end_rdma(&end, t->opcode, 1, 0, LENGTH, info->addr, info->rkey,
			      IBV_SEND_SIGNALED);
	assert(rc == 0);
	end_wait(end.send_cq, &wc);
	assert(write(to, &wc, sizeof(wc)) == sizeof(wc));
	_exit(0);
}

struct ends {
	struct far owner;
	pid_t executor;
	int to, from; /* the executor */
};

static void executor_start(struct ends *e, const struct trial *t)
{
	int to[2], from[2];
	uint32_t qpn;

	assert(pipe(to) == 0 && pipe(from) == 0);
	e->executor = fork();
	assert(e->executor >= 0);
	if (e->executor == 0)
		executor(t, &e->owner.info, to[0], from[1]);
	e->to = to[1];
	e->from = from[0];
	assert(read(e->from, &qpn, sizeof(qpn)) == sizeof(qpn));
	far_do(&e->owner, FAR_CONNECT, qpn);
	if (t->receive != NONE || t->opcode != IBV_WR_RDMA_WRITE)
		far_do(&e->owner, FAR_RECV, LENGTH);
}

static void executor_stops(struct ends *e)
{
	int status;

	assert(write(e->to, "", 1) == 1);
	assert(waitpid(e->executor, &status, WUNTRACED) == e->executor);
	assert(WIFSTOPPED(status));
}

/* FAR_CALL: what no order of the far end does. */
static struct ibv_wc owner_calls(struct end *end, uint64_t act)
{
	struct ibv_wc wc = { .status = 0 };
	uint32_t key = end->mr->rkey;
	struct ibv_mr *mr;

	if (act == OTHER) {
		mr = softrdma_reg_mr(end->pd, end->mem + LENGTH, LENGTH, END_ALL);
		assert(mr && softrdma_dereg_mr(mr) == 0);
		return wc;
	}
	assert(softrdma_rereg_mr(end->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, END_ALL) == 0);
	for (unsigned i = 1; i < KEYS; i++) { /* what that does, but for finding the file */
		soft_mr_withdraw((struct soft_mr *)end->mr);
		soft_mr_publish((struct soft_mr *)end->mr);
	}
	assert(end->mr->rkey == key);
	return wc;
}

static void owner_acts(struct ends *e, enum act act)
{
	static const enum far_op ops[] = { [DEREG] = FAR_DEREG,
					   [SAME_KEY] = FAR_CALL,
					   [ERROR] = FAR_ERROR,
					   [DESTROY] = FAR_DESTROY,
					   [OTHER] = FAR_CALL };
	uint64_t start = time_now_ns();

	if (act == HURRY) {
		far_ask(&e->owner, FAR_DEREG, 0);
		usleep(HURRY_US);
	} else if (act == DIE) {
		far_kill(&e->owner);
	} else {
		far_do(&e->owner, ops[act], act);
		assert(time_now_ns() - start > NS_PER_S); /* it waited, in vain */
	}
}

/* The process of a case. */
static int run(const struct trial *t)
{
	struct end_options options = { .mapped = t->mapped, .call = owner_calls };
	struct ends e;
	struct ibv_wc wc;

	alarm(CASE_S);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	far_start(&e.owner, &options);
	executor_start(&e, t);
	executor_stops(&e);
	owner_acts(&e, t->act);
	kill(e.executor, SIGCONT);
	assert(read(e.from, &wc, sizeof(wc)) == sizeof(wc));
	if ((int)wc.status != t->status) {
		fprintf(stderr, "opcode %d, %s, %s: status %d, not %d\n", t->opcode,
			t->mapped ? "mapped" : "private", act_names[t->act], wc.status, t->status);
		return WRONG;
	}
	if (t->act == DIE)
		return RIGHT;
	if (t->act == HURRY)
		far_answer(&e.owner);
	if (t->receive != NONE)
		assert((int)far_do(&e.owner, FAR_POLL, 0).status == t->receive);
	far_stop(&e.owner);
	return RIGHT;
}

/* How the process of a case must end. */
static int must(enum act act)
{
#ifdef GRACEKV_MUTANTS
	return act <= DESTROY ? WRONG : RIGHT;
#else
	return RIGHT;
#endif
}

/* All at once: they mostly wait. */
static void run_all(const struct trial *trials, unsigned count)
{
	unsigned wrong = 0;
	pid_t pid[32];

	assert_true(count <= 32);
	for (unsigned i = 0; i < count; i++) {
		pid[i] = fork();
		assert_true(pid[i] >= 0);
		if (pid[i] == 0)
			_exit(run(&trials[i]));
	}
	for (unsigned i = 0; i < count; i++) {
		int status;

		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != must(trials[i].act)) {
			print_message("  %s with opcode %d, %s: wait status %#x\n",
				      act_names[trials[i].act], trials[i].opcode,
				      trials[i].mapped ? "mapped" : "private", status);
			wrong++;
		}
	}
	assert_int_equal(wrong, 0);
}

static void run_both(struct trial *trials, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		trials[i + count] = trials[i];
		trials[i].mapped = true;
	}
	run_all(trials, 2 * count);
}

UNIT_TEST(test_write)
{
	struct trial trials[10] = {
		{ IBV_WR_RDMA_WRITE, DEREG, IBV_WC_REM_ACCESS_ERR, NONE, false },
		{ IBV_WR_RDMA_WRITE, SAME_KEY, IBV_WC_REM_ACCESS_ERR, NONE, false },
		{ IBV_WR_RDMA_WRITE, ERROR, IBV_WC_RETRY_EXC_ERR, NONE, false },
		{ IBV_WR_RDMA_WRITE, DESTROY, IBV_WC_RETRY_EXC_ERR, NONE, false },
		{ IBV_WR_RDMA_WRITE, DIE, IBV_WC_RETRY_EXC_ERR, NONE, false },
	};

	run_both(trials, 5);
}

/* The receive completes, as far as there is a queue pair. */
UNIT_TEST(test_message)
{
	struct trial trials[12] = {
		{ IBV_WR_RDMA_WRITE_WITH_IMM, DEREG, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR,
		  false },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, ERROR, IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR,
		  false },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, DESTROY, IBV_WC_RETRY_EXC_ERR, NONE, false },
		{ IBV_WR_SEND, DEREG, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR, false },
		{ IBV_WR_SEND, ERROR, IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR, false },
		{ IBV_WR_SEND, DESTROY, IBV_WC_RETRY_EXC_ERR, NONE, false },
	};

	run_both(trials, 6);
}

/* In memory that is mapped; elsewhere the owner executes them. */
UNIT_TEST(test_atomic)
{
	static const struct trial trials[] = {
		{ ADD, DEREG, IBV_WC_REM_ACCESS_ERR, NONE, true },
		{ ADD, ERROR, IBV_WC_RETRY_EXC_ERR, NONE, true },
		{ ADD, DESTROY, IBV_WC_RETRY_EXC_ERR, NONE, true },
		{ ADD, OTHER, IBV_WC_SUCCESS, NONE, true },
		{ ADD, DIE, IBV_WC_RETRY_EXC_ERR, NONE, true },
	};

	run_all(trials, 5);
}

/* What was not taken back, or not before the end of the copy, is written with success. */
UNIT_TEST(test_nothing_taken_back)
{
	struct trial trials[12] = {
		{ IBV_WR_RDMA_WRITE, OTHER, IBV_WC_SUCCESS, NONE, false },
		{ IBV_WR_RDMA_WRITE, HURRY, IBV_WC_SUCCESS, NONE, false },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, OTHER, IBV_WC_SUCCESS, IBV_WC_SUCCESS, false },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, HURRY, IBV_WC_SUCCESS, IBV_WC_SUCCESS, false },
		{ IBV_WR_SEND, OTHER, IBV_WC_SUCCESS, IBV_WC_SUCCESS, false },
		{ IBV_WR_SEND, HURRY, IBV_WC_SUCCESS, IBV_WC_SUCCESS, false },
	};

	run_both(trials, 6);
}

/* The first thing that it hears is where to write. */
static void executor_of_many(int from, int to)
{
	static const struct trial t = { .opcode = IBV_WR_RDMA_WRITE };
	struct end_info info;

	assert(read(from, &info, sizeof(info)) == sizeof(info));
	executor(&t, &info, from, to);
}

static void many_start(struct ends *e)
{
	int to[2], from[2];

	assert(pipe(to) == 0 && pipe(from) == 0);
	e->to = to[1];
	e->from = from[0];
	e->executor = fork();
	assert(e->executor >= 0);
	if (e->executor == 0)
		executor_of_many(to[0], from[1]);
}

static void many_connect(struct ends *e, struct end *end)
{
	static const struct end_options options = { .mapped = true };
	struct end_info info;
	uint32_t qpn;

	end_open(end, &options);
	info = end_info(end);
	assert(write(e->to, &info, sizeof(info)) == sizeof(info));
	assert(read(e->from, &qpn, sizeof(qpn)) == sizeof(qpn));
	end_connect(end, qpn);
}

/* The process of an owner of many queue pairs. All executors stand still at once. */
static int fence_many(void)
{
	struct ends e[MANY];
	struct end end[MANY];
	uint64_t start, took;

	alarm(CASE_S);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned i = 0; i < MANY; i++)
		many_start(&e[i]);
	for (unsigned i = 0; i < MANY; i++)
		many_connect(&e[i], &end[i]);
	for (unsigned i = 0; i < MANY; i++)
		executor_stops(&e[i]);
	start = time_now_ns();
	for (unsigned i = 0; i < MANY; i++)
		assert(end_to(&end[i], IBV_QPS_ERR) == 0);
	took = time_now_ns() - start;
	for (unsigned i = 0; i < MANY; i++)
		kill(e[i].executor, SIGKILL);
	if (took < 3 * NS_PER_S / 2 || took > MANY * NS_PER_S) {
		fprintf(stderr, "%u queue pairs were fenced in %.1f s\n", MANY, (double)took / 1e9);
		return WRONG;
	}
	return RIGHT;
}

/* Those that were stopped together are waited for together: 2 s, and not as often as there are. */
UNIT_TEST(test_many_stand_still)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(fence_many());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), RIGHT);
}
