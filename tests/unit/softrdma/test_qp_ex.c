/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Extended creation of QPs and SRQs, and posting with the ibv_wr functions. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

#include "common/base/time.h"
#include "common/softrdma/qp.h"

#define FOR_EVER     7
#define DEPTH	     8
#define SGES	     3
#define INLINE	     96
#define FAR_TOO_MANY 8192
#define WAIT_NS	     (30 * NS_PER_S)
#define OPS_RC                                                                                  \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                              \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

static struct ibv_qp_init_attr_ex init_attr(struct end *end, uint64_t ops)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = end->send_cq,
		.recv_cq = end->recv_cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH,
			 .max_recv_wr = 64,
			 .max_send_sge = SGES,
			 .max_recv_sge = 1,
			 .max_inline_data = INLINE },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = end->pd,
		.send_ops_flags = ops,
	};
}

/* A pair, of which @a has a QP with @ops. */
static struct ibv_qp_ex *ex_open(struct end *a, struct end *b, uint64_t ops)
{
	const struct end_options options = { .rnr_retry = FOR_EVER };
	struct ibv_qp_init_attr_ex attr;

	end_open(a, &options);
	end_open(b, &options);
	assert_int_equal(softrdma_destroy_qp(a->qp), 0);
	attr = init_attr(a, ops);
	a->qp = softrdma_create_qp_ex(a->context, &attr);
	assert_non_null(a->qp);
	end_connect(a, b->qp->qp_num);
	end_connect(b, a->qp->qp_num);
	assert_ptr_equal(softrdma_qp_to_qp_ex(a->qp), a->qp);
	return softrdma_qp_to_qp_ex(a->qp);
}

static void test_create(void **state)
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
		{ ops & ~pd, IBV_QPT_RC, OPS_RC, 0, EINVAL },
		{ ops | 1u << 7, IBV_QPT_RC, OPS_RC, 0, EINVAL },
		{ ops | IBV_QP_INIT_ATTR_XRCD, IBV_QPT_RC, OPS_RC, 0, EOPNOTSUPP },
		{ ops | IBV_QP_INIT_ATTR_MAX_TSO_HEADER, IBV_QPT_RC, OPS_RC, 0, EOPNOTSUPP },
		{ ops | IBV_QP_INIT_ATTR_IND_TABLE, IBV_QPT_RC, OPS_RC, 0, EOPNOTSUPP },
		{ ops | IBV_QP_INIT_ATTR_RX_HASH, IBV_QPT_RC, OPS_RC, 0, EOPNOTSUPP },
		{ ops | IBV_QP_INIT_ATTR_CREATE_FLAGS, IBV_QPT_RC, OPS_RC,
		  IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, EOPNOTSUPP },
		{ ops, IBV_QPT_RC, IBV_QP_EX_WITH_LOCAL_INV, 0, EOPNOTSUPP },
		{ ops, IBV_QPT_RC, IBV_QP_EX_WITH_BIND_MW, 0, EOPNOTSUPP },
		{ ops, IBV_QPT_RC, IBV_QP_EX_WITH_SEND_WITH_INV, 0, EOPNOTSUPP },
		{ ops, IBV_QPT_RC, IBV_QP_EX_WITH_TSO, 0, EOPNOTSUPP },
		{ ops, IBV_QPT_RC, OPS_RC | IBV_QP_EX_WITH_ATOMIC_WRITE, 0, EOPNOTSUPP },
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

	(void)state;
	end_open(&a, &options);
	assert_null(softrdma_qp_to_qp_ex(a.qp));
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		attr = init_attr(&a, bad[i].ops);
		attr.comp_mask = bad[i].mask;
		attr.qp_type = bad[i].type;
		attr.create_flags = bad[i].create_flags;
		errno = 0;
		assert_null(softrdma_create_qp_ex(a.context, &attr));
		assert_int_equal(errno, bad[i].code);
	}
	other = softrdma_open_device(softrdma_device());
	attr = init_attr(&a, OPS_RC);
	assert_null(softrdma_create_qp_ex(other, &attr));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(softrdma_close_device(other), 0);
	attr.cap.max_send_wr = UINT32_MAX;
	assert_null(softrdma_create_qp_ex(a.context, &attr));
	assert_int_equal(errno, EINVAL);
	/* through the operation; empty flags; caps that come back */
	attr = init_attr(&a, OPS_RC);
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.cap.max_send_sge = 0;
	qp = verbs_get_ctx(a.context)->create_qp_ex(a.context, &attr);
	assert_non_null(qp);
	assert_int_equal(attr.cap.max_send_sge, 1);
	assert_int_equal(attr.cap.max_send_wr, DEPTH);
	assert_non_null(softrdma_qp_to_qp_ex(qp));
	assert_int_equal(softrdma_destroy_qp(qp), 0);
	attr = init_attr(&a, OPS_RC);
	attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	qp = softrdma_create_qp_ex(a.context, &attr);
	assert_non_null(qp);
	assert_null(softrdma_qp_to_qp_ex(qp));
	assert_int_equal(softrdma_destroy_qp(qp), 0);
	end_close(&a);
}

/* Each operation of RC in one batch, in order, with ids, flags and data. */
static void test_operations(void **state)
{
	struct end a, b;
	struct ibv_qp_ex *qp = ex_open(&a, &b, OPS_RC);
	struct ibv_wc wc;

	(void)state;
	for (unsigned i = 0; i < 4096; i++)
		a.mem[i] = (unsigned char)(i * 7);
	memset(b.mem + 8192, 0x99, 64);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(end_recv(&b, 100 + i, 4096 + i * 64, 64), 0);
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
	assert_int_equal(ibv_wr_complete(qp), 0);
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
static void test_atomics(void **state)
{
	struct ibv_device_attr dev;
	struct end a, b;
	struct ibv_qp_ex *qp = ex_open(&a, &b, OPS_RC);
	uint64_t value, *was = (void *)a.mem;
	bool there;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(softrdma_query_device(a.context, &dev), 0);
	there = dev.atomic_cap != IBV_ATOMIC_NONE;
	assert_int_equal(softrdma_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
					   END_ALL | IBV_ACCESS_REMOTE_ATOMIC),
			 0);
	assert_int_equal(
		softrdma_modify_qp(b.qp,
				   &(struct ibv_qp_attr){
					   .qp_access_flags = END_ALL | IBV_ACCESS_REMOTE_ATOMIC },
				   IBV_QP_ACCESS_FLAGS),
		0);
	ibv_wr_start(qp);
	qp->wr_id = 1;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_fetch_add(qp, b.mr->rkey, b.base, 5);
	ibv_wr_set_sge(qp, a.mr->lkey, a.base, 8);
	qp->wr_id = 2;
	ibv_wr_atomic_cmp_swp(qp, b.mr->rkey, b.base, 5, 9);
	ibv_wr_set_sge(qp, a.mr->lkey, a.base + 8, 8);
	assert_int_equal(ibv_wr_complete(qp), 0);
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
	struct ibv_qp_init_attr_ex init = init_attr(end, IBV_QP_EX_WITH_SEND);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1234 };

	assert_int_equal(softrdma_destroy_qp(end->qp), 0);
	init.qp_type = IBV_QPT_UD;
	end->qp = softrdma_create_qp_ex(end->context, &init);
	if (!end->qp) {
		assert_int_equal(errno, EOPNOTSUPP);
		return NULL;
	}
	assert_int_equal(
		softrdma_modify_qp(end->qp, &attr,
				   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		0);
	assert_int_equal(end_to(end, IBV_QPS_RTR), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(softrdma_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	return end->qp;
}

static void test_address(void **state)
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

	(void)state;
	end_open(&a, &options);
	end_open(&b, &options);
	there = datagrams(&a) && datagrams(&b);
	if (there) {
		ah = softrdma_create_ah(pd, &path);
		assert_non_null(ah);
		qp = softrdma_qp_to_qp_ex(a.qp);
		assert_int_equal(end_recv(&b, 1, 0, 128), 0);
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
		assert_int_equal(ibv_wr_complete(qp), 0);
		end_expect(a.send_cq, 2, IBV_WC_SUCCESS);
		end_wait(b.recv_cq, &wc);
		assert_int_equal(wc.wr_id, 1);
		assert_int_equal(wc.src_qp, a.qp->qp_num);
		assert_int_equal(wc.byte_len, sizeof(struct ibv_grh) + 8);
		assert_memory_equal(b.mem + sizeof(struct ibv_grh), a.mem, 8);
		assert_int_equal(softrdma_destroy_ah(ah), 0);
	}
	pair_close(&a, &b);
	assert_int_equal(softrdma_dealloc_pd(pd), 0);
	assert_int_equal(softrdma_close_device(context), 0);
	if (!there)
		skip();
}

static void test_data(void **state)
{
	struct end a, b;
	struct ibv_qp_ex *qp = ex_open(&a, &b, OPS_RC);
	unsigned char text[INLINE];
	struct ibv_data_buf bufs[] = { { text, 10 }, { NULL, 0 }, { text + 10, 20 } };
	struct ibv_sge list[] = { { a.base, 10, a.mr->lkey },
				  { a.base + 50, 20, a.mr->lkey },
				  { a.base + 100, 5, a.mr->lkey } };

	(void)state;
	for (unsigned i = 0; i < 128; i++)
		a.mem[i] = (unsigned char)(i + 1);
	memset(text, 0x33, sizeof(text));
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(qp);
	ibv_wr_rdma_write(qp, b.mr->rkey, b.base);
	ibv_wr_set_sge_list(qp, SGES, list);
	ibv_wr_rdma_write(qp, b.mr->rkey, b.base + 256);
	ibv_wr_set_inline_data(qp, text, INLINE);
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
	ibv_wr_set_sge(qp, a.mr->lkey, a.base, INLINE + 1);
	assert_int_equal(ibv_wr_complete(qp), 0);
	for (unsigned i = 0; i < 6; i++)
		end_expect(a.send_cq, 0, IBV_WC_SUCCESS);
	assert_memory_equal(b.mem, a.mem, 10);
	assert_memory_equal(b.mem + 10, a.mem + 50, 20);
	assert_memory_equal(b.mem + 30, a.mem + 100, 5);
	assert_int_equal(b.mem[35], 0);
	for (unsigned i = 0; i < INLINE; i++)
		assert_int_equal(b.mem[256 + i], 0x33);
	assert_int_equal(b.mem[256 + INLINE], 0);
	for (unsigned i = 0; i < 30; i++)
		assert_int_equal(b.mem[512 + i], 0x44);
	assert_int_equal(b.mem[542], 0);
	assert_memory_equal(b.mem + 1024, a.mem, INLINE + 1);
	pair_close(&a, &b);
}

/* Inline data of a request that has to wait outlives the batch that it came in. */
static void test_waiting(void **state)
{
	struct end a, b;
	struct ibv_qp_ex *qp = ex_open(&a, &b, OPS_RC);

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		unsigned char byte = (unsigned char)(0x50 + round);

		ibv_wr_start(qp);
		qp->wr_id = round;
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_send(qp);
		ibv_wr_set_inline_data(qp, &byte, 1);
		assert_int_equal(ibv_wr_complete(qp), 0);
	}
	end_quiet(a.send_cq);
	for (unsigned round = 0; round < 2; round++) {
		assert_int_equal(end_recv(&b, round, round, 1), 0);
		end_expect(a.send_cq, round, IBV_WC_SUCCESS);
		end_expect(b.recv_cq, round, IBV_WC_SUCCESS);
		assert_int_equal(b.mem[round], 0x50 + round);
	}
	pair_close(&a, &b);
}

static void good_write(struct ibv_qp_ex *qp, struct end *a, struct end *b, size_t offset)
{
	ibv_wr_rdma_write(qp, b->mr->rkey, b->base + offset);
	ibv_wr_set_sge(qp, a->mr->lkey, a->base, 8);
}

enum mistake {
	NOT_ASKED_FOR,
	BIND_MW,
	LOCAL_INV,
	SEND_INV,
	TSO,
	ATOMIC_WRITE,
	XRC,
	ADDRESS,
	NO_DATA,
	NO_DATA_AT_END,
	TWICE,
	TWO_KINDS,
	DATA_OF_NOTHING,
	TOO_MANY_SGES,
	TOO_MANY_BY_ONE,
	TOO_MUCH_INLINE,
	TOO_MUCH_INLINE_LIST,
	INLINE_READ,
	TOO_MANY,
	MISTAKES
};

static int make(enum mistake m, struct ibv_qp_ex *qp, struct end *a, struct end *b)
{
	static unsigned char data[INLINE + 1];
	static struct ibv_data_buf bufs[FAR_TOO_MANY];
	static struct ibv_sge sges[FAR_TOO_MANY]; /* whoever copies them all, copies over others */

	switch (m) {
	case NOT_ASKED_FOR:
		ibv_wr_send(qp);
		ibv_wr_set_sge(qp, a->mr->lkey, a->base, 8);
		return EINVAL;
	case BIND_MW:
		ibv_wr_bind_mw(qp, NULL, 0, NULL);
		return EOPNOTSUPP;
	case LOCAL_INV:
		ibv_wr_local_inv(qp, 1);
		return EOPNOTSUPP;
	case SEND_INV:
		ibv_wr_send_inv(qp, 1);
		return EOPNOTSUPP;
	case TSO:
		ibv_wr_send_tso(qp, data, 1, 1);
		return EOPNOTSUPP;
	case ATOMIC_WRITE:
		ibv_wr_atomic_write(qp, 1, 8, data);
		return EOPNOTSUPP;
	case XRC:
		ibv_wr_set_xrc_srqn(qp, 1);
		return EOPNOTSUPP;
	case ADDRESS: /* not a datagram */
		ibv_wr_set_ud_addr(qp, NULL, 1, 1);
		return EINVAL;
	case NO_DATA:
		ibv_wr_rdma_write(qp, b->mr->rkey, b->base);
		good_write(qp, a, b, 64);
		return EINVAL;
	case NO_DATA_AT_END:
		ibv_wr_rdma_write(qp, b->mr->rkey, b->base);
		return EINVAL;
	case TWICE:
		good_write(qp, a, b, 0);
		ibv_wr_set_sge(qp, a->mr->lkey, a->base, 8);
		return EINVAL;
	case TWO_KINDS:
		good_write(qp, a, b, 0);
		ibv_wr_set_inline_data(qp, data, 8);
		return EINVAL;
	case DATA_OF_NOTHING:
		qp->wr_start(qp); /* of a batch that is empty still: see below */
		ibv_wr_set_sge(qp, a->mr->lkey, a->base, 8);
		return EINVAL;
	case TOO_MANY_SGES:
		ibv_wr_rdma_write(qp, b->mr->rkey, b->base);
		ibv_wr_set_sge_list(qp, FAR_TOO_MANY, sges);
		return EINVAL;
	case TOO_MANY_BY_ONE:
		ibv_wr_rdma_write(qp, b->mr->rkey, b->base);
		ibv_wr_set_sge_list(qp, SGES + 1, sges);
		return EINVAL;
	case TOO_MUCH_INLINE:
		ibv_wr_rdma_write(qp, b->mr->rkey, b->base);
		ibv_wr_set_inline_data(qp, data, INLINE + 1);
		return EINVAL;
	case TOO_MUCH_INLINE_LIST:
		ibv_wr_rdma_write(qp, b->mr->rkey, b->base);
		for (unsigned i = 0; i < FAR_TOO_MANY; i++)
			bufs[i] = (struct ibv_data_buf){ data, INLINE - 1 };
		ibv_wr_set_inline_data_list(qp, FAR_TOO_MANY, bufs);
		return EINVAL;
	case INLINE_READ:
		ibv_wr_rdma_read(qp, b->mr->rkey, b->base);
		ibv_wr_set_inline_data(qp, data, 8);
		return EINVAL;
	default: /* TOO_MANY, the first included */
		for (unsigned i = 0; i < DEPTH; i++)
			good_write(qp, a, b, 0);
		return ENOMEM;
	}
}

/* All or nothing: a good request before it, and one behind it, are not executed. */
static void test_mistakes(void **state)
{
	struct end a, b;
	struct ibv_qp_ex *qp =
		ex_open(&a, &b, IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ);

	(void)state;
	memset(a.mem, 0x77, 64);
	qp->wr_flags = IBV_SEND_SIGNALED;
	for (unsigned m = 0; m < MISTAKES; m++) {
		int code;

		print_message("  %u\n", m);
		if (m != DATA_OF_NOTHING) {
			ibv_wr_start(qp);
			good_write(qp, &a, &b, 0);
		}
		code = make((enum mistake)m, qp, &a, &b);
		if (m != NO_DATA_AT_END && m != NO_DATA)
			good_write(qp, &a, &b, 8);
		assert_int_equal(ibv_wr_complete(qp), code);
		end_quiet(a.send_cq);
		for (unsigned i = 0; i < 128; i++)
			assert_int_equal(b.mem[i], 0);
	}
	/* the first error is the one that is told */
	ibv_wr_start(qp);
	ibv_wr_local_inv(qp, 1);
	ibv_wr_send(qp);
	assert_int_equal(ibv_wr_complete(qp), EOPNOTSUPP);
	/* and the next batch is a good one */
	ibv_wr_start(qp);
	good_write(qp, &a, &b, 0);
	assert_int_equal(ibv_wr_complete(qp), 0);
	end_expect(a.send_cq, 0, IBV_WC_SUCCESS);
	assert_int_equal(b.mem[0], 0x77);
	assert_int_equal(end_state(&a), IBV_QPS_RTS);
	pair_close(&a, &b);
}

static void test_abort(void **state)
{
	struct end a, b;
	struct ibv_qp_ex *qp = ex_open(&a, &b, OPS_RC);

	(void)state;
	memset(a.mem, 0x77, 64);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(qp);
	good_write(qp, &a, &b, 0);
	ibv_wr_rdma_write(qp, b.mr->rkey, b.base); /* half made */
	ibv_wr_abort(qp);
	end_quiet(a.send_cq);
	assert_int_equal(b.mem[0], 0);
	ibv_wr_start(qp);
	assert_int_equal(ibv_wr_complete(qp), 0); /* empty */
	end_quiet(a.send_cq);
	ibv_wr_start(qp);
	qp->wr_id = 4;
	good_write(qp, &a, &b, 8);
	assert_int_equal(ibv_wr_complete(qp), 0);
	end_expect(a.send_cq, 4, IBV_WC_SUCCESS);
	end_quiet(a.send_cq);
	assert_int_equal(b.mem[0], 0);
	assert_int_equal(b.mem[8], 0x77);
	pair_close(&a, &b);
}

/* The room of the send queue, and its state, decide over the whole batch. */
static void test_room(void **state)
{
	struct end a, b;
	struct ibv_qp_ex *qp = ex_open(&a, &b, OPS_RC);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	(void)state;
	memset(a.mem, 0x77, 64);
	qp->wr_flags = IBV_SEND_SIGNALED;
	qp->wr_id = 0;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(end_rdma(&a, IBV_WR_RDMA_READ, i, 4096, 8, b.base, b.mr->rkey,
					  IBV_SEND_SIGNALED),
				 0);
	ibv_wr_start(qp);
	for (unsigned i = 0; i < DEPTH - 2; i++)
		good_write(qp, &a, &b, i * 8);
	assert_int_equal(ibv_wr_complete(qp), ENOMEM);
	assert_int_equal(b.mem[0], 0);
	ibv_wr_start(qp);
	for (unsigned i = 0; i < DEPTH - 3; i++)
		good_write(qp, &a, &b, i * 8);
	assert_int_equal(ibv_wr_complete(qp), 0);
	for (unsigned i = 0; i < 3; i++)
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < DEPTH - 3; i++)
		end_expect(a.send_cq, 0, IBV_WC_SUCCESS);
	assert_int_equal(b.mem[(DEPTH - 4) * 8], 0x77);
	/* a failed request flushes what comes after it */
	ibv_wr_start(qp);
	qp->wr_id = 1;
	ibv_wr_rdma_write(qp, b.mr->rkey ^ 1, b.base);
	ibv_wr_set_sge(qp, a.mr->lkey, a.base, 8);
	qp->wr_id = 2;
	good_write(qp, &a, &b, 64);
	assert_int_equal(ibv_wr_complete(qp), 0);
	end_expect(a.send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	end_expect(a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(b.mem[64], 0);
	assert_int_equal(softrdma_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
	ibv_wr_start(qp);
	good_write(qp, &a, &b, 64);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	pair_close(&a, &b);
}

/* In a batch the send queue is free: for posts in the old way, for the fence of dereg_mr. */
static void test_inside(void **state)
{
	struct end a, b;
	struct ibv_qp_ex *qp = ex_open(&a, &b, OPS_RC);

	(void)state;
	qp->wr_flags = IBV_SEND_SIGNALED;
	qp->wr_id = 2;
	ibv_wr_start(qp);
	good_write(qp, &a, &b, 0);
	assert_true(lock_try(&soft_qp(a.qp)->sq));
	lock_drop(&soft_qp(a.qp)->sq);
	assert_int_equal(
		end_rdma(&a, IBV_WR_RDMA_READ, 1, 4096, 8, b.base, b.mr->rkey, IBV_SEND_SIGNALED),
		0);
	end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(end_state(&a), IBV_QPS_RTS);
	assert_int_equal(ibv_wr_complete(qp), 0);
	end_expect(a.send_cq, 2, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

/* Threads that post batches on one QP: each batch stays together. */
enum { THREADS = 3, BATCHES = 400, TOGETHER = 4 };

struct poster {
	struct ibv_qp_ex *qp;
	struct end *a, *b;
	_Atomic uint32_t *failed;
	uint64_t id, deadline;
};

static void *poster_run(void *arg)
{
	struct poster *p = arg;

	for (uint64_t i = 0; i < BATCHES;) {
		int rc;

		ibv_wr_start(p->qp);
		p->qp->wr_flags = IBV_SEND_SIGNALED;
		for (unsigned j = 0; j < TOGETHER; j++) {
			p->qp->wr_id = p->id << 32 | i << 8 | j;
			good_write(p->qp, p->a, p->b, 8 * (size_t)p->id);
			if (i % 16 == 0)
				sched_yield();
		}
		rc = ibv_wr_complete(p->qp);
		if (rc == 0)
			i++;
		else if (rc != ENOMEM)
			atomic_fetch_add(p->failed, 1);
		if (time_now_ns() > p->deadline)
			break;
		if (rc)
			sched_yield();
	}
	return NULL;
}

static void test_threads(void **state)
{
	_Atomic uint32_t failed = 0;
	uint64_t next[THREADS] = { 0 }, deadline = time_now_ns() + WAIT_NS;
	struct poster posters[THREADS];
	pthread_t threads[THREADS];
	struct end a, b;
	struct ibv_qp_ex *qp = ex_open(&a, &b, OPS_RC);
	struct ibv_wc wc;

	(void)state;
	for (unsigned i = 0; i < THREADS; i++) {
		posters[i] = (struct poster){
			.qp = qp, .a = &a, .b = &b, .failed = &failed, .id = i, .deadline = deadline
		};
		assert_int_equal(pthread_create(&threads[i], NULL, poster_run, &posters[i]), 0);
	}
	for (unsigned n = 0; n < THREADS * BATCHES; n++) {
		uint64_t first = 0;

		for (unsigned j = 0; j < TOGETHER; j++) {
			end_wait(a.send_cq, &wc);
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			if (j == 0)
				first = wc.wr_id;
			assert_int_equal(wc.wr_id, first + j);
		}
		assert_true(first >> 32 < THREADS);
		assert_int_equal(first >> 8 & 0xffffff, next[first >> 32]++);
	}
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(atomic_load(&failed), 0);
	end_quiet(a.send_cq);
	pair_close(&a, &b);
}

static void test_forked(void **state)
{
	struct end a, b;
	struct ibv_qp_ex *qp = ex_open(&a, &b, OPS_RC);
	int status;
	pid_t pid;

	(void)state;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(qp);
	pid = fork(); /* the child has the lock of a thread that it has not */
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(10);
		ibv_wr_start(qp);
		good_write(qp, &a, &b, 0);
		_exit(ibv_wr_complete(qp) == EINVAL ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	good_write(qp, &a, &b, 0);
	assert_int_equal(ibv_wr_complete(qp), 0);
	end_expect(a.send_cq, 0, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

static void test_srq(void **state)
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

	(void)state;
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
	assert_int_equal(softrdma_query_srq(srq, &query), 0);
	assert_int_equal(query.max_wr, 9);
	assert_int_equal(query.max_sge, 2);
	assert_int_equal(query.srq_limit, 0);
	query.srq_limit = 3;
	assert_int_equal(softrdma_modify_srq(srq, &query, IBV_SRQ_LIMIT), 0);
	assert_int_equal(softrdma_query_srq(srq, &query), 0);
	assert_int_equal(query.srq_limit, 0); /* fired at once: there are fewer */
	assert_int_equal(softrdma_destroy_srq(srq), 0);
	assert_int_equal(softrdma_dealloc_pd(pd), 0);
	assert_int_equal(softrdma_close_device(other), 0);
	assert_int_equal(softrdma_close_device(context), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create),	 cmocka_unit_test(test_operations),
		cmocka_unit_test(test_atomics),	 cmocka_unit_test(test_address),
		cmocka_unit_test(test_data),	 cmocka_unit_test(test_waiting),
		cmocka_unit_test(test_mistakes), cmocka_unit_test(test_abort),
		cmocka_unit_test(test_room),	 cmocka_unit_test(test_inside),
		cmocka_unit_test(test_threads),	 cmocka_unit_test(test_forked),
		cmocka_unit_test(test_srq),
	};

	alarm(300);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
