/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A process that writes nonsense over the arenas of others, as a broken peer could. Two victims
 * work with each other meanwhile. Their operations may fail in any way, but they go on: they
 * neither crash nor hang, and memory that is not registered stays as it is. SCRIBBLE_SEED and
 * SCRIBBLE_ROUNDS change the run.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/time.h"
#include "common/softrdma/shared/shared.h"
#include "common/softrdma/process/wire.h"
#include "ends.h"

enum {
	VICTIMS = 2,
	QPS = 4,
	FAR = 16384, /* bytes for the requests of others, and for receives */
	NEAR = 8192, /* after them, for each QP's own: no two write their results to one place */
	REGION = FAR + QPS * NEAR,
	CANARY = 1 << 20, /* before, between and after the regions */
	CANARY_BYTE = 0xa5,
	ROUNDS = 12, /* arenas, one after the other */
	ROUND_MS = 250,
	PATIENCE_S = 30, /* the waits for a stuck writer are 2 seconds each */
};

/* Between the processes of this test, which soft0 knows nothing of. */
static struct board {
	_Atomic uint32_t slot[VICTIMS]; /* + 1 */
	_Atomic uint32_t qpn[VICTIMS][QPS], rkey[VICTIMS];
	_Atomic uint64_t addr[VICTIMS];
	_Atomic uint32_t stop;
} * board;

struct victim {
	unsigned self;
	uint64_t dice;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq[2];
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct ibv_qp *qp[QPS];
	unsigned char *memory;
};

static uint64_t roll(uint64_t *dice)
{
	*dice ^= *dice << 13;
	*dice ^= *dice >> 7;
	*dice ^= *dice << 17;
	return *dice;
}

/* The attacker. */

static struct shared_arena *arena_of(uint32_t slot)
{
	struct wire_request request = { .op = WIRE_HELLO, .sequence = 1 };
	struct timespec pause = { .tv_nsec = NS_PER_MS };
	int fd = soft_wire_connect(slot, 1000), fds[WIRE_FDS_MAX] = { -1, -1 }, rc = -EAGAIN;
	struct shared_arena *arena = NULL;
	struct wire_reply reply;

	if (fd < 0 || soft_wire_send(fd, &request, sizeof(request), NULL, 0) < 0)
		return NULL;
	for (int i = 0; i < 1000 && rc == -EAGAIN; i++) {
		rc = soft_wire_receive(fd, &reply, sizeof(reply), fds);
		nanosleep(&pause, NULL);
	}
	if (rc == 0)
		arena = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	/* what a broken program could do to a file that it was given */
	if (rc == 0 && ftruncate(fds[0], 4096) == 0)
		fprintf(stderr, "the arena can be cut\n");
	if (rc == 0)
		fcntl(fds[1], F_SETFL, 0); /* blocking, for its owner too */
	if (fds[0] >= 0)
		close(fds[0]);
	if (fds[1] >= 0)
		close(fds[1]);
	close(fd);
	return arena == MAP_FAILED ? NULL : arena;
}

static uint64_t nonsense(uint64_t *dice)
{
	uint64_t r = roll(dice);

	switch (r % 8) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return 1ull << (r >> 8) % 64;
	case 3:
		return (1ull << (r >> 8) % 64) - 1;
	case 4:
		return r >> 8 & 0xff;
	case 5:
		return r >> 8 & 0x3fffffff;
	default:
		return roll(dice);
	}
}

static void scribble(struct shared_arena *arena, uint64_t *dice)
{
	uint64_t r = roll(dice), where = r >> 8, value = nonsense(dice);
	unsigned char *base;
	size_t size;

	/* The first objects of each kind, since those are in use. */
	switch (r % 8) {
	case 0:
	case 1:
		base = (unsigned char *)&arena->qp[2];
		size = 6 * sizeof(arena->qp[0]);
		break;
	case 2:
		base = (unsigned char *)&arena->mr[1];
		size = 4 * sizeof(arena->mr[0]);
		break;
	case 3:
		base = (unsigned char *)&arena->cq[0];
		size = 4 * sizeof(arena->cq[0]);
		break;
	case 4:
		base = (unsigned char *)&arena->srq[0];
		size = 2 * sizeof(arena->srq[0]);
		break;
	case 5:
		/* seldom the mark of life: all is over then */
		base = r >> 4 & 15 ? (unsigned char *)&arena->attention : (unsigned char *)arena;
		size = (size_t)((unsigned char *)arena->qp - base);
		break;
	case 6:
		base = (unsigned char *)arena->map_id;
		size = 4 * sizeof(arena->map_id[0]);
		break;
	default:
		base = arena->heap;
		size = 65536;
		break;
	}
	if (where & 1)
		memcpy(base + (where >> 1) % (size / 8) * 8, &value, 8);
	else
		memcpy(base + (where >> 1) % (size / 4) * 4, &value, 4);
}

static void attack(uint64_t dice)
{
	struct shared_arena *arena[VICTIMS] = { NULL };
	struct timespec pause = { 0 };
	uint64_t most = 1ull << dice % 7; /* few: more of the victims' work succeeds */

	while (!atomic_load(&board->stop)) {
		for (unsigned v = 0; v < VICTIMS; v++) {
			uint32_t slot = atomic_load(&board->slot[v]);

			if (!arena[v] && slot)
				arena[v] = arena_of(slot - 1);
			for (unsigned i = 0; arena[v] && i < most; i++)
				scribble(arena[v], &dice);
		}
		pause.tv_nsec = (long)(roll(&dice) % 400000);
		nanosleep(&pause, NULL);
	}
	_exit(0);
}

/* The victims. */

static unsigned char *region(struct victim *v)
{
	return v->memory + CANARY;
}

static void qp_make(struct victim *v, unsigned i)
{
	static const enum ibv_qp_type types[QPS] = { IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC,
						     IBV_QPT_UD };
	struct ibv_qp_init_attr init = { .send_cq = v->cq[0],
					 .recv_cq = v->cq[1],
					 .srq = i == 1 ? v->srq : NULL,
					 .qp_type = types[i],
					 .cap = { 16, 16, 4, 4, 64 } };

	v->qp[i] = softrdma_create_qp(v->pd, &init);
	if (v->qp[i])
		atomic_store(&board->qpn[v->self][i], v->qp[i]->qp_num);
}

static void qp_go(struct victim *v, unsigned i)
{
	struct end end = { .context = v->context, .qp = v->qp[i] };
	uint32_t dest = atomic_load(&board->qpn[roll(&v->dice) % VICTIMS][i]);

	end.options.type = v->qp[i]->qp_type;
	end.options.timeout = 8;
	if (end_init(&end) == 0 && end_rtr(&end, dest) == 0)
		(void)!end_rts(&end);
}

static void register_again(struct victim *v)
{
	if (v->mr)
		softrdma_dereg_mr(v->mr);
	v->mr = softrdma_reg_mr(v->pd, region(v), REGION, END_ALL);
	if (v->mr)
		atomic_store(&board->rkey[v->self], v->mr->rkey);
}

static void post(struct victim *v, unsigned i)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_ATOMIC_CMP_AND_SWP,
	};
	uint64_t r = roll(&v->dice),
		 far = atomic_load(&board->addr[r >> 16 & 1]) + (r >> 20) % 512 * 8;
	struct ibv_sge sge = { (uintptr_t)region(v) + FAR + i * NEAR + (r >> 32) % 512 * 8, 8,
			       v->mr ? v->mr->lkey : 0 };
	struct ibv_qp *qp = v->qp[i];
	struct ibv_send_wr *bad, wr = { .wr_id = r, .sg_list = &sge, .num_sge = 1 };

	if (qp->qp_type == IBV_QPT_UD)
		return;
	wr.opcode = opcodes[r % (sizeof(opcodes) / sizeof(opcodes[0]))];
	wr.send_flags = (r >> 8 & 3) ? IBV_SEND_SIGNALED : 0;
	if (wr.opcode >= IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = far;
		wr.wr.atomic.rkey = atomic_load(&board->rkey[r >> 16 & 1]);
	} else {
		sge.length = 8 + (uint32_t)(r >> 40) % 4096;
		wr.wr.rdma.remote_addr = far;
		wr.wr.rdma.rkey = atomic_load(&board->rkey[r >> 16 & 1]);
	}
	(void)!ibv_post_send(qp, &wr, &bad);
}

static void post_receive(struct victim *v, struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)region(v), 8192, v->mr ? v->mr->lkey : 0 };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	if (qp->srq)
		(void)!ibv_post_srq_recv(qp->srq, &wr, &bad);
	else
		(void)!ibv_post_recv(qp, &wr, &bad);
}

static void drain(struct victim *v)
{
	struct ibv_async_event event;
	struct ibv_wc wc[16];
	struct ibv_cq *cq;
	void *context;

	for (unsigned i = 0; i < 2; i++)
		(void)!ibv_poll_cq(v->cq[i], 16, wc);
	if (softrdma_get_async_event(v->context, &event) == 0)
		softrdma_ack_async_event(&event);
	(void)!ibv_req_notify_cq(v->cq[1], (int)(roll(&v->dice) & 1));
	if (softrdma_get_cq_event(v->channel, &cq, &context) == 0)
		softrdma_ack_cq_events(cq, 1);
}

static void step(struct victim *v)
{
	uint64_t r = roll(&v->dice);
	unsigned i = r >> 8 & (QPS - 1);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp_init_attr init;
	struct ibv_srq_attr limit = { .srq_limit = 4 };

	if (!v->qp[i])
		qp_make(v, i);
	if (!v->qp[i])
		return;
	switch (r % 64) {
	case 0:
		if (softrdma_destroy_qp(v->qp[i]) == 0)
			v->qp[i] = NULL;
		break;
	case 1:
		register_again(v);
		break;
	case 2:
		attr.qp_state = IBV_QPS_RESET;
		/* fallthrough */
	case 3:
		softrdma_modify_qp(v->qp[i], &attr, IBV_QP_STATE);
		break;
	case 4:
		softrdma_modify_srq(v->srq, &limit, IBV_SRQ_LIMIT);
		break;
	case 5:
		softrdma_query_qp(v->qp[i], &attr, IBV_QP_STATE, &init);
		break;
	case 6:
	case 7:
	case 8:
	case 9:
		qp_go(v, i);
		break;
	default:
		if (r >> 16 & 1)
			post_receive(v, v->qp[i]);
		else
			post(v, i);
		drain(v);
		break;
	}
}

static void open_all(struct victim *v)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 16, .max_sge = 4 } };

	v->context = softrdma_open_device(softrdma_device());
	assert_non_null(v->context);
	v->pd = softrdma_alloc_pd(v->context);
	v->channel = softrdma_create_comp_channel(v->context);
	v->cq[0] = softrdma_create_cq(v->context, 64, NULL, NULL, 0);
	v->cq[1] = softrdma_create_cq(v->context, 64, NULL, v->channel, 0);
	v->srq = softrdma_create_srq(v->pd, &srq);
	assert_true(v->pd && v->channel && v->cq[0] && v->cq[1] && v->srq);
	fcntl(v->context->async_fd, F_SETFL, O_NONBLOCK);
	fcntl(v->channel->fd, F_SETFL, O_NONBLOCK);
}

static bool canaries(const struct victim *v)
{
	for (size_t i = 0; i < 2 * (size_t)CANARY + REGION; i++) {
		if (i == CANARY)
			i += REGION;
		if (v->memory[i] != CANARY_BYTE)
			return false;
	}
	return true;
}

static void suffer(unsigned self, uint64_t dice)
{
	struct victim v = { .self = self, .dice = dice };
	uint64_t end = time_now_ns() + ROUND_MS * NS_PER_MS;
	bool good;

	for (int i = 1; i < 32; i++)
		signal(i, SIG_DFL); /* cmocka catches them */
	alarm(PATIENCE_S); /* SIGALRM is the end of one that hangs */
	open_all(&v);
	/* one victim with private memory, one with mapped */
	if (self) {
		v.memory = mmap(NULL, 2 * CANARY + REGION, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	} else {
		int fd = memfd_create("scribble", MFD_CLOEXEC);

		assert_ok(ftruncate(fd, 2 * CANARY + REGION));
		v.memory =
			mmap(NULL, 2 * CANARY + REGION, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	}
	assert_true(v.memory != MAP_FAILED);
	memset(v.memory, CANARY_BYTE, 2 * CANARY + REGION);
	atomic_store(&board->addr[self], (uintptr_t)region(&v));
	register_again(&v);
	for (unsigned i = 0; i < QPS; i++)
		qp_make(&v, i);
	atomic_store(&board->slot[self], (v.qp[0] ? qpn_slot(v.qp[0]->qp_num) : 0) + 1);
	while (time_now_ns() < end)
		step(&v);
	for (unsigned i = 0; i < QPS; i++) {
		if (v.qp[i])
			softrdma_destroy_qp(v.qp[i]);
	}
	if (v.mr)
		softrdma_dereg_mr(v.mr);
	good = softrdma_destroy_srq(v.srq) == 0 && softrdma_destroy_cq(v.cq[0]) == 0 &&
	       softrdma_destroy_cq(v.cq[1]) == 0 && softrdma_destroy_comp_channel(v.channel) == 0 &&
	       softrdma_dealloc_pd(v.pd) == 0 && softrdma_close_device(v.context) == 0;
	_exit(good ? canaries(&v) ? 0 : 3 : 2);
}

static uint64_t number(const char *name, uint64_t fallback)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : fallback;
}

UNIT_TEST(test_scribbled_arena_kills_nobody)
{
	uint64_t seed = number("SCRIBBLE_SEED", 20260721),
		 rounds = number("SCRIBBLE_ROUNDS", ROUNDS);
	unsigned failed = 0;

	print_message("seed %llu\n", (unsigned long long)seed);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_true(board != MAP_FAILED);
	for (uint64_t round = 0; round < rounds; round++) {
		pid_t attacker, victim[VICTIMS];
		uint64_t dice = (seed + round) * 0x9e3779b97f4a7c15ull | 1;

		memset(board, 0, sizeof(*board));
		for (unsigned i = 0; i < VICTIMS; i++) {
			victim[i] = fork();
			if (victim[i] == 0)
				suffer(i, dice ^ (i + 1) << 20);
		}
		attacker = fork();
		if (attacker == 0)
			attack(dice ^ 0x55555);
		for (unsigned i = 0; i < VICTIMS; i++) {
			int status = 0;

			assert_int_equal(waitpid(victim[i], &status, 0), victim[i]);
			if (status) {
				failed++;
				print_error("round %u victim %u: %s %d\n", (unsigned)round, i,
					    WIFSIGNALED(status) ? "signal" : "exit",
					    WIFSIGNALED(status) ? WTERMSIG(status)
								: WEXITSTATUS(status));
			}
		}
		atomic_store(&board->stop, 1);
		assert_int_equal(waitpid(attacker, NULL, 0), attacker);
	}
	assert_int_equal(failed, 0);
}
