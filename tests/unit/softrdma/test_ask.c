/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Atomics that the peer's process is asked for, when that process is stopped, dies, or changes its
 * mind. Looks into the device where nothing else would do.
 */
#include <assert.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/time.h"
#include "common/softrdma/objects/qp.h"
#include "ends.h"

#define ADD	  IBV_WR_ATOMIC_FETCH_AND_ADD
#define CAS	  IBV_WR_ATOMIC_CMP_AND_SWP
#define PATIENT	  20 /* timeout: 4 seconds, 8 times */
#define IMPATIENT 10 /* 4 ms, 8 times */
#define PATIENCE  (8 * (4096ull << IMPATIENT))
#define SETTLE_US 30000
#define ROUNDS	  100

/* What the far end does when called. */
enum deed {
	DEED_HOLD, /* from now on nobody attends to the QP */
	DEED_GO, /* attend to it */
	DEED_WORD, /* the word at 0 comes back, in wr_id */
	DEED_RESET, /* of the QP, with the next deed connected again */
	DEED_LOOK, /* attend to the QP again, for nothing */
	DEED_FORGE, /* answer what the peer asks, without a look at whom it asks */
};

static void deed_look(struct end *end)
{
	uint32_t index = soft_qp(end->qp)->index;

	atomic_fetch_or(&own_arena()->qp_bits[index / 64], 1ull << index % 64);
	atomic_store(&own_arena()->qp_attention, 1);
	soft_kick(soft_process.kick_fd);
}

static struct ibv_wc deed_do(struct end *end, uint64_t deed)
{
	struct ibv_wc wc = { .byte_len = 0 };

	switch (deed) {
	case DEED_HOLD:
		lock_take(&soft_qp(end->qp)->sq);
		break;
	case DEED_WORD:
		wc.wr_id = __atomic_load_n((uint64_t *)(void *)end->mem, __ATOMIC_SEQ_CST);
		break;
	case DEED_RESET:
		lock_drop(&soft_qp(end->qp)->sq);
		assert(end_to(end, IBV_QPS_RESET) == 0);
		break;
	case DEED_LOOK:
		deed_look(end);
		break;
	case DEED_FORGE:
		atomic_store(&soft_qp(end->qp)->shared->answer_status, IBV_WC_SUCCESS);
		atomic_store(&soft_qp(end->qp)->shared->answered,
			     atomic_load(&soft_qp(end->qp)->remote->ask.number));
		break;
	default:
		lock_drop(&soft_qp(end->qp)->sq);
		deed_look(end);
		break;
	}
	return wc;
}

static void open_both(struct end *a, struct far *far, uint8_t timeout)
{
	struct end_options near = { .timeout = timeout }, other = { .call = deed_do };

	far_start(far, &other);
	end_open(a, &near);
	far_connect(far, a);
}

static void stop(struct far *far)
{
	kill(far->pid, SIGSTOP);
	waitpid(far->pid, NULL, WUNTRACED);
}

/* Ask for 1 to be added to the word at 0. */
static void add_ask(struct end *a, const struct far *far)
{
	assert_ok(end_atomic(a, ADD, 1, 8, far->info.addr, far->info.rkey, 1, 0));
}

static uint64_t add_get(struct end *a, uint64_t id)
{
	uint64_t before;

	end_expect(a->send_cq, id, IBV_WC_SUCCESS);
	memcpy(&before, a->mem + 8, sizeof(before));
	return before;
}

static uint64_t far_word(struct far *far)
{
	return far_do(far, FAR_CALL, DEED_WORD).wr_id;
}

static void reconnect(struct end *a, struct far *far)
{
	far_do(far, FAR_STATE, IBV_QPS_RESET);
	assert_ok(end_to(a, IBV_QPS_RESET));
	far_connect(far, a);
}

/* Stopped for longer than patience lasts: an error, and it is not executed later. */
UNIT_TEST(test_stopped_long)
{
	struct far far;
	uint64_t start;
	struct end a;

	open_both(&a, &far, IMPATIENT);
	stop(&far);
	start = time_now_ns();
	add_ask(&a, &far);
	end_expect(a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	assert_true(time_now_ns() - start >= PATIENCE);
	assert_int_equal(end_state(&a), IBV_QPS_ERR);
	kill(far.pid, SIGCONT);
	usleep(SETTLE_US);
	assert_ok(far_word(&far));
	a.options.timeout = PATIENT;
	reconnect(&a, &far);
	add_ask(&a, &far);
	assert_ok(add_get(&a, 1));
	assert_int_equal(far_word(&far), 1);
	far_pair_close(&far, &a);
}

/* Stopped for a while: it is answered then; so are those after it, in order. */
UNIT_TEST(test_stopped_short)
{
	struct far far;
	struct end a;

	open_both(&a, &far, PATIENT);
	stop(&far);
	for (uint64_t i = 0; i < 60; i++)
		assert_ok(end_atomic(&a, i % 2 ? CAS : ADD, i, 8 * i, far.info.addr, far.info.rkey,
				     i % 2 ? i : 1, i + 1));
	end_quiet(a.send_cq);
	kill(far.pid, SIGCONT);
	for (uint64_t i = 0; i < 60; i++)
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	/* add 1; replace i by i + 1: fails where i is not what is there */
	for (uint64_t i = 0, word = 0; i < 60; i++) {
		uint64_t before;

		memcpy(&before, a.mem + 8 * i, sizeof(before));
		assert_int_equal(before, word);
		word = i % 2 == 0 ? word + 1 : word == i ? i + 1 : word;
	}
	far_pair_close(&far, &a);
}

UNIT_TEST(test_killed)
{
	for (unsigned run = 0; run < 10; run++) {
		struct far far;
		struct end a;
		uint64_t start;

		open_both(&a, &far, PATIENT);
		if (run % 2)
			stop(&far);
		add_ask(&a, &far);
		if (run % 2 == 0)
			add_get(&a, 1); /* the next one is under way, maybe */
		add_ask(&a, &far);
		start = time_now_ns();
		far_kill(&far);
		if (run % 2)
			end_expect(a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
		assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 3, 0, 8, far.info.addr, far.info.rkey,
				   IBV_SEND_SIGNALED));
		for (struct ibv_wc wc = { .wr_id = 0 }; wc.wr_id != 3;) {
			end_wait(a.send_cq, &wc);
			assert_true(wc.status != IBV_WC_SUCCESS || wc.wr_id == 1);
		}
		assert_true(time_now_ns() - start < NS_PER_S);
		end_close(&a);
	}
}

/* Both ends are reset while one waits: what comes then gets its own answer. */
UNIT_TEST(test_reset_pending)
{
	struct far far;
	struct end a;

	open_both(&a, &far, PATIENT);
	for (uint64_t i = 0; i < 10; i++) {
		stop(&far);
		assert_ok(end_atomic(&a, ADD, 1, 8, far.info.addr, far.info.rkey, 1000, 0));
		assert_ok(end_to(&a, IBV_QPS_RESET));
		kill(far.pid, SIGCONT);
		far_do(&far, FAR_STATE, IBV_QPS_RESET);
		far_connect(&far, &a);
		add_ask(&a, &far);
		assert_int_equal(add_get(&a, 1), i);
		end_quiet(a.send_cq);
	}
	/* and destroyed */
	stop(&far);
	add_ask(&a, &far);
	end_close(&a);
	kill(far.pid, SIGCONT);
	usleep(SETTLE_US);
	assert_int_equal(far_word(&far), 10);
	far_stop(&far);
}

/*
 * The initiator alone is reset, at any time, and connects again: it may have been executed or not,
 * but a late answer is not taken for that to the next.
 */
UNIT_TEST(test_late_answer)
{
	uint64_t word = 0, before, late = 0;
	struct far far;
	struct end a;

	open_both(&a, &far, PATIENT);
	for (unsigned round = 0; round < ROUNDS; round++) {
		add_ask(&a, &far);
		for (volatile unsigned spin = 0; spin < round * 100; spin++)
			;
		assert_ok(end_to(&a, IBV_QPS_RESET));
		end_connect(&a, far.info.qpn);
		assert_ok(end_atomic(&a, ADD, 2, 8, far.info.addr, far.info.rkey, 0, 0));
		before = add_get(&a, 2);
		assert_true(before == word || before == word + 1);
		late += before == word;
		word = before;
	}
	assert_true(far_word(&far) == word || far_word(&far) == word + 1);
	print_message("  %u of %u were withdrawn in time\n", (unsigned)late, ROUNDS);
	far_pair_close(&far, &a);
}

/* The responder is reset and connected again with an ask standing: that was to another life. */
static void responder_reset_run(bool forge)
{
	struct soft_qp *qp;
	struct far far;
	struct end a;
	uint64_t word;

	open_both(&a, &far, PATIENT);
	qp = soft_qp(a.qp);
	far_do(&far, FAR_CALL, DEED_HOLD);
	add_ask(&a, &far);
	lock_take(&qp->sq); /* the ask goes on standing, whatever happens */
	assert_true(qp->asked && atomic_load(&qp->shared->ask.number) % 2);
	far_do(&far, FAR_CALL, DEED_RESET);
	word = far_word(&far); /* it may have been fast */
	far_do(&far, FAR_CONNECT, a.qp->qp_num);
	far_do(&far, FAR_CALL, DEED_LOOK);
	usleep(SETTLE_US);
	assert_int_equal(far_word(&far), word);
	/* nor is an answer that is given in the new life one to it */
	if (forge)
		far_do(&far, FAR_CALL, DEED_FORGE);
	lock_drop(&qp->sq);
	end_expect(a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	far_pair_close(&far, &a);
}

UNIT_TEST(test_responder_reset)
{
	responder_reset_run(false);
	responder_reset_run(true);
}

/* Attention for nothing does not execute anything twice. */
UNIT_TEST(test_once)
{
	struct soft_qp *qp;
	struct far far;
	struct end a;

	open_both(&a, &far, PATIENT);
	qp = soft_qp(a.qp);
	far_do(&far, FAR_CALL, DEED_HOLD);
	add_ask(&a, &far);
	lock_take(&qp->sq); /* the answer is not taken */
	far_do(&far, FAR_CALL, DEED_GO);
	for (unsigned i = 0; i < 20; i++) {
		far_do(&far, FAR_CALL, DEED_LOOK);
		usleep(1000);
	}
	assert_int_equal(far_word(&far), 1);
	lock_drop(&qp->sq);
	assert_ok(add_get(&a, 1));
	assert_int_equal(far_word(&far), 1);
	far_pair_close(&far, &a);
}
