/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The state machine of a QP, attribute masks, limits of objects, queries. */
#include <errno.h>
#include <string.h>

#include "ends.h"

#include "common/softrdma/objects/qp.h"

UNIT_TEST(test_masks)
{
	const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int rts = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	const struct {
		enum ibv_qp_state to;
		int mask;
	} steps[] = { { IBV_QPS_INIT, init }, { IBV_QPS_RTR, rtr }, { IBV_QPS_RTS, rts } };
	struct ibv_qp_attr attr = { .port_num = 1,
				    .path_mtu = IBV_MTU_1024,
				    .timeout = 14,
				    .ah_attr = { .is_global = 1, .port_num = 1 } };
	struct end_options options = { .mapped = false };
	struct end end;

	end_open(&end, &options);
	softrdma_query_gid(end.context, 1, 1, &attr.ah_attr.grh.dgid);
	for (unsigned i = 0; i < 3; i++) {
		attr.qp_state = steps[i].to;
		/* each missing attribute, and one too many */
		for (int bit = 1; bit < IBV_QP_RATE_LIMIT; bit <<= 1) {
			if (bit != IBV_QP_STATE && (steps[i].mask & bit))
				assert_int_equal(
					softrdma_modify_qp(end.qp, &attr, steps[i].mask & ~bit),
					EINVAL);
		}
		assert_int_equal(softrdma_modify_qp(end.qp, &attr, steps[i].mask | IBV_QP_QKEY),
				 EINVAL);
		/* skipping a state */
		if (i < 2) {
			attr.qp_state = IBV_QPS_RTS;
			assert_int_equal(softrdma_modify_qp(end.qp, &attr, rts), EINVAL);
			attr.qp_state = steps[i].to;
		}
		assert_ok(softrdma_modify_qp(end.qp, &attr, steps[i].mask));
		assert_int_equal(end_state(&end), steps[i].to);
	}
	assert_ok(end_to(&end, IBV_QPS_ERR));
	assert_int_equal(softrdma_modify_qp(end.qp, &attr, rts), EINVAL);
	assert_ok(end_to(&end, IBV_QPS_RESET));
	assert_ok(end_init(&end));
	end_close(&end);
}

UNIT_TEST(test_values)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 2 };
	const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	struct end_options options = { .mapped = false };
	struct end end;

	end_open(&end, &options);
	assert_int_equal(softrdma_modify_qp(end.qp, &attr, init), EINVAL);
	attr.port_num = 1;
	attr.pkey_index = 1;
	assert_int_equal(softrdma_modify_qp(end.qp, &attr, init), EINVAL);
	attr.pkey_index = 0;
	assert_ok(softrdma_modify_qp(end.qp, &attr, init));
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_4096;
	attr.ah_attr.port_num = 1;
	attr.dest_qp_num = 77;
	softrdma_query_gid(end.context, 1, 0, &attr.ah_attr.grh.dgid);
	assert_int_equal(softrdma_modify_qp(end.qp, &attr, rtr), EINVAL); /* no GRH */
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.dgid.raw[15] ^= 9;
	assert_int_equal(softrdma_modify_qp(end.qp, &attr, rtr), EINVAL); /* elsewhere */
	attr.ah_attr.grh.dgid.raw[15] ^= 9;
	attr.max_dest_rd_atomic = 17;
	assert_int_equal(softrdma_modify_qp(end.qp, &attr, rtr), EINVAL);
	attr.max_dest_rd_atomic = 16;
	assert_ok(softrdma_modify_qp(end.qp, &attr, rtr));
	end_close(&end);
}

UNIT_TEST(test_post_states)
{
	struct end_options options = { .mapped = false };
	struct end a, b;

	end_open(&a, &options);
	end_open(&b, &options);
	assert_int_equal(end_recv(&a, 1, 0, 8), EINVAL);
	assert_int_equal(end_send(&a, 1, 0, 8, 0), EINVAL);
	assert_ok(end_init(&a));
	assert_ok(end_recv(&a, 1, 0, 8));
	assert_int_equal(end_send(&a, 1, 0, 8, 0), EINVAL);
	assert_ok(end_rtr(&a, b.qp->qp_num));
	assert_int_equal(end_send(&a, 1, 0, 8, 0), EINVAL);
	pair_close(&a, &b);
}

UNIT_TEST(test_query)
{
	struct end_options options = { .rnr_retry = 3, .rnr_timer = 7, .send_wr = 21 };
	struct ibv_ah_attr path;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	memset(&attr, 0xff, sizeof(attr));
	memset(&init, 0xff, sizeof(init));
	assert_ok(softrdma_query_qp(a.qp, &attr, ~0, &init));
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.cur_qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, b.qp->qp_num);
	assert_int_equal(attr.rnr_retry, 3);
	assert_int_equal(attr.retry_cnt, 7);
	assert_int_equal(attr.min_rnr_timer, 7);
	assert_int_equal(attr.timeout, 12);
	assert_int_equal(attr.path_mtu, IBV_MTU_4096);
	assert_int_equal(attr.path_mig_state, IBV_MIG_MIGRATED);
	assert_int_equal(attr.max_rd_atomic, 16);
	assert_int_equal(attr.max_dest_rd_atomic, 16);
	assert_int_equal(attr.qp_access_flags, END_ALL);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.pkey_index, 0);
	assert_int_equal(attr.sq_draining, 0);
	path = end_path(a.context);
	assert_memory_equal(&attr.ah_attr, &path, sizeof(path));
	assert_int_equal(attr.cap.max_send_wr, 21);
	assert_int_equal(attr.cap.max_recv_wr, 64);
	assert_memory_equal(&attr.cap, &init.cap, sizeof(attr.cap));
	assert_int_equal(init.cap.max_send_wr, 21);
	assert_int_equal(init.qp_type, IBV_QPT_RC);
	assert_int_equal(init.sq_sig_all, 0);
	assert_null(init.srq);
	assert_null(init.qp_context);
	assert_ptr_equal(init.send_cq, a.send_cq);
	assert_ptr_equal(init.recv_cq, a.recv_cq);
	/* nothing of a connection is left after RESET; what it was made with is */
	assert_ok(end_to(&a, IBV_QPS_RESET));
	assert_ok(softrdma_query_qp(a.qp, &attr, ~0, &init));
	assert_int_equal(attr.qp_state, IBV_QPS_RESET);
	assert_int_equal(attr.dest_qp_num, 0);
	assert_int_equal(attr.ah_attr.port_num, 0);
	assert_int_equal(attr.cap.max_send_wr, 21);
	pair_close(&a, &b);
}

/* In SQD the send queue drains until those that were posted before it are done. */
UNIT_TEST(test_query_draining)
{
	struct end_options options = { .rnr_retry = 7 };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct end a, b;
	struct soft_qp *qp;

	pair_open(&a, &b, &options, &options);
	qp = soft_qp(a.qp);
	assert_ok(end_send(&a, 1, 0, 8, 0)); /* waits for a receive */
	lock_take(&qp->sq);
	qp->drain_to = qp->posted; /* left from a former time */
	lock_drop(&qp->sq);
	assert_ok(softrdma_query_qp(a.qp, &attr, ~0, &init));
	assert_int_equal(attr.sq_draining, 0);
	for (unsigned round = 0; round < 2; round++) {
		lock_take(&qp->sq);
		qp->drain_to = round ? qp->executed : qp->posted;
		atomic_store(&qp->shared->word,
			     qp_word(qp_word_life(atomic_load(&qp->shared->word)), a.qp->qp_num,
				     IBV_QPS_SQD));
		lock_drop(&qp->sq);
		assert_ok(softrdma_query_qp(a.qp, &attr, ~0, &init));
		assert_int_equal(attr.qp_state, IBV_QPS_SQD);
		assert_int_equal(attr.sq_draining, !round);
	}
	pair_close(&a, &b);
}

UNIT_TEST(test_srq_ex)
{
	struct ibv_context *context = softrdma_open_device(softrdma_device());
	struct ibv_context *other = softrdma_open_device(softrdma_device());
	struct ibv_pd *pd = softrdma_alloc_pd(context);
	const uint32_t both = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
	const struct {
		uint32_t mask;
		enum ibv_srq_type type;
		int code;
	} bad[] = {
		{ IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_BASIC, EINVAL },
		{ both | IBV_SRQ_INIT_ATTR_RESERVED, IBV_SRQT_BASIC, EINVAL },
		{ both, IBV_SRQT_XRC, EOPNOTSUPP },
		{ both, IBV_SRQT_TM, EOPNOTSUPP },
		{ both | IBV_SRQ_INIT_ATTR_XRCD, IBV_SRQT_BASIC, EOPNOTSUPP },
		{ both | IBV_SRQ_INIT_ATTR_CQ, IBV_SRQT_BASIC, EOPNOTSUPP },
		{ both | IBV_SRQ_INIT_ATTR_TM, IBV_SRQT_BASIC, EOPNOTSUPP },
	};
	struct ibv_srq_init_attr_ex attr = { .srq_context = &attr,
					     .attr = { .max_wr = 9, .max_sge = 2 },
					     .comp_mask = both,
					     .pd = pd };
	struct ibv_srq_init_attr_ex good = attr;
	struct ibv_srq_attr query;
	struct ibv_srq *srq;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		attr = good;
		attr.comp_mask = bad[i].mask;
		attr.srq_type = bad[i].type;
		errno = 0;
		assert_null(softrdma_create_srq_ex(context, &attr));
		assert_int_equal(errno, bad[i].code);
	}
	attr = good;
	errno = 0;
	assert_null(softrdma_create_srq_ex(other, &attr));
	assert_int_equal(errno, EINVAL);
	attr.comp_mask = IBV_SRQ_INIT_ATTR_PD; /* then the type is not looked at */
	attr.srq_type = IBV_SRQT_XRC;
	srq = verbs_get_ctx(context)->create_srq_ex(context, &attr);
	assert_non_null(srq);
	assert_ptr_equal(srq->srq_context, good.srq_context);
	assert_ptr_equal(srq->pd, pd);
	memset(&query, 0xff, sizeof(query));
	assert_ok(softrdma_query_srq(srq, &query));
	assert_int_equal(query.max_wr, 9);
	assert_int_equal(query.max_sge, 2);
	assert_int_equal(query.srq_limit, 0);
	query.srq_limit = 3;
	assert_ok(softrdma_modify_srq(srq, &query, IBV_SRQ_LIMIT));
	assert_ok(softrdma_query_srq(srq, &query));
	assert_int_equal(query.srq_limit, 0); /* fired at once: there are fewer */
	assert_ok(softrdma_destroy_srq(srq));
	assert_ok(softrdma_dealloc_pd(pd));
	assert_ok(softrdma_close_device(other));
	assert_ok(softrdma_close_device(context));
}

UNIT_TEST(test_busy)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_context *context = softrdma_open_device(softrdma_device());
	struct ibv_pd *pd = softrdma_alloc_pd(context);
	struct ibv_srq *srq = softrdma_create_srq(pd, &attr);
	struct end_options options = { .context = context, .pd = pd, .srq = srq };
	struct end end;

	assert_non_null(srq);
	end_open(&end, &options);
	assert_int_equal(softrdma_destroy_cq(end.send_cq), EBUSY);
	assert_int_equal(softrdma_destroy_cq(end.recv_cq), EBUSY);
	assert_int_equal(softrdma_destroy_srq(srq), EBUSY);
	assert_int_equal(softrdma_dealloc_pd(pd), EBUSY);
	assert_int_equal(softrdma_close_device(context), EBUSY);
	end_close(&end);
	assert_ok(softrdma_destroy_srq(srq));
	assert_ok(softrdma_dealloc_pd(pd));
	assert_ok(softrdma_close_device(context));
}

/* Numbers are unique among the living, never 0 or 1, and not soon used again. */
UNIT_TEST(test_many)
{
	enum { MANY = 3000 };
	static struct ibv_qp *qps[MANY];
	struct ibv_context *context = softrdma_open_device(softrdma_device());
	struct ibv_pd *pd = softrdma_alloc_pd(context);
	struct ibv_cq *cq = softrdma_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 16,
						  .max_recv_wr = 16,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };
	uint32_t first = 0;

	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < MANY; i++) {
			qps[i] = softrdma_create_qp(pd, &init);
			assert_non_null(qps[i]);
			assert_true(qps[i]->qp_num > 1 && qps[i]->qp_num < 1u << 24);
			if (i)
				assert_int_not_equal(qps[i]->qp_num, qps[i - 1]->qp_num);
			if (!first)
				first = qps[i]->qp_num;
			else
				assert_int_not_equal(qps[i]->qp_num, first);
		}
		for (unsigned i = 0; i < MANY; i++)
			assert_ok(softrdma_destroy_qp(qps[i]));
	}
	assert_ok(softrdma_destroy_cq(cq));
	assert_ok(softrdma_dealloc_pd(pd));
	assert_ok(softrdma_close_device(context));
}
