/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/rdma/qp.h"

#include <errno.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/random.h"
#include "common/rdma/gid.h"

/*
 * IBTA: 22 is 20.48 ms, what a responder asks for between RNR retries. A client that keeps
 * to the credits never meets it. Where another client takes all receives of a shared queue, or the
 * responder does not get to run, six retries must outlast that.
 */
#define MIN_RNR_TIMER 22

static unsigned smaller(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static unsigned clamp_depth(int depth)
{
	return depth < 1 ? 1 : depth > 255 ? 255 : (unsigned)depth;
}

static int qp_to_init(struct rdma_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = (uint16_t)qp->dev->options.pkey_index,
		.port_num = qp->dev->port,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | qp->remote_access,
	};

	return -qp->dev->ops->modify_qp(qp->qp, &attr,
					IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						IBV_QP_ACCESS_FLAGS);
}

int rdma_qp_create(const struct rdma_device *dev, const struct rdma_qp_config *config,
		   struct rdma_qp *out, struct error *err)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = config->cq->cq,
		.recv_cq = config->cq->cq,
		.srq = config->srq ? config->srq->srq : NULL,
		.cap = { .max_send_wr = config->max_send,
			 .max_recv_wr = config->srq ? 0 : config->max_recv,
			 .max_send_sge = config->max_send_sge ? config->max_send_sge : 2,
			 .max_recv_sge = config->srq ? 0 : 1,
			 .max_inline_data = config->inline_wish },
		.qp_type = IBV_QPT_RC,
		.qp_context = config->context,
	};
	struct rdma_qp qp = { .dev = dev,
			      .remote_access = config->remote_access,
			      .link_layer = dev->port_attr.link_layer,
			      .source = config->source ? *config->source : dev->source };
	int rc;

	errno = 0;
	qp.qp = dev->ops->create_qp(dev->pd, &attr);
	if (!qp.qp && attr.cap.max_inline_data) { /* some devices have less, or none */
		attr.cap.max_inline_data = 0;
		qp.qp = dev->ops->create_qp(dev->pd, &attr);
	}
	if (!qp.qp) {
		rc = errno ? -errno : -ENOMEM;
		return error_set(err, rc,
				 "ibv_create_qp on %s failed: %s (send queue of %u, inline %u "
				 "bytes; RLIMIT_MEMLOCK counts queues as well)",
				 dev->name, error_name(rc), config->max_send, config->inline_wish);
	}
	qp.max_send = attr.cap.max_send_wr;
	qp.inline_max = attr.cap.max_inline_data;
	rc = random_fill(&qp.psn, sizeof(qp.psn), err);
	if (rc)
		goto err_destroy;
	qp.psn &= 0xffffff;
	rc = qp_to_init(&qp);
	if (rc) {
		error_set(err, rc, "ibv_modify_qp to INIT on port %u of %s failed: %s", dev->port,
			  dev->name, error_name(rc));
		goto err_destroy;
	}
	*out = qp;
	return 0;

err_destroy:
	dev->ops->destroy_qp(qp.qp);
	return rc;
}

void rdma_qp_offer(const struct rdma_qp *qp, struct wire_qp *out)
{
	const struct rdma_device *dev = qp->dev;

	memset(out, 0, sizeof(*out));
	memcpy(out->gid, qp->source.gid.raw, sizeof(out->gid));
	out->qpn = qp->qp->qp_num;
	out->psn = qp->psn;
	out->lid = dev->port_attr.lid;
	out->link_layer = dev->port_attr.link_layer;
	out->mtu = (uint8_t)dev->mtu;
	out->rd_initiator = (uint8_t)clamp_depth(dev->attr.max_qp_init_rd_atom);
	out->rd_responder = (uint8_t)clamp_depth(dev->attr.max_qp_rd_atom);
	out->ib_port = dev->port;
	out->has_gid = qp->source.has_gid;
	out->gid_type = (uint8_t)qp->source.gid_type;
}

/* RoCE: two GIDs that look right and never meet. What modify_qp does not say, packets would. */
static int check_roce(const struct rdma_qp *qp, const struct wire_qp *peer, struct error *err)
{
	const struct rdma_source *ours = &qp->source;
	char our_text[48], peer_text[48];
	union ibv_gid gid;

	memcpy(gid.raw, peer->gid, sizeof(gid.raw));
	gid_text(&ours->gid, our_text, sizeof(our_text));
	gid_text(&gid, peer_text, sizeof(peer_text));
	if (peer->gid_type != ours->gid_type)
		return error_set(err, -EPROTO,
				 "the peer's GID %s is %s, ours on %s, index %d %s, is %s: they "
				 "drop each other's packets (choose one kind on both sides with "
				 "--gid-index; kv-cli doctor lists them)",
				 peer_text, gid_type_words(peer->gid_type), qp->dev->name,
				 ours->gid_index, our_text, gid_type_words(ours->gid_type));
	if (ours->gid_type == IBV_GID_TYPE_ROCE_V2 && gid_is_ipv4(&gid) != gid_is_ipv4(&ours->gid))
		return error_set(
			err, -EPROTO,
			"the peer's GID %s and ours on %s, index %d %s, are IPv4 and IPv6: "
			"no route leads from one to the other (choose one family on both "
			"sides with --gid-index; kv-cli doctor lists them)",
			peer_text, qp->dev->name, ours->gid_index, our_text);
	return 0;
}

/* InfiniBand: a LID is known inside its subnet only. */
static int check_infiniband(const struct rdma_qp *qp, const struct wire_qp *peer, struct error *err)
{
	union ibv_gid gid;

	memcpy(gid.raw, peer->gid, sizeof(gid.raw));
	if (peer->lid == 0)
		return error_set(err, -EPROTO,
				 "the peer offered LID 0: its port has no LID yet (is a subnet "
				 "manager running?)");
	if (!qp->source.grh && peer->has_gid && qp->source.has_gid &&
	    gid.global.subnet_prefix != qp->source.gid.global.subnet_prefix)
		return error_set(err, -EPROTO,
				 "the peer's port is in another InfiniBand subnet: LID %u does not "
				 "lead there from %s (--connect cm asks for the route; or choose "
				 "ports of one subnet)",
				 peer->lid, qp->dev->name);
	return 0;
}

static int check_offer(const struct rdma_qp *qp, const struct wire_qp *peer, struct error *err)
{
	const struct rdma_device *dev = qp->dev;

	if (peer->mtu < IBV_MTU_256 || peer->mtu > IBV_MTU_4096)
		return error_set(err, -EPROTO, "the peer offered MTU code %u, 1 to 5 exist",
				 peer->mtu);
	if (peer->qpn == 0 || peer->qpn > 0xffffff || peer->psn > 0xffffff)
		return error_set(err, -EPROTO,
				 "the peer offered QP number 0x%x and PSN 0x%x, both "
				 "have 24 bits",
				 peer->qpn, peer->psn);
	if (peer->rd_initiator == 0 || peer->rd_responder == 0)
		return error_set(err, -EPROTO, "the peer offered a READ depth of 0");
	if (peer->link_layer != dev->port_attr.link_layer)
		return error_set(
			err, -EPROTO,
			"the peer's port is %s, ours (%s) is %s: they cannot reach each "
			"other (choose devices on one fabric with --device)",
			peer->link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand",
			dev->name,
			dev->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet"
									     : "InfiniBand");
	if (qp->source.grh && !peer->has_gid)
		return error_set(err, -EPROTO, "the peer offered no GID, and %s needs one",
				 dev->name);
	return peer->link_layer == IBV_LINK_LAYER_ETHERNET ? check_roce(qp, peer, err)
							   : check_infiniband(qp, peer, err);
}

int rdma_qp_rtr_attr(const struct rdma_qp *qp, const struct wire_qp *peer, struct ibv_qp_attr *attr)
{
	const struct rdma_device *dev = qp->dev;

	memset(attr, 0, sizeof(*attr));
	attr->qp_state = IBV_QPS_RTR;
	attr->path_mtu = qp->mtu;
	attr->dest_qp_num = peer->qpn;
	attr->rq_psn = peer->psn;
	attr->max_dest_rd_atomic = (uint8_t)qp->rd_responder;
	attr->min_rnr_timer = MIN_RNR_TIMER;
	attr->ah_attr.port_num = dev->port;
	attr->ah_attr.dlid = peer->lid;
	attr->ah_attr.sl = (uint8_t)dev->options.service_level;
	if (qp->source.grh) {
		attr->ah_attr.is_global = 1;
		memcpy(attr->ah_attr.grh.dgid.raw, peer->gid, sizeof(peer->gid));
		attr->ah_attr.grh.sgid_index = (uint8_t)qp->source.gid_index;
		attr->ah_attr.grh.hop_limit = 64;
		attr->ah_attr.grh.traffic_class = (uint8_t)dev->options.traffic_class;
	}
	return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

int rdma_qp_rts_attr(const struct rdma_qp *qp, struct ibv_qp_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = IBV_QPS_RTS;
	attr->sq_psn = qp->psn;
	attr->timeout = (uint8_t)qp->dev->options.timeout;
	attr->retry_cnt = (uint8_t)qp->dev->options.retry_cnt;
	attr->rnr_retry = (uint8_t)qp->dev->options.rnr_retry;
	attr->max_rd_atomic = (uint8_t)qp->rd_initiator;
	return IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
	       IBV_QP_MAX_QP_RD_ATOMIC;
}

int rdma_qp_settle(struct rdma_qp *qp, const struct wire_qp *peer, struct error *err)
{
	const struct rdma_device *dev = qp->dev;
	int rc = check_offer(qp, peer, err);

	if (rc)
		return rc;
	qp->peer_qpn = peer->qpn;
	qp->mtu = (enum ibv_mtu)smaller(dev->mtu, peer->mtu);
	qp->rd_initiator = smaller(clamp_depth(dev->attr.max_qp_init_rd_atom), peer->rd_responder);
	qp->rd_responder = smaller(clamp_depth(dev->attr.max_qp_rd_atom), peer->rd_initiator);
	return 0;
}

int rdma_qp_to_rtr(struct rdma_qp *qp, const struct wire_qp *peer, struct error *err)
{
	const struct rdma_device *dev = qp->dev;
	struct ibv_qp_attr attr;
	union ibv_gid dgid;
	char gid[48];
	int mask, rc;

	mask = rdma_qp_rtr_attr(qp, peer, &attr);
	rc = -dev->ops->modify_qp(qp->qp, &attr, mask);
	if (rc == 0)
		return 0;
	memcpy(dgid.raw, peer->gid, sizeof(dgid.raw));
	gid_text(&dgid, gid, sizeof(gid));
	return error_set(err, rc,
			 "ibv_modify_qp to RTR on %s failed: %s (peer's GID %s, LID %u, QP 0x%x; "
			 "do both sides sit on one network and use one GID type?)",
			 dev->name, error_name(rc), gid, peer->lid, peer->qpn);
}

int rdma_qp_to_rts(struct rdma_qp *qp, struct error *err)
{
	const struct rdma_device *dev = qp->dev;
	struct ibv_qp_attr attr;
	int mask = rdma_qp_rts_attr(qp, &attr);
	int rc = -dev->ops->modify_qp(qp->qp, &attr, mask);

	if (rc)
		return error_set(err, rc,
				 "ibv_modify_qp to RTS on %s failed: %s (timeout %u, retry count "
				 "%u, RNR retry %u, READ depth %u)",
				 dev->name, error_name(rc), dev->options.timeout,
				 dev->options.retry_cnt, dev->options.rnr_retry, qp->rd_initiator);
	return 0;
}

int rdma_qp_connect(struct rdma_qp *qp, const struct wire_qp *peer, struct error *err)
{
	int rc = rdma_qp_settle(qp, peer, err);

	if (rc == 0)
		rc = rdma_qp_to_rtr(qp, peer, err);
	if (rc == 0)
		rc = rdma_qp_to_rts(qp, err);
	return rc;
}

int rdma_qp_fail(struct rdma_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return -qp->dev->ops->modify_qp(qp->qp, &attr, IBV_QP_STATE);
}

/* It stays: may nothing come over it. In ERR what was posted still names memory until flushed. */
static int qp_reset(struct rdma_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	return -qp->dev->ops->modify_qp(qp->qp, &attr, IBV_QP_STATE);
}

int rdma_qp_destroy(struct rdma_qp *qp)
{
	int rc = qp->qp ? -qp->dev->ops->destroy_qp(qp->qp) : 0;

	if (rc) {
		bool reset = qp_reset(qp) == 0;

		log_error("rdma", "ibv_destroy_qp on %s failed: %s (%s)", qp->dev->name,
			  error_name(rc),
			  reset ? "it was reset instead, and stays"
				: "the peer may still have access");
		if (reset)
			rc = 0;
	}
	memset(qp, 0, sizeof(*qp));
	return rc;
}
