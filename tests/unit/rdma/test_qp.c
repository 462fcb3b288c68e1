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
		.source = { .has_gid = true,
			    .grh = link_layer == IBV_LINK_LAYER_ETHERNET,
			    .gid_index = 3,
			    .gid_type = link_layer == IBV_LINK_LAYER_ETHERNET ? IBV_GID_TYPE_ROCE_V2
									      : IBV_GID_TYPE_IB },
		.mtu = IBV_MTU_4096,
		.name = "test0",
	};
	dev.source.gid.raw[0] = 0xfe;
	dev.source.gid.raw[15] = 1;
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
			     .has_gid = 1,
			     .gid_type = link_layer == IBV_LINK_LAYER_ETHERNET
						 ? IBV_GID_TYPE_ROCE_V2
						 : IBV_GID_TYPE_IB };

	o.gid[0] = 0xfe;
	o.gid[15] = 2;
	return o;
}

UNIT_TEST(roce)
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

UNIT_TEST(infiniband)
{
	struct rdma_qp qp = make(IBV_LINK_LAYER_INFINIBAND);
	struct wire_qp peer = offer(IBV_LINK_LAYER_INFINIBAND), ours;
	struct error err;

	rdma_qp_offer(&qp, &ours);
	assert_int_equal(ours.lid, 9);
	assert_int_equal(ours.has_gid, 1);
	assert_int_equal(ours.gid_type, IBV_GID_TYPE_IB);
	assert_memory_equal(ours.gid, dev.source.gid.raw, sizeof(ours.gid));
	assert_int_equal(rdma_qp_connect(&qp, &peer, &err), 0);
	assert_int_equal(seen[1].ah_attr.is_global, 0);
	assert_int_equal(seen[1].ah_attr.dlid, 5);
	assert_int_equal(seen[1].ah_attr.port_num, 2);
	assert_int_equal(seen[1].ah_attr.static_rate, 0);
	assert_int_equal(seen[1].ah_attr.src_path_bits, 0);
	assert_true(masks[1] & IBV_QP_AV);
	assert_int_equal(seen[2].qp_state, IBV_QPS_RTS);

	/* an older port that tells no GID is reached by LID alone */
	qp = make(IBV_LINK_LAYER_INFINIBAND);
	peer.has_gid = 0;
	assert_int_equal(rdma_qp_connect(&qp, &peer, &err), 0);
}

UNIT_TEST(infiniband_with_a_grh)
{
	struct rdma_qp qp = make(IBV_LINK_LAYER_INFINIBAND);
	struct wire_qp peer = offer(IBV_LINK_LAYER_INFINIBAND);
	struct error err;

	qp.source.grh = true; /* --gid-index was given */
	peer.gid[1] = 0x81; /* another subnet */
	assert_int_equal(rdma_qp_connect(&qp, &peer, &err), 0);
	assert_int_equal(seen[1].ah_attr.is_global, 1);
	assert_int_equal(seen[1].ah_attr.dlid, 5);
	assert_int_equal(seen[1].ah_attr.grh.sgid_index, 3);
	assert_memory_equal(seen[1].ah_attr.grh.dgid.raw, peer.gid, sizeof(peer.gid));
}

UNIT_TEST(the_source_of_a_connection)
{
	struct rdma_source source = { .has_gid = true,
				      .grh = true,
				      .gid_index = 7,
				      .gid_type = IBV_GID_TYPE_ROCE_V2,
				      .gid.raw = { [15] = 9 } };
	struct rdma_qp_config config = { .cq = &cq, .max_send = 8, .source = &source };
	struct wire_qp peer = offer(IBV_LINK_LAYER_ETHERNET), ours;
	struct rdma_qp qp = make(IBV_LINK_LAYER_ETHERNET);
	struct error err;

	calls = 0;
	assert_int_equal(rdma_qp_create(&dev, &config, &qp, &err), 0);
	rdma_qp_offer(&qp, &ours);
	assert_int_equal(ours.gid[15], 9);
	assert_int_equal(rdma_qp_connect(&qp, &peer, &err), 0);
	assert_int_equal(seen[1].ah_attr.grh.sgid_index, 7); /* and not the device's 3 */
}

static void refused_on(uint8_t link_layer, struct wire_qp peer, const char *word)
{
	struct rdma_qp qp = make(link_layer);
	struct error err;

	assert_int_equal(rdma_qp_connect(&qp, &peer, &err), -EPROTO);
	assert_non_null(strstr(err.text, word));
	assert_int_equal(calls, 1); /* nothing was tried */
}

static void refused(struct wire_qp peer, const char *word)
{
	refused_on(IBV_LINK_LAYER_ETHERNET, peer, word);
}

UNIT_TEST(bad_offers)
{
	const struct wire_qp good = offer(IBV_LINK_LAYER_ETHERNET);
	struct wire_qp o = good;

	o.mtu = 0;
	refused(o, "MTU");
	o.mtu = 6;
	refused(o, "MTU");
	o = good;
	o.qpn = 0x1000000;
	refused(o, "QP number");
	o = good;
	o.rd_responder = 0;
	refused(o, "READ depth");
	refused(offer(IBV_LINK_LAYER_INFINIBAND), "InfiniBand");
	o = good;
	o.has_gid = 0;
	refused(o, "GID");
}

/* What modify_qp may let pass, and what then times out after minutes. */
UNIT_TEST(pairs_that_never_meet)
{
	struct wire_qp o = offer(IBV_LINK_LAYER_ETHERNET);

	o.gid_type = IBV_GID_TYPE_ROCE_V1;
	refused(o, "RoCE v1");
	o.gid_type = 77;
	refused(o, "unknown");
	o = offer(IBV_LINK_LAYER_ETHERNET);
	memset(o.gid, 0, sizeof(o.gid));
	o.gid[10] = o.gid[11] = 0xff;
	o.gid[15] = 1;
	refused(o, "IPv4 and IPv6");

	o = offer(IBV_LINK_LAYER_INFINIBAND);
	o.lid = 0;
	refused_on(IBV_LINK_LAYER_INFINIBAND, o, "subnet manager");
	o = offer(IBV_LINK_LAYER_INFINIBAND);
	o.gid[1] = 0x81;
	refused_on(IBV_LINK_LAYER_INFINIBAND, o, "another InfiniBand subnet");
}

UNIT_TEST(a_failed_step_is_named)
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
