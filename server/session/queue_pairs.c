/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The queue pairs of a session: opened and closed over its life line; cm_requests.c: by the CM. The
 * queue-pair thread. One is made at a time: a job that comes while the CM has one made waits.
 */
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
	tcp_local_address(s->line.fd, address);
	rc = gid_choose(dev, address, out, err);
	if (rc || out->source.gid_index == s->pairs.gid_index)
		return rc;
	s->pairs.gid_index = out->source.gid_index;
	log_line(out->warn ? LOG_WARN : LOG_DEBUG, "rdma", "session %llu: %s port %u, %s",
		 (unsigned long long)s->number, dev->name, dev->port, out->why);
	return 0;
}

static int make(struct session *s, const struct rdma_source *source, struct conn **out,
		struct error *err)
{
	const unsigned handle = s->pairs.opening.handle;
	unsigned credits = s->pairs.opening.credits;
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
		pairs_drop(s, c);
		return error_set(err, rc, "out of memory for the replies of a queue pair");
	}
	c->session = s;
	c->client = s->client;
	memcpy(c->client_id, s->client->id, sizeof(c->client_id));
	c->generation = s->number;
	c->handle = handle;
	c->lifeline = &s->line;
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
	tcp_local_address(s->line.fd, text);
	here = gid_address(text);
	tcp_peer_address(s->line.fd, text);
	there = gid_address(text);
	return here.known && there.known &&
	       memcmp(here.gid.raw, source->gid.raw, sizeof(here.gid.raw)) == 0 &&
	       memcmp(there.gid.raw, offer->gid, sizeof(there.gid.raw)) == 0;
}

/* As rdma_qp_connect(), which may wait long for a GID that leads nowhere: reach.h. */
static int connect_within_reach(struct session *s, struct conn *c, const struct wire_qp *offer,
				struct error *err)
{
	struct reach *reach = &s->all->pairs.reach;
	uint64_t from_ns = time_now_ns(), wait_ns;
	union ibv_gid gid;
	char text[48];
	int rc;

	wait_ns = reach_wait_ns(reach, offer->gid, vouched_for(s, &c->qp.source, offer), from_ns);
	if (wait_ns) {
		memcpy(gid.raw, offer->gid, sizeof(gid.raw)); /* aligned */
		gid_text(&gid, text, sizeof(text));
		return error_set(err, -EBUSY,
				 "the server has just waited in vain for a client's GID, and tries "
				 "%s, which is not the address of the TCP connection, in %u ms at "
				 "the earliest (come again then; or connect from the address of "
				 "the RDMA network)",
				 text, (unsigned)(wait_ns / NS_PER_MS) + 1);
	}
	rc = rdma_qp_connect(&c->qp, offer, err);
	reach_tried(reach, offer->gid, rc == 0, from_ns, time_now_ns());
	return rc;
}

static int make_and_connect(struct session *s, struct conn **out, struct error *err)
{
	struct opening *o = &s->pairs.opening;
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
		pairs_drop(s, *out);
	return rc;
}

void pairs_watch(struct session *s)
{
	struct session_pairs *p = &s->pairs;
	bool any = p->unfenced || p->opening.wanted || !cds_list_empty(&p->apart);

	for (unsigned i = 0; i < SESSION_QPS_MAX && !any; i++)
		any = p->conns[i] != NULL;
	lease_wait(&s->all->leases, &s->lease, any, time_now_ns());
}

/* What was asked for is there, or @err says why not; @c: it, or NULL. */
static void answer(struct session *s, struct conn *c, const struct error *err)
{
	struct session_pairs *p = &s->pairs;
	struct cm *cm = p->opening.cm;
	struct job *job = &s->job;

	p->opening = (struct opening){ 0 };
	/* relaxed: as session_post() */
	atomic_store_explicit(&s->lease.asks_cm, false, memory_order_relaxed);
	if (!c)
		pairs_watch(s);
	if (cm && !c) {
		pairs_refuse_cm(s, cm, err);
	} else if (cm) {
		log_debug("session", "session %llu handle %u: QP 0x%x by the CM, %u credits",
			  (unsigned long long)s->number, c->handle, c->qp.qp->qp_num, c->credits);
	} else if (!c) {
		job->err = *err;
	} else {
		const uint32_t ask = job->qp.ask;

		rdma_qp_offer(&c->qp, &job->qp);
		job->qp.handle = c->handle;
		job->qp.ask = ask;
		job->qp.credits = c->credits;
		log_debug("session",
			  "session %llu handle %u: QP 0x%x to 0x%x, MTU %u, READ depth %u/%u",
			  (unsigned long long)s->number, c->handle, job->qp.qpn, c->qp.peer_qpn,
			  rdma_mtu_bytes(c->qp.mtu), c->qp.rd_initiator, c->qp.rd_responder);
	}
	if (!cm)
		pairs_job_done(s);
	else if (p->job_waits)
		pairs_open_job(s);
}

static int accept_by_cm(struct session *s, struct conn *c, struct error *err)
{
	struct cm *cm = s->pairs.opening.cm;
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

void pairs_attached(struct session *s, struct conn *c)
{
	struct error err;

	if (c->result) {
		error_set(&err, c->result, "posting receives failed: %s", error_name(c->result));
		pairs_drop(s, c);
		answer(s, NULL, &err);
	} else if (s->pairs.opening.cm && accept_by_cm(s, c, &err)) {
		pairs_part(s, c);
		answer(s, NULL, &err);
	} else {
		s->pairs.conns[c->handle] = c;
		answer(s, c, NULL);
	}
}

/* The older one of the handle is gone. */
static void open_now(struct session *s)
{
	struct conn *c = NULL;
	struct error err;

	err.code = make_and_connect(s, &c, &err);
	if (err.code) {
		answer(s, NULL, &err);
		return;
	}
	s->pairs.opening.conn = c;
	conn_attach(c); /* pairs_attached() goes on */
}

void pairs_open(struct session *s)
{
	struct opening *o = &s->pairs.opening;

	o->wanted = true;
	/* Before the old one goes and the new one can be used: grace.c, WITHOUT A QUEUE PAIR. Where
	 * it is not made pairs_watch() looks again. */
	lease_wait(&s->all->leases, &s->lease, true, time_now_ns());
	pairs_close(s, o->handle, NULL); /* the client lost it and opens it again */
	if (!pairs_parts(s, o->handle))
		open_now(s);
}

void pairs_open_on(struct session *s)
{
	struct opening *o = &s->pairs.opening;

	if (o->wanted && !o->conn && !pairs_parts(s, o->handle))
		open_now(s);
	else
		pairs_watch(s);
}

void pairs_open_job(struct session *s)
{
	struct session_pairs *p = &s->pairs;
	struct job *job = &s->job;

	p->job_waits = p->opening.wanted;
	if (p->job_waits)
		return; /* answer() goes on */
	if (job->note.kind == NOTE_CLOSE) {
		pairs_close(s, job->qp.handle, NULL);
		pairs_job_done(s);
		return;
	}
	p->opening.handle = job->qp.handle;
	p->opening.credits = job->qp.credits;
	p->opening.offer = job->qp;
	pairs_open(s);
}

void pairs_close(struct session *s, unsigned handle, const struct cm *cm)
{
	struct conn *c = s->pairs.conns[handle];

	if (!c || (cm && c->cm != cm))
		return;
	s->pairs.conns[handle] = NULL;
	pairs_part(s, c);
}
