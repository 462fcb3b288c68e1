/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Connecting, and connecting again.
 *
 * A session's number grows when its connection is given up. A handle holds the number of the
 * connection that its queue pair belongs to, and replaces the queue pair when they differ; so
 * whoever finds the connection lost, every handle comes to know with one load per call, and one
 * thread, under the lock, connects for all.
 *
 * The client id stays the same for the session's whole life. The server ends the older session
 * of a client id before it answers a new HELLO: nothing that was sent before can be applied after.
 */
#include "client/src/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/time.h"
#include "common/layout/root.h"
#include "common/rdma/gid.h"
#include "common/rdma/tcp.h"

#define BACKOFF_FIRST_MS 10u
#define BACKOFF_LAST_MS	 500u

void session_lost(struct gkv_session *s)
{
	if (!s->connected)
		return;
	s->connected = false;
	/* Handles hold duplicates of the socket: close alone would not end the connection. */
	shutdown(s->lifeline, SHUT_RDWR);
	close(s->lifeline);
	s->lifeline = -1;
	/* release pairs with handle_current(): who sees the new number takes the lock next */
	atomic_fetch_add_explicit(&s->number, 1, memory_order_release);
}

static void session_lost_if(struct gkv_session *s, uint64_t number)
{
	if (atomic_load_explicit(&s->number, memory_order_relaxed) == number) /* under the lock */
		session_lost(s);
}

int session_check(struct gkv_session *s, uint64_t number, uint64_t deadline_ns, struct error *err)
{
	struct wire_frame frame = { 0 };
	int rc;

	/* acquire pairs with session_lost() */
	if (atomic_load_explicit(&s->number, memory_order_acquire) == number) {
		/* The lock's holder may be in an exchange: what is readable is then its own. */
		if (session_lock(s, deadline_ns, err))
			return 0;
		rc = s->connected && atomic_load_explicit(&s->number, memory_order_relaxed) ==
					     number
			     ? exchange_read(s->lifeline, &s->reader, &frame, err)
			     : 1;
		if (rc)
			session_lost_if(s, number);
		session_unlock(s);
		if (rc == 0)
			return 0;
		if (rc > 0 && frame.type == WIRE_BYE)
			return error_set(err, -ECONNRESET, "the server at %s:%s is shutting down",
					 s->settings.host, s->settings.port);
	}
	return error_set(err, -ECONNRESET, "the connection to %s:%s was lost", s->settings.host,
			 s->settings.port);
}

static int check_welcome(const struct wire_welcome *w, bool by_cm, struct error *err)
{
	if (w->server_incarnation == 0 || w->root_addr == 0 || w->credits_max == 0 ||
	    w->qps_max == 0 || w->key_max == 0)
		return error_set(err, -EPROTO,
				 "its WELCOME cannot be: incarnation %016" PRIx64 ", root at "
				 "0x%" PRIx64 ", %u credits, %u queue pairs, keys of %u bytes",
				 w->server_incarnation, w->root_addr, w->credits_max, w->qps_max,
				 w->key_max);
	if (by_cm && (w->cm_port == 0 || w->cm_port > UINT16_MAX || w->cm_token == 0))
		return error_set(
			err, -EOPNOTSUPP,
			"it does not serve the RDMA CM (start kv-server with --connect cm, "
			"or connect by tcp)");
	return 0;
}

/* What was cached of the server stays good where it is the same life of it. */
static int keep_or_renew_world(struct gkv_session *s, const struct wire_welcome *w,
			       struct error *err)
{
	struct world *fresh;

	if (s->world && s->world->incarnation == w->server_incarnation &&
	    s->world->root_addr == w->root_addr && s->world->root_rkey == w->root_rkey)
		return 0;
	fresh = world_new(w->server_incarnation, w->root_addr, w->root_rkey);
	if (!fresh)
		return error_set(err, -ENOMEM, "out of memory for what is known of a server");
	world_put(s->world);
	s->world = fresh;
	return 0;
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
	int rc;

	/* relaxed: numbers taken by now are below it, and that is all it says */
	hello.hello.first_sequence = atomic_load_explicit(&s->next_sequence, memory_order_relaxed);
	snprintf(hello.hello.name, sizeof(hello.hello.name), "%s", s->settings.name);
	memset(&s->reader, 0, sizeof(s->reader));
	rc = exchange_send(fd, &hello, deadline_ns, err);
	if (rc == 0)
		rc = exchange_recv(fd, &s->reader, WIRE_WELCOME, &welcome, deadline_ns, err);
	if (rc == 0)
		rc = check_welcome(&welcome.welcome, s->settings.connect == GKV_CONNECT_CM, err);
	if (rc == 0)
		rc = keep_or_renew_world(s, &welcome.welcome, err);
	if (rc == 0)
		s->welcome = welcome.welcome;
	return rc;
}

static int connect_once(struct gkv_session *s, uint64_t deadline_ns, struct error *err)
{
	uint64_t handshake_ns = time_now_ns() + EXCHANGE_DEADLINE_MS * NS_PER_MS;
	const bool by_cm = s->settings.connect == GKV_CONNECT_CM;
	struct gid_choice choice;
	char address[64];
	autoclose int fd = -1;
	int rc;

	if (handshake_ns > deadline_ns)
		handshake_ns = deadline_ns;
	rc = tcp_connect(s->settings.host, s->settings.port, handshake_ns, &fd, err);
	if (rc)
		return rc;
	rc = tcp_lifeline(fd, s->settings.lifeline_ms);
	if (rc)
		return error_set(err, rc, "setting up the life line to %s:%s failed: %s",
				 s->settings.host, s->settings.port, error_name(rc));
	tcp_local_address(fd, address);
	if (!s->dev)
		rc = by_cm ? session_open_by_cm(s, fd, handshake_ns, err)
			   : rdma_device_open(&s->dev, &s->settings.rdma, address, err);
	if (rc == 0 && !by_cm)
		rc = gid_choose(s->dev, address, &choice, err);
	if (rc)
		return rc;
	if (!by_cm)
		s->source = choice.source;
	rc = greet(s, fd, handshake_ns, err);
	if (rc) {
		error_prefix(err, "connecting to the server at %s:%s", s->settings.host,
			     s->settings.port);
		return rc;
	}
	s->lifeline = cleanup_take_fd(&fd);
	s->connected = true;
	return 0;
}

/* Whether the same attempt may go well a little later. */
static bool worth_another(int rc)
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
		return true;
	}
	return false;
}

/* Half of the step to all of it, so that many clients do not come in step. */
static void back_off(unsigned step_ms, uint64_t left_ns)
{
	uint64_t ns = step_ms * NS_PER_MS, r = 0;
	struct timespec pause;

	if (getrandom(&r, sizeof(r), GRND_NONBLOCK) != sizeof(r))
		r = time_now_ns();
	ns = ns / 2 + r % (ns / 2 + 1);
	if (ns > left_ns)
		ns = left_ns;
	pause = (struct timespec){ (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };
	nanosleep(&pause, NULL);
}

int session_connect(struct gkv_session *s, uint64_t deadline_ns, bool once, struct error *err)
{
	unsigned step_ms = BACKOFF_FIRST_MS;

	for (;;) {
		uint64_t now;
		int rc;

		if (s->closed)
			return error_set(err, -ECONNRESET,
					 "the session was closed (open another one)");
		if (s->connected)
			return 0;
		rc = connect_once(s, deadline_ns, err);
		now = time_now_ns();
		if (rc == 0 || once || !worth_another(rc) || now >= deadline_ns)
			return rc;
		back_off(step_ms, deadline_ns - now);
		if (time_now_ns() >= deadline_ns)
			return rc;
		step_ms = step_ms * 2 < BACKOFF_LAST_MS ? step_ms * 2 : BACKOFF_LAST_MS;
	}
}
