/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The active side of the CM. cm.h opens with the protocol. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "common/rdma/cm_internal.h"

/* Reasons of a REJ (IBTA 12.6.7.2) that have words of their own. */
enum { REJ_INVALID_SERVICE_ID = 8, REJ_STALE_CONNECTION = 10 };

/* An event that was acknowledged. */
struct heard {
	enum rdma_cm_event_type type;
	int status; /* 0, a negative errno, or a reason */
	uint8_t initiator_depth, responder_resources;
	size_t data_len;
	uint8_t data[CM_PRIVATE_MAX];
};

static unsigned left_ms(uint64_t deadline_ns)
{
	uint64_t now = time_now_ns();

	return now >= deadline_ns ? 0 : (unsigned)((deadline_ns - now) / NS_PER_MS) + 1;
}

static int take_event(struct cm *cm, struct heard *out)
{
	struct rdma_cm_event *event;

	errno = 0;
	if (rdma_get_cm_event(cm->channel, &event))
		return cm_errno();
	memset(out, 0, sizeof(*out));
	out->type = event->event;
	out->status = event->status;
	out->initiator_depth = event->param.conn.initiator_depth;
	out->responder_resources = event->param.conn.responder_resources;
	if (event->param.conn.private_data) {
		out->data_len = event->param.conn.private_data_len; /* a byte: it fits */
		memcpy(out->data, event->param.conn.private_data, out->data_len);
	}
	rdma_ack_cm_event(event);
	return 0;
}

/* Wait for the next event, whatever it is. */
static int next_event(struct cm *cm, const struct cm_wait *wait, struct heard *out,
		      const char *doing, struct error *err)
{
	for (;;) {
		struct pollfd p[2] = { { .fd = cm->channel->fd, .events = POLLIN },
				       { .fd = wait->lifeline, .events = POLLIN } };
		int rc = take_event(cm, out);
		unsigned ms;

		if (rc == 0)
			return 0;
		if (rc != -EAGAIN && rc != -EINTR)
			return error_set(err, rc, "rdma_get_cm_event failed: %s", error_name(rc));
		ms = left_ms(wait->deadline_ns);
		if (ms == 0)
			return error_set(err, -ETIMEDOUT,
					 "%s took too long (is the network up, and does a firewall "
					 "let RDMA through?)",
					 doing);
		if (poll(p, 2, (int)ms) > 0 && p[1].revents)
			return error_set(err, -ECONNRESET,
					 "the server ended the session meanwhile");
	}
}

static bool in_vain(int rc)
{
	return rc == -ENODEV || rc == -EADDRNOTAVAIL || rc == -ENOENT;
}

static int no_route(const struct cm *cm, const char *step, int rc, struct error *err)
{
	rc = rc < 0 ? rc : -EHOSTUNREACH;
	return error_set(err, in_vain(rc) ? -ENODEV : rc, "the RDMA CM found no %s to %s: %s (%s)",
			 step, cm->peer, error_name(rc),
			 in_vain(rc)
				 ? "no RDMA device sits on the way there: rdma link shows which "
				   "network devices have one"
				 : "check address, route and link");
}

static int resolve(struct cm *cm, const struct sockaddr *to, const struct cm_wait *wait,
		   struct error *err)
{
	struct heard heard;
	int rc;

	errno = 0;
	if (rdma_resolve_addr(cm->id, NULL, (struct sockaddr *)to, (int)left_ms(wait->deadline_ns)))
		return no_route(cm, "address", cm_errno(), err);
	rc = next_event(cm, wait, &heard, "resolving the server's address for RDMA", err);
	if (rc)
		return rc;
	if (heard.type != RDMA_CM_EVENT_ADDR_RESOLVED)
		return no_route(cm, "address", heard.status, err);
	cm_bound(cm);
	if (!cm->route.device[0])
		return no_route(cm, "device", -ENODEV, err);
	if (rdma_resolve_route(cm->id, (int)left_ms(wait->deadline_ns)))
		return no_route(cm, "route", cm_errno(), err);
	rc = next_event(cm, wait, &heard, "resolving the route to the server", err);
	if (rc)
		return rc;
	if (heard.type != RDMA_CM_EVENT_ROUTE_RESOLVED)
		return no_route(cm, "route", heard.status, err);
	return 0;
}

int cm_resolve(struct cm **out, const struct sockaddr *to, const struct cm_wait *wait,
	       struct error *err)
{
	struct cm *cm = calloc(1, sizeof(*cm));
	int rc;

	if (!cm)
		return error_set(err, -ENOMEM, "out of memory for a connection of the CM");
	rc = cm_channel(&cm->channel, err);
	if (rc)
		goto err_destroy;
	errno = 0;
	if (rdma_create_id(cm->channel, &cm->id, cm, RDMA_PS_TCP)) {
		rc = cm_errno();
		cm->id = NULL;
		error_set(err, rc, "rdma_create_id failed: %s", error_name(rc));
		goto err_destroy;
	}
	cm_address_text(to, cm->peer, sizeof(cm->peer));
	rc = resolve(cm, to, wait, err);
	if (rc)
		goto err_destroy;
	*out = cm;
	return 0;

err_destroy:
	cm_destroy(cm);
	return rc;
}

static int rejected(const struct cm *cm, const struct heard *heard, struct error *err)
{
	struct wire_cm_reject why;

	if (wire_cm_reject_decode(heard->data, heard->data_len, &why, NULL) == 0)
		return error_set(err, why.code, "the peer refused: %s", why.text);
	if (heard->status == REJ_INVALID_SERVICE_ID)
		return error_set(err, -ECONNREFUSED,
				 "nobody serves the RDMA CM at that port of %s (was kv-server "
				 "started with --connect cm?)",
				 cm->peer);
	if (heard->status == REJ_STALE_CONNECTION)
		return error_set(err, -ECONNRESET,
				 "%s still holds an earlier connection of this queue pair's number",
				 cm->peer);
	return error_set(err, -ECONNREFUSED, "the RDMA CM of %s rejected the connection, reason %d",
			 cm->peer, heard->status);
}

/* What came instead of an answer. */
static int not_connected(const struct cm *cm, const struct heard *heard, struct error *err)
{
	int rc = heard->status < 0 ? heard->status : -ECONNRESET;

	if (heard->type == RDMA_CM_EVENT_REJECTED)
		return rejected(cm, heard, err);
	if (heard->type == RDMA_CM_EVENT_UNREACHABLE)
		return error_set(err, rc,
				 "the RDMA CM of %s did not answer: %s (is its link up, and does a "
				 "firewall let RDMA through?)",
				 cm->peer, error_name(rc));
	if (heard->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		return error_set(err, -ENODEV, "device %s goes away", cm->route.device);
	return error_set(err, rc, "connecting to %s by the CM ended with %s: %s", cm->peer,
			 rdma_event_str(heard->type), error_name(rc));
}

int cm_connect(struct cm *cm, struct rdma_qp *qp, const struct wire_cm_request *request,
	       struct wire_cm_reply *reply, const struct cm_wait *wait, struct error *err)
{
	struct rdma_conn_param param = cm_param(qp, request, sizeof(*request));
	struct wire_qp ours;
	struct heard heard;
	int rc;

	rdma_qp_offer(qp, &ours);
	param.initiator_depth = ours.rd_initiator;
	param.responder_resources = ours.rd_responder;
	errno = 0;
	if (rdma_connect(cm->id, &param)) {
		rc = cm_errno();
		return error_set(err, rc, "rdma_connect to %s failed: %s", cm->peer,
				 error_name(rc));
	}
	rc = next_event(cm, wait, &heard, "the server's answer to the CM request", err);
	if (rc)
		return rc;
	if (heard.type != RDMA_CM_EVENT_CONNECT_RESPONSE || heard.status)
		return not_connected(cm, &heard, err);
	rc = wire_cm_reply_decode(heard.data, heard.data_len, reply, err);
	if (rc)
		return rc;
	/* named from the receiver's point of view: what the far end starts, we respond to */
	cm->peer_initiator = heard.responder_resources;
	cm->peer_responder = heard.initiator_depth;
	return cm_qp_connect(cm, qp, reply->mtu, err);
}

int cm_establish(struct cm *cm, struct error *err)
{
	int rc;

	errno = 0;
	if (rdma_establish(cm->id) == 0)
		return 0;
	rc = cm_errno();
	return error_set(err, rc, "rdma_establish with %s failed: %s", cm->peer, error_name(rc));
}

void cm_leave(struct cm *cm, uint64_t deadline_ns)
{
	const struct cm_wait wait = { .deadline_ns = deadline_ns, .lifeline = -1 };
	struct heard heard;

	if (rdma_disconnect(cm->id))
		return;
	while (next_event(cm, &wait, &heard, "leaving", NULL) == 0) {
		if (heard.type == RDMA_CM_EVENT_DISCONNECTED ||
		    heard.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			return;
	}
}
