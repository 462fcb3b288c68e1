/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Giving a handle its queue pair, and another one when that is lost.
 *
 * The old queue pair is destroyed first, with its completion queue: after that nothing that was
 * posted names memory of ours, no late reply can arrive, and every request slot and the staging
 * memory are free. The server takes its end apart when it sees the new QP_OPEN of the same handle,
 * or the new session of the same client, before it answers; so what it did with an earlier request
 * is settled before that request is sent again.
 */
#include "client/src/handle.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COMPLETIONS (READER_BATCH + 3 * HANDLE_CREDITS) /* of all that can be posted, flushed */
#define SEND_INLINE 128u
#define PAUSE_NS    (10 * NS_PER_MS)
#define LEAVE_NS    (100 * NS_PER_MS) /* for telling the server of a handle that closes */

void handle_disconnect(struct gkv *h)
{
	h->live = false;
	rdma_qp_destroy(&h->qp);
	cm_destroy(h->cm); /* behind it: see common/rdma/cm.h */
	h->cm = NULL;
	rdma_cq_destroy(&h->cq);
	if (h->lifeline >= 0)
		close(h->lifeline);
	h->lifeline = -1;
	memset(h->slot, 0, sizeof(h->slot));
	h->staging_slot = STAGING_FREE;
	h->chains_posted = h->chains_done = 0;
}

void handle_leave(struct gkv *h)
{
	struct wire_frame close = { .type = WIRE_QP_CLOSE, .handle = { .handle = h->number } };
	struct gkv_session *s = h->session;
	uint64_t deadline_ns = time_now_ns() + LEAVE_NS;
	struct error ignored;

	if (h->cm && handle_current(h)) {
		/* not over the life line: the close could overtake, or be overtaken by, a request */
		cm_leave(h->cm, deadline_ns);
		return;
	}
	if (!handle_current(h) || session_lock(s, deadline_ns, &ignored))
		return; /* it is noticed when the number is opened again, or the session ends */
	if (handle_current(h))
		exchange_send(s->lifeline, &close, deadline_ns, NULL);
	session_unlock(s);
}

/* Ask the server for the other end. Where it answers no frame at all, the connection is lost. */
static int exchange(struct gkv *h, uint64_t deadline_ns)
{
	struct gkv_session *s = h->session;
	struct wire_frame open = { .type = WIRE_QP_OPEN }, answer = { 0 };
	struct wire_frame ready = { .type = WIRE_QP_READY, .handle = { .handle = h->number } };
	int rc;

	rdma_qp_offer(&h->qp, &open.qp);
	open.qp.handle = h->number;
	open.qp.credits = HANDLE_CREDITS;
	rc = exchange_send(s->lifeline, &open, deadline_ns, &h->error);
	if (rc == 0)
		rc = exchange_recv(s->lifeline, &s->reader, WIRE_QP_OPENED, &answer, deadline_ns,
				   &h->error);
	if (rc && answer.type != WIRE_REFUSE)
		goto err_lost;
	if (rc)
		return rc;
	if (answer.qp.handle != h->number || answer.qp.credits < 1 ||
	    answer.qp.credits > HANDLE_CREDITS) {
		rc = error_set(&h->error, -EPROTO,
			       "the server opened queue pair %u with %u credits, asked for was %u "
			       "with %u",
			       answer.qp.handle, answer.qp.credits, h->number, HANDLE_CREDITS);
		goto err_lost;
	}
	h->credits = answer.qp.credits;
	rc = rdma_qp_connect(&h->qp, &answer.qp, &h->error);
	for (unsigned i = 0; i < h->credits && rc == 0; i++)
		rc = channel_receive(h, i);
	if (rc)
		return rc;
	rc = exchange_send(s->lifeline, &ready, deadline_ns, &h->error);
	if (rc == 0)
		rc = exchange_recv(s->lifeline, &s->reader, WIRE_QP_LIVE, &answer, deadline_ns,
				   &h->error);
	if (rc == 0)
		return 0;
err_lost:
	session_lost(s); /* the stream is at an unknown place, or gone */
	return rc;
}

static int queue_pair(struct gkv *h, uint64_t deadline_ns)
{
	const struct rdma_device *dev = h->session->dev;
	struct rdma_qp_config config = {
		.source = &h->session->source,
		.cq = &h->cq,
		.max_send = READER_BATCH + HANDLE_CREDITS,
		.max_recv = HANDLE_CREDITS,
		.inline_wish = SEND_INLINE,
		.remote_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	int rc = rdma_cq_create(dev, COMPLETIONS, true, &h->cq, &h->error);

	if (rc == 0)
		rc = rdma_qp_create(dev, &config, &h->qp, &h->error);
	if (rc)
		return rc;
	return h->session->settings.connect == GKV_CONNECT_CM ? handle_connect_by_cm(h, deadline_ns)
							      : exchange(h, deadline_ns);
}

/* What was found in another life of the server means nothing in this one. */
static void enter_world(struct gkv *h)
{
	struct gkv_session *s = h->session;

	if (h->reader.world != s->world) {
		reader_drop(&h->reader);
		h->reader.world = world_get(s->world);
		h->clock_ms = 0;
	}
}

/* Must hold the session's lock. */
static int attach(struct gkv *h, uint64_t deadline_ns)
{
	uint64_t exchange_ns = time_now_ns() + EXCHANGE_DEADLINE_MS * NS_PER_MS;
	struct gkv_session *s = h->session;
	int rc;

	if (s->closed)
		return error_set(&h->error, -ESHUTDOWN, "the session was closed");
	rc = session_connect(s, deadline_ns, false, &h->error);
	if (rc)
		return rc;
	rc = queue_pair(h, exchange_ns < deadline_ns ? exchange_ns : deadline_ns);
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
	h->live = true;
	return 0;
}

int handle_connect(struct gkv *h)
{
	const struct timespec pause = { 0, PAUSE_NS };
	uint64_t deadline_ns = handle_deadline(h);
	int rc;

	handle_disconnect(h);
	if (h->connected_before)
		h->reader.stats.reconnects++;
	for (;;) {
		rc = session_lock(h->session, deadline_ns, &h->error);
		if (rc)
			return rc;
		rc = attach(h, deadline_ns);
		session_unlock(h->session);
		if (rc == 0)
			break;
		handle_disconnect(h);
		if (rc == -ESHUTDOWN)
			return -ECONNRESET; /* by ourselves, for good */
		if ((rc != -ECONNRESET && rc != -EPIPE && rc != -ETIMEDOUT) ||
		    time_now_ns() >= deadline_ns)
			return rc;
		nanosleep(&pause, NULL);
	}
	h->connected_before = true;
	return 0;
}
