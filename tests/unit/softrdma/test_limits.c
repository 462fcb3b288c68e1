/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What may be created with what, how large, and what may not be destroyed before what. */
#include <errno.h>
#include <string.h>

#include "ends.h"

static const enum ibv_qp_type services[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

/* Everything that a QP can be made of. */
struct place {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
};

static void place_open(struct place *place)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };

	place->context = softrdma_open_device(softrdma_device());
	assert_non_null(place->context);
	place->pd = softrdma_alloc_pd(place->context);
	place->cq = softrdma_create_cq(place->context, 16, NULL, NULL, 0);
	place->srq = softrdma_create_srq(place->pd, &attr);
	assert_true(place->pd && place->cq && place->srq);
}

static void place_close(struct place *place)
{
	assert_ok(softrdma_destroy_srq(place->srq));
	assert_ok(softrdma_destroy_cq(place->cq));
	assert_ok(softrdma_dealloc_pd(place->pd));
	assert_ok(softrdma_close_device(place->context));
}

static void refused(struct ibv_pd *pd, struct ibv_qp_init_attr init, int code)
{
	errno = 0;
	assert_null(softrdma_create_qp(pd, &init));
	assert_int_equal(errno, code);
}

UNIT_TEST(test_types)
{
	struct ibv_qp_init_attr init = { .cap = { .max_send_wr = 1 } };
	struct place p;

	place_open(&p);
	init.send_cq = init.recv_cq = p.cq;
	for (int type = 0; type < 256; type++) {
		int code = EINVAL;

		init.qp_type = (enum ibv_qp_type)type;
		if (type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD)
			continue;
		if (type == IBV_QPT_RAW_PACKET || type == IBV_QPT_XRC_SEND ||
		    type == IBV_QPT_XRC_RECV || type == IBV_QPT_DRIVER)
			code = EOPNOTSUPP;
		refused(p.pd, init, code);
	}
	place_close(&p);
}

UNIT_TEST(test_strangers)
{
	struct place p, q;

	place_open(&p);
	place_open(&q);
	for (unsigned i = 0; i < 3; i++) {
		struct ibv_qp_init_attr good = { .send_cq = p.cq,
						 .recv_cq = p.cq,
						 .qp_type = services[i] },
					init = good;
		struct ibv_qp *qp = softrdma_create_qp(p.pd, &init);

		assert_non_null(qp);
		assert_ok(softrdma_destroy_qp(qp));
		init = good;
		init.send_cq = q.cq;
		refused(p.pd, init, EINVAL);
		init = good;
		init.recv_cq = q.cq;
		refused(p.pd, init, EINVAL);
		init = good;
		init.srq = q.srq;
		refused(p.pd, init, EINVAL);
		init = good;
		init.send_cq = NULL;
		refused(p.pd, init, EINVAL);
		init = good;
		init.recv_cq = NULL;
		refused(p.pd, init, EINVAL);
		refused(q.pd, good, EINVAL);
	}
	place_close(&p);
	place_close(&q);
}

/* A channel that is another device's is no more looked into than its CQs. */
UNIT_TEST(test_foreign_channel)
{
	struct ibv_device device = { 0 };
	struct ibv_context context = { .device = &device };
	struct ibv_comp_channel channel = { .context = &context, .fd = -1 };
	struct ibv_cq_init_attr_ex attr = { .cqe = 1, .channel = &channel };
	struct place p;

	place_open(&p);
	errno = 0;
	assert_null(softrdma_create_cq(p.context, 1, NULL, &channel, 0));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(softrdma_create_cq_ex(p.context, &attr));
	assert_int_equal(errno, EINVAL);
	place_close(&p);
}

UNIT_TEST(test_caps)
{
	struct ibv_qp_init_attr good, init;
	struct ibv_device_attr dev;
	struct ibv_qp_attr attr;
	struct place p;
	uint32_t inlines = 0;
	struct ibv_qp *qp;

	place_open(&p);
	assert_ok(softrdma_query_device(p.context, &dev));
	for (unsigned i = 0; i < 3; i++) {
		good = (struct ibv_qp_init_attr){ .send_cq = p.cq,
						  .recv_cq = p.cq,
						  .qp_type = services[i],
						  .cap = { .max_send_wr = (uint32_t)dev.max_qp_wr,
							   .max_recv_wr = (uint32_t)dev.max_qp_wr,
							   .max_send_sge = (uint32_t)dev.max_sge,
							   .max_recv_sge =
								   (uint32_t)dev.max_sge } };
		init = good;
		qp = softrdma_create_qp(p.pd, &init);
		assert_non_null(qp);
		assert_memory_equal(&init.cap, &good.cap, sizeof(init.cap));
		assert_ok(softrdma_query_qp(qp, &attr, IBV_QP_CAP, &init));
		assert_memory_equal(&init.cap, &good.cap, sizeof(init.cap));
		assert_memory_equal(&attr.cap, &good.cap, sizeof(init.cap));
		assert_ok(softrdma_destroy_qp(qp));
		init = good;
		init.cap.max_send_wr++;
		refused(p.pd, init, EINVAL);
		init = good;
		init.cap.max_recv_wr++;
		refused(p.pd, init, EINVAL);
		init = good;
		init.cap.max_send_sge++;
		refused(p.pd, init, EINVAL);
		init = good;
		init.cap.max_recv_sge++;
		refused(p.pd, init, EINVAL);
		/* the most inline data is found by trying: no attribute tells it */
		init = good;
		for (inlines = 0;; inlines++) {
			init.cap.max_inline_data = inlines;
			init.cap.max_send_wr = 1;
			qp = softrdma_create_qp(p.pd, &init);
			if (!qp)
				break;
			assert_int_equal(init.cap.max_inline_data, inlines);
			assert_ok(softrdma_destroy_qp(qp));
		}
		assert_int_equal(errno, EINVAL);
		assert_int_equal(inlines, 257);
		/* with an SRQ nothing is asked about receives, and there are none */
		init = good;
		init.srq = p.srq;
		init.cap.max_recv_wr = UINT32_MAX;
		init.cap.max_recv_sge = UINT32_MAX;
		qp = softrdma_create_qp(p.pd, &init);
		assert_non_null(qp);
		assert_int_equal(init.cap.max_recv_wr, 0);
		assert_int_equal(init.cap.max_recv_sge, 0);
		assert_ok(softrdma_destroy_qp(qp));
	}
	place_close(&p);
}

/* No sends, no receives: such a QP exists, and refuses. */
UNIT_TEST(test_nothing)
{
	struct end_options options = { .type = IBV_QPT_UC };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_recv_wr rwr = { .wr_id = 1 }, *rbad;
	struct end end;

	for (unsigned i = 0; i < 3; i++) {
		struct ibv_qp_init_attr init = { .qp_type = services[i] };

		options.type = services[i];
		end_open(&end, &options);
		assert_ok(softrdma_destroy_qp(end.qp));
		init.send_cq = end.send_cq;
		init.recv_cq = end.recv_cq;
		end.qp = softrdma_create_qp(end.pd, &init);
		assert_non_null(end.qp);
		end_connect(&end, end.qp->qp_num);
		wr.wr.ud.ah = end.ah;
		assert_int_equal(ibv_post_send(end.qp, &wr, &bad), ENOMEM);
		assert_ptr_equal(bad, &wr);
		assert_int_equal(ibv_post_recv(end.qp, &rwr, &rbad), ENOMEM);
		assert_ptr_equal(rbad, &rwr);
		end_close(&end);
	}
}

/* Lists: those before the bad one are posted. */
UNIT_TEST(test_lists)
{
	struct end_options options = { .type = IBV_QPT_RC };
	struct ibv_sge sges[5];
	struct ibv_recv_wr recv[4], *rbad;
	struct ibv_send_wr send[4], *bad;
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	for (unsigned i = 0; i < 5; i++)
		sges[i] = (struct ibv_sge){ (uintptr_t)b.mem + i * 64, 64, b.mr->lkey };
	memset(recv, 0, sizeof(recv));
	memset(send, 0, sizeof(send));
	for (unsigned i = 0; i < 4; i++) {
		recv[i] = (struct ibv_recv_wr){ .wr_id = i,
						.next = i < 3 ? &recv[i + 1] : NULL,
						.sg_list = sges,
						.num_sge = i == 2 ? 5 : 4 };
		send[i] = (struct ibv_send_wr){ .wr_id = i,
						.next = i < 3 ? &send[i + 1] : NULL,
						.opcode = i == 2 ? IBV_WR_LOCAL_INV : IBV_WR_SEND,
						.send_flags = IBV_SEND_SIGNALED };
	}
	assert_int_equal(ibv_post_recv(b.qp, recv, &rbad), EINVAL);
	assert_ptr_equal(rbad, &recv[2]);
	recv[3].num_sge = -1;
	assert_int_equal(ibv_post_recv(b.qp, &recv[3], &rbad), EINVAL);
	assert_int_equal(ibv_post_send(a.qp, send, &bad), EOPNOTSUPP);
	assert_ptr_equal(bad, &send[2]);
	for (unsigned i = 0; i < 2; i++) {
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
		end_expect(b.recv_cq, i, IBV_WC_SUCCESS);
	}
	/* full, until a completion is polled */
	for (unsigned i = 0; i < 64; i++)
		assert_ok(end_recv(&b, i, 0, 8));
	assert_int_equal(end_recv(&b, 64, 0, 8), ENOMEM);
	assert_ok(end_send(&a, 9, 0, 8, IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 9, IBV_WC_SUCCESS);
	assert_int_equal(end_recv(&b, 64, 0, 8), ENOMEM);
	end_expect(b.recv_cq, 0, IBV_WC_SUCCESS);
	assert_ok(end_recv(&b, 64, 0, 8));
	assert_int_equal(end_recv(&b, 65, 0, 8), ENOMEM);
	pair_close(&a, &b);
}

/* A QP with an SRQ has no receives of its own. */
UNIT_TEST(test_srq_post)
{
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct ibv_sge sges[2];
	struct place p;

	place_open(&p);
	for (unsigned i = 0; i < 3; i++) {
		struct end_options options = { .type = services[i], .context = p.context };
		struct end end;

		options.pd = p.pd;
		options.srq = p.srq;
		end_open(&end, &options);
		assert_ok(end_init(&end));
		assert_int_equal(ibv_post_recv(end.qp, &wr, &bad), EINVAL);
		assert_ptr_equal(bad, &wr);
		end_close(&end);
	}
	wr.sg_list = sges;
	wr.num_sge = 2;
	assert_int_equal(ibv_post_srq_recv(p.srq, &wr, &bad), EINVAL);
	wr.num_sge = 0;
	for (unsigned i = 0; i < 4; i++)
		assert_ok(ibv_post_srq_recv(p.srq, &wr, &bad));
	assert_int_equal(ibv_post_srq_recv(p.srq, &wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr);
	place_close(&p);
}

/* One user each is enough to keep an object. */
UNIT_TEST(test_in_use)
{
	struct ibv_ah_attr route = { .is_global = 1, .port_num = 1 };
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_context *context = softrdma_open_device(softrdma_device());
	struct ibv_pd *pd = softrdma_alloc_pd(context), *other = softrdma_alloc_pd(context);
	struct ibv_comp_channel *channel = softrdma_create_comp_channel(context);
	struct ibv_cq *cq = softrdma_create_cq(context, 1, NULL, channel, 0);
	struct ibv_srq *srq = softrdma_create_srq(pd, &srq_attr);
	static char mem[64];
	struct ibv_mr *mr = softrdma_reg_mr(pd, mem, sizeof(mem), 0);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UC, .srq = srq };
	struct ibv_qp *qp;
	struct ibv_ah *ah;

	init.send_cq = init.recv_cq = cq;
	assert_ok(softrdma_query_gid(context, 1, 0, &route.grh.dgid));
	qp = softrdma_create_qp(other, &init);
	ah = softrdma_create_ah(pd, &route);
	assert_true(pd && other && channel && cq && srq && mr && qp && ah);
	assert_int_equal(softrdma_destroy_cq(cq), EBUSY);
	assert_int_equal(softrdma_destroy_comp_channel(channel), EBUSY);
	assert_int_equal(softrdma_destroy_srq(srq), EBUSY);
	assert_int_equal(softrdma_dealloc_pd(other), EBUSY);
	assert_ok(softrdma_destroy_qp(qp));
	assert_ok(softrdma_dealloc_pd(other));
	assert_int_equal(softrdma_dealloc_pd(pd), EBUSY);
	assert_ok(softrdma_destroy_srq(srq));
	assert_int_equal(softrdma_dealloc_pd(pd), EBUSY);
	assert_ok(softrdma_dereg_mr(mr));
	assert_int_equal(softrdma_dealloc_pd(pd), EBUSY);
	assert_ok(softrdma_destroy_ah(ah));
	assert_int_equal(softrdma_close_device(context), EBUSY);
	assert_ok(softrdma_dealloc_pd(pd));
	assert_int_equal(softrdma_close_device(context), EBUSY);
	assert_ok(softrdma_destroy_cq(cq));
	assert_int_equal(softrdma_close_device(context), EBUSY);
	assert_ok(softrdma_destroy_comp_channel(channel));
	assert_ok(softrdma_close_device(context));
}
