/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Connecting, and connecting again.
 *
 * A session's number grows when its connection is given up. A handle holds the number of the
 * connection that its queue pair belongs to, and replaces the queue pair when they differ; so
 * whoever finds the connection lost, every handle comes to know with one load per call, and one
 * thread, under the lock, connects for all. How often it may try is the session's back-off, which
 * all its threads share; they wait for the next attempt without the lock.
 *
 * The client id stays the same for the session's whole life. The server ends the older session
 * of a client id before it answers a new HELLO: nothing that was sent before can be applied after.
 */
#include "client/src/link/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/src/link/device.h"
#include "client/src/link/trace.h"
#include "common/base/cleanup.h"
#include "common/base/parse.h"
#include "common/base/random.h"
#include "common/base/time.h"
#include "common/layout/root.h"
#include "common/rdma/tcp.h"

#define OTHERS_STEP_MS 50u /* between two attempts at all of them */
#define OTHERS_MS      1000u /* for an attempt where there are other servers */
#define NOTES_MAX      (2 * SESSION_QPS_MAX) /* frames in a row that end nothing */

void session_lost(struct gkv_session *s)
{
	if (!s->connected)
		return;
	s->connected = false;
	error_set(&s->lost, -ECONNRESET, "the connection to %s:%s was lost",
		  session_server(s)->host, session_server(s)->port);
	/* Handles hold duplicates of the socket: close alone would not end the connection. */
	shutdown(s->lifeline, SHUT_RDWR);
	close(s->lifeline);
	s->lifeline = -1;
	/* release pairs with handle_current(): a handle that sees the new number takes the lock */
	atomic_fetch_add_explicit(&s->number, 1, memory_order_release);
}

void session_qp_fresh(struct gkv_session *s, unsigned handle)
{
	/* relaxed: as attempt_note() */
	atomic_store_explicit(&s->qp_lost[handle], 0, memory_order_relaxed);
}

/* 0: the connection lives; else why not. */
static int hear(struct gkv_session *s, struct error *err)
{
	struct wire_frame frame = { 0 };
	int rc = 0;

	for (unsigned i = 0; i < NOTES_MAX; i++) { /* what is left is read with the next look */
		rc = exchange_read(s->lifeline, &s->reader, &frame, err);
		if (rc <= 0)
			return rc;
		if (!attempt_note(s, &frame))
			break;
		rc = 0;
	}
	if (rc == 0)
		return 0;
	if (frame.type == WIRE_BYE)
		return error_set(err, -ECONNRESET, "the server at %s:%s is shutting down",
				 session_server(s)->host, session_server(s)->port);
	if (frame.type == WIRE_REFUSE)
		return error_set(err, -ECONNRESET, "the server at %s:%s ended the session: %s",
				 session_server(s)->host, session_server(s)->port,
				 frame.refuse.text);
	return error_set(err, -EPROTO, "the server sent a frame of type %u, unasked", frame.type);
}

bool session_alive(struct gkv_session *s)
{
	struct error why = { 0 };

	if (s->connected && hear(s, &why)) {
		session_lost(s);
		/* whatever was heard: another connection may go well */
		error_set(&s->lost, -ECONNRESET, "%s", why.text);
	}
	return s->connected;
}

int session_check(struct gkv_session *s, uint64_t number, uint64_t deadline_ns, struct error *err)
{
	struct error why = { 0 };

	/* acquire pairs with session_lost() */
	if (atomic_load_explicit(&s->number, memory_order_acquire) == number) {
		/* The lock's holder may be in an exchange: what is readable is then its own. */
		if (session_lock(s, deadline_ns, &why))
			return 0;
		/* relaxed: under the lock */
		if (atomic_load_explicit(&s->number, memory_order_relaxed) == number &&
		    session_alive(s)) {
			session_unlock(s);
			return 0;
		}
		why = s->lost;
		session_unlock(s);
		return error_set(err, -ECONNRESET, "%s", why.text);
	}
	return error_set(err, -ECONNRESET, "the connection to %s:%s was lost",
			 session_server(s)->host, session_server(s)->port);
}

static int check_welcome(const struct wire_welcome *w, bool by_cm, struct error *err)
{
	if (w->server_incarnation == 0 || w->root_addr == 0 || w->credits_max == 0 ||
	    w->qps_max == 0 || w->key_max == 0 || w->epoch == 0 || w->lease_ms == 0 ||
	    w->slot_addr == 0)
		return error_set(err, -EPROTO,
				 "its WELCOME cannot be: incarnation %016" PRIx64 ", root at "
				 "0x%" PRIx64 ", %u credits, %u queue pairs, keys of %u bytes, "
				 "epoch %" PRIu64 ", its slot at 0x%" PRIx64 ", a lease of %u ms",
				 w->server_incarnation, w->root_addr, w->credits_max, w->qps_max,
				 w->key_max, w->epoch, w->slot_addr, w->lease_ms);
	if (by_cm && (w->cm_port == 0 || w->cm_port > UINT16_MAX || w->cm_token == 0))
		return error_set(
			err, -EOPNOTSUPP,
			"it does not serve the RDMA CM (start kv-server with --connect cm, "
			"or connect by tcp)");
	return 0;
}

/* What was cached of the server stays good where it is the same life of it. */
static int keep_or_renew_world(struct gkv_session *s, const struct wire_welcome *w, bool *same_life,
			       struct error *err)
{
	struct world *fresh;

	*same_life = s->world && s->world->incarnation == w->server_incarnation &&
		     s->world->root_addr == w->root_addr && s->world->root_rkey == w->root_rkey;
	if (*same_life)
		return 0;
	fresh = world_new(w->server_incarnation, w->root_addr, w->root_rkey);
	if (!fresh)
		return error_set(err, -ENOMEM, "out of memory for what is known of a server");
	fresh->group_lease_ms = w->group_lease_ms;
	fresh_begin(&fresh->fresh, w->rho_ppm);
	world_put(s->world);
	s->world = fresh;
	return 0;
}

/* Must hold the lock. A member of the server's group: kept, where it is new, and there is room. */
static void learn_server(struct gkv_session *s, const char *address)
{
	const unsigned count = session_servers(s);
	struct settings_server one = { 0 };
	struct error err;

	if (s->settings.flags & GKV_SERVERS_GIVEN || count == SETTINGS_SERVERS_MAX ||
	    parse_host_port("a server", address, one.host, one.port, &err) || !one.host[0] ||
	    !one.port[0])
		return;
	for (unsigned i = 0; i < count; i++)
		if (strcmp(s->server[i].host, one.host) == 0 &&
		    strcmp(s->server[i].port, one.port) == 0)
			return;
	s->server[count] = one;
	/* relaxed: go_on() releases the entry */
	atomic_store_explicit(&s->servers, count + 1, memory_order_relaxed);
}

/* Servers of the group come before the answer, any number of them: exchange_recv() calls a frame
 * that is not the answer a breach of the protocol, and hands it out. */
static int hear_welcome(struct gkv_session *s, int fd, struct wire_frame *out, uint64_t deadline_ns,
			struct error *err)
{
	for (unsigned told = 0;; told++) {
		int rc;

		out->type = WIRE_BYE;
		rc = exchange_recv(fd, &s->reader, WIRE_WELCOME, out, deadline_ns, err);
		if (rc != -EPROTO || out->type != WIRE_SERVER || told == WIRE_GROUP_MEMBERS_MAX)
			return rc;
		learn_server(s, out->server.address);
	}
}

static int greet(struct gkv_session *s, int fd, uint64_t deadline_ns, struct error *err)
{
	struct wire_frame hello = {
		.type = WIRE_HELLO,
		.hello = {
			.layout_version = LAYOUT_VERSION,
			.pid = (uint32_t)getpid(),
			.layout_hash = layout_hash(),
			.client_id = { s->client_id[0], s->client_id[1] },
			.server_incarnation = s->world ? s->world->incarnation : 0,
		},
	};
	struct wire_frame welcome = { 0 };
	const bool first = !s->world; /* there is nothing to be dropped yet */
	bool same_life = false;
	int rc;

	/* relaxed: numbers taken by now are below it, and that is all it says */
	hello.hello.first_sequence = atomic_load_explicit(&s->next_sequence, memory_order_relaxed);
	snprintf(hello.hello.name, sizeof(hello.hello.name), "%s", s->settings.name);
	memset(&s->reader, 0, sizeof(s->reader));
	s->attempts.unanswered = 0;
	trace_begin(s, "welcome");
	rc = exchange_send(fd, &hello, deadline_ns, err);
	if (rc == 0)
		rc = hear_welcome(s, fd, &welcome, deadline_ns, err);
	if (rc == 0)
		rc = check_welcome(&welcome.welcome, s->settings.connect == GKV_CONNECT_CM, err);
	if (rc == 0)
		rc = keep_or_renew_world(s, &welcome.welcome, &same_life, err);
	if (rc)
		return trace_failed(s, err);
	s->welcome = welcome.welcome;
	/* Before any queue pair of this connection is made. relaxed: under the lock */
	epochs_reset(&s->epochs, atomic_load_explicit(&s->number, memory_order_relaxed),
		     s->welcome.epoch, same_life || first);
	trace_done(s,
		   "session %" PRIu64 " of process %u on its device %s, incarnation %016" PRIx64
		   "; wire version %u, layout %u hash %016" PRIx64 " on both sides",
		   s->welcome.session, s->welcome.pid, s->welcome.device,
		   s->welcome.server_incarnation, WIRE_VERSION, LAYOUT_VERSION, layout_hash());
	return 0;
}

/* Must hold the lock. */
static struct addresses *addresses_of(struct gkv_session *s)
{
	return &s->addresses[session_server(s) - s->server];
}

static int connect_tcp(struct gkv_session *s, uint64_t deadline_ns, int *fd, struct error *err)
{
	const struct settings_server *o = session_server(s);
	char words[256];
	int rc;

	trace_begin(s, "tcp");
	rc = tcp_connect_list(addresses_of(s)->list, o->host, o->port, deadline_ns, fd, err);
	if (rc)
		return rc;
	tcp_ends(*fd, words, sizeof(words));
	rc = tcp_lifeline(*fd, s->settings.lifeline_ms);
	if (rc)
		return error_set(err, rc, "setting up the life line to %s:%s failed: %s", o->host,
				 o->port, error_name(rc));
	trace_done(s, "%s", words);
	return 0;
}

static int find_addresses(struct gkv_session *s, uint64_t deadline_ns, struct error *err)
{
	char words[256];
	int rc;

	trace_begin(s, "resolve");
	rc = addresses_find(addresses_of(s), session_server(s)->host, session_server(s)->port,
			    deadline_ns, err);
	if (rc)
		return rc;
	tcp_list_words(addresses_of(s)->list, words, sizeof(words));
	trace_done(s, "%s is %s", session_server(s)->host, words);
	return 0;
}

/* For gkv_session_describe(). Without memory that says what it said before. */
static void describe(struct gkv_session *s)
{
	/* relaxed: written under the lock */
	struct session_words *before = atomic_load_explicit(&s->words, memory_order_relaxed), *w;
	char text[1280];
	size_t size;

	snprintf(text, sizeof(text),
		 "server %s:%s (process %u, device %s, incarnation %016llx); %s; MTU %u", //
		 session_server(s)->host, session_server(s)->port, s->welcome.pid,
		 s->welcome.device, (unsigned long long)s->welcome.server_incarnation,
		 s->device->rdma->choice, rdma_mtu_bytes(s->device->rdma->mtu));
	if (before && strcmp(before->text, text) == 0)
		return;
	size = strlen(text) + 1;
	w = malloc(sizeof(*w) + size);
	if (!w)
		return;
	w->before = before;
	memcpy(w->text, text, size);
	/* release pairs with gkv_session_describe() */
	atomic_store_explicit(&s->words, w, memory_order_release);
}

static int connect_once(struct gkv_session *s, uint64_t deadline_ns, struct error *err)
{
	uint64_t handshake_ns;
	autoclose int fd = -1;
	int rc;

	rc = find_addresses(s, deadline_ns, err);
	if (rc)
		return rc;
	handshake_ns = time_now_ns() + EXCHANGE_DEADLINE_MS * NS_PER_MS;
	if (handshake_ns > deadline_ns)
		handshake_ns = deadline_ns;
	rc = connect_tcp(s, handshake_ns, &fd, err);
	if (rc)
		return rc;
	trace_begin(s, "device");
	if (!s->device)
		rc = session_device_open(s, fd, handshake_ns, err);
	if (rc)
		return rc;
	/* after the first ';' comes the choice of a GID, which each queue pair makes for itself */
	trace_done(s, "%.*s", (int)strcspn(s->device->rdma->choice, ";"), s->device->rdma->choice);
	rc = greet(s, fd, handshake_ns, err);
	if (rc)
		return rc;
	s->lifeline = cleanup_take_fd(&fd);
	s->connected = true;
	s->unkept.code = 0;
	/* relaxed: a figure to be shown, written under the lock */
	atomic_store_explicit(&s->reconnects,
			      atomic_load_explicit(&s->number, memory_order_relaxed) - 1,
			      memory_order_relaxed);
	describe(s);
	return 0;
}

bool session_worth_another(int rc)
{
	switch (rc) {
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -ECONNABORTED:
	case -EPIPE:
	case -ETIMEDOUT:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
	case -ENETDOWN:
	case -EUSERS:
	case -EAGAIN:
	case -EBUSY:
		return true;
	}
	return false;
}

bool session_goes_on(const struct gkv_session *s, int rc)
{
	return session_worth_another(rc) || (s->device_gone && !s->closed);
}

/* The next server of the list is the one that is tried. */
static void go_on(struct gkv_session *s)
{
	const unsigned at = (unsigned)(session_server(s) - s->server);

	/* release: pairs with session_server() */
	atomic_store_explicit(&s->at, (at + 1) % session_servers(s), memory_order_release);
}

static bool has_others(const struct gkv_session *s)
{
	return session_servers(s) > 1;
}

/*
 * Each server once, from the one that was there last on. Only a primary takes clients, and the
 * others say at once that they are none; so where there are several, one that says nothing has
 * less time than one that is alone.
 */
static int connect_any(struct gkv_session *s, uint64_t deadline_ns, struct error *err)
{
	int rc = 0;

	for (unsigned tried = 0; tried < session_servers(s); tried++) {
		const uint64_t now = time_now_ns(), soon = now + OTHERS_MS * NS_PER_MS;

		rc = connect_once(s, has_others(s) && soon < deadline_ns ? soon : deadline_ns, err);
		addresses_of(s)->failed = rc != 0;
		if (rc == 0 || !session_worth_another(rc) || now >= deadline_ns)
			return rc;
		go_on(s);
	}
	return rc;
}

/* Must hold the lock, and be connected. @why: what its server does not do. */
static void leave(struct gkv_session *s, const char *why)
{
	session_lost(s);
	error_set(&s->lost, -ECONNRESET, "the server at %s:%s %s", session_server(s)->host,
		  session_server(s)->port, why);
	go_on(s);
}

void session_silent(struct gkv_session *s, uint64_t number)
{
	if (pthread_mutex_trylock(&s->lock))
		return;
	/* relaxed: under the lock */
	if (s->connected && atomic_load_explicit(&s->number, memory_order_relaxed) == number)
		leave(s, "does not renew its group's lease");
	session_unlock(s);
}

uint64_t session_patience_ms(const struct gkv_session *s)
{
	return has_others(s) ? OTHERS_MS : EXCHANGE_DEADLINE_MS;
}

void session_unanswered(struct gkv_session *s)
{
	if (s->connected && has_others(s))
		leave(s, "does not answer");
}

int session_connect(struct gkv_session *s, uint64_t deadline_ns, struct error *err)
{
	uint64_t now = time_now_ns();
	int rc;

	if (s->closed)
		return error_set(err, -ESHUTDOWN, "the session was closed (open another one)");
	session_device_check(s);
	if (session_alive(s)) /* news of its end is not to be taken for a queue pair's refusal */
		return 0;
	if (backoff_due(&s->backoff, now) > now) {
		*err = s->lost;
		return err->code;
	}
	rc = connect_any(s, deadline_ns, err);
	backoff_attempted(&s->backoff, now, time_now_ns(), random_chance());
	if (has_others(s)) /* a fail-over takes two leases */
		backoff_at_most(&s->backoff, OTHERS_STEP_MS);
	if (rc)
		s->lost = *err;
	return rc;
}
