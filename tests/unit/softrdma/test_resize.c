/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Completion queues that grow and shrink with completions in them, and while they are used. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "ends.h"

#include "common/base/time.h"

#define WAIT_NS	 (30 * NS_PER_S)
#define FOR_EVER 7

static void read_ids(struct end *a, struct end *b, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		assert_ok(end_rdma(a, IBV_WR_RDMA_READ, i, 0, 8, (uintptr_t)b->mem, b->mr->rkey,
				   IBV_SEND_SIGNALED));
}

static void expect_ids(struct ibv_cq *cq, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		end_expect(cq, i, IBV_WC_SUCCESS);
}

static void deliver_ids(struct end *a, struct end *b, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		assert_ok(end_recv(b, i, 0, 8));
		assert_ok(end_send(a, i, 0, 8, 0));
	}
}

static bool event_waits(struct ibv_context *context, int timeout_ms)
{
	struct pollfd wait = { .fd = context->async_fd, .events = POLLIN };

	return poll(&wait, 1, timeout_ms) == 1;
}

static void overrun_expect(struct ibv_context *context)
{
	struct ibv_async_event event;

	assert_true(event_waits(context, 5000));
	assert_ok(softrdma_get_async_event(context, &event));
	assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
	softrdma_ack_async_event(&event);
}

UNIT_TEST(test_bounds)
{
	struct end_options options = { .cqe = 16 };
	struct end a;

	end_open(&a, &options);
	assert_int_equal(softrdma_resize_cq(a.send_cq, 0), EINVAL);
	assert_int_equal(softrdma_resize_cq(a.send_cq, -1), EINVAL);
	assert_int_equal(softrdma_resize_cq(a.send_cq, 32769), EINVAL);
	assert_int_equal(a.send_cq->cqe, 16);
	assert_ok(softrdma_resize_cq(a.send_cq, 32768));
	assert_int_equal(a.send_cq->cqe, 32768);
	assert_ok(softrdma_resize_cq(a.send_cq, 1));
	assert_int_equal(a.send_cq->cqe, 1);
	end_close(&a);
}

/* Completions of sends, and of receives, that stand across the end of the ring. */
UNIT_TEST(test_grow)
{
	struct end_options options = { .cqe = 8 };
	struct end a, b;

	for (unsigned cut = 0; cut < 8 * 13; cut += 13) {
		pair_open(&a, &b, &options, &options);
		for (unsigned i = 0; i < cut; i++) {
			read_ids(&a, &b, i, i + 1);
			expect_ids(a.send_cq, i, i + 1);
		}
		read_ids(&a, &b, cut, cut + 8);
		assert_ok(softrdma_resize_cq(a.send_cq, 50));
		assert_int_equal(a.send_cq->cqe, 50);
		read_ids(&a, &b, cut + 8, cut + 50);
		expect_ids(a.send_cq, cut, cut + 50);
		end_quiet(a.send_cq);

		deliver_ids(&a, &b, cut, cut + 8);
		assert_ok(softrdma_resize_cq(b.recv_cq, 50));
		read_ids(&a, &b, 1, 2); /* makes room in the send queue */
		expect_ids(a.send_cq, 1, 2);
		deliver_ids(&a, &b, cut + 8, cut + 50);
		expect_ids(b.recv_cq, cut, cut + 50);
		end_quiet(b.recv_cq);
		assert_false(event_waits(a.context, 0));
		assert_false(event_waits(b.context, 0));
		pair_close(&a, &b);
	}
}

/* One more than there is room for is lost, and said. */
UNIT_TEST(test_new_limit)
{
	struct end_options options = { .cqe = 4 };
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	assert_ok(softrdma_resize_cq(a.send_cq, 6));
	assert_ok(softrdma_resize_cq(b.recv_cq, 6));
	read_ids(&a, &b, 0, 6);
	assert_false(event_waits(a.context, 0));
	read_ids(&a, &b, 6, 7);
	overrun_expect(a.context);
	expect_ids(a.send_cq, 0, 6);
	end_quiet(a.send_cq);
	deliver_ids(&a, &b, 0, 6);
	assert_false(event_waits(b.context, 20));
	deliver_ids(&a, &b, 6, 7);
	overrun_expect(b.context);
	expect_ids(b.recv_cq, 0, 6);
	end_quiet(b.recv_cq);
	pair_close(&a, &b);
}

/* Six in it, of both kinds: five are too few, and nothing has changed then. */
UNIT_TEST(test_shrink)
{
	struct ibv_context *context = softrdma_open_device(softrdma_device());
	struct ibv_pd *pd = softrdma_alloc_pd(context);
	struct ibv_cq *cq = softrdma_create_cq(context, 10, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 32,
						  .max_recv_wr = 32,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };
	struct end_options options = { .context = context, .pd = pd };
	struct end a, b;
	struct ibv_wc wc;
	unsigned sends = 0, receives = 0;

	end_open(&a, &options);
	end_open(&b, &options);
	assert_ok(softrdma_destroy_qp(a.qp));
	a.qp = softrdma_create_qp(pd, &init);
	assert_non_null(a.qp);
	end_connect(&a, b.qp->qp_num);
	end_connect(&b, a.qp->qp_num);
	read_ids(&a, &b, 0, 3);
	deliver_ids(&b, &a, 0, 3);
	assert_int_equal(softrdma_resize_cq(cq, 5), EINVAL);
	assert_int_equal(cq->cqe, 10);
	read_ids(&a, &b, 3, 7); /* ten, as before */
	assert_false(event_waits(context, 20));
	for (unsigned i = 0; i < 4; i++) {
		end_wait(cq, &wc); /* of either kind, each in its order */
		assert_int_equal(wc.wr_id, wc.opcode == IBV_WC_RECV ? receives++ : sends++);
	}
	assert_ok(softrdma_resize_cq(cq, 6));
	assert_int_equal(cq->cqe, 6);
	read_ids(&a, &b, 99, 100);
	overrun_expect(context);
	for (unsigned i = 0; i < 6; i++) {
		end_wait(cq, &wc);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, wc.opcode == IBV_WC_RECV ? receives++ : sends++);
	}
	assert_int_equal(sends, 7);
	assert_int_equal(receives, 3);
	end_quiet(cq);
	assert_ok(softrdma_destroy_qp(a.qp));
	a.qp = NULL;
	pair_close(&a, &b);
	assert_ok(softrdma_destroy_cq(cq));
	assert_ok(softrdma_dealloc_pd(pd));
	assert_ok(softrdma_close_device(context));
}

/*
 * Peers look at the limit without a lock, so that a CQ that shrank may hold more than its size.
 * When the QP fails, what it received moves into the ring of the CQ, and none of it is lost.
 */
UNIT_TEST(test_shrink_then_error)
{
	struct ibv_context *context = softrdma_open_device(softrdma_device());
	struct ibv_pd *pd = softrdma_alloc_pd(context);
	struct ibv_cq *cq = softrdma_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 32,
						  .max_recv_wr = 32,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };
	struct end_options options = { .context = context, .pd = pd };
	struct end a, b;

	end_open(&a, &options);
	end_open(&b, &options);
	assert_ok(softrdma_destroy_qp(a.qp));
	a.qp = softrdma_create_qp(pd, &init);
	assert_non_null(a.qp);
	end_connect(&a, b.qp->qp_num);
	end_connect(&b, a.qp->qp_num);
	assert_ok(softrdma_resize_cq(cq, 8));
	read_ids(&a, &b, 0, 6);
	deliver_ids(&b, &a, 100, 102); /* full now */
	assert_ok(end_to(&a, IBV_QPS_ERR));
	assert_false(event_waits(context, 20));
	expect_ids(cq, 0, 6);
	expect_ids(cq, 100, 102);
	end_quiet(cq);
	assert_ok(softrdma_destroy_qp(a.qp));
	a.qp = NULL;
	pair_close(&a, &b);
	assert_ok(softrdma_destroy_cq(cq));
	assert_ok(softrdma_dealloc_pd(pd));
	assert_ok(softrdma_close_device(context));
}

/* In the middle of a batch. */
UNIT_TEST(test_in_batch)
{
	struct end_options options = { .cqe = 4, .cq_ex = true };
	struct end a, b;
	struct ibv_cq_ex *cq;

	pair_open(&a, &b, &options, &options);
	cq = (struct ibv_cq_ex *)a.send_cq;
	read_ids(&a, &b, 0, 4);
	assert_ok(ibv_start_poll(cq, NULL));
	assert_ok(softrdma_resize_cq(a.send_cq, 32));
	assert_int_equal(cq->cqe, 32);
	assert_int_equal(cq->wr_id, 0);
	read_ids(&a, &b, 4, 32);
	for (uint64_t i = 1; i < 32; i++) {
		assert_ok(ibv_next_poll(cq));
		assert_int_equal(cq->wr_id, i);
	}
	assert_int_equal(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	pair_close(&a, &b);
}

/* Two threads resize, never below what may be outstanding, while completions come and go. */
enum { STORMS = 40, STEPS = 10, WINDOW = 24 };

struct storm {
	struct ibv_cq *cq[2];
	_Atomic uint32_t busy, failed;
};

/* A ring never becomes smaller, so that each is a larger one; the size goes up and down. */
static void *storm_run(void *arg)
{
	struct storm *s = arg;

	for (unsigned step = 0; step < STEPS; step++) {
		for (unsigned i = 0; i < 2; i++) {
			if (softrdma_resize_cq(s->cq[i], WINDOW << step) ||
			    softrdma_resize_cq(s->cq[i], WINDOW))
				atomic_fetch_add(&s->failed, 1);
		}
		sched_yield();
	}
	atomic_fetch_sub(&s->busy, 1);
	return NULL;
}

static void storm(uint64_t deadline)
{
	struct end_options options = { .rnr_retry = FOR_EVER, .cqe = WINDOW };
	struct storm s = { .busy = 2 };
	pthread_t threads[2];
	uint64_t in = 0, out = 0;
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	s.cq[0] = a.send_cq;
	s.cq[1] = b.recv_cq;
	for (unsigned i = 0; i < 2; i++)
		assert_ok(pthread_create(&threads[i], NULL, storm_run, &s));
	for (unsigned round = 0; atomic_load(&s.busy) && time_now_ns() < deadline; round++) {
		for (unsigned i = 0; i < round % (WINDOW + 1); i++, in++) {
			assert_ok(end_recv(&b, in, 0, 8));
			assert_ok(end_send(&a, in, 0, 8, IBV_SEND_SIGNALED));
		}
		expect_ids(a.send_cq, out, in);
		expect_ids(b.recv_cq, out, in);
		out = in;
	}
	for (unsigned i = 0; i < 2; i++)
		assert_ok(pthread_join(threads[i], NULL));
	assert_ok(atomic_load(&s.failed));
	assert_false(event_waits(a.context, 0));
	assert_false(event_waits(b.context, 0));
	pair_close(&a, &b);
}

UNIT_TEST(test_storm)
{
	uint64_t deadline = time_now_ns() + WAIT_NS;

	for (unsigned i = 0; i < STORMS && time_now_ns() < deadline; i++)
		storm(deadline);
}
