/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A session whose queue pairs are connected by the RDMA CM: common/rdma/cm.h says how.
 *
 * Each connection has an event channel of its own. One for all handles of a session would need a
 * lock around every look at it, and a thread that reads another's events would have to wake that
 * one; here a handle's thread waits for what is its own, until its own call's deadline, and what is
 * destroyed has no reader left. The price is a descriptor for each handle.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "client/src/link/device.h"
#include "client/src/link/handle.h"
#include "client/src/link/trace.h"

/* The peer's address, with a port of the CM. */
static int server_address(int fd, unsigned port, struct sockaddr_storage *out, struct error *err)
{
	socklen_t len = sizeof(*out);

	memset(out, 0, sizeof(*out));
	if (getpeername(fd, (struct sockaddr *)out, &len))
		return error_set(err, -ECONNRESET, "the server closed the connection: %s",
				 error_name(errno));
	if (out->ss_family == AF_INET6)
		((struct sockaddr_in6 *)out)->sin6_port = htons((uint16_t)port);
	else
		((struct sockaddr_in *)out)->sin_port = htons((uint16_t)port);
	return 0;
}

/* No silent fall-back from a device that was named. @device, @port: "auto" and 0 are any. */
static int check_route(const struct gkv_session *s, const struct cm_route *route,
		       const char *device, unsigned port, const char *whose, struct error *err)
{
	if (strcmp(device, "auto") != 0 && strcmp(device, route->device) != 0)
		return error_set(err, -EXDEV,
				 "the route to %s leaves through device %s, %s says %s (leave the "
				 "device out, use an address that %s leads to, or --connect tcp)",
				 session_server(s)->host, route->device, whose, device, device);
	if (port && port != route->port)
		return error_set(err, -EXDEV,
				 "the route to %s leaves through port %u of %s, %s says %u (leave "
				 "the port out, or use an address that it leads to)",
				 session_server(s)->host, route->port, route->device, whose, port);
	return 0;
}

int session_open_by_cm(struct gkv_session *s, int fd, uint64_t deadline_ns,
		       struct rdma_device **out, struct error *err)
{
	const struct cm_wait wait = { .deadline_ns = deadline_ns, .lifeline = fd };
	struct rdma_options options = s->settings.rdma;
	struct sockaddr_storage to;
	struct cm *cm;
	int rc = server_address(fd, 0, &to, err);

	if (rc)
		return rc;
	rc = cm_resolve(&cm, (struct sockaddr *)&to, &wait, err);
	if (rc) {
		error_prefix(err, "--connect cm to %s:%s", session_server(s)->host,
			     session_server(s)->port);
		return rc;
	}
	rc = check_route(s, &cm->route, options.device, options.ib_port, "--device or --ib-port",
			 err);
	if (rc == 0) {
		if (strcmp(options.device, "auto") == 0)
			options.why = "the RDMA CM's route to the server leaves through it";
		options.device = cm->route.device;
		options.ib_port = cm->route.port;
		options.cm_gids = true;
		rc = rdma_device_open(out, &options, NULL, err);
	}
	cm_destroy(cm);
	return rc;
}

static int ask(struct link *l, const struct cm_wait *wait)
{
	struct gkv_session *s = l->session;
	const struct wire_cm_request request = {
		.header = wire_cm_header(WIRE_CM_REQUEST),
		.token = s->welcome.cm_token,
		.handle = l->number,
		.credits = l->credits_wish,
		.mtu = (uint8_t)s->device->rdma->mtu,
	};
	struct wire_cm_reply reply;
	int rc;

	trace_begin(s, "cm");
	rc = cm_connect(l->cm, &l->qp, &request, &reply, wait, l->err);
	if (rc)
		return rc;
	if (reply.handle != l->number || reply.credits > l->credits_wish)
		return error_set(
			l->err, -EPROTO,
			"the server opened queue pair %u with %u credits, asked for was %u "
			"with %u",
			reply.handle, reply.credits, l->number, l->credits_wish);
	session_qp_fresh(s, l->number);
	trace_done(
		s, "MTU %u, %u READs in flight from here, %u from there, %u credits; ready to send",
		rdma_mtu_bytes(l->qp.mtu), l->qp.rd_initiator, l->qp.rd_responder, reply.credits);
	l->credits = reply.credits;
	trace_begin(s, "live");
	for (unsigned i = 0; i < l->credits && rc == 0; i++)
		rc = link_receive(l, i, l->err);
	if (rc == 0)
		rc = cm_establish(l->cm, l->err);
	if (rc == 0)
		trace_done(s, "both sides are ready to send");
	return rc;
}

int link_connect_by_cm(struct link *l, uint64_t deadline_ns)
{
	struct gkv_session *s = l->session;
	const struct cm_wait wait = { .deadline_ns = deadline_ns, .lifeline = s->lifeline };
	struct sockaddr_storage to;
	int rc = server_address(s->lifeline, s->welcome.cm_port, &to, l->err);

	trace_begin(s, "route");
	if (rc == 0)
		rc = cm_resolve(&l->cm, (struct sockaddr *)&to, &wait, l->err);
	if (rc == 0)
		rc = check_route(s, &l->cm->route, s->device->rdma->name, s->device->rdma->port,
				 "the session", l->err);
	if (rc == 0) {
		trace_done(s, "to %s, port %u of the CM: through port %u of %s", l->cm->peer,
			   s->welcome.cm_port, l->cm->route.port, l->cm->route.device);
		rc = ask(l, &wait);
	}
	if (rc == -ECONNRESET || rc == -ESTALE) {
		/* the life line spoke, and of another handle perhaps; or the server has forgotten
		 * the session; or the connection alone failed */
		if (rc == -ESTALE)
			session_lost(s);
		session_alive(s);
		return -ECONNRESET;
	}
	return rc;
}
