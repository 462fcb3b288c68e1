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

void session_conn_drop(struct session *s, struct conn *c)
{
	if (conn_destroy(c) == 0)
		return;
	s->unfenced = true;
	s->all->fatal = "a queue pair of a client could not be destroyed";
}

/* Those from @first to @last: all fail before the wait for their receives, which is one for all. */
static void close_handles(struct session *s, unsigned first, unsigned last,
			  uint64_t answer_until_ns)
{
	bool any = false;

	for (unsigned i = first; i <= last; i++) {
		if (!s->conns[i])
			continue;
		conn_fail(s->conns[i], answer_until_ns);
		any = true;
	}
	if (any)
		session_await_receives(s, first, last);
	for (unsigned i = first; i <= last; i++) {
		if (!s->conns[i])
			continue;
		session_conn_drop(s, s->conns[i]);
		s->conns[i] = NULL;
		atomic_fetch_sub_explicit(&s->all->counters.queue_pairs, 1, memory_order_relaxed);
	}
}

/* Packets to this client come from the address that its life line reached. */
static int choose_source(struct session *s, struct gid_choice *out, struct error *err)
{
	const struct rdma_device *dev = s->all->dev;
	char address[64];
	int rc;

	tcp_local_address(s->fd, address);
	rc = gid_choose(dev, address, out, err);
	if (rc || out->source.gid_index == s->gid_index)
		return rc;
	s->gid_index = out->source.gid_index;
	log_line(out->warn ? LOG_WARN : LOG_DEBUG, "rdma", "session %llu: %s port %u, %s",
		 (unsigned long long)s->number, dev->name, dev->port, out->why);
	return 0;
}

int session_qp_make(struct session *s, unsigned handle, unsigned credits,
		    const struct rdma_source *source, struct conn **out, struct error *err)
{
	struct conn *c;
	int rc;

	/* Before the old one goes and the new one can be used: grace.c, WITHOUT A QUEUE PAIR. Where
	 * it is not made session_watch() looks again. */
	lease_wait(sessions_grace(s->all), &s->lease, true, time_now_ns());
	close_handles(s, handle, handle, 0); /* the client lost it and opens it again */
	if (handle == HOUSEKEEPER_QP)
		credits = 0; /* silent as to requests: it would look as if it kept receives */
	else if (credits < 1 || credits > RPC_SLOTS_MAX)
		credits = RPC_SLOTS_MAX;
	rc = conn_create(&c, least_busy(s->all), credits, source, err);
	if (rc)
		return rc;
	rc = client_queue_pair(s->client, handle, c->credits);
	if (rc) {
		session_conn_drop(s, c);
		return error_set(err, rc, "out of memory for the replies of a queue pair");
	}
	c->client = s->client;
	memcpy(c->client_id, s->client->id, sizeof(c->client_id));
	c->generation = s->number;
	c->handle = handle;
	c->lifeline = s->fd;
	*out = c;
	return 0;
}

int session_qp_start(struct session *s, struct conn *c, struct error *err)
{
	int rc = worker_attach(c, err);

	if (rc)
		return rc;
	s->conns[c->handle] = c;
	atomic_fetch_add_explicit(&s->all->counters.queue_pairs, 1, memory_order_relaxed);
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

static int open_handle(struct session *s, const struct wire_qp *offer, struct error *err)
{
	struct gid_choice choice;
	struct conn *c;
	int rc = choose_source(s, &choice, err);

	if (rc == 0)
		rc = session_qp_make(s, offer->handle, offer->credits, &choice.source, &c, err);
	if (rc)
		return rc;
	rc = connect_within_reach(s, c, offer, err);
	if (rc == 0)
		rc = session_qp_start(s, c, err);
	if (rc)
		session_conn_drop(s, c);
	return rc;
}

void session_qp_open(struct session *s, const struct wire_qp *offer)
{
	struct wire_frame frame = { .type = WIRE_QP_OPENED };
	struct error err;

	if (offer->handle >= SESSION_QPS_MAX) {
		error_set(&err, -EPROTO, "queue pair %u of a session, at most %u exist",
			  offer->handle, SESSION_QPS_MAX);
		session_refuse(s, offer->ask, &err);
		return;
	}
	if (open_handle(s, offer, &err)) {
		session_watch(s);
		session_refuse(s, offer->ask, &err);
		return;
	}
	rdma_qp_offer(&s->conns[offer->handle]->qp, &frame.qp);
	frame.qp.handle = offer->handle;
	frame.qp.ask = offer->ask;
	frame.qp.credits = s->conns[offer->handle]->credits;
	log_debug("session", "session %llu handle %u: QP 0x%x to 0x%x, MTU %u, READ depth %u/%u",
		  (unsigned long long)s->number, offer->handle, frame.qp.qpn, offer->qpn,
		  rdma_mtu_bytes(s->conns[offer->handle]->qp.mtu),
		  s->conns[offer->handle]->qp.rd_initiator,
		  s->conns[offer->handle]->qp.rd_responder);
	session_send(s, &frame);
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

void session_qp_close(struct session *s, const struct wire_handle *handle)
{
	if (handle->handle >= SESSION_QPS_MAX)
		return;
	close_handles(s, handle->handle, handle->handle, 0);
	session_watch(s);
}

void session_qp_lost(struct session *s, unsigned handle, const struct cm *cm)
{
	if (!s->conns[handle] || s->conns[handle]->cm != cm)
		return;
	close_handles(s, handle, handle, 0);
	session_watch(s);
}

void session_qps_destroy(struct session *s, uint64_t answer_until_ns)
{
	close_handles(s, 0, SESSION_QPS_MAX - 1, answer_until_ns);
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
