/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Extended creation of QPs, and each of the ibv_wr functions. */
#include <errno.h>
#include <string.h>

#include "batch.h"

UNIT_TEST(test_create)
{
	const struct end_options options = { .mapped = false };
	const uint32_t pd = IBV_QP_INIT_ATTR_PD, ops = pd | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	const struct {
		uint32_t mask;
		enum ibv_qp_type type;
		uint64_t ops;
		uint32_t create_flags;
		int code;
	} bad[] = {
		{ ops & ~pd, IBV_QPT_RC, BATCH_OPS_RC, 0, EINVAL },
		{ ops | 1u << 7, IBV_QPT_RC, BATCH_OPS_RC, 0, EINVAL },
		{ ops | IBV_QP_INIT_ATTR_XRCD, IBV_QPT_RC, BATCH_OPS_RC, 0, EOPNOTSUPP },
		{ ops | IBV_QP_INIT_ATTR_MAX_TSO_HEADER, IBV_QPT_RC, BATCH_OPS_RC, 0, EOPNOTSUPP },
		{ ops | IBV_QP_INIT_ATTR_IND_TABLE, IBV_QPT_RC, BATCH_OPS_RC, 0, EOPNOTSUPP },
		{ ops | IBV_QP_INIT_ATTR_RX_HASH, IBV_QPT_RC, BATCH_OPS_RC, 0, EOPNOTSUPP },
		{ ops | IBV_QP_INIT_ATTR_CREATE_FLAGS, IBV_QPT_RC, BATCH_OPS_RC,
		  IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, EOPNOTSUPP },
		{ ops, IBV_QPT_RC, IBV_QP_EX_WITH_LOCAL_INV, 0, EOPNOTSUPP },
		{ ops, IBV_QPT_RC, IBV_QP_EX_WITH_BIND_MW, 0, EOPNOTSUPP },
		{ ops, IBV_QPT_RC, IBV_QP_EX_WITH_SEND_WITH_INV, 0, EOPNOTSUPP },
		{ ops, IBV_QPT_RC, IBV_QP_EX_WITH_TSO, 0, EOPNOTSUPP },
		{ ops, IBV_QPT_RC, BATCH_OPS_RC | IBV_QP_EX_WITH_ATOMIC_WRITE, 0, EOPNOTSUPP },
		{ ops, IBV_QPT_RC, 1ull << 40, 0, EOPNOTSUPP },
		{ ops, IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ, 0, EOPNOTSUPP },
		{ ops, IBV_QPT_UC, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, 0, EOPNOTSUPP },
		{ ops, IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE, 0, EOPNOTSUPP },
		{ ops, IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, 0, EOPNOTSUPP },
		{ ops, IBV_QPT_RAW_PACKET, IBV_QP_EX_WITH_SEND, 0, EOPNOTSUPP },
	};
	struct ibv_qp_init_attr_ex attr;
	struct ibv_context *other;
	struct ibv_qp *qp;
	struct end a;

	end_open(&a, &options);
	assert_null(softrdma_qp_to_qp_ex(a.qp));
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		attr = batch_attr(&a, bad[i].ops);
		attr.comp_mask = bad[i].mask;
		attr.qp_type = bad[i].type;
		attr.create_flags = bad[i].create_flags;
		errno = 0;
		assert_null(softrdma_create_qp_ex(a.context, &attr));
		assert_int_equal(errno, bad[i].code);
	}
	other = softrdma_open_device(softrdma_device());
	attr = batch_attr(&a, BATCH_OPS_RC);
	assert_null(softrdma_create_qp_ex(other, &attr));
	assert_int_equal(errno, EINVAL);
	assert_ok(softrdma_close_device(other));
	attr.cap.max_send_wr = UINT32_MAX;
	assert_null(softrdma_create_qp_ex(a.context, &attr));
	assert_int_equal(errno, EINVAL);
	/* through the operation; empty flags; caps that come back */
	attr = batch_attr(&a, BATCH_OPS_RC);
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.cap.max_send_sge = 0;
	qp = verbs_get_ctx(a.context)->create_qp_ex(a.context, &attr);
	assert_non_null(qp);
	assert_int_equal(attr.cap.max_send_sge, 1);
	assert_int_equal(attr.cap.max_send_wr, BATCH_DEPTH);
	assert_non_null(softrdma_qp_to_qp_ex(qp));
	assert_ok(softrdma_destroy_qp(qp));
	attr = batch_attr(&a, BATCH_OPS_RC);
	attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	qp = softrdma_create_qp_ex(a.context, &attr);
	assert_non_null(qp);
	assert_null(softrdma_qp_to_qp_ex(qp));
	assert_ok(softrdma_destroy_qp(qp));
	end_close(&a);
}

/* Each operation of RC in one batch, in order, with ids, flags and data. */
UNIT_TEST(test_operations)
{
	struct end a, b;
	struct ibv_qp_ex *qp = batch_open(&a, &b, BATCH_OPS_RC);
	struct ibv_wc wc;

	for (unsigned i = 0; i < 4096; i++)
		a.mem[i] = (unsigned char)(i * 7);
	memset(b.mem + 8192, 0x99, 64);
	for (unsigned i = 0; i < 3; i++)
		assert_ok(end_recv(&b, 100 + i, 4096 + i * 64, 64));
	ibv_wr_start(qp);
	qp->wr_id = 1;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, b.mr->rkey, b.base);
	ibv_wr_set_sge(qp, a.mr->lkey, a.base, 100);
	qp->wr_id = 2;
	qp->wr_flags = 0; /* no completion */
	ibv_wr_rdma_write_imm(qp, b.mr->rkey, b.base + 100, 0xabc);
	ibv_wr_set_sge(qp, a.mr->lkey, a.base + 100, 100);
	qp->wr_id = 3;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, a.mr->lkey, a.base + 200, 32);
	qp->wr_id = 4;
	ibv_wr_send_imm(qp, 0xdef);
	ibv_wr_set_sge(qp, a.mr->lkey, a.base + 300, 48);
	qp->wr_id = 5;
	ibv_wr_rdma_read(qp, b.mr->rkey, b.base + 8192);
	ibv_wr_set_sge(qp, a.mr->lkey, a.base + 8192, 64);
	end_quiet(a.send_cq); /* nothing is posted before it is complete */
	end_quiet(b.recv_cq);
	assert_int_equal(b.mem[1], 0);
	assert_ok(ibv_wr_complete(qp));
	end_wait(a.send_cq, &wc);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
	for (unsigned i = 3; i <= 5; i++) {
		end_wait(a.send_cq, &wc);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, i == 5 ? IBV_WC_RDMA_READ : IBV_WC_SEND);
	}
	assert_memory_equal(b.mem, a.mem, 200);
	assert_memory_equal(b.mem + 4096 + 64, a.mem + 200, 32);
	assert_memory_equal(b.mem + 4096 + 128, a.mem + 300, 48);
	assert_memory_equal(a.mem + 8192, b.mem + 8192, 64);
	end_wait(b.recv_cq, &wc);
	assert_int_equal(wc.wr_id, 100);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.imm_data, 0xabc);
	end_wait(b.recv_cq, &wc);
	assert_int_equal(wc.byte_len, 32);
	assert_int_equal(wc.wc_flags, 0);
	end_wait(b.recv_cq, &wc);
	assert_int_equal(wc.byte_len, 48);
	assert_int_equal(wc.imm_data, 0xdef);
	pair_close(&a, &b);
}

/* On a device without them too they reach the send queue as what they are. */
UNIT_TEST(test_atomics)
{
	struct ibv_device_attr dev;
	struct end a, b;
	struct ibv_qp_ex *qp = batch_open(&a, &b, BATCH_OPS_RC);
	uint64_t value, *was = (void *)a.mem;
	bool there;
	struct ibv_wc wc;

	assert_ok(softrdma_query_device(a.context, &dev));
	there = dev.atomic_cap != IBV_ATOMIC_NONE;
	assert_ok(softrdma_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				    END_ALL | IBV_ACCESS_REMOTE_ATOMIC));
	assert_ok(softrdma_modify_qp(
		b.qp,
		&(struct ibv_qp_attr){ .qp_access_flags = END_ALL | IBV_ACCESS_REMOTE_ATOMIC },
		IBV_QP_ACCESS_FLAGS));
	ibv_wr_start(qp);
	qp->wr_id = 1;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_fetch_add(qp, b.mr->rkey, b.base, 5);
	ibv_wr_set_sge(qp, a.mr->lkey, a.base, 8);
	qp->wr_id = 2;
	ibv_wr_atomic_cmp_swp(qp, b.mr->rkey, b.base, 5, 9);
	ibv_wr_set_sge(qp, a.mr->lkey, a.base + 8, 8);
	assert_ok(ibv_wr_complete(qp));
	end_wait(a.send_cq, &wc);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.opcode, IBV_WC_FETCH_ADD);
	assert_int_equal(wc.status, there ? IBV_WC_SUCCESS : IBV_WC_LOC_QP_OP_ERR);
	end_wait(a.send_cq, &wc);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(wc.opcode, IBV_WC_COMP_SWAP);
	assert_int_equal(wc.status, there ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR);
	memcpy(&value, b.mem, sizeof(value));
	assert_int_equal(value, there ? 9 : 0);
	assert_int_equal(was[0], 0);
	assert_int_equal(was[1], there ? 5 : 0);
	pair_close(&a, &b);
}

/* A QP for datagrams in the place of that of @end, ready. NULL: soft0 has none. */
static struct ibv_qp *datagrams(struct end *end)
{
	struct ibv_qp_init_attr_ex init = batch_attr(end, IBV_QP_EX_WITH_SEND);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1234 };

	assert_ok(softrdma_destroy_qp(end->qp));
	init.qp_type = IBV_QPT_UD;
	end->qp = softrdma_create_qp_ex(end->context, &init);
	if (!end->qp) {
		assert_int_equal(errno, EOPNOTSUPP);
		return NULL;
	}
	assert_ok(softrdma_modify_qp(end->qp, &attr,
				     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	assert_ok(end_to(end, IBV_QPS_RTR));
	attr.qp_state = IBV_QPS_RTS;
	assert_ok(softrdma_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	return end->qp;
}

UNIT_TEST(test_address)
{
	struct ibv_context *context = softrdma_open_device(softrdma_device());
	struct ibv_pd *pd = softrdma_alloc_pd(context);
	const struct end_options options = { .context = context, .pd = pd };
	struct ibv_ah_attr path = end_path(context);
	struct ibv_qp_ex *qp;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	struct end a, b;
	bool there;

	end_open(&a, &options);
	end_open(&b, &options);
	there = datagrams(&a) && datagrams(&b);
	if (there) {
		ah = softrdma_create_ah(pd, &path);
		assert_non_null(ah);
		qp = softrdma_qp_to_qp_ex(a.qp);
		assert_ok(end_recv(&b, 1, 0, 128));
		memset(a.mem, 0x21, 8);
		qp->wr_id = 2;
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_start(qp);
		ibv_wr_send(qp);
		ibv_wr_set_sge(qp, a.mr->lkey, a.base, 8);
		assert_int_equal(ibv_wr_complete(qp), EINVAL); /* no address */
		ibv_wr_start(qp);
		ibv_wr_send(qp);
		ibv_wr_set_ud_addr(qp, ah, b.qp->qp_num, 0x1234);
		ibv_wr_set_sge(qp, a.mr->lkey, a.base, 8);
		assert_ok(ibv_wr_complete(qp));
		end_expect(a.send_cq, 2, IBV_WC_SUCCESS);
		end_wait(b.recv_cq, &wc);
		assert_int_equal(wc.wr_id, 1);
		assert_int_equal(wc.src_qp, a.qp->qp_num);
		assert_int_equal(wc.byte_len, sizeof(struct ibv_grh) + 8);
		assert_memory_equal(b.mem + sizeof(struct ibv_grh), a.mem, 8);
		assert_ok(softrdma_destroy_ah(ah));
	}
	pair_close(&a, &b);
	assert_ok(softrdma_dealloc_pd(pd));
	assert_ok(softrdma_close_device(context));
	if (!there) {
		print_message("skipped: this device has no datagrams\n");
		skip();
	}
}

UNIT_TEST(test_data)
{
	struct end a, b;
	struct ibv_qp_ex *qp = batch_open(&a, &b, BATCH_OPS_RC);
	unsigned char text[BATCH_INLINE];
	struct ibv_data_buf bufs[] = { { text, 10 }, { NULL, 0 }, { text + 10, 20 } };
	struct ibv_sge list[] = { { a.base, 10, a.mr->lkey },
				  { a.base + 50, 20, a.mr->lkey },
				  { a.base + 100, 5, a.mr->lkey } };

	for (unsigned i = 0; i < 128; i++)
		a.mem[i] = (unsigned char)(i + 1);
	memset(text, 0x33, sizeof(text));
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(qp);
	ibv_wr_rdma_write(qp, b.mr->rkey, b.base);
	ibv_wr_set_sge_list(qp, BATCH_SGES, list);
	ibv_wr_rdma_write(qp, b.mr->rkey, b.base + 256);
	ibv_wr_set_inline_data(qp, text, BATCH_INLINE);
	memset(text, 0x44, sizeof(text)); /* it was copied */
	ibv_wr_rdma_write(qp, b.mr->rkey, b.base + 512);
	ibv_wr_set_inline_data_list(qp, 3, bufs);
	memset(list, 0, sizeof(list)); /* the list was, too */
	memset(text, 0, sizeof(text));
	ibv_wr_rdma_write(qp, b.mr->rkey, b.base); /* nothing at all */
	ibv_wr_set_sge_list(qp, 0, NULL);
	ibv_wr_rdma_write(qp, b.mr->rkey, b.base);
	ibv_wr_set_inline_data(qp, NULL, 0);
	/* the flag does not make data of an SGE inline */
	qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	ibv_wr_rdma_write(qp, b.mr->rkey, b.base + 1024);
	ibv_wr_set_sge(qp, a.mr->lkey, a.base, BATCH_INLINE + 1);
	assert_ok(ibv_wr_complete(qp));
	for (unsigned i = 0; i < 6; i++)
		end_expect(a.send_cq, 0, IBV_WC_SUCCESS);
	assert_memory_equal(b.mem, a.mem, 10);
	assert_memory_equal(b.mem + 10, a.mem + 50, 20);
	assert_memory_equal(b.mem + 30, a.mem + 100, 5);
	assert_int_equal(b.mem[35], 0);
	for (unsigned i = 0; i < BATCH_INLINE; i++)
		assert_int_equal(b.mem[256 + i], 0x33);
	assert_int_equal(b.mem[256 + BATCH_INLINE], 0);
	for (unsigned i = 0; i < 30; i++)
		assert_int_equal(b.mem[512 + i], 0x44);
	assert_int_equal(b.mem[542], 0);
	assert_memory_equal(b.mem + 1024, a.mem, BATCH_INLINE + 1);
	pair_close(&a, &b);
}

/* Inline data of a request that has to wait outlives the batch that it came in. */
UNIT_TEST(test_waiting)
{
	struct end a, b;
	struct ibv_qp_ex *qp = batch_open(&a, &b, BATCH_OPS_RC);

	for (unsigned round = 0; round < 2; round++) {
		unsigned char byte = (unsigned char)(0x50 + round);

		ibv_wr_start(qp);
		qp->wr_id = round;
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_send(qp);
		ibv_wr_set_inline_data(qp, &byte, 1);
		assert_ok(ibv_wr_complete(qp));
	}
	end_quiet(a.send_cq);
	for (unsigned round = 0; round < 2; round++) {
		assert_ok(end_recv(&b, round, round, 1));
		end_expect(a.send_cq, round, IBV_WC_SUCCESS);
		end_expect(b.recv_cq, round, IBV_WC_SUCCESS);
		assert_int_equal(b.mem[round], 0x50 + round);
	}
	pair_close(&a, &b);
}
