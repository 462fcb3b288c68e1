/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* One CQ for sends and receives: both count, as on hardware. */
#include <poll.h>

#include "ends.h"

#define CQE 4

static void test_both_count(void **state)
{
	struct end_options options = { .rnr_retry = 7 };
	struct pollfd fd = { .events = POLLIN };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 16,
						  .max_recv_wr = 16,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };
	struct ibv_async_event event;
	struct ibv_cq *cq;
	struct end a, b;
	struct ibv_wc wc;
	unsigned polled = 0;

	(void)state;
	end_open(&a, &options);
	end_open(&b, &options);
	cq = softrdma_create_cq(b.context, CQE, NULL, NULL, 0);
	assert_non_null(cq);
	assert_int_equal(softrdma_destroy_qp(b.qp), 0);
	init.send_cq = init.recv_cq = cq;
	b.qp = softrdma_create_qp(b.pd, &init);
	assert_non_null(b.qp);
	end_connect(&a, b.qp->qp_num);
	end_connect(&b, a.qp->qp_num);
	for (unsigned i = 0; i < CQE; i++)
		assert_int_equal(end_recv(&b, i, 0, 8), 0);
	/* three of its own, one received: full */
	for (unsigned i = 0; i < CQE - 1; i++)
		assert_int_equal(end_rdma(&b, IBV_WR_RDMA_READ, i, 0, 8, (uintptr_t)a.mem,
					  a.mr->rkey, IBV_SEND_SIGNALED),
				 0);
	assert_int_equal(end_send(&a, 1, 0, 8, IBV_SEND_SIGNALED), 0);
	end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
	fd.fd = b.context->async_fd;
	assert_int_equal(poll(&fd, 1, 50), 0);
	/* one too many */
	assert_int_equal(end_send(&a, 2, 0, 8, IBV_SEND_SIGNALED), 0);
	end_expect(a.send_cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(poll(&fd, 1, 5000), 1);
	assert_int_equal(softrdma_get_async_event(b.context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
	softrdma_ack_async_event(&event);
	while (ibv_poll_cq(cq, 1, &wc) == 1)
		polled++;
	assert_int_equal(polled, CQE);
	assert_int_equal(softrdma_destroy_qp(b.qp), 0);
	b.qp = NULL;
	assert_int_equal(softrdma_destroy_cq(cq), 0);
	end_close(&b);
	end_close(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
