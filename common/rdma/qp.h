/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * RC queue pairs: RESET, INIT, RTR, RTS, with what one side cannot know coming over the exchange
 * (struct wire_qp). Both sides settle on the smaller MTU and READ depth. PSNs are random.
 */
#include "common/layout/wire_tcp.h"
#include "common/rdma/device.h"
#include "common/rdma/queue.h"

struct rdma_qp_config {
	struct rdma_cq *cq; /* for both directions */
	struct rdma_srq *srq; /* NULL: a receive queue of its own, of max_recv entries */
	unsigned max_send;
	unsigned max_recv;
	unsigned max_send_sge; /* pieces of one request; 0: 2 */
	unsigned inline_wish; /* bytes that should go inline; the device may give more, or none */
	unsigned remote_access; /* IBV_ACCESS_REMOTE_READ and/or _WRITE for the peer */
	void *context; /* of its events (struct rdma_event) */
	const struct rdma_source *source; /* NULL: the device's own */
};

struct rdma_qp {
	const struct rdma_device *dev;
	struct ibv_qp *qp;
	uint32_t psn;
	unsigned max_send;
	unsigned inline_max;
	unsigned remote_access;
	uint8_t link_layer; /* of the port, when it was made: workers may read it */
	struct rdma_source source;
	/* settled by rdma_qp_connect() */
	uint32_t peer_qpn;
	enum ibv_mtu mtu;
	unsigned rd_initiator; /* READs in flight that we may start */
	unsigned rd_responder; /* that the peer may start */
};

/* rdma_qp_create - in state INIT. Returns 0 or a negative errno with @err. */
int rdma_qp_create(const struct rdma_device *dev, const struct rdma_qp_config *config,
		   struct rdma_qp *out, struct error *err);

/* rdma_qp_offer - what the peer must know. handle and credits are the caller's to fill. */
void rdma_qp_offer(const struct rdma_qp *qp, struct wire_qp *out);

/*
 * rdma_qp_connect - settle with the peer's offer, then RTR and RTS. The offer is untrusted.
 * Returns 0; -EPROTO: an offer that cannot be (names the field); what modify_qp returned.
 */
int rdma_qp_connect(struct rdma_qp *qp, const struct wire_qp *peer, struct error *err);

/* The same in its three steps, in this order: settle, RTR, RTS. Errors as above. */
int rdma_qp_settle(struct rdma_qp *qp, const struct wire_qp *peer, struct error *err);
int rdma_qp_to_rtr(struct rdma_qp *qp, const struct wire_qp *peer, struct error *err);
int rdma_qp_to_rts(struct rdma_qp *qp, struct error *err);

/*
 * The attributes of the two steps, apart from the calls, so that tests can look at them: masks,
 * address vectors with and without GRH.
 */
int rdma_qp_rtr_attr(const struct rdma_qp *qp, const struct wire_qp *peer,
		     struct ibv_qp_attr *attr);
int rdma_qp_rts_attr(const struct rdma_qp *qp, struct ibv_qp_attr *attr);

/* rdma_qp_fail - to ERR: everything posted is flushed, nothing remote is served any more. */
int rdma_qp_fail(struct rdma_qp *qp);

/*
 * rdma_qp_destroy - no remote access through it after this returned 0, and nothing that was posted
 * names memory. One that cannot be destroyed is reset, and stays, its completion queue with it. A
 * zeroed one is fine.
 * Returns 0 or a negative errno, which is logged: it could not be reset either.
 */
int rdma_qp_destroy(struct rdma_qp *qp);
