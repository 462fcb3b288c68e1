/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* One CQ for sends and receives: both count, as on hardware, and both have their turn. */
#include <poll.h>

#include "ends.h"

#define CQE	      4
#define TURN_SENDS    12u
#define TURN_POLL_MAX 8

/* Two ends, connected; a new queue pair of @b has one CQ of @cqe for all. */
static struct ibv_cq *one_cq_open(struct end *a, struct end *b, int cqe)
{
	struct end_options options = { .rnr_retry = 7 };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 16,
						  .max_recv_wr = 16,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };
	struct ibv_cq *cq;

	end_open(a, &options);
	end_open(b, &options);
	cq = softrdma_create_cq(b->context, cqe, NULL, NULL, 0);
	assert_non_null(cq);
	assert_ok(softrdma_destroy_qp(b->qp));
	init.send_cq = init.recv_cq = cq;
	b->qp = softrdma_create_qp(b->pd, &init);
	assert_non_null(b->qp);
	end_connect(a, b->qp->qp_num);
	end_connect(b, a->qp->qp_num);
	return cq;
}

static void one_cq_close(struct end *a, struct end *b, struct ibv_cq *cq)
{
	assert_ok(softrdma_destroy_qp(b->qp));
	b->qp = NULL;
	assert_ok(softrdma_destroy_cq(cq));
	end_close(b);
	end_close(a);
}

static int post_read(struct end *end, struct end *from, unsigned wr_id)
{
	return end_rdma(end, IBV_WR_RDMA_READ, wr_id, 0, 8, (uintptr_t)from->mem, from->mr->rkey,
			IBV_SEND_SIGNALED);
}

UNIT_TEST(test_both_count)
{
	struct pollfd fd = { .events = POLLIN };
	struct ibv_async_event event;
	struct ibv_cq *cq;
	struct end a, b;
	struct ibv_wc wc;
	unsigned polled = 0;

	cq = one_cq_open(&a, &b, CQE);
	for (unsigned i = 0; i < CQE; i++)
		assert_ok(end_recv(&b, i, 0, 8));
	/* three of its own, one received: full */
	for (unsigned i = 0; i < CQE - 1; i++)
		assert_ok(post_read(&b, &a, i));
	assert_ok(end_send(&a, 1, 0, 8, IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
	fd.fd = b.context->async_fd;
	assert_ok(poll(&fd, 1, 50));
	/* one too many */
	assert_ok(end_send(&a, 2, 0, 8, IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(poll(&fd, 1, 5000), 1);
	assert_ok(softrdma_get_async_event(b.context, &event));
	assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
	softrdma_ack_async_event(&event);
	while (ibv_poll_cq(cq, 1, &wc) == 1)
		polled++;
	assert_int_equal(polled, CQE);
	one_cq_close(&a, &b, cq);
}

/* A program that polls @count at a time and posts as many READs gets receives too. */
static void turns(int count)
{
	unsigned posted = 0, own = 0, received = 0;
	struct ibv_wc wc[TURN_POLL_MAX];
	struct ibv_cq *cq;
	struct end a, b;

	cq = one_cq_open(&a, &b, 64);
	for (unsigned i = 0; i < TURN_SENDS; i++) {
		assert_ok(end_recv(&b, i, 0, 8));
		assert_ok(end_send(&a, i, 0, 8, IBV_SEND_SIGNALED));
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	}
	for (unsigned polls = 0; received < TURN_SENDS; polls++) {
		/* half of the polls, and each has room for one */
		assert_true(polls < 2 * TURN_SENDS);
		while (posted - own < (unsigned)count)
			assert_ok(post_read(&b, &a, posted++));
		assert_int_equal(ibv_poll_cq(cq, count, wc), count);
		for (int i = 0; i < count; i++) {
			assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
			/* each kind in its order */
			assert_int_equal(wc[i].wr_id,
					 wc[i].opcode == IBV_WC_RECV ? received++ : own++);
		}
	}
	while (own < posted)
		end_expect(cq, own++, IBV_WC_SUCCESS);
	end_quiet(cq);
	one_cq_close(&a, &b, cq);
}

UNIT_TEST(test_turns)
{
	for (int count = 1; count <= TURN_POLL_MAX; count++)
		turns(count);
}
