/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Queue pairs that clients ask for by the RDMA CM (common/rdma/cm.h). A request names its session
 * by the token of its WELCOME. What is done about it is what QP_OPEN asks for, but the answer goes
 * by the CM: the life line carries nothing of it, and stays in step with its own frames.
 *
 * There is at most one end of a connection for each handle of a session, half-open or confirmed:
 * it belongs to the conn, and goes with it. A request that is refused leaves nothing. So what
 * clients can make this server hold is bounded by SESSIONS_MAX and SESSION_QPS_MAX, and by the
 * backlog of the listener for what was not looked at yet.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "server/session/session.h"

#define REFUSALS_MAX 64u /* of one session, as over the life line */
#define EVENTS_MAX   16u /* a turn: each may make a queue pair, and notes are taken in between */
#define DEAF_NS	     (100 * NS_PER_MS) /* after an event that could not be taken */
#define COMPLAINT_NS (5 * NS_PER_S) /* between two lines about requests that name no session */

/* One that was given up is about to end. */
static struct session *find_session(const struct sessions *all, uint64_t token)
{
	struct session *s;

	cds_list_for_each_entry (s, &all->pairs.begun, pairs.node) {
		if (s->cm_token == token && !s->pairs.given_up)
			return s;
	}
	return NULL;
}

/* Anyone may send requests: they must not fill the log. */
static void refuse_stranger(struct sessions *all, struct cm *cm, const struct error *err)
{
	struct pairs *p = &all->pairs;
	uint64_t now = time_now_ns();

	atomic_fetch_add_explicit(&all->counters.refused, 1, memory_order_relaxed);
	if (p->cm_complaint_ns && now - p->cm_complaint_ns < COMPLAINT_NS) {
		p->cm_refusals++;
	} else {
		log_warn("session", "refused a CM request of %s: %s (and %" PRIu64 " before it)",
			 cm->peer, err->text, p->cm_refusals);
		p->cm_complaint_ns = now;
		p->cm_refusals = 0;
	}
	cm_reject(cm, err->code, err->text);
}

void pairs_refuse_cm(struct session *s, struct cm *cm, const struct error *err)
{
	atomic_fetch_add_explicit(&s->all->counters.refused, 1, memory_order_relaxed);
	log_warn("session", "refused a queue pair to session %" PRIu64 ", %s, by the CM: %s",
		 s->number, s->name, err->text);
	cm_reject(cm, err->code, err->text);
	if (++s->pairs.refusals < REFUSALS_MAX)
		return;
	s->pairs.given_up = true;
	shutdown(s->line.fd, SHUT_RDWR); /* the control thread sees it and ends the session */
}

static int check_route(const struct rdma_device *dev, const struct cm *cm, struct error *err)
{
	if (strcmp(cm->route.device, dev->name) != 0)
		return error_set(err, -EXDEV,
				 "the route ends at device %s of the server, which serves %s "
				 "(connect to an address of that one)",
				 cm->route.device, dev->name);
	if (dev->options.ib_port && cm->route.port != dev->options.ib_port)
		return error_set(err, -EXDEV,
				 "the route ends at port %u of the server's %s, which serves port "
				 "%u (connect to an address of that one)",
				 cm->route.port, dev->name, dev->options.ib_port);
	return 0;
}

/* Returns 0: it is being opened, and @cm is the session's; or why not. */
static int open_handle(struct session *s, const struct wire_cm_request *r, struct cm *cm,
		       struct error *err)
{
	int rc = check_route(s->all->dev, cm, err);

	if (rc)
		return rc;
	if (s->pairs.opening.wanted)
		return error_set(err, -EBUSY,
				 "another queue pair of the session is being made (come again)");
	s->pairs.opening.handle = r->handle;
	s->pairs.opening.credits = r->credits;
	s->pairs.opening.cm = cm;
	s->pairs.opening.cm_mtu = r->mtu;
	/* relaxed: as session_post() */
	atomic_store_explicit(&s->lease.asks_cm, true, memory_order_relaxed);
	pairs_open(s);
	return 0;
}

static void requested(struct sessions *all, const struct cm_event *event)
{
	struct wire_cm_request request;
	struct session *s;
	struct error err;

	if (wire_cm_request_decode(event->data, event->data_len, &request, &err)) {
		refuse_stranger(all, event->cm, &err);
		return;
	}
	s = find_session(all, request.token);
	if (!s) {
		error_set(&err, -ESTALE,
			  "no session has the request's token: it ended meanwhile (connect again)");
		refuse_stranger(all, event->cm, &err);
	} else if (open_handle(s, &request, event->cm, &err)) {
		pairs_refuse_cm(s, event->cm, &err);
	}
}

/* Take and obey one. Returns as cm_next(). */
static int take_event(struct sessions *all)
{
	struct cm_event event;
	struct session *s;
	int rc = cm_next(all->cm, &event);

	if (rc)
		return rc;
	s = event.cm ? event.cm->owner : NULL;
	switch (event.kind) {
	case CM_REQUEST:
		requested(all, &event);
		return 0;
	case CM_FATAL:
		log_error("rdma", "%s: %s", all->dev->name, event.text);
		pairs_fatal(all, "the RDMA CM says that it goes away");
		return 0;
	case CM_CLOSED:
		if (!s)
			return 0;
		log_debug("session", "session %" PRIu64 " handle %u: %s", s->number,
			  event.cm->number, event.text);
		pairs_close(s, event.cm->number, event.cm);
		return 0;
	case CM_ESTABLISHED:
	case CM_NOTHING:
		log_debug("rdma", "the CM: %s", event.text);
		return 0;
	}
	return 0;
}

void pairs_cm_events(struct sessions *all)
{
	struct pairs *p = &all->pairs;
	const uint64_t now = time_now_ns();
	int rc = 0;

	for (unsigned i = 0; i < EVENTS_MAX && rc == 0 && !sessions_fatal(all); i++)
		rc = take_event(all);
	if (rc == 0 || rc == -EAGAIN)
		return;
	/* what waits would keep the descriptor readable and this thread spinning */
	p->cm_deaf_ns = now + DEAF_NS;
	if (p->cm_deaf_told_ns && now - p->cm_deaf_told_ns < COMPLAINT_NS)
		return;
	p->cm_deaf_told_ns = now;
	log_warn("session",
		 "taking an event of the RDMA CM failed: %s (no queue pair is connected by it "
		 "meanwhile; the kernel's log may say more)",
		 error_name(rc));
}
