/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The passive side of the CM. cm.h opens with the protocol. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/rdma/cm_internal.h"

#define BACKLOG 128 /* requests that wait in the kernel; it drops what is more */

struct cm_listener {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct cm_route route;
};

static int cannot_listen(const char *call, const struct sockaddr *at, struct error *err)
{
	char address[64];
	int rc = cm_errno();

	cm_address_text(at, address, sizeof(address));
	return error_set(
		err, rc, "%s at %s for the RDMA CM failed: %s (%s)", call, address, error_name(rc),
		rc == -EADDRINUSE ? "is another kv-server running? choose another port, or "
				    "0 for a free one"
		: rc == -ENODEV || rc == -EADDRNOTAVAIL
			? "no RDMA device sits on the network device with this address: "
			  "rdma link shows them; choose another address with --listen"
			: "choose another address with --listen, or --connect tcp");
}

int cm_listen(struct cm_listener **out, const struct sockaddr *at, struct error *err)
{
	struct cm_listener *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return error_set(err, -ENOMEM, "out of memory for listening");
	rc = cm_channel(&l->channel, err);
	if (rc)
		goto err_free;
	errno = 0;
	if (rdma_create_id(l->channel, &l->id, NULL, RDMA_PS_TCP)) {
		l->id = NULL;
		rc = cannot_listen("rdma_create_id", at, err);
	} else if (rdma_bind_addr(l->id, (struct sockaddr *)at)) {
		rc = cannot_listen("rdma_bind_addr", at, err);
	} else if (rdma_listen(l->id, BACKLOG)) {
		rc = cannot_listen("rdma_listen", at, err);
	}
	if (rc)
		goto err_free;
	cm_route_of(l->id, &l->route);
	*out = l;
	return 0;

err_free:
	cm_unlisten(l);
	return rc;
}

void cm_unlisten(struct cm_listener *l)
{
	if (!l)
		return;
	if (l->id)
		rdma_destroy_id(l->id);
	if (l->channel)
		rdma_destroy_event_channel(l->channel);
	free(l);
}

int cm_listener_fd(const struct cm_listener *l)
{
	return l->channel->fd;
}

const struct cm_route *cm_listener_route(const struct cm_listener *l)
{
	return &l->route;
}

static const struct {
	enum rdma_cm_event_type type;
	enum cm_event_kind kind;
	const char *text;
} meanings[] = {
	{ RDMA_CM_EVENT_CONNECT_REQUEST, CM_REQUEST, "a client asks for a queue pair" },
	{ RDMA_CM_EVENT_ESTABLISHED, CM_ESTABLISHED, "the client has confirmed" },
	{ RDMA_CM_EVENT_DISCONNECTED, CM_CLOSED, "the client has left" },
	{ RDMA_CM_EVENT_CONNECT_ERROR, CM_CLOSED, "the connection failed" },
	{ RDMA_CM_EVENT_UNREACHABLE, CM_CLOSED, "the client did not confirm" },
	{ RDMA_CM_EVENT_REJECTED, CM_CLOSED, "the client rejected what it was granted" },
	{ RDMA_CM_EVENT_DEVICE_REMOVAL, CM_FATAL, "the device goes away" },
	{ RDMA_CM_EVENT_ADDR_CHANGE, CM_NOTHING, "an address moved to another network device" },
	{ RDMA_CM_EVENT_TIMEWAIT_EXIT, CM_NOTHING, "a queue pair's number may be used again" },
};

/* A request comes with an id of its own. Out of memory: it is rejected without words. */
static struct cm *newcomer(struct rdma_cm_event *event, struct cm_event *out)
{
	const struct rdma_conn_param *param = &event->param.conn;
	struct cm *cm = calloc(1, sizeof(*cm));

	if (!cm) {
		rdma_reject(event->id, NULL, 0);
		rdma_destroy_id(event->id); /* what is to be acknowledged is the listener's */
		return NULL;
	}
	cm->id = event->id;
	cm->id->context = cm;
	/* named from the receiver's point of view: what the far end starts, we respond to */
	cm->peer_initiator = param->responder_resources;
	cm->peer_responder = param->initiator_depth;
	cm_bound(cm);
	if (param->private_data) {
		out->data_len = param->private_data_len; /* a byte: it fits */
		memcpy(out->data, param->private_data, out->data_len);
	}
	return cm;
}

int cm_next(struct cm_listener *l, struct cm_event *out)
{
	struct rdma_cm_event *event;

	errno = 0;
	if (rdma_get_cm_event(l->channel, &event)) {
		int rc = cm_errno();

		return rc == -EINTR ? -EAGAIN : rc;
	}
	memset(out, 0, offsetof(struct cm_event, data));
	out->text = "an event that this version has no words for";
	for (unsigned i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
		if (meanings[i].type == event->event) {
			out->kind = meanings[i].kind;
			out->text = meanings[i].text;
		}
	}
	if (out->kind == CM_REQUEST) {
		out->cm = newcomer(event, out);
		if (!out->cm)
			out->kind = CM_NOTHING;
	} else if (event->id != l->id) {
		out->cm = event->id->context;
	}
	rdma_ack_cm_event(event);
	return 0;
}

int cm_accept(struct cm *cm, const struct rdma_qp *qp, const struct wire_cm_reply *reply,
	      struct error *err)
{
	struct rdma_conn_param param = cm_param(qp, reply, sizeof(*reply));
	int rc;

	param.initiator_depth = (uint8_t)qp->rd_initiator;
	param.responder_resources = (uint8_t)qp->rd_responder;
	errno = 0;
	if (rdma_accept(cm->id, &param) == 0)
		return 0;
	rc = cm_errno();
	return error_set(err, rc, "rdma_accept of %s failed: %s", cm->peer, error_name(rc));
}

void cm_reject(struct cm *cm, int code, const char *text)
{
	struct wire_cm_reject why;

	wire_cm_reject_make(code, text, &why);
	rdma_reject(cm->id, &why, sizeof(why)); /* the client hears nothing else: best effort */
	cm_destroy(cm);
}
