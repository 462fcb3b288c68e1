/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/session/session.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/rdma/tcp.h"
#include "server/session/fence.h"

#define FRAMES_MAX   16u /* of one connection in a turn */
#define REFUSALS_MAX 64u /* of one session: each is a line in the log */

int sessions_init(struct sessions *all)
{
	int rc;

	CDS_INIT_LIST_HEAD(&all->list);
	CDS_INIT_LIST_HEAD(&all->strangers);
	CDS_INIT_LIST_HEAD(&all->parting);
	CDS_INIT_LIST_HEAD(&all->waiting);
	CDS_INIT_LIST_HEAD(&all->ready);
	CDS_INIT_LIST_HEAD(&all->unfenced);
	all->epoll_fd = -1;
	rc = clients_create(&all->clients);
	if (rc)
		return rc;
	all->notice_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (all->notice_fd < 0) {
		rc = -errno;
		goto err_clients;
	}
	rc = mailbox_create(&all->news);
	if (rc)
		goto err_notice;
	rc = pairs_init(&all->pairs);
	if (rc)
		goto err_news;
	rc = leases_init(&all->leases, all->store->reclaim, all->lease_ms, &all->pairs.asks,
			 &all->news);
	if (rc)
		goto err_pairs;
	return 0;

err_pairs:
	pairs_destroy(&all->pairs);
err_news:
	mailbox_destroy(&all->news);
err_notice:
	close(all->notice_fd);
err_clients:
	clients_destroy(all->clients);
	all->clients = NULL;
	return rc;
}

void sessions_destroy(struct sessions *all)
{
	struct session *s, *next;

	if (!all->clients)
		return;
	cds_list_for_each_entry_safe (s, next, &all->unfenced, node) {
		rdma_buffer_destroy(&s->pairs.slot);
		free(s);
	}
	clients_destroy(all->clients);
	leases_destroy(&all->leases);
	pairs_destroy(&all->pairs);
	mailbox_destroy(&all->news);
	close(all->notice_fd);
	all->clients = NULL;
}

static void give_up(struct session *s)
{
	s->ending = true;
	shutdown(s->line.fd,
		 SHUT_RDWR); /* readable now, whatever the peer does: the loop ends it */
}

void session_send(struct session *s, const struct wire_frame *frame)
{
	/* Without waiting: a client that reads its answers leaves room for the next one. */
	if (exchange_send(s->line.fd, frame, 0, NULL))
		give_up(s);
}

static void watch_for(struct session *s, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data = { .ptr = s } };

	if (s->all->epoll_fd >= 0 && epoll_ctl(s->all->epoll_fd, EPOLL_CTL_MOD, s->line.fd, &ev))
		log_error("session", "watching a life line failed: %s", error_name(errno));
}

void session_pause(struct session *s)
{
	if (!s->paused)
		watch_for(s, EPOLLRDHUP);
	s->paused = true;
}

void session_resume(struct session *s)
{
	if (s->paused && !s->over)
		watch_for(s, EPOLLIN | EPOLLRDHUP);
	s->paused = false;
}

void session_refuse(struct session *s, uint32_t ask, const struct error *err)
{
	session_count(&s->all->counters.refused, 1);
	log_warn("session", "refused a client%s%s: %s", s->name[0] ? " " : "", s->name, err->text);
	exchange_refuse(s->line.fd, ask, err->code, err->text);
	if (++s->refusals >= REFUSALS_MAX)
		s->ending = true;
}

struct session *session_accept(struct sessions *all, int fd)
{
	struct session *s = NULL;

	if (atomic_load_explicit(&all->counters.strangers, memory_order_relaxed) < STRANGERS_MAX)
		s = calloc(1, sizeof(*s));
	if (!s || tcp_lifeline(fd, SESSION_LIFELINE_MS)) {
		exchange_refuse(fd, 0, -EUSERS,
				"too many connections wait for their handshake; try "
				"again in a few seconds");
		session_count(&all->counters.refused, 1);
		close(fd);
		free(s);
		return NULL;
	}
	s->all = all;
	s->line.fd = fd;
	s->pairs.gid_index = -1;
	s->job.note.of = s;
	s->end = (struct note){ .kind = NOTE_END, .of = s };
	CDS_INIT_LIST_HEAD(&s->pairs.apart);
	CDS_INIT_LIST_HEAD(&s->waiting_node);
	s->deadline_ns = time_now_ns() + EXCHANGE_DEADLINE_MS * NS_PER_MS;
	cds_list_add_tail(&s->node, &all->strangers);
	session_count(&all->counters.strangers, 1);
	session_count(&all->counters.accepted, 1);
	return s;
}

static bool is_handle(struct session *s, unsigned handle, uint32_t ask)
{
	struct error err;

	if (handle < SESSION_QPS_MAX)
		return true;
	error_set(&err, -EPROTO, "queue pair %u of a session, at most %u exist", handle,
		  SESSION_QPS_MAX);
	session_refuse(s, ask, &err);
	return false;
}

void session_post(struct session *s, enum note_kind kind)
{
	s->job.note.kind = kind;
	s->job.err.code = 0;
	s->job.out = true;
	session_pause(s);
	/* relaxed: the clock thread looks again and again */
	atomic_store_explicit(&s->lease.asks, kind == NOTE_OPEN, memory_order_relaxed);
	mailbox_post(&s->all->pairs.asks, &s->job.note.mail);
}

static void qp_open(struct session *s, const struct wire_qp *offer)
{
	if (!is_handle(s, offer->handle, offer->ask))
		return;
	s->opened[offer->handle] = false;
	s->job.qp = *offer;
	session_post(s, NOTE_OPEN);
}

static void qp_ready(struct session *s, const struct wire_handle *handle)
{
	struct wire_frame frame = { .type = WIRE_QP_LIVE, .handle = *handle };
	struct error err;

	if (handle->handle < SESSION_QPS_MAX && s->opened[handle->handle]) {
		session_send(s, &frame);
		return;
	}
	error_set(&err, -EPROTO, "queue pair %u was not opened", handle->handle);
	session_refuse(s, handle->number, &err);
}

static void qp_close(struct session *s, const struct wire_handle *handle)
{
	if (handle->handle >= SESSION_QPS_MAX)
		return;
	s->opened[handle->handle] = false;
	s->job.qp.handle = handle->handle;
	session_post(s, NOTE_CLOSE);
}

/* The queue-pair thread has done what was wanted, or says why not. */
static void job_done(struct session *s)
{
	const enum note_kind kind = s->job.note.kind;

	s->job.out = false;
	if (s->over)
		return; /* it was on its way when the session ended */
	atomic_store_explicit(&s->lease.asks, false, memory_order_relaxed); /* as above */
	session_resume(s);
	if (kind == NOTE_BEGIN && s->job.err.code) {
		session_refuse(s, 0, &s->job.err);
		s->ending = true;
	} else if (kind == NOTE_BEGIN) {
		session_welcome(s);
	} else if (s->job.err.code) {
		session_refuse(s, s->job.qp.ask, &s->job.err);
	} else if (kind == NOTE_OPEN) {
		const struct wire_frame frame = { .type = WIRE_QP_OPENED, .qp = s->job.qp };

		s->opened[s->job.qp.handle] = true;
		session_send(s, &frame);
	}
	if (s->ending)
		session_end(s, 0);
}

/* It is no client, but another server of the group, or kv-cluster: its line is not this room's. */
static void hand_over(struct session *s, const struct wire_frame *first)
{
	struct sessions *all = s->all;

	if (all->epoll_fd >= 0)
		epoll_ctl(all->epoll_fd, EPOLL_CTL_DEL, s->line.fd, NULL);
	all->member(all->group_ctx, s->line.fd, first);
	s->line.fd = -1;
	s->ending = true;
}

static bool is_for_group(const struct wire_frame *frame)
{
	return frame->type == WIRE_PEER_HELLO || frame->type == WIRE_GROUP_ASK;
}

static void handle(struct session *s, const struct wire_frame *frame)
{
	struct error err;

	if (frame->type == WIRE_HELLO && !s->begun) {
		session_hello(s, &frame->hello);
	} else if (frame->type == WIRE_QP_OPEN && s->begun) {
		qp_open(s, &frame->qp);
	} else if (frame->type == WIRE_QP_READY && s->begun) {
		qp_ready(s, &frame->handle);
	} else if (frame->type == WIRE_QP_CLOSE && s->begun) {
		qp_close(s, &frame->handle);
	} else if (is_for_group(frame) && !s->begun && s->all->member) {
		hand_over(s, frame);
	} else if (is_for_group(frame) && !s->begun) {
		error_set(
			&err, -EOPNOTSUPP,
			"this server belongs to no group (kv-server --cluster makes it a member)");
		session_refuse(s, 0, &err);
		s->ending = true;
	} else if (frame->type == WIRE_BYE) {
		s->ending = true;
	} else {
		error_set(&err, -EPROTO, "a frame of type %u is not due here", frame->type);
		session_refuse(s, 0, &err);
		s->ending = true;
	}
}

/* A worker has given the session up. Returns 0, or -ECONNRESET after the word to the client. */
static int check_given_up(struct session *s)
{
	const char *why = conn_lifeline_why(&s->line);
	struct error err;

	if (!why)
		return 0;
	/* as a lost connection: the client comes back, with what it had in flight */
	error_set(&err, -ECONNRESET, "the session is given up: %s", why);
	session_refuse(s, 0, &err);
	return -ECONNRESET;
}

int session_readable(struct session *s, bool hung_up)
{
	struct wire_frame frame;
	struct error err;
	int rc = check_given_up(s);

	if (s->paused) /* its frames have to wait */
		return hung_up ? -ECONNRESET : rc;
	/* What remains to be read keeps the socket readable: others have their turn first. */
	for (unsigned i = 0; i < FRAMES_MAX && !s->ending && !s->paused && rc == 0; i++) {
		rc = exchange_read(s->line.fd, &s->reader, &frame, &err);
		if (rc == 0)
			return 0;
		if (rc > 0) {
			handle(s, &frame);
			rc = 0;
		} else if (check_given_up(s) == 0 && rc != -ECONNRESET) {
			/* looked at again: a worker ends the reading, and says why before that */
			session_refuse(s, 0, &err);
		}
	}
	return s->ending ? -ECONNRESET : rc;
}

void sessions_notices(struct sessions *all)
{
	struct wire_frame frame = { .type = WIRE_QP_LOST };
	uint64_t notices;
	struct session *s;

	if (read(all->notice_fd, &notices, sizeof(notices)) < 0)
		return;
	sessions_retry(all);
	cds_list_for_each_entry (s, &all->list, node) {
		for (unsigned i = 0; i < SESSION_QPS_MAX; i++) {
			const uint32_t lost = conn_lifeline_lost(&s->line, i);

			if (!lost)
				continue;
			frame.handle.handle = i;
			frame.handle.number = lost & ~CONN_LOST;
			session_send(s, &frame);
		}
	}
}

/* Nothing waits for it, and nothing of it is left. */
static void forget(struct session *s)
{
	struct session_counters *c = &s->all->counters;

	s->all->departures++;
	if (s->line.fd >= 0)
		close(s->line.fd);
	cds_list_del(&s->node);
	session_count(s->begun ? &c->sessions : &c->strangers, -1);
	free(s->hello);
	if (s->pairs.unfenced) /* the reclaimer waits for it, and the server ends */
		cds_list_add(&s->node, &s->all->unfenced);
	else
		free(s);
}

/* It has come back from the queue-pair thread. */
static void parted(struct session *s)
{
	const struct wire_frame bye = { .type = WIRE_BYE };
	struct sessions *all = s->all;

	assert(!s->job.out);
	clients_detach(all->clients, s->client);
	log_debug("session", "session %" PRIu64 " ends: %s, process %u", s->number, s->name,
		  s->pid);
	if (s->answer_until_ns)
		exchange_send(s->line.fd, &bye, 0, NULL); /* best effort: there may be many */
	sessions_wake(all, s);
	forget(s);
}

struct mail *session_end_note(struct session *s, uint64_t answer_until_ns)
{
	struct sessions *all = s->all;

	all->departures++;
	s->over = true;
	s->answer_until_ns = answer_until_ns;
	if (all->epoll_fd >= 0)
		epoll_ctl(all->epoll_fd, EPOLL_CTL_DEL, s->line.fd, NULL);
	cds_list_del(&s->node);
	cds_list_add_tail(&s->node, &all->parting);
	return &s->end.mail;
}

void session_end(struct session *s, uint64_t answer_until_ns)
{
	if (s->begun) {
		mailbox_post(&s->all->pairs.asks, session_end_note(s, answer_until_ns));
		return;
	}
	cds_list_del(&s->waiting_node);
	forget(s);
}

void sessions_news(struct sessions *all)
{
	struct mail *next;

	for (struct mail *m = mailbox_take(&all->news); m; m = next) {
		const struct note *note = note_of_mail(m);

		next = m->next; /* what came may be posted again, or be gone */
		if (note->kind == NOTE_FOUND)
			fence_found(all);
		else if (note->kind == NOTE_END)
			parted(note->of);
		else
			job_done(note->of);
	}
}
