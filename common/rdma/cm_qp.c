/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The CM's attributes for a queue pair, with ours put over them. */
#include <errno.h>
#include <string.h>

#include "common/base/log.h"
#include "common/rdma/cm_internal.h"
#include "common/rdma/gid.h"

/*
 * The bits that ibv_modify_qp(3) documents without extensions. Kernels have put bits of their own
 * above them into what they hand to librdmacm, which a device may refuse.
 */
#define STANDARD_BITS ((IBV_QP_DEST_QPN << 1) - 1)

int cm_qp_attr(const struct rdma_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	const struct wire_qp nobody = { .gid = { 0 } }; /* addresses are the CM's */
	const struct rdma_options *o = &qp->dev->options;
	struct ibv_qp_attr ours;

	mask &= STANDARD_BITS;
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		attr->qp_access_flags = IBV_ACCESS_LOCAL_WRITE | qp->remote_access;
		return mask | IBV_QP_ACCESS_FLAGS;
	case IBV_QPS_RTR:
		rdma_qp_rtr_attr(qp, &nobody, &ours);
		attr->path_mtu = ours.path_mtu;
		attr->max_dest_rd_atomic = ours.max_dest_rd_atomic;
		attr->min_rnr_timer = ours.min_rnr_timer;
		/* the path's, unless a person has said something else */
		if (o->service_level)
			attr->ah_attr.sl = (uint8_t)o->service_level;
		if (o->traffic_class && attr->ah_attr.is_global)
			attr->ah_attr.grh.traffic_class = (uint8_t)o->traffic_class;
		return mask | IBV_QP_PATH_MTU | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	case IBV_QPS_RTS:
		rdma_qp_rts_attr(qp, &ours);
		attr->timeout = ours.timeout;
		attr->retry_cnt = ours.retry_cnt;
		attr->rnr_retry = ours.rnr_retry;
		attr->max_rd_atomic = ours.max_rd_atomic;
		return mask | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	default:
		return mask;
	}
}

static unsigned smaller(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static int settle_depths(const struct cm *cm, struct rdma_qp *qp, struct error *err)
{
	struct wire_qp ours;

	if (cm->peer_initiator == 0 || cm->peer_responder == 0)
		return error_set(err, -EPROTO, "the peer offered a READ depth of 0");
	rdma_qp_offer(qp, &ours);
	qp->rd_initiator = smaller(ours.rd_initiator, cm->peer_responder);
	qp->rd_responder = smaller(ours.rd_responder, cm->peer_initiator);
	return 0;
}

static const char *step_words(enum ibv_qp_state state)
{
	return state == IBV_QPS_INIT ? "INIT" : state == IBV_QPS_RTR ? "RTR" : "RTS";
}

/* One step. @attr: receives what was set. */
static int step(struct cm *cm, struct rdma_qp *qp, enum ibv_qp_state state, uint8_t peer_mtu,
		struct ibv_qp_attr *attr, struct error *err)
{
	int mask = 0, rc;

	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	errno = 0;
	if (rdma_init_qp_attr(cm->id, attr, &mask)) {
		rc = cm_errno();
		return error_set(err, rc, "rdma_init_qp_attr for %s failed: %s", step_words(state),
				 error_name(rc));
	}
	attr->qp_state = state;
	if (state == IBV_QPS_RTR)
		qp->mtu = (enum ibv_mtu)smaller(smaller(qp->dev->mtu, peer_mtu),
						mask & IBV_QP_PATH_MTU ? attr->path_mtu
								       : IBV_MTU_4096);
	mask = cm_qp_attr(qp, attr, mask);
	rc = -qp->dev->ops->modify_qp(qp->qp, attr, mask);
	if (rc)
		return error_set(err, rc,
				 "ibv_modify_qp to %s on port %u of %s, with what the CM chose, "
				 "failed: %s (peer %s, GID index %u, path MTU %u; --connect tcp "
				 "chooses by itself)",
				 step_words(state), cm->route.port, qp->dev->name, error_name(rc),
				 cm->peer, attr->ah_attr.grh.sgid_index,
				 state == IBV_QPS_RTR ? rdma_mtu_bytes(qp->mtu) : 0);
	return 0;
}

/* What the CM chose is what packets come from. */
static void take_source(const struct cm *cm, struct rdma_qp *qp, const struct ibv_ah_attr *ah)
{
	struct rdma_source *source = &qp->source;
	struct ibv_gid_entry entry;

	memset(source, 0, sizeof(*source));
	source->grh = ah->is_global;
	source->gid_index = ah->grh.sgid_index;
	if (!ah->is_global || qp->dev->ops->query_gid_ex(qp->dev->context, cm->route.port,
							 ah->grh.sgid_index, &entry, 0))
		return;
	source->has_gid = true;
	source->gid = entry.gid;
	source->gid_type = (enum ibv_gid_type)entry.gid_type;
}

static void say_choice(const struct cm *cm, const struct rdma_qp *qp)
{
	const struct rdma_source *source = &qp->source;
	char gid[48] = "unknown";

	if (source->has_gid)
		gid_text(&source->gid, gid, sizeof(gid));
	log_debug("rdma",
		  "QP 0x%x to 0x%x of %s: the CM chose port %u of %s, GID index %d %s (%s); MTU "
		  "%u, READ depth %u/%u",
		  qp->qp->qp_num, qp->peer_qpn, cm->peer, cm->route.port, qp->dev->name,
		  source->gid_index, gid,
		  source->grh ? gid_type_words(source->gid_type) : "routed by LID",
		  rdma_mtu_bytes(qp->mtu), qp->rd_initiator, qp->rd_responder);
}

int cm_qp_connect(struct cm *cm, struct rdma_qp *qp, uint8_t peer_mtu, struct error *err)
{
	struct ibv_qp_attr init, rtr, rts;
	int rc = settle_depths(cm, qp, err);

	if (rc == 0)
		rc = step(cm, qp, IBV_QPS_INIT, peer_mtu, &init, err);
	if (rc == 0)
		rc = step(cm, qp, IBV_QPS_RTR, peer_mtu, &rtr, err);
	if (rc == 0)
		rc = step(cm, qp, IBV_QPS_RTS, peer_mtu, &rts, err);
	if (rc)
		return rc;
	qp->psn = rts.sq_psn;
	take_source(cm, qp, &rtr.ah_attr);
	qp->peer_qpn = rtr.dest_qp_num;
	say_choice(cm, qp);
	return 0;
}
