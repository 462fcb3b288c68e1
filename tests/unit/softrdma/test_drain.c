/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The send queue that is drained (SQD) and the one that has failed (SQE, of UC and UD only). */
#include <errno.h>
#include <poll.h>

#include "ends.h"

#define FOR_EVER 7

static int to_sqd(struct end *end, bool tell)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = tell };

	return softrdma_modify_qp(end->qp, &attr,
				  IBV_QP_STATE | (tell ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0));
}

static bool draining(struct end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_ok(softrdma_query_qp(end->qp, &attr, IBV_QP_STATE, &init));
	assert_int_equal(attr.qp_state, IBV_QPS_SQD);
	return attr.sq_draining;
}

static bool event_waits(struct end *end, int timeout_ms)
{
	struct pollfd look = { .fd = end->context->async_fd, .events = POLLIN };

	return poll(&look, 1, timeout_ms) == 1;
}

static void expect_event(struct end *end, enum ibv_event_type type)
{
	struct ibv_async_event event;

	assert_true(event_waits(end, 5000));
	assert_ok(softrdma_get_async_event(end->context, &event));
	assert_int_equal(event.event_type, type);
	assert_ptr_equal(event.element.qp, end->qp);
	softrdma_ack_async_event(&event);
}

/* Nothing waits: drained at once. What is posted then waits for RTS, and goes in order. */
UNIT_TEST(test_idle)
{
	struct end_options options = { .rnr_retry = FOR_EVER };
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	assert_ok(to_sqd(&a, true));
	expect_event(&a, IBV_EVENT_SQ_DRAINED);
	assert_false(draining(&a));
	for (unsigned i = 0; i < 3; i++) {
		a.mem[i] = (unsigned char)(0x10 + i);
		assert_ok(end_rdma(&a, IBV_WR_RDMA_WRITE, i, i, 1, (uintptr_t)b.mem + i, b.mr->rkey,
				   IBV_SEND_SIGNALED));
	}
	end_quiet(a.send_cq);
	assert_int_equal(b.mem[0], 0);
	/* it receives all the time */
	assert_ok(end_recv(&a, 9, 64, 8));
	assert_ok(end_send(&b, 8, 64, 8, IBV_SEND_SIGNALED));
	end_expect(b.send_cq, 8, IBV_WC_SUCCESS);
	end_expect(a.recv_cq, 9, IBV_WC_SUCCESS);
	assert_ok(end_to(&a, IBV_QPS_RTS));
	for (unsigned i = 0; i < 3; i++)
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	assert_int_equal(b.mem[2], 0x12);
	/* and not told where nobody asked */
	assert_ok(to_sqd(&a, false));
	assert_false(event_waits(&a, 20));
	/* nor later, for a wish of long ago */
	assert_ok(end_to(&a, IBV_QPS_RTS));
	assert_false(event_waits(&a, 20));
	pair_close(&a, &b);
}

/* Some wait: they go first, those after them do not. */
UNIT_TEST(test_draining)
{
	struct end_options options = { .rnr_retry = FOR_EVER };
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	for (unsigned i = 0; i < 2; i++)
		assert_ok(end_send(&a, i, 0, 8, IBV_SEND_SIGNALED));
	assert_ok(to_sqd(&a, true));
	assert_ok(end_send(&a, 2, 0, 8, IBV_SEND_SIGNALED));
	assert_true(draining(&a));
	assert_ok(end_recv(&b, 0, 0, 8));
	end_expect(a.send_cq, 0, IBV_WC_SUCCESS);
	assert_true(draining(&a));
	assert_false(event_waits(&a, 20));
	assert_ok(end_recv(&b, 1, 0, 8));
	expect_event(&a, IBV_EVENT_SQ_DRAINED);
	end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_false(draining(&a));
	assert_ok(end_recv(&b, 2, 0, 8));
	end_quiet(a.send_cq);
	/* attributes may change here; READs are off from now on */
	assert_ok(softrdma_modify_qp(a.qp, &(struct ibv_qp_attr){ .max_rd_atomic = 0 },
				     IBV_QP_MAX_QP_RD_ATOMIC));
	assert_int_equal(end_state(&a), IBV_QPS_SQD);
	assert_ok(end_to(&a, IBV_QPS_RTS));
	end_expect(a.send_cq, 2, IBV_WC_SUCCESS);
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 3, 0, 8, (uintptr_t)b.mem, b.mr->rkey, 0));
	end_expect(a.send_cq, 3, IBV_WC_LOC_QP_OP_ERR);
	assert_false(event_waits(&a, 0));
	pair_close(&a, &b);
}

/* ERR and RESET end the waiting, each in its way. No event of a former wish. */
UNIT_TEST(test_leave)
{
	struct end_options options = { .rnr_retry = FOR_EVER };
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	for (unsigned i = 0; i < 2; i++) {
		assert_ok(end_send(&a, 0, 0, 8, 0));
		assert_ok(to_sqd(&a, true));
		assert_ok(end_send(&a, 1, 0, 8, 0));
		if (i == 0) {
			assert_ok(end_to(&a, IBV_QPS_ERR));
			end_expect(a.send_cq, 0, IBV_WC_WR_FLUSH_ERR);
			end_expect(a.send_cq, 1, IBV_WC_WR_FLUSH_ERR);
		}
		assert_ok(end_to(&a, IBV_QPS_RESET));
		end_connect(&a, b.qp->qp_num);
		assert_ok(end_send(&a, 2, 0, 8, IBV_SEND_SIGNALED));
		assert_ok(end_recv(&b, 2, 0, 8));
		end_expect(a.send_cq, 2, IBV_WC_SUCCESS);
		end_expect(b.recv_cq, 2, IBV_WC_SUCCESS);
		assert_ok(to_sqd(&a, false));
		assert_false(event_waits(&a, 20));
		assert_ok(end_to(&a, IBV_QPS_RTS));
	}
	end_quiet(a.send_cq);
	/* destroyed with the event not read */
	assert_ok(to_sqd(&a, true));
	pair_close(&a, &b);
}

static void send_bad(struct end *end, uint64_t wr_id)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->mem + end->size - 7,
			       .length = 8,
			       .lkey = end->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND },
			   *bad;

	if (end->ah)
		wr.wr.ud.ah = end->ah;
	assert_ok(ibv_post_send(end->qp, &wr, &bad));
}

static void sqe_run(enum ibv_qp_type type)
{
	struct end_options options = { .type = type };
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	assert_ok(end_recv(&a, 20, 0, 64));
	for (unsigned i = 0; i < 2; i++) {
		assert_ok(to_sqd(&a, false));
		send_bad(&a, 1);
		assert_ok(end_send(&a, 2, 0, 8, 0));
		assert_ok(end_to(&a, IBV_QPS_RTS));
		assert_ok(end_send(&a, 3, 0, 8, 0));
		end_expect(a.send_cq, 1, IBV_WC_LOC_PROT_ERR);
		end_expect(a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
		end_expect(a.send_cq, 3, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(end_state(&a), IBV_QPS_SQE);
		/* receives go on */
		end_quiet(a.recv_cq);
		assert_ok(end_send(&b, 4, 0, 8, 0));
		end_expect(a.recv_cq, 20 + i, IBV_WC_SUCCESS);
		assert_ok(end_recv(&a, 21 + i, 0, 64));
		assert_int_equal(end_to(&a, IBV_QPS_SQD), EINVAL);
		assert_ok(end_to(&a, IBV_QPS_RTS));
		assert_ok(end_recv(&b, 30, 0, 64));
		assert_ok(end_send(&a, 5, 0, 8, IBV_SEND_SIGNALED));
		end_expect(a.send_cq, 5, IBV_WC_SUCCESS);
		end_expect(b.recv_cq, 30, IBV_WC_SUCCESS);
	}
	send_bad(&a, 1);
	end_expect(a.send_cq, 1, IBV_WC_LOC_PROT_ERR);
	assert_ok(end_to(&a, IBV_QPS_ERR));
	end_expect(a.recv_cq, 22, IBV_WC_WR_FLUSH_ERR);
	pair_close(&a, &b);
}

UNIT_TEST(test_sqe)
{
	sqe_run(IBV_QPT_UC);
	sqe_run(IBV_QPT_UD);
}
