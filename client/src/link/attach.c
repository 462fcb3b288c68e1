/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Giving a handle its queue pair, and another one when that is lost.
 *
 * The old queue pair is destroyed first, with its completion queue: after that nothing that was
 * posted names memory of ours, no late reply can arrive, and every request slot is free, as is the
 * staging memory. The server takes its end apart when it sees the new QP_OPEN of the same handle,
 * or the new session of the same client, before it answers; so what it did with an earlier request
 * is settled before that request is sent again.
 */
#include "client/src/link/handle.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/src/link/device.h"
#include "client/src/link/memory.h"
#include "client/src/link/trace.h"
#include "common/base/random.h"
#include "common/rdma/gid.h"
#include "common/rdma/tcp.h"

#define RECEIVES    HANDLE_CREDITS
#define SEND_INLINE 128u

void link_close(struct link *l)
{
	l->live = false;
	rdma_qp_destroy(&l->qp);
	cm_destroy(l->cm); /* after it: see common/rdma/cm.h */
	l->cm = NULL;
	rdma_cq_destroy(&l->cq);
	if (l->lifeline >= 0)
		close(l->lifeline);
	l->lifeline = -1;
	world_put(l->world);
	l->world = NULL;
	if (l->worked || l->chains_done)
		backoff_forget(&l->backoff);
	l->worked = false;
	l->chains_posted = l->chains_done = 0;
}

void link_leave(struct link *l)
{
	struct wire_frame close = { .type = WIRE_QP_CLOSE, .handle = { .handle = l->number } };
	struct gkv_session *s = l->session;
	uint64_t deadline_ns = time_now_ns() + LINK_LEAVE_NS;
	struct error ignored;

	if (l->cm && link_current(l)) {
		/* not over the life line: the close could overtake, or be overtaken by, a
		 * request */
		cm_leave(l->cm, deadline_ns);
		return;
	}
	if (!link_current(l) || session_lock(s, deadline_ns, &ignored))
		return; /* it is noticed when the number is opened again, or the session ends */
	if (link_current(l))
		exchange_send(s->lifeline, &close, deadline_ns, NULL);
	session_unlock(s);
}

/* What one side offers, in words; @text: OFFER_WORDS bytes. */
#define OFFER_WORDS 192

static const char *offer_words(const struct wire_qp *o, char *text)
{
	char gid[INET6_ADDRSTRLEN] = "none";

	if (o->has_gid)
		inet_ntop(AF_INET6, o->gid, gid, sizeof(gid));
	snprintf(text, OFFER_WORDS,
		 "QP 0x%06x, PSN 0x%06x, GID %s, LID %u, MTU %u, READ depth %u as initiator and %u "
		 "as responder, %u credits",
		 o->qpn, o->psn, gid, o->lid,
		 o->mtu >= IBV_MTU_256 && o->mtu <= IBV_MTU_4096 ? rdma_mtu_bytes(o->mtu) : 0,
		 o->rd_initiator, o->rd_responder, o->credits);
	return text;
}

/* Settle, RTR, RTS. */
static int bring_up(struct link *l, const struct wire_qp *peer)
{
	struct gkv_session *s = l->session;
	int rc;

	trace_begin(s, "settle");
	rc = rdma_qp_settle(&l->qp, peer, l->err);
	if (rc)
		return rc;
	trace_done(s, "MTU %u, %u READs in flight from here, %u from there, %s",
		   rdma_mtu_bytes(l->qp.mtu), l->qp.rd_initiator, l->qp.rd_responder,
		   l->qp.source.grh ? "routed by GID" : "routed by LID");
	trace_begin(s, "rtr");
	rc = rdma_qp_to_rtr(&l->qp, peer, l->err);
	if (rc)
		return rc;
	trace_done(s, "ready to receive");
	trace_begin(s, "rts");
	rc = rdma_qp_to_rts(&l->qp, l->err);
	if (rc == 0)
		trace_done(s, "ready to send");
	return rc;
}

/* Ask the server for the other end, and connect to it. */
static int exchange(struct link *l, uint64_t deadline_ns)
{
	struct gkv_session *s = l->session;
	struct wire_frame open = { .type = WIRE_QP_OPEN }, answer;
	struct wire_frame ready = { .type = WIRE_QP_READY, .handle = { .handle = l->number } };
	char words[OFFER_WORDS];
	int rc;

	rdma_qp_offer(&l->qp, &open.qp);
	open.qp.handle = l->number;
	open.qp.credits = l->credits_wish;
	trace_begin(s, "offer");
	rc = attempt_begin(s, &open.qp.ask, deadline_ns, l->err);
	if (rc == 0)
		rc = attempt_send(s, &open, deadline_ns, l->err);
	if (rc)
		return rc;
	trace_done(s, "%s", offer_words(&open.qp, words));
	trace_begin(s, "answer");
	rc = attempt_answer(s, WIRE_QP_OPENED, &answer, deadline_ns, l->err);
	if (rc)
		return rc;
	if (answer.qp.handle != l->number || (answer.qp.credits < 1 && l->credits_wish) ||
	    answer.qp.credits > l->credits_wish) {
		session_lost(s);
		return error_set(l->err, -EPROTO,
				 "the server opened queue pair %u with %u credits, asked for was "
				 "%u with %u",
				 answer.qp.handle, answer.qp.credits, l->number, l->credits_wish);
	}
	session_qp_fresh(s, l->number);
	trace_done(s, "%s", offer_words(&answer.qp, words));
	l->credits = answer.qp.credits;
	rc = bring_up(l, &answer.qp);
	for (unsigned i = 0; i < l->credits && rc == 0; i++)
		rc = link_receive(l, i, l->err);
	if (rc)
		return rc;
	trace_begin(s, "live");
	ready.handle.number = open.qp.ask;
	rc = attempt_send(s, &ready, deadline_ns, l->err);
	if (rc == 0)
		rc = attempt_answer(s, WIRE_QP_LIVE, &answer, deadline_ns, l->err);
	if (rc == 0)
		trace_done(s, "both sides are ready to send");
	return rc;
}

static int queue_pair(struct link *l, uint64_t deadline_ns)
{
	struct gkv_session *s = l->session;
	const bool by_cm = s->settings.connect == GKV_CONNECT_CM; /* it chooses the GID */
	struct rdma_device *dev = s->device->rdma;
	struct gid_choice choice;
	struct rdma_qp_config config = {
		.source = by_cm ? NULL : &choice.source,
		.cq = &l->cq,
		.max_send = READER_BATCH + HANDLE_CREDITS + l->reads_max,
		.max_recv = RECEIVES,
		.max_send_sge = memory_direct(dev) ? READ_PIECES : 0,
		.inline_wish = SEND_INLINE,
		/* the server pulls and pushes long values of requests */
		.remote_access =
			l->credits_wish ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE : 0,
	};
	char address[64];
	int rc = 0;

	tcp_local_address(s->lifeline, address);
	if (!by_cm) { /* found each time: an address may return at another place of the table */
		trace_begin(s, "gid");
		rc = rdma_port_refresh(dev, l->err);
		if (rc == 0)
			rc = gid_choose(dev, address, &choice, l->err);
		if (rc)
			goto out;
		trace_done(s, "%s", choice.why);
	}
	trace_begin(s, "qp");
	/* of all that can be posted, flushed, and of SENDs whose slots are used again */
	rc = rdma_cq_create(dev, config.max_send + RECEIVES + HANDLE_CREDITS, l->number, true,
			    &l->cq, l->err);
	if (rc == 0)
		rc = rdma_qp_create(dev, &config, &l->qp, l->err);
	if (rc)
		goto out;
	trace_done(s, "QP 0x%06x in INIT on port %u of %s, a send queue of %u, %u bytes inline",
		   l->qp.qp->qp_num, dev->port, dev->name, l->qp.max_send, l->qp.inline_max);
	rc = by_cm ? link_connect_by_cm(l, deadline_ns) : exchange(l, deadline_ns);
	attempt_end(s, l->number, rc == 0);
out:
	if (rc)
		trace_failed(s, l->err);
	return rc;
}

/* Must hold the session's lock, and be connected. -ECONNRESET: among others, the handle must follow
 * to the device. */
static int attach(struct link *l, uint64_t deadline_ns)
{
	struct gkv_session *s = l->session;
	uint64_t now = time_now_ns(), exchange_ns = now + session_patience_ms(s) * NS_PER_MS;
	int rc;

	if (l->fetch->region.dev != s->device->rdma)
		return error_set(l->err, -ECONNRESET,
				 "device %s has failed, and was opened again (try again)",
				 s->device->rdma->name);
	rc = queue_pair(l, exchange_ns < deadline_ns ? exchange_ns : deadline_ns);
	backoff_attempted(&l->backoff, now, time_now_ns(), random_chance());
	if (rc == -ETIMEDOUT && exchange_ns < deadline_ns)
		session_unanswered(s);
	if (rc)
		return rc;
	l->lifeline = fcntl(s->lifeline, F_DUPFD_CLOEXEC, 3);
	if (l->lifeline < 0)
		return error_set(l->err, -errno,
				 "duplicating the life line failed: %s (raise the limit of open "
				 "files with ulimit -n)",
				 error_name(errno));
	l->session_number = atomic_load_explicit(&s->number, memory_order_relaxed); /* locked */
	l->generation = s->welcome.generation;
	l->world = world_get(s->world);
	/* seq_cst, after the queue pair: a greater round has READ hint_floor later */
	l->hints_after = atomic_load_explicit(&s->rounds_begun, memory_order_seq_cst);
	l->hints_ready = false;
	l->lost.code = 0;
	l->live = true;
	return 0;
}

bool link_worth_another(int rc)
{
	return rc == -ENODATA || rc == -ESTALE ||
	       (rc != -EUSERS && rc != -EAGAIN && session_worth_another(rc));
}

int link_attach(struct link *l, uint64_t deadline_ns, struct wire_welcome *welcome)
{
	struct gkv_session *s = l->session;
	int rc = session_lock(s, deadline_ns, l->err);

	if (rc)
		return rc;
	if (session_alive(s)) {
		s->hushed = true;
		rc = attach(l, deadline_ns);
		s->hushed = false;
		*welcome = s->welcome;
		s->unkept.code = 0;
		if (rc && !link_worth_another(rc))
			s->unkept = *l->err;
	} else {
		rc = -ENOTCONN;
	}
	trace_end(s);
	session_unlock(s);
	return rc;
}

int link_attempt(struct link *l, uint64_t deadline_ns, uint64_t *due, bool *again)
{
	struct gkv_session *s = l->session;
	uint64_t now;
	int rc;

	*again = true;
	*due = time_now_ns();
	rc = session_lock(s, deadline_ns, l->err);
	if (rc) /* others connect: nothing is known of ours */
		return rc;
	if (l->attempted && !s->closed) {
		trace_begin(s, "again");
		trace_done(s, "%s", l->lost.code ? l->lost.text : "the connection was lost");
	}
	l->attempted = true;
	rc = session_connect(s, deadline_ns, l->err);
	if (rc) {
		*again = session_goes_on(s, rc);
	} else {
		rc = attach(l, deadline_ns);
		/* a device that has failed says so, beside all that fails on it */
		*again = link_worth_another(rc) || (rc && session_device_look(s));
	}
	if (rc && s->unkept.code)
		error_prefix(l->err, "the session lasts no longer than its lease (%.120s)",
			     s->unkept.text);
	now = time_now_ns();
	*due = s->connected ? now : backoff_due(&s->backoff, now);
	trace_end(s);
	session_unlock(s);
	return rc;
}
