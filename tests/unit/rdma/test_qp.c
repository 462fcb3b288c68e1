/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The attributes that lead a queue pair to RTR and RTS: on RoCE with a GRH, on InfiniBand by LID,
 * both settled on the smaller MTU and READ depth; and what is refused of a peer's offer. modify_qp
 * is a recorder here, so that masks and address vectors can be looked at without a device.
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <string.h>

#include "common/rdma/qp.h"

static struct ibv_qp_attr seen[4];
static int masks[4], calls, fail_at = -1;

static int record(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (calls == fail_at)
		return EINVAL;
	seen[calls] = *attr;
	masks[calls++] = mask;
	return 0;
}

static struct ibv_qp *create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static struct ibv_qp qp = { .qp_num = 0x1234 };

	return &qp;
}

static const struct rdma_provider provider = { .name = "test",
					       .create_qp = create,
					       .modify_qp = record };

static struct rdma_device dev;
static struct rdma_cq cq;

static struct rdma_qp make(uint8_t link_layer)
{
	struct rdma_qp_config config = { .cq = &cq, .max_send = 8, .max_recv = 8 };
	struct rdma_qp qp;
	struct error err;

	dev = (struct rdma_device){
		.ops = &provider,
		.options = rdma_options_default(),
		.port = 2,
		.port_attr = { .link_layer = link_layer, .lid = 9 },
		.attr = { .max_qp_rd_atom = 16, .max_qp_init_rd_atom = 12 },
		.has_gid = link_layer == IBV_LINK_LAYER_ETHERNET,
		.gid_index = 3,
		.mtu = IBV_MTU_4096,
		.name = "test0",
	};
	dev.gid.raw[15] = 1;
	calls = 0;
	fail_at = -1;
	assert_int_equal(rdma_qp_create(&dev, &config, &qp, &err), 0);
	assert_int_equal(masks[0],
			 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	assert_int_equal(seen[0].port_num, 2);
	return qp;
}

static struct wire_qp offer(uint8_t link_layer)
{
	struct wire_qp o = { .qpn = 0x77,
			     .psn = 0x99,
			     .lid = 5,
			     .link_layer = link_layer,
			     .mtu = IBV_MTU_1024,
			     .rd_initiator = 7,
			     .rd_responder = 5,
			     .ib_port = 1,
			     .has_gid = link_layer == IBV_LINK_LAYER_ETHERNET };

	o.gid[15] = 2;
	return o;
}

static void roce(void **state)
{
	struct rdma_qp qp = make(IBV_LINK_LAYER_ETHERNET);
	struct wire_qp peer = offer(IBV_LINK_LAYER_ETHERNET);
	struct error err;

	assert_int_equal(rdma_qp_connect(&qp, &peer, &err), 0);
	assert_int_equal(calls, 3);
	assert_int_equal(seen[1].qp_state, IBV_QPS_RTR);
	assert_int_equal(masks[1], IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					   IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(seen[1].path_mtu, IBV_MTU_1024);
	assert_int_equal(seen[1].dest_qp_num, 0x77);
	assert_int_equal(seen[1].rq_psn, 0x99);
	assert_int_equal(seen[1].max_dest_rd_atomic, 7); /* min(ours 16, its initiator 7) */
	assert_int_equal(seen[1].ah_attr.is_global, 1);
	assert_int_equal(seen[1].ah_attr.grh.sgid_index, 3);
	assert_int_equal(seen[1].ah_attr.grh.dgid.raw[15], 2);
	assert_int_equal(seen[1].ah_attr.port_num, 2);
	assert_int_equal(seen[2].qp_state, IBV_QPS_RTS);
	assert_int_equal(masks[2], IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
					   IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					   IBV_QP_MAX_QP_RD_ATOMIC);
	assert_int_equal(seen[2].max_rd_atomic, 5); /* min(ours 12, its responder 5) */
	assert_int_equal(seen[2].timeout, 14);
	assert_int_equal(seen[2].retry_cnt, 7);
	assert_int_equal(seen[2].rnr_retry, 6);
	assert_int_equal(seen[2].sq_psn, qp.psn);
}

static void infiniband(void **state)
{
	struct rdma_qp qp = make(IBV_LINK_LAYER_INFINIBAND);
	struct wire_qp peer = offer(IBV_LINK_LAYER_INFINIBAND), ours;
	struct error err;

	rdma_qp_offer(&qp, &ours);
	assert_int_equal(ours.lid, 9);
	assert_int_equal(ours.has_gid, 0);
	assert_int_equal(rdma_qp_connect(&qp, &peer, &err), 0);
	assert_int_equal(seen[1].ah_attr.is_global, 0);
	assert_int_equal(seen[1].ah_attr.dlid, 5);
}

static void refused(struct wire_qp peer, int code, const char *word)
{
	struct rdma_qp qp = make(IBV_LINK_LAYER_ETHERNET);
	struct error err;

	assert_int_equal(rdma_qp_connect(&qp, &peer, &err), code);
	assert_non_null(strstr(err.text, word));
	assert_int_equal(calls, 1); /* nothing was tried */
}

static void bad_offers(void **state)
{
	const struct wire_qp good = offer(IBV_LINK_LAYER_ETHERNET);
	struct wire_qp o = good;

	o.mtu = 0;
	refused(o, -EPROTO, "MTU");
	o.mtu = 6;
	refused(o, -EPROTO, "MTU");
	o = good;
	o.qpn = 0x1000000;
	refused(o, -EPROTO, "QP number");
	o = good;
	o.rd_responder = 0;
	refused(o, -EPROTO, "READ depth");
	refused(offer(IBV_LINK_LAYER_INFINIBAND), -EPROTO, "InfiniBand");
	o = good;
	o.has_gid = 0;
	refused(o, -EPROTO, "GID");
}

static void a_failed_step_is_named(void **state)
{
	struct rdma_qp qp = make(IBV_LINK_LAYER_ETHERNET);
	struct wire_qp peer = offer(IBV_LINK_LAYER_ETHERNET);
	struct error err;

	fail_at = 1;
	assert_int_equal(rdma_qp_connect(&qp, &peer, &err), -EINVAL);
	assert_non_null(strstr(err.text, "RTR"));
	fail_at = 2;
	assert_int_equal(rdma_qp_connect(&qp, &peer, &err), -EINVAL);
	assert_non_null(strstr(err.text, "RTS"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(roce),
		cmocka_unit_test(infiniband),
		cmocka_unit_test(bad_offers),
		cmocka_unit_test(a_failed_step_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
