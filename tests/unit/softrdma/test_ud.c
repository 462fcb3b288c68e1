/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Unreliable datagrams in one process: what arrives and how it looks, what is lost, what fails. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "message.h"

static const struct end_options ud = { .type = IBV_QPT_UD };

UNIT_TEST(test_data)
{
	struct ibv_ah_attr route = { .is_global = 1,
				     .port_num = 1,
				     .sl = 3,
				     .grh = { .sgid_index = 1,
					      .flow_label = 0x12345,
					      .hop_limit = 9,
					      .traffic_class = 0x42 } };
	union ibv_gid gids[2];
	struct message m;
	struct ibv_grh *grh;
	struct end a, b;
	struct ibv_wc wc;

	pair_open(&a, &b, &ud, &ud);
	for (int i = 0; i < 2; i++)
		assert_ok(softrdma_query_gid(a.context, 1, i, &gids[i]));
	route.grh.dgid = gids[0];
	m = message_to(&a, &b);
	m.ah = softrdma_create_ah(a.pd, &route);
	m.length = 101;
	m.opcode = IBV_WR_SEND_WITH_IMM;
	assert_non_null(m.ah);
	memset(a.mem, 0x61, 101);
	memset(b.mem, 0xee, 4096);
	assert_ok(end_recv(&b, 5, 64, 512));
	message_send(&a, &m, IBV_WC_SUCCESS);
	end_wait(b.recv_cq, &wc);
	assert_int_equal(wc.wr_id, 5);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, GRH + 101);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, htobe32(0xfeed));
	assert_int_equal(wc.qp_num, b.qp->qp_num);
	assert_int_equal(wc.src_qp, a.qp->qp_num);
	assert_int_equal(wc.pkey_index, 0);
	assert_int_equal(wc.sl, 3);
	grh = (struct ibv_grh *)(void *)(b.mem + 64);
	assert_int_equal(be32toh(grh->version_tclass_flow), 6u << 28 | 0x42 << 20 | 0x12345);
	/* headers of 20 bytes, 4 of immediate, 101 padded to 104, 4 of checksum */
	assert_int_equal(be16toh(grh->paylen), 20 + 4 + 104 + 4);
	assert_int_equal(grh->next_hdr, 0x1b);
	assert_int_equal(grh->hop_limit, 9);
	assert_memory_equal(&grh->sgid, &gids[1], 16);
	assert_memory_equal(&grh->dgid, &gids[0], 16);
	assert_memory_equal(b.mem + 64 + GRH, a.mem, 101);
	assert_int_equal(b.mem[63], 0xee);
	assert_int_equal(b.mem[64 + GRH + 101], 0xee);
	/* and back to its sender */
	b.dest = wc.src_qp;
	assert_ok(end_recv(&a, 6, 8192, 48));
	assert_ok(end_send(&b, 1, 64 + GRH, 8, IBV_SEND_SIGNALED));
	end_wait(a.recv_cq, &wc);
	assert_int_equal(wc.wr_id, 6);
	assert_int_equal(wc.byte_len, GRH + 8);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH);
	assert_int_equal(a.mem[8192 + GRH], 0x61);
	/* what UD does not have */
	assert_int_equal(end_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, 0, 0), EINVAL);
	assert_int_equal(end_rdma(&a, IBV_WR_RDMA_READ, 1, 0, 8, 0, 0, 0), EINVAL);
	assert_ok(softrdma_destroy_ah(m.ah));
	pair_close(&a, &b);
}

/* The receive in pieces that cut the GRH; inline; nothing; as much as can be; to oneself. */
UNIT_TEST(test_shapes)
{
	const uint32_t cuts[] = { 1, 23, 24, 4080 };
	struct ibv_sge sge[4];
	struct ibv_recv_wr wr = { .wr_id = 3, .sg_list = sge, .num_sge = 4 }, *bad;
	unsigned char joined[GRH + 4096];
	struct message m;
	struct end a, b;
	size_t at = 0;

	pair_open(&a, &b, &ud, &ud);
	for (unsigned i = 0; i < 4096; i++)
		a.mem[i] = (unsigned char)(i * 7 + i / 256);
	for (unsigned i = 0; i < 4; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)b.mem + i * 8192, cuts[i], b.mr->lkey };
	sge[3].length += 8; /* GRH + 4096 in all */
	assert_ok(ibv_post_recv(b.qp, &wr, &bad));
	m = message_to(&a, &b);
	m.length = 4096;
	message_send(&a, &m, IBV_WC_SUCCESS);
	end_expect(b.recv_cq, 3, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 4; i++) {
		memcpy(joined + at, b.mem + i * 8192, sge[i].length);
		at += sge[i].length;
	}
	assert_int_equal(at, sizeof(joined));
	assert_memory_equal(joined + GRH, a.mem, 4096);
	assert_int_equal(joined[0] >> 4, 6);
	/* inline, without a key */
	a.mr->lkey ^= 1;
	m.length = 100;
	m.flags |= IBV_SEND_INLINE;
	assert_ok(end_recv(&b, 4, 0, GRH + 100));
	message_send(&a, &m, IBV_WC_SUCCESS);
	a.mr->lkey ^= 1;
	end_expect(b.recv_cq, 4, IBV_WC_SUCCESS);
	assert_memory_equal(b.mem + GRH, a.mem, 100);
	m.flags &= ~(unsigned)IBV_SEND_INLINE;
	/* nothing */
	m.length = 0;
	assert_ok(end_recv(&b, 5, 0, GRH));
	message_send(&a, &m, IBV_WC_SUCCESS);
	end_expect(b.recv_cq, 5, IBV_WC_SUCCESS);
	/* to oneself */
	m = message_to(&a, &a);
	assert_ok(end_recv(&a, 6, 8192, GRH + 8));
	message_send(&a, &m, IBV_WC_SUCCESS);
	end_expect(a.recv_cq, 6, IBV_WC_SUCCESS);
	assert_memory_equal(a.mem + 8192 + GRH, a.mem, 8);
	pair_close(&a, &b);
}

UNIT_TEST(test_qkey)
{
	struct ibv_qp_attr attr = { .qkey = 0x55 };
	struct message m;
	struct end a, b;

	pair_open(&a, &b, &ud, &ud);
	assert_ok(end_recv(&b, 1, 0, 64));
	m = message_to(&a, &b);
	for (unsigned bit = 0; bit < 31; bit++) {
		m.qkey = END_QKEY ^ 1u << bit;
		message_send(&a, &m, IBV_WC_SUCCESS);
	}
	end_quiet(b.recv_cq);
	/* the highest bit: the sender's own counts, whatever else is said */
	m.qkey = 0x80000000;
	message_send(&a, &m, IBV_WC_SUCCESS);
	end_expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	assert_ok(softrdma_modify_qp(a.qp, &attr, IBV_QP_QKEY));
	assert_ok(end_recv(&b, 2, 0, 64));
	message_send(&a, &m, IBV_WC_SUCCESS);
	end_quiet(b.recv_cq);
	/* the receiver's is another now */
	assert_ok(softrdma_modify_qp(b.qp, &attr, IBV_QP_QKEY));
	m.qkey = END_QKEY;
	message_send(&a, &m, IBV_WC_SUCCESS);
	end_quiet(b.recv_cq);
	m.qkey = 0x55;
	message_send(&a, &m, IBV_WC_SUCCESS);
	end_expect(b.recv_cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(end_state(&b), IBV_QPS_RTS);
	pair_close(&a, &b);
}

/* Lost, and the receiver is as good as before. */
UNIT_TEST(test_lost)
{
	struct message m;
	struct end a, b;

	pair_open(&a, &b, &ud, &ud);
	m = message_to(&a, &b);
	/* no receive: more than any socket holds, so they are taken out of it */
	for (unsigned i = 0; i < 2000; i++)
		message_send(&a, &m, IBV_WC_SUCCESS);
	end_quiet(b.recv_cq);
	assert_ok(end_recv(&b, 1, 0, 64));
	message_next(&a, &b, 1);
	/* too long, by a byte */
	assert_ok(end_recv(&b, 2, 0, GRH + 7));
	message_send(&a, &m, IBV_WC_SUCCESS);
	end_quiet(b.recv_cq);
	message_next(&a, &b, 2);
	/* less than a GRH */
	m.length = 0;
	assert_ok(end_recv(&b, 3, 0, GRH - 1));
	message_send(&a, &m, IBV_WC_SUCCESS);
	end_quiet(b.recv_cq);
	/* nobody has that number, now or any more; there is no such number */
	m.qpn = b.qp->qp_num ^ 0x555;
	message_send(&a, &m, IBV_WC_SUCCESS);
	m.qpn = 0xffffff;
	message_send(&a, &m, IBV_WC_SUCCESS);
	m.qpn = b.qp->qp_num | 0xff000000;
	message_send(&a, &m, IBV_WC_SUCCESS);
	m.qpn = b.qp->qp_num;
	assert_ok(softrdma_destroy_qp(b.qp));
	b.qp = NULL;
	message_send(&a, &m, IBV_WC_SUCCESS);
	assert_int_equal(end_state(&a), IBV_QPS_RTS);
	pair_close(&a, &b);
}

static void back_to_rts(struct end *end)
{
	assert_int_equal(end_state(end), IBV_QPS_SQE);
	assert_ok(end_to(end, IBV_QPS_RTS));
}

/* What is wrong at the sender stops its send queue, and nothing else. */
UNIT_TEST(test_sender_fails)
{
	struct ibv_ah_attr route = { .is_global = 1, .port_num = 1 };
	struct ibv_ah *stranger;
	struct message m;
	struct end a, b;

	pair_open(&a, &b, &ud, &ud);
	assert_ok(end_recv(&b, 1, 0, 8192));
	m = message_to(&a, &b);
	m.length = 4097;
	message_send(&a, &m, IBV_WC_LOC_LEN_ERR);
	back_to_rts(&a);
	/* a way of another protection domain */
	assert_ok(softrdma_query_gid(b.context, 1, 0, &route.grh.dgid));
	stranger = softrdma_create_ah(b.pd, &route);
	assert_non_null(stranger);
	m.length = 8;
	m.ah = stranger;
	message_send(&a, &m, IBV_WC_LOC_QP_OP_ERR);
	back_to_rts(&a);
	assert_ok(softrdma_destroy_ah(stranger));
	m.ah = a.ah;
	a.mr->lkey ^= 1;
	message_send(&a, &m, IBV_WC_LOC_PROT_ERR);
	a.mr->lkey ^= 1;
	back_to_rts(&a);
	end_quiet(b.recv_cq);
	message_next(&a, &b, 1);
	pair_close(&a, &b);
}

/* A receive whose own memory may not be written fails, and its QP with it. */
UNIT_TEST(test_receive_fails)
{
	struct message m;
	struct end a, b;

	pair_open(&a, &b, &ud, &ud);
	assert_ok(softrdma_dereg_mr(b.mr));
	b.mr = softrdma_reg_mr(b.pd, b.mem, b.size, IBV_ACCESS_REMOTE_READ);
	for (unsigned i = 1; i < 4; i++)
		assert_ok(end_recv(&b, i, 0, 64));
	m = message_to(&a, &b);
	message_send(&a, &m, IBV_WC_SUCCESS);
	end_expect(b.recv_cq, 1, IBV_WC_LOC_PROT_ERR);
	end_expect(b.recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	end_expect(b.recv_cq, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(end_state(&b), IBV_QPS_ERR);
	pair_close(&a, &b);
}
