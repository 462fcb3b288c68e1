/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/session/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/time.h"
#include "common/rdma/tcp.h"

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
	CDS_INIT_LIST_HEAD(&all->failed);
	all->epoll_fd = -1;
	rc = clients_create(&all->clients);
	if (rc)
		return rc;
	all->notice_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (all->notice_fd < 0) {
		rc = -errno;
		goto err_clients;
	}
	rc = mailbox_create(&all->obeyed);
	if (rc)
		goto err_notice;
	return 0;

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
		rdma_buffer_destroy(&s->slot);
		free(s);
	}
	clients_destroy(all->clients);
	mailbox_destroy(&all->obeyed);
	close(all->notice_fd);
	all->clients = NULL;
}

static void count(_Atomic uint64_t *counter, int64_t n)
{
	atomic_fetch_add_explicit(counter, (uint64_t)n, memory_order_relaxed);
}

void session_give_up(struct session *s)
{
	s->ending = true;
	shutdown(s->fd, SHUT_RDWR); /* readable now, whatever the peer does: the loop ends it */
}

void session_send(struct session *s, const struct wire_frame *frame)
{
	/* Without waiting: a client that reads its answers leaves room for the next one. */
	if (exchange_send(s->fd, frame, 0, NULL))
		session_give_up(s);
}

static void watch_for(struct session *s, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data = { .ptr = s } };

	if (s->all->epoll_fd >= 0 && epoll_ctl(s->all->epoll_fd, EPOLL_CTL_MOD, s->fd, &ev))
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
	count(&s->all->counters.refused, 1);
	log_warn("session", "refused a client%s%s: %s", s->name[0] ? " " : "", s->name, err->text);
	exchange_refuse(s->fd, ask, err->code, err->text);
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
		count(&all->counters.refused, 1);
		close(fd);
		free(s);
		return NULL;
	}
	s->all = all;
	s->fd = fd;
	s->gid_index = -1;
	CDS_INIT_LIST_HEAD(&s->apart);
	CDS_INIT_LIST_HEAD(&s->waiting_node);
	s->deadline_ns = time_now_ns() + EXCHANGE_DEADLINE_MS * NS_PER_MS;
	cds_list_add_tail(&s->node, &all->strangers);
	count(&all->counters.strangers, 1);
	count(&all->counters.accepted, 1);
	return s;
}

static int check_hello(const struct wire_hello *h, struct error *err)
{
	if (h->layout_version != LAYOUT_VERSION || h->layout_hash != layout_hash())
		return error_set(err, -EPROTONOSUPPORT,
				 "the client was built for layout %u with hash %016" PRIx64
				 ", this server for %u with %016" PRIx64
				 " (install the same GraceKV release on both)",
				 h->layout_version, h->layout_hash, LAYOUT_VERSION, layout_hash());
	if (h->client_id[0] == 0 && h->client_id[1] == 0)
		return error_set(err, -EPROTO, "the client sent no client id");
	return 0;
}

static struct session *find_client(const struct cds_list_head *list, const uint64_t id[2])
{
	struct session *s;

	cds_list_for_each_entry (s, list, node) {
		if (s->client->id[0] == id[0] && s->client->id[1] == id[1])
			return s;
	}
	return NULL;
}

/* Whether it has to wait for the end of another session, which is then in *@awaits; NULL: of any.
 * Exactly once: no request of the older session is applied when the new one has its WELCOME. */
static bool must_wait(struct sessions *all, const uint64_t id[2], struct session **awaits)
{
	struct session *older = find_client(&all->list, id);

	if (older) {
		log_info("session", "client %s came back: its session %" PRIu64 " is fenced",
			 older->name, older->number);
		session_end(older, 0);
	}
	*awaits = find_client(&all->parting, id);
	if (*awaits)
		return true;
	return atomic_load_explicit(&all->counters.sessions, memory_order_relaxed) >=
		       SESSIONS_MAX &&
	       !cds_list_empty(&all->parting);
}

static void welcome(struct session *s, uint64_t epoch, bool resumed)
{
	const struct sessions *all = s->all;
	struct wire_frame frame = {
		.type = WIRE_WELCOME,
		.welcome = {
			.session = s->number,
			.generation = s->number,
			.epoch = epoch,
			.server_incarnation = all->root->server_incarnation,
			.root_addr = (uintptr_t)all->root,
			.slot_addr = (uintptr_t)s->slot.addr,
			.root_rkey = all->root_rkey,
			.slot_rkey = s->slot.region.rkey,
			.lease_ms = all->lease_ms,
			.eager_max = RPC_EAGER_MAX,
			.key_max = KEY_MAX,
			.value_max = VALUE_MAX,
			.qps_max = SESSION_QPS_MAX,
			.credits_max = RPC_SLOTS_MAX,
			.resumed = resumed,
			.pid = (uint32_t)getpid(),
			.cm_token = s->cm_token,
			.cm_port = all->cm_port,
		},
	};

	snprintf(frame.welcome.device, sizeof(frame.welcome.device), "%s", all->dev->name);
	session_send(s, &frame);
}

/* HELLO was read and is sound: the stranger becomes a session. */
static int session_begin(struct session *s, const struct wire_hello *h, struct error *err)
{
	struct sessions *all = s->all;
	uint64_t epoch;
	bool resumed;
	int rc;

	if (atomic_load_explicit(&all->counters.sessions, memory_order_relaxed) >= SESSIONS_MAX)
		return error_set(err, -EUSERS, "the server has %u sessions, no more fit",
				 SESSIONS_MAX);
	rc = random_fill(&s->cm_token, sizeof(s->cm_token), err);
	if (rc)
		return rc;
	s->cm_token |= 1; /* never 0 */
	s->number = all->newest + 1;
	s->pid = h->pid;
	memcpy(s->name, h->name, sizeof(s->name));
	rc = rdma_buffer_create(all->dev, sizeof(struct epoch_slot),
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, "an epoch slot",
				&s->slot, err);
	if (rc)
		return rc;
	rc = clients_attach(all->clients, h->client_id, s->number, h->first_sequence, &s->client,
			    &resumed);
	if (rc) {
		rdma_buffer_destroy(&s->slot);
		return error_set(err, rc, "the server cannot remember more clients: %s",
				 error_name(rc));
	}
	cds_list_del(&s->node);
	cds_list_add_tail(&s->node, &all->list);
	s->welcomed = true;
	all->newest = s->number;
	epoch = lease_join(sessions_grace(all), &s->lease, s->slot.addr, s->number);
	count(&all->counters.strangers, -1);
	count(&all->counters.sessions, 1);
	count(&all->counters.resumed, resumed);
	log_info("session", "session %" PRIu64 " begins: %s, process %u%s", s->number, s->name,
		 s->pid, resumed ? ", a client that was here before" : "");
	welcome(s, epoch, resumed);
	return 0;
}

void session_watch(struct session *s)
{
	bool any = s->unfenced || s->opening.wanted || !cds_list_empty(&s->apart);

	for (unsigned i = 0; i < SESSION_QPS_MAX && !any; i++)
		any = s->conns[i] != NULL;
	lease_wait(sessions_grace(s->all), &s->lease, any, time_now_ns());
}

/* A sound HELLO of a stranger that is in no list of those that wait. */
static void try_to_begin(struct session *s, const struct wire_hello *h)
{
	struct sessions *all = s->all;
	struct error err;

	if (must_wait(all, h->client_id, &s->awaits)) {
		if (!s->hello) {
			s->hello = malloc(sizeof(*s->hello));
			if (!s->hello) {
				error_set(&err, -ENOMEM, "out of memory for a client that waits");
				goto refuse;
			}
			*s->hello = *h;
		}
		session_pause(s);
		cds_list_add_tail(&s->waiting_node, &all->waiting);
		return;
	}
	if (session_begin(s, h, &err) == 0)
		return;
refuse:
	session_refuse(s, 0, &err);
	s->ending = true;
}

void sessions_admit(struct sessions *all)
{
	while (!cds_list_empty(&all->ready)) {
		struct session *s = cds_list_first_entry(&all->ready, struct session, waiting_node);

		cds_list_del_init(&s->waiting_node);
		try_to_begin(s, s->hello);
		if (s->ending)
			session_end(s, 0);
		else if (s->welcomed) {
			free(s->hello);
			s->hello = NULL;
			session_resume(s);
		}
	}
}

/* @gone is: strangers that waited for it, and the first that waits for any, are looked at again. */
static void wake_waiting(struct sessions *all, const struct session *gone)
{
	struct session *s, *next;
	bool room = true;

	cds_list_for_each_entry_safe (s, next, &all->waiting, waiting_node) {
		if (s->awaits != gone && (s->awaits || !room))
			continue;
		room &= s->awaits == gone;
		cds_list_del(&s->waiting_node);
		cds_list_add_tail(&s->waiting_node, &all->ready);
	}
}

static void handle_hello(struct session *s, const struct wire_hello *h)
{
	struct error err;

	if (check_hello(h, &err) == 0) {
		try_to_begin(s, h);
		return;
	}
	session_refuse(s, 0, &err);
	s->ending = true;
}

static void handle(struct session *s, const struct wire_frame *frame)
{
	struct error err;

	if (frame->type == WIRE_HELLO && !s->welcomed) {
		handle_hello(s, &frame->hello);
	} else if (frame->type == WIRE_QP_OPEN && s->welcomed) {
		session_qp_open(s, &frame->qp);
	} else if (frame->type == WIRE_QP_READY && s->welcomed) {
		session_qp_ready(s, &frame->handle);
	} else if (frame->type == WIRE_QP_CLOSE && s->welcomed) {
		session_qp_close(s, &frame->handle);
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
	const char *why = session_qps_why(s);
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
		rc = exchange_read(s->fd, &s->reader, &frame, &err);
		if (rc == 0)
			return 0;
		if (rc > 0) {
			handle(s, &frame);
			lease_heard(&s->lease, time_now_ns());
			rc = 0;
		} else if (check_given_up(s) == 0 && rc != -ECONNRESET) {
			/* looked at again: a worker ends the reading, and says why before that */
			session_refuse(s, 0, &err);
		}
	}
	return s->ending ? -ECONNRESET : rc;
}

/* Nothing waits for it, and nothing of it is left. */
static void forget(struct session *s)
{
	close(s->fd);
	cds_list_del(&s->node);
	count(s->welcomed ? &s->all->counters.sessions : &s->all->counters.strangers, -1);
	free(s->hello);
	if (s->unfenced) /* the reclaimer waits for it, and the server ends */
		cds_list_add(&s->node, &s->all->unfenced);
	else
		free(s);
}

void session_parted(struct session *s)
{
	const struct wire_frame bye = { .type = WIRE_BYE };
	struct sessions *all = s->all;

	grace_close_slot(sessions_grace(all), &s->lease.epoch);
	if (!s->unfenced && rdma_buffer_destroy(&s->slot)) {
		session_unfenced(s, "the epoch slot of a client could not be deregistered");
		session_watch(s); /* it was not waited for since its last queue pair went */
	}
	if (!s->unfenced) {
		grace_leave(sessions_grace(all), &s->lease.epoch); /* it can READ nothing (I4) */
	}
	clients_detach(all->clients, s->client);
	reclaim_kick(all->store->reclaim);
	log_debug("session", "session %" PRIu64 " ends: %s, process %u", s->number, s->name,
		  s->pid);
	if (s->answer_until_ns)
		exchange_send(s->fd, &bye, 0, NULL); /* best effort: there may be many */
	wake_waiting(all, s);
	forget(s);
}

void session_end(struct session *s, uint64_t answer_until_ns)
{
	struct sessions *all = s->all;
	struct opening o = s->opening;

	all->departures++;
	if (!s->welcomed) {
		cds_list_del(&s->waiting_node);
		forget(s);
		return;
	}
	s->over = s->lease.over = true;
	s->answer_until_ns = answer_until_ns;
	if (all->epoll_fd >= 0)
		epoll_ctl(all->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
	cds_list_del(&s->node);
	cds_list_add_tail(&s->node, &all->parting);
	s->opening = (struct opening){ 0 };
	if (o.conn) /* its worker has it still: apart.c */
		session_part(s, o.conn);
	session_part_all(s, answer_until_ns);
	if (o.cm)
		cm_reject(o.cm, -ECONNRESET, "the session has ended");
	if (cds_list_empty(&s->apart))
		session_parted(s);
}
