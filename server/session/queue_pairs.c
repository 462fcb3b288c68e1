/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The queue pairs of a session: opened and closed over its life line; cm_requests.c: by the CM. */
#include "server/session/session.h"

#include <errno.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/rdma/gid.h"
#include "common/rdma/tcp.h"

static struct worker *least_busy(const struct sessions *all)
{
	struct worker *best = all->workers[0];

	for (unsigned i = 1; i < all->worker_count; i++) {
		if (worker_credits(all->workers[i]) < worker_credits(best))
			best = all->workers[i];
	}
	return best;
}

/* Packets to this client come from the address that its life line reached. */
static int choose_source(struct session *s, struct gid_choice *out, struct error *err)
{
	struct rdma_device *dev = s->all->dev;
	const uint16_t lid = dev->port_attr.lid;
	char address[64];
	int rc;

	rc = rdma_port_refresh(dev, err); /* for each offer: events tell of changes too late */
	if (rc)
		return rc;
	if (dev->port_attr.lid != lid)
		log_info("rdma", "%s port %u has LID %u now, and had %u", dev->name, dev->port,
			 dev->port_attr.lid, lid);
	tcp_local_address(s->fd, address);
	rc = gid_choose(dev, address, out, err);
	if (rc || out->source.gid_index == s->gid_index)
		return rc;
	s->gid_index = out->source.gid_index;
	log_line(out->warn ? LOG_WARN : LOG_DEBUG, "rdma", "session %llu: %s port %u, %s",
		 (unsigned long long)s->number, dev->name, dev->port, out->why);
	return 0;
}

static int make(struct session *s, const struct rdma_source *source, struct conn **out,
		struct error *err)
{
	const unsigned handle = s->opening.handle;
	unsigned credits = s->opening.credits;
	struct conn *c;
	int rc;

	if (handle == HOUSEKEEPER_QP)
		credits = 0; /* silent as to requests: it would look as if it kept receives */
	else if (credits < 1 || credits > RPC_SLOTS_MAX)
		credits = RPC_SLOTS_MAX;
	rc = conn_create(&c, least_busy(s->all), credits, source, err);
	if (rc)
		return rc;
	atomic_fetch_add_explicit(&s->all->counters.queue_pairs, 1, memory_order_relaxed);
	rc = client_queue_pair(s->client, handle, c->credits);
	if (rc) {
		session_conn_drop(s, c);
		return error_set(err, rc, "out of memory for the replies of a queue pair");
	}
	c->session = s;
	c->client = s->client;
	memcpy(c->client_id, s->client->id, sizeof(c->client_id));
	c->generation = s->number;
	c->handle = handle;
	c->lifeline = s->fd;
	*out = c;
	return 0;
}

/* Whether both GIDs are the addresses that the life line connects. */
static bool vouched_for(const struct session *s, const struct rdma_source *source,
			const struct wire_qp *offer)
{
	struct gid_address here, there;
	char text[64];

	if (!source->grh)
		return true; /* by LID: nothing is resolved */
	tcp_local_address(s->fd, text);
	here = gid_address(text);
	tcp_peer_address(s->fd, text);
	there = gid_address(text);
	return here.known && there.known &&
	       memcmp(here.gid.raw, source->gid.raw, sizeof(here.gid.raw)) == 0 &&
	       memcmp(there.gid.raw, offer->gid, sizeof(there.gid.raw)) == 0;
}

/* As rdma_qp_connect(), which may wait long for a GID that leads nowhere: reach.h. */
static int connect_within_reach(struct session *s, struct conn *c, const struct wire_qp *offer,
				struct error *err)
{
	struct reach *reach = &s->all->reach;
	uint64_t from_ns = time_now_ns(), wait_ns;
	char gid[48];
	int rc;

	wait_ns = reach_wait_ns(reach, offer->gid, vouched_for(s, &c->qp.source, offer), from_ns);
	if (wait_ns) {
		gid_text((const union ibv_gid *)offer->gid, gid, sizeof(gid));
		return error_set(err, -EBUSY,
				 "the server has just waited in vain for a client's GID, and tries "
				 "%s, which is not the address of the TCP connection, in %u ms at "
				 "the earliest (come again then; or connect from the address of "
				 "the RDMA network)",
				 gid, (unsigned)(wait_ns / NS_PER_MS) + 1);
	}
	rc = rdma_qp_connect(&c->qp, offer, err);
	reach_tried(reach, offer->gid, rc == 0, from_ns, time_now_ns());
	return rc;
}

static int make_and_connect(struct session *s, struct conn **out, struct error *err)
{
	struct opening *o = &s->opening;
	struct gid_choice choice;
	int rc = o->cm ? 0 : choose_source(s, &choice, err);

	if (rc == 0)
		rc = make(s, o->cm ? NULL : &choice.source, out, err);
	if (rc)
		return rc;
	if (o->cm)
		rc = cm_qp_connect(o->cm, &(*out)->qp, o->cm_mtu, err);
	else
		rc = connect_within_reach(s, *out, &o->offer, err);
	if (rc)
		session_conn_drop(s, *out);
	return rc;
}

/* What was asked for is there, or @err says why not; @c: it, or NULL. */
static void answer(struct session *s, struct conn *c, const struct error *err)
{
	struct wire_frame frame = { .type = WIRE_QP_OPENED };
	const uint32_t ask = s->opening.offer.ask;
	struct cm *cm = s->opening.cm;

	s->opening = (struct opening){ 0 };
	session_resume(s);
	lease_heard(&s->lease, time_now_ns()); /* its client waited for this */
	if (!c) {
		session_watch(s);
		if (cm)
			session_refuse_cm(s, cm, err);
		else
			session_refuse(s, ask, err);
		return;
	}
	if (cm) {
		log_debug("session", "session %llu handle %u: QP 0x%x by the CM, %u credits",
			  (unsigned long long)s->number, c->handle, c->qp.qp->qp_num, c->credits);
		return;
	}
	rdma_qp_offer(&c->qp, &frame.qp);
	frame.qp.handle = c->handle;
	frame.qp.ask = ask;
	frame.qp.credits = c->credits;
	log_debug("session", "session %llu handle %u: QP 0x%x to 0x%x, MTU %u, READ depth %u/%u",
		  (unsigned long long)s->number, c->handle, frame.qp.qpn, c->qp.peer_qpn,
		  rdma_mtu_bytes(c->qp.mtu), c->qp.rd_initiator, c->qp.rd_responder);
	session_send(s, &frame);
}

static int accept_by_cm(struct session *s, struct conn *c, struct error *err)
{
	struct cm *cm = s->opening.cm;
	const struct wire_cm_reply reply = { .header = wire_cm_header(WIRE_CM_REPLY),
					     .handle = c->handle,
					     .credits = c->credits,
					     .mtu = (uint8_t)c->qp.mtu };
	int rc = cm_accept(cm, &c->qp, &reply, err);

	if (rc)
		return rc;
	cm->owner = s;
	cm->number = c->handle;
	c->cm = cm;
	return 0;
}

void session_attached(struct session *s, struct conn *c)
{
	struct error err;

	if (c->result) {
		error_set(&err, c->result, "posting receives failed: %s", error_name(c->result));
		session_conn_drop(s, c);
		answer(s, NULL, &err);
	} else if (s->opening.cm && accept_by_cm(s, c, &err)) {
		session_part(s, c);
		answer(s, NULL, &err);
	} else {
		s->conns[c->handle] = c;
		answer(s, c, NULL);
	}
	if (s->ending)
		session_end(s, 0);
}

/* The older one of the handle is gone. */
static void open_now(struct session *s)
{
	struct conn *c = NULL;
	struct error err;

	if (make_and_connect(s, &c, &err)) {
		answer(s, NULL, &err);
		return;
	}
	s->opening.conn = c;
	conn_attach(c); /* session_attached() goes on */
}

void session_open(struct session *s)
{
	struct opening *o = &s->opening;
	struct conn *old = s->conns[o->handle];

	o->wanted = true;
	session_pause(s);
	/* Before the old one goes and the new one can be used: grace.c, WITHOUT A QUEUE PAIR. Where
	 * it is not made session_watch() looks again. */
	lease_wait(sessions_grace(s->all), &s->lease, true, time_now_ns());
	if (old) { /* the client lost it and opens it again */
		s->conns[o->handle] = NULL;
		session_part(s, old);
	}
	if (!session_parts(s, o->handle))
		open_now(s);
}

void session_open_on(struct session *s)
{
	struct opening *o = &s->opening;

	if (o->wanted && !o->conn && !session_parts(s, o->handle))
		open_now(s);
	else
		session_watch(s);
	if (s->ending && !s->over)
		session_end(s, 0);
}

void session_qp_open(struct session *s, const struct wire_qp *offer)
{
	struct error err;

	if (offer->handle >= SESSION_QPS_MAX) {
		error_set(&err, -EPROTO, "queue pair %u of a session, at most %u exist",
			  offer->handle, SESSION_QPS_MAX);
		session_refuse(s, offer->ask, &err);
		return;
	}
	s->opening.handle = offer->handle;
	s->opening.credits = offer->credits;
	s->opening.offer = *offer;
	session_open(s);
}

void session_qp_ready(struct session *s, const struct wire_handle *handle)
{
	struct wire_frame frame = { .type = WIRE_QP_LIVE, .handle = *handle };
	struct error err;

	if (handle->handle >= SESSION_QPS_MAX || !s->conns[handle->handle]) {
		error_set(&err, -EPROTO, "queue pair %u was not opened", handle->handle);
		session_refuse(s, handle->number, &err);
		return;
	}
	session_send(s, &frame);
}

static void close_handle(struct session *s, unsigned handle)
{
	struct conn *c = s->conns[handle];

	if (!c)
		return;
	s->conns[handle] = NULL;
	session_part(s, c);
}

void session_qp_close(struct session *s, const struct wire_handle *handle)
{
	if (handle->handle < SESSION_QPS_MAX)
		close_handle(s, handle->handle);
}

void session_qp_lost(struct session *s, unsigned handle, const struct cm *cm)
{
	if (s->conns[handle] && s->conns[handle]->cm == cm)
		close_handle(s, handle);
}

void session_qps_lost(struct session *s)
{
	struct wire_frame frame = { .type = WIRE_QP_LOST };

	for (unsigned i = 0; i < SESSION_QPS_MAX; i++) {
		if (!s->conns[i] || !conn_take_lost(s->conns[i]))
			continue;
		frame.handle.handle = i;
		frame.handle.number = s->conns[i]->qp.peer_qpn;
		session_send(s, &frame);
	}
}

const char *session_qps_why(const struct session *s)
{
	const char *why = NULL;

	for (unsigned i = 0; i < SESSION_QPS_MAX && !why; i++)
		why = s->conns[i] ? conn_why(s->conns[i]) : NULL;
	return why;
}
