/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Datagrams against their owner. Two threads send, one polls and posts, the service thread receives
 * too; the owner takes the memory back in every way that there is, and nobody may write to it then.
 * Under ThreadSanitizer as well.
 */
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "common/base/time.h"
#include "ends.h"

#define ROUNDS	   300
#define SLOTS	   8
#define SLOT	   4608
#define LENGTH	   4096
#define RUN_US	   300
#define SETTLE_US  300
#define RUN_NS	   (30 * NS_PER_S) /* at most */
#define WINDOW	   40
#define ENOUGH	   30 /* of the window: some may be lost where the machine is very slow */
#define POLLING_NS (20 * NS_PER_MS)

static struct race {
	struct end sender[2], owner;
	pthread_t threads[3];
	_Atomic bool stop;
	_Atomic uint32_t lkey;
	_Atomic uint64_t received, posted;
} race;

static void *race_send(void *arg)
{
	struct end *end = arg;
	struct ibv_wc wc;

	while (!atomic_load(&race.stop)) {
		if (end_send(end, 1, 0, LENGTH, IBV_SEND_SIGNALED) != 0)
			sched_yield();
		while (ibv_poll_cq(end->send_cq, 1, &wc) == 1)
			assert(wc.status == IBV_WC_SUCCESS);
	}
	return NULL;
}

/* Post whenever that is possible, poll; completions come in the order of posting. */
static void *race_receive(void *arg)
{
	struct end *end = &race.owner;
	uint64_t posted = 0, next = 0;

	while (!atomic_load(&race.stop)) {
		struct ibv_sge sge = { .addr = (uintptr_t)end->mem + posted % SLOTS * SLOT,
				       .length = LENGTH + 40,
				       .lkey = atomic_load(&race.lkey) };
		struct ibv_recv_wr wr = { .wr_id = posted, .sg_list = &sge, .num_sge = 1 }, *bad;
		struct ibv_wc wc;

		if (ibv_post_recv(end->qp, &wr, &bad) == 0)
			posted++;
		while (ibv_poll_cq(end->recv_cq, 1, &wc) == 1) {
			assert(wc.wr_id >= next && wc.wr_id < posted);
			next = wc.wr_id + 1;
			if (wc.status == IBV_WC_SUCCESS)
				atomic_fetch_add(&race.received, 1);
			else if (wc.status != IBV_WC_LOC_PROT_ERR)
				assert(wc.status == IBV_WC_WR_FLUSH_ERR);
		}
	}
	return arg;
}

/* Nobody writes here any more. */
static void rewrite(unsigned round)
{
	struct end *end = &race.owner;

	unsigned char byte = (unsigned char)round | 1;

	memset(end->mem, byte, SLOTS * SLOT);
	usleep(SETTLE_US); /* a receive in the middle of its copy goes on */
	for (size_t i = 0; i < SLOTS * SLOT; i++)
		assert_int_equal(end->mem[i], byte);
}

static void take_back(unsigned round)
{
	struct end *end = &race.owner;

	switch (round % 3) {
	case 0:
		assert_ok(end_to(end, IBV_QPS_ERR));
		rewrite(round);
		break;
	case 1:
		assert_ok(end_to(end, IBV_QPS_RESET));
		rewrite(round);
		break;
	default:
		assert_ok(softrdma_dereg_mr(end->mr));
		rewrite(round);
		end->mr = softrdma_reg_mr(end->pd, end->mem, end->size, END_ALL);
		assert_non_null(end->mr);
		atomic_store(&race.lkey, end->mr->lkey);
		break;
	}
	assert_ok(end_to(end, IBV_QPS_RESET));
	end_connect(end, 0);
}

UNIT_TEST(test_take_back)
{
	struct end_options options = { .type = IBV_QPT_UD };
	uint64_t deadline = time_now_ns() + RUN_NS;
	unsigned round = 0;

	memset(&race, 0, sizeof(race));
	end_open(&race.owner, &options);
	end_connect(&race.owner, 0);
	atomic_store(&race.lkey, race.owner.mr->lkey);
	for (unsigned i = 0; i < 2; i++) {
		end_open(&race.sender[i], &options);
		end_connect(&race.sender[i], race.owner.qp->qp_num);
		memset(race.sender[i].mem, 0, LENGTH); /* no owner writes an even byte */
		assert_ok(pthread_create(&race.threads[i], NULL, race_send, &race.sender[i]));
	}
	assert_ok(pthread_create(&race.threads[2], NULL, race_receive, NULL));
	for (; round < ROUNDS && time_now_ns() < deadline; round++) {
		usleep(RUN_US);
		take_back(round);
	}
	atomic_store(&race.stop, true);
	for (unsigned i = 0; i < 3; i++)
		assert_ok(pthread_join(race.threads[i], NULL));
	print_message("  %u rounds, %u received\n", round, (unsigned)atomic_load(&race.received));
	assert_true(round > 2 && atomic_load(&race.received) > 0);
	for (unsigned i = 0; i < 2; i++)
		end_close(&race.sender[i]);
	end_close(&race.owner);
}

/* Queue pairs come and go on a CQ that another thread polls, while somebody sends to them. */
UNIT_TEST(test_come_and_go)
{
	struct end_options options = { .type = IBV_QPT_UD };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD,
					 .cap = { .max_recv_wr = 4, .max_recv_sge = 1 } };
	struct end *end = &race.owner, *sender = &race.sender[0];

	memset(&race, 0, sizeof(race));
	end_open(end, &options);
	end_open(sender, &options);
	end_connect(end, 0);
	atomic_store(&race.lkey, end->mr->lkey);
	assert_ok(pthread_create(&race.threads[0], NULL, race_receive, NULL));
	init.send_cq = end->send_cq;
	init.recv_cq = end->recv_cq;
	for (unsigned i = 0; i < 300; i++) {
		struct end other = *end;

		other.qp = softrdma_create_qp(end->pd, &init);
		assert_non_null(other.qp);
		end_connect(&other, 0);
		end_connect(sender, other.qp->qp_num);
		for (unsigned k = 0; k < 4; k++) {
			assert_ok(end_send(sender, 1, 0, 64, IBV_SEND_SIGNALED));
			end_expect(sender->send_cq, 1, IBV_WC_SUCCESS);
		}
		assert_ok(softrdma_destroy_qp(other.qp));
		assert_ok(end_to(sender, IBV_QPS_RESET));
	}
	atomic_store(&race.stop, true);
	assert_ok(pthread_join(race.threads[0], NULL));
	end_close(sender);
	end_close(end);
}

/* After long polling nobody polls: what comes is received all the same. */
UNIT_TEST(test_polling_ends)
{
	struct end_options options = { .type = IBV_QPT_UD };
	struct ibv_wc wc[WINDOW];
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	for (unsigned run = 0; run < 3; run++) {
		uint64_t end = time_now_ns() + POLLING_NS;
		int arrived;

		for (unsigned i = 0; time_now_ns() < end; i++) {
			assert_ok(ibv_poll_cq(b.recv_cq, 1, wc));
			if (i % 128)
				continue;
			assert_ok(end_recv(&b, 1, 0, 64));
			assert_ok(end_send(&a, 2, 0, 8, IBV_SEND_SIGNALED));
			end_expect(a.send_cq, 2, IBV_WC_SUCCESS);
			end_expect(b.recv_cq, 1, IBV_WC_SUCCESS);
		}
		for (unsigned i = 0; i < WINDOW; i++)
			assert_ok(end_recv(&b, 1, 0, 64));
		for (unsigned i = 0; i < WINDOW; i++) {
			assert_ok(end_send(&a, 2, 0, 8, IBV_SEND_SIGNALED));
			end_expect(a.send_cq, 2, IBV_WC_SUCCESS);
		}
		usleep(20000);
		arrived = ibv_poll_cq(b.recv_cq, WINDOW, wc);
		assert_true(arrived >= ENOUGH);
		assert_ok(end_to(&b, IBV_QPS_RESET));
		end_connect(&b, 0);
	}
	pair_close(&a, &b);
}
