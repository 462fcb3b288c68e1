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

#include "client/src/link/memory.h"
#include "client/src/link/trace.h"
#include "common/base/random.h"
#include "common/rdma/gid.h"
#include "common/rdma/tcp.h"

#define RECEIVES    HANDLE_CREDITS
#define SEND_INLINE 128u

void handle_disconnect(struct gkv *h)
{
	h->live = false;
	if (h->on_lost)
		h->on_lost(h);
	rdma_qp_destroy(&h->qp);
	cm_destroy(h->cm); /* after it: see common/rdma/cm.h */
	h->cm = NULL;
	rdma_cq_destroy(&h->cq);
	if (h->lifeline >= 0)
		close(h->lifeline);
	h->lifeline = -1;
	for (unsigned i = 0; i < HANDLE_CREDITS; i++)
		h->slot[i].reply_due = h->slot[i].send_due = false;
	if (h->worked || h->chains_done)
		backoff_forget(&h->backoff);
	h->worked = false;
	h->chains_posted = h->chains_done = 0;
}

void handle_leave(struct gkv *h)
{
	struct wire_frame close = { .type = WIRE_QP_CLOSE, .handle = { .handle = h->number } };
	struct gkv_session *s = h->session;
	uint64_t deadline_ns = time_now_ns() + HANDLE_LEAVE_NS;
	struct error ignored;

	if (h->cm && handle_current(h)) {
		/* not over the life line: the close could overtake, or be overtaken by, a
		 * request */
		cm_leave(h->cm, deadline_ns);
		return;
	}
	if (!handle_current(h) || session_lock(s, deadline_ns, &ignored))
		return; /* it is noticed when the number is opened again, or the session ends */
	if (handle_current(h))
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
static int bring_up(struct gkv *h, const struct wire_qp *peer)
{
	struct gkv_session *s = h->session;
	int rc;

	trace_begin(s, "settle");
	rc = rdma_qp_settle(&h->qp, peer, &h->error);
	if (rc)
		return rc;
	trace_done(s, "MTU %u, %u READs in flight from here, %u from there, %s",
		   rdma_mtu_bytes(h->qp.mtu), h->qp.rd_initiator, h->qp.rd_responder,
		   h->qp.source.grh ? "routed by GID" : "routed by LID");
	trace_begin(s, "rtr");
	rc = rdma_qp_to_rtr(&h->qp, peer, &h->error);
	if (rc)
		return rc;
	trace_done(s, "ready to receive");
	trace_begin(s, "rts");
	rc = rdma_qp_to_rts(&h->qp, &h->error);
	if (rc == 0)
		trace_done(s, "ready to send");
	return rc;
}

/* Ask the server for the other end. Where it answers no frame at all, the connection is lost. */
static int exchange(struct gkv *h, uint64_t deadline_ns)
{
	struct gkv_session *s = h->session;
	struct wire_frame open = { .type = WIRE_QP_OPEN }, answer = { 0 };
	struct wire_frame ready = { .type = WIRE_QP_READY, .handle = { .handle = h->number } };
	char words[OFFER_WORDS];
	int rc;

	rdma_qp_offer(&h->qp, &open.qp);
	open.qp.handle = h->number;
	open.qp.credits = h->credits_wish;
	trace_begin(s, "offer");
	rc = exchange_send(s->lifeline, &open, deadline_ns, &h->error);
	if (rc)
		goto err_lost;
	trace_done(s, "%s", offer_words(&open.qp, words));
	trace_begin(s, "answer");
	rc = session_recv(s, WIRE_QP_OPENED, &answer, deadline_ns, &h->error);
	if (rc && answer.type != WIRE_REFUSE)
		goto err_lost;
	if (rc)
		return rc;
	if (answer.qp.handle != h->number || (answer.qp.credits < 1 && h->credits_wish) ||
	    answer.qp.credits > h->credits_wish) {
		rc = error_set(&h->error, -EPROTO,
			       "the server opened queue pair %u with %u credits, asked for was %u "
			       "with %u",
			       answer.qp.handle, answer.qp.credits, h->number, h->credits_wish);
		goto err_lost;
	}
	session_qp_fresh(s, h->number);
	trace_done(s, "%s", offer_words(&answer.qp, words));
	h->credits = answer.qp.credits;
	rc = bring_up(h, &answer.qp);
	for (unsigned i = 0; i < h->credits && rc == 0; i++)
		rc = channel_receive(h, i);
	if (rc)
		return rc;
	trace_begin(s, "live");
	rc = exchange_send(s->lifeline, &ready, deadline_ns, &h->error);
	if (rc == 0)
		rc = session_recv(s, WIRE_QP_LIVE, &answer, deadline_ns, &h->error);
	if (rc == 0) {
		trace_done(s, "both sides are ready to send");
		return 0;
	}
err_lost:
	session_lost(s); /* the stream is at an unknown place, or gone */
	return rc;
}

static int queue_pair(struct gkv *h, uint64_t deadline_ns)
{
	struct gkv_session *s = h->session;
	const bool by_cm = s->settings.connect == GKV_CONNECT_CM; /* it chooses the GID */
	struct gid_choice choice;
	struct rdma_qp_config config = {
		.source = by_cm ? NULL : &choice.source,
		.cq = &h->cq,
		.max_send = READER_BATCH + HANDLE_CREDITS + h->reads_max,
		.max_recv = RECEIVES,
		.max_send_sge = memory_direct(s->dev) ? READ_PIECES : 0,
		.inline_wish = SEND_INLINE,
		.remote_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	char address[64];
	int rc = 0;

	tcp_local_address(s->lifeline, address);
	if (!by_cm) { /* found each time: an address may return at another place of the table */
		trace_begin(s, "gid");
		rc = gid_choose(s->dev, address, &choice, &h->error);
		if (rc)
			goto out;
		trace_done(s, "%s", choice.why);
	}
	trace_begin(s, "qp");
	/* of all that can be posted, flushed, and of SENDs whose slots are used again */
	rc = rdma_cq_create(s->dev, config.max_send + RECEIVES + HANDLE_CREDITS, true, &h->cq,
			    &h->error);
	if (rc == 0)
		rc = rdma_qp_create(s->dev, &config, &h->qp, &h->error);
	if (rc)
		goto out;
	trace_done(s, "QP 0x%06x in INIT on port %u of %s, a send queue of %u, %u bytes inline",
		   h->qp.qp->qp_num, s->dev->port, s->dev->name, h->qp.max_send, h->qp.inline_max);
	rc = by_cm ? handle_connect_by_cm(h, deadline_ns) : exchange(h, deadline_ns);
out:
	if (rc)
		trace_failed(s, &h->error);
	return rc;
}

/* What was found in another life of the server means nothing in this one. */
static void enter_world(struct gkv *h)
{
	struct gkv_session *s = h->session;

	if (h->reader.world != s->world) {
		reader_drop(&h->reader);
		h->reader.world = world_get(s->world);
		h->clock_at_ns = 0;
	}
}

/* Must hold the session's lock, and be connected. */
static int attach(struct gkv *h, uint64_t deadline_ns)
{
	uint64_t now = time_now_ns(), exchange_ns = now + EXCHANGE_DEADLINE_MS * NS_PER_MS;
	struct gkv_session *s = h->session;
	int rc;

	rc = queue_pair(h, exchange_ns < deadline_ns ? exchange_ns : deadline_ns);
	backoff_attempted(&h->backoff, now, time_now_ns(), random_chance());
	if (rc)
		return rc;
	h->lifeline = fcntl(s->lifeline, F_DUPFD_CLOEXEC, 3);
	if (h->lifeline < 0)
		return error_set(&h->error, -errno,
				 "duplicating the life line failed: %s (raise the limit of open "
				 "files with ulimit -n)",
				 error_name(errno));
	h->session_number = atomic_load_explicit(&s->number, memory_order_relaxed); /* locked */
	h->generation = s->welcome.generation;
	enter_world(h);
	/* seq_cst, after the queue pair: a greater round has READ hint_floor later */
	h->hints_after = atomic_load_explicit(&s->rounds_begun, memory_order_seq_cst);
	h->hints_ready = false;
	h->lost.code = 0;
	h->live = true;
	return 0;
}

bool handle_worth_another(int rc)
{
	return rc == -ENODATA || (rc != -EUSERS && rc != -EAGAIN && session_worth_another(rc));
}

int handle_attach(struct gkv *h, uint64_t deadline_ns, struct wire_welcome *welcome)
{
	struct gkv_session *s = h->session;
	int rc = session_lock(s, deadline_ns, &h->error);

	if (rc)
		return rc;
	if (session_alive(s)) {
		s->hushed = true;
		rc = attach(h, deadline_ns);
		s->hushed = false;
		*welcome = s->welcome;
		s->unkept.code = 0;
		if (rc && !handle_worth_another(rc))
			s->unkept = h->error;
	} else {
		rc = -ENOTCONN;
	}
	trace_end(s);
	session_unlock(s);
	if (rc)
		handle_disconnect(h);
	return rc;
}

int handle_attempt(struct gkv *h, uint64_t deadline_ns, uint64_t *due, bool *again)
{
	struct gkv_session *s = h->session;
	uint64_t now;
	int rc;

	*again = true;
	*due = time_now_ns();
	rc = session_lock(s, deadline_ns, &h->error);
	if (rc) /* others connect: nothing is known of ours */
		return rc;
	if (h->attempted && !s->closed) {
		trace_begin(s, "again");
		trace_done(s, "%s", h->lost.code ? h->lost.text : "the connection was lost");
	}
	h->attempted = true;
	rc = session_connect(s, deadline_ns, &h->error);
	if (rc) {
		*again = session_worth_another(rc);
	} else {
		rc = attach(h, deadline_ns);
		*again = handle_worth_another(rc);
	}
	if (rc && s->unkept.code)
		error_prefix(&h->error, "the session lasts no longer than its lease (%.120s)",
			     s->unkept.text);
	now = time_now_ns();
	*due = s->connected ? now : backoff_due(&s->backoff, now);
	trace_end(s);
	session_unlock(s);
	return rc;
}

void handle_adopt(struct gkv *h, struct gkv *fresh)
{
	if (h->reader.world != fresh->reader.world) {
		reader_drop(&h->reader);
		h->reader.world = fresh->reader.world;
		fresh->reader.world = NULL;
		h->clock_at_ns = 0;
	}
	h->qp = fresh->qp;
	h->cq = fresh->cq;
	h->cm = fresh->cm;
	h->lifeline = fresh->lifeline;
	h->backoff = fresh->backoff;
	h->credits = fresh->credits;
	h->session_number = fresh->session_number;
	h->generation = fresh->generation;
	h->hints_after = fresh->hints_after;
	h->hints_ready = false;
	h->attempted = true;
	h->lost.code = 0;
	h->live = true;
	h->reader.stats.reconnects++;
}
