/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* IBV_EVENT_SRQ_LIMIT_REACHED and IBV_EVENT_QP_LAST_WQE_REACHED: when, how often, and when not. */
#include <errno.h>
#include <poll.h>

#include "ends.h"

#define FOR_EVER 7
#define DEPTH	 8

static const enum ibv_qp_type services[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

/* A receiver on an SRQ, and its senders. */
struct setting {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_srq *srq;
	struct end a, b;
};

static void setting_open(struct setting *s, enum ibv_qp_type type)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	struct end_options near = { .type = type, .rnr_retry = FOR_EVER }, other = near;

	s->context = softrdma_open_device(softrdma_device());
	s->pd = softrdma_alloc_pd(s->context);
	s->srq = softrdma_create_srq(s->pd, &attr);
	assert_true(s->context && s->pd && s->srq);
	other.context = s->context;
	other.pd = s->pd;
	other.srq = s->srq;
	pair_open(&s->a, &s->b, &near, &other);
}

static void setting_close(struct setting *s)
{
	pair_close(&s->a, &s->b);
	assert_ok(softrdma_destroy_srq(s->srq));
	assert_ok(softrdma_dealloc_pd(s->pd));
	assert_ok(softrdma_close_device(s->context));
}

static bool event_waits(struct ibv_context *context, int timeout_ms)
{
	struct pollfd look = { .fd = context->async_fd, .events = POLLIN };

	return poll(&look, 1, timeout_ms) == 1;
}

static void expect_event(struct setting *s, enum ibv_event_type type)
{
	struct ibv_async_event event;

	assert_true(event_waits(s->context, 5000));
	assert_ok(softrdma_get_async_event(s->context, &event));
	assert_int_equal(event.event_type, type);
	if (type == IBV_EVENT_SRQ_LIMIT_REACHED)
		assert_ptr_equal(event.element.srq, s->srq);
	else
		assert_ptr_equal(event.element.qp, s->b.qp);
	softrdma_ack_async_event(&event);
}

static int arm(struct setting *s, uint32_t limit)
{
	struct ibv_srq_attr attr = { .srq_limit = limit };

	return softrdma_modify_srq(s->srq, &attr, IBV_SRQ_LIMIT);
}

static uint32_t armed(struct setting *s)
{
	struct ibv_srq_attr attr;

	assert_ok(softrdma_query_srq(s->srq, &attr));
	return attr.srq_limit;
}

static void post(struct setting *s, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		assert_ok(end_recv(&s->b, i, 0, 64));
}

static void use(struct setting *s, unsigned count)
{
	struct ibv_wc wc;

	for (unsigned i = 0; i < count; i++) {
		assert_ok(end_send(&s->a, i, 0, 8, IBV_SEND_SIGNALED));
		end_expect(s->a.send_cq, i, IBV_WC_SUCCESS);
		end_wait(s->b.recv_cq, &wc);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
}

/* The event comes when fewer than the limit are left, once for each arming. */
UNIT_TEST(test_limit)
{
	struct setting s;

	for (unsigned i = 0; i < 3; i++) {
		setting_open(&s, services[i]);
		post(&s, DEPTH);
		assert_ok(arm(&s, 4));
		assert_int_equal(armed(&s), 4);
		use(&s, DEPTH - 4);
		assert_false(event_waits(s.context, 20)); /* 4 are left: not fewer */
		use(&s, 1);
		expect_event(&s, IBV_EVENT_SRQ_LIMIT_REACHED);
		assert_ok(armed(&s));
		use(&s, 3);
		post(&s, DEPTH);
		use(&s, DEPTH);
		assert_false(event_waits(s.context, 20));
		/* all there are, and as many as there are */
		post(&s, DEPTH);
		assert_ok(arm(&s, DEPTH));
		assert_false(event_waits(s.context, 20));
		use(&s, 1);
		expect_event(&s, IBV_EVENT_SRQ_LIMIT_REACHED);
		setting_close(&s);
	}
}

/* A limit above what is posted is reached at once; one above what can be is none. */
UNIT_TEST(test_limit_at_once)
{
	struct setting s;

	setting_open(&s, IBV_QPT_RC);
	assert_int_equal(arm(&s, DEPTH + 1), EINVAL);
	assert_ok(armed(&s));
	assert_ok(arm(&s, 1));
	expect_event(&s, IBV_EVENT_SRQ_LIMIT_REACHED);
	post(&s, 3);
	assert_ok(arm(&s, 3));
	assert_false(event_waits(s.context, 20));
	assert_ok(arm(&s, 4));
	expect_event(&s, IBV_EVENT_SRQ_LIMIT_REACHED);
	/* taken back before it was reached */
	assert_ok(arm(&s, 3));
	assert_ok(arm(&s, 0));
	use(&s, 3);
	assert_false(event_waits(s.context, 20));
	/* an event that nobody reads does not hold up the SRQ's end */
	assert_ok(arm(&s, 1));
	setting_close(&s);
}

/* On the way to ERR, whoever sent it there; once; receives stay in the SRQ. */
UNIT_TEST(test_last_wqe)
{
	struct setting s;

	for (unsigned i = 0; i < 3; i++) {
		setting_open(&s, services[i]);
		post(&s, 2);
		assert_ok(end_to(&s.b, IBV_QPS_ERR));
		expect_event(&s, IBV_EVENT_QP_LAST_WQE_REACHED);
		assert_ok(end_to(&s.b, IBV_QPS_ERR));
		assert_false(event_waits(s.context, 20));
		end_quiet(s.b.recv_cq);
		/* RESET is no error */
		assert_ok(end_to(&s.b, IBV_QPS_RESET));
		end_connect(&s.b, s.a.qp->qp_num);
		use(&s, 1);
		assert_ok(end_to(&s.b, IBV_QPS_RESET));
		assert_false(event_waits(s.context, 20));
		/* another life, another event */
		end_connect(&s.b, s.a.qp->qp_num);
		use(&s, 1);
		assert_ok(end_to(&s.b, IBV_QPS_ERR));
		expect_event(&s, IBV_EVENT_QP_LAST_WQE_REACHED);
		setting_close(&s);
	}
}

/* The peer's fault: its own event first, then this. */
UNIT_TEST(test_last_wqe_peer)
{
	struct setting s;

	setting_open(&s, IBV_QPT_RC);
	assert_ok(
		end_rdma(&s.a, IBV_WR_RDMA_READ, 1, 0, 8, (uintptr_t)s.b.mem, s.b.mr->rkey ^ 1, 0));
	end_expect(s.a.send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	expect_event(&s, IBV_EVENT_QP_ACCESS_ERR);
	expect_event(&s, IBV_EVENT_QP_LAST_WQE_REACHED);
	/* none at the other side, which has no SRQ */
	assert_false(event_waits(s.a.context, 20));
	setting_close(&s);
}
