/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Clients of a server that serves nobody yet, or not for now: their HELLOs wait, and sessions that
 * there are end. A whole server in this process, whose group the test plays.
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/rdma/exchange.h"
#include "common/rdma/tcp.h"
#include "tools/lib/server_thread.h"

#define MEMORY	   (64u << 20)
#define LEASE_MS   60000u /* no session is silent by accident */
#define PATIENCE_S 20u
#define QUIET_MS   300 /* several ticks */
#define CLIENTS	   8u
#define ROUNDS	   20u

static struct server_thread server;
static _Atomic int may; /* enum sessions_serve */
static _Atomic unsigned rested;

/* A client's end of a life line. */
struct line {
	int fd;
	struct exchange_reader reader;
	struct wire_frame frame;
};

static uint64_t soon(void)
{
	return time_now_ns() + PATIENCE_S * NS_PER_S;
}

static enum sessions_serve serves(void *ctx, struct error *why)
{
	const int now = atomic_load(&may);

	(void)ctx;
	if (now == SESSIONS_REFUSED)
		error_set(why, -ECONNREFUSED, "another one is primary");
	return (enum sessions_serve)now;
}

static void has_rested(void *ctx)
{
	(void)ctx;
	atomic_fetch_add(&rested, 1);
}

static unsigned servers(void *ctx, struct wire_server out[WIRE_GROUP_MEMBERS_MAX])
{
	(void)ctx;
	out[0] = (struct wire_server){ .address = "127.0.0.1:1" };
	return 1;
}

static int set_up(void **state)
{
	struct sessions *all = &server.server.sessions;
	struct error err;

	(void)state;
	log_change(LOG_ERROR, LOG_TEXT);
	server.lease_ms = LEASE_MS;
	assert_ok(server_thread_start(&server, MEMORY, 0, &err));
	atomic_store(&may, SESSIONS_LATER);
	all->rested = has_rested; /* nobody is there yet */
	all->servers = servers;
	all->serves = serves;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return server_thread_stop(&server);
}

/* As the group does: it says another thing now. */
static void say(enum sessions_serve now)
{
	atomic_store(&may, now);
	assert_ok(eventfd_write(server.server.sessions.notice_fd, 1));
}

static void say_hello(struct line *l, unsigned id)
{
	const struct wire_frame frame = { .type = WIRE_HELLO,
					  .hello = { .layout_version = LAYOUT_VERSION,
						     .layout_hash = layout_hash(),
						     .client_id = { 1, id },
						     .first_sequence = 1 } };
	const char *port = strrchr(server.server.bound, ':') + 1;
	struct error err;

	*l = (struct line){ .fd = -1 };
	assert_ok(tcp_connect("127.0.0.1", port, soon(), &l->fd, &err));
	assert_ok(exchange_send(l->fd, &frame, soon(), &err));
}

static void hear(struct line *l, enum wire_type type)
{
	struct error err;
	int rc = exchange_recv(l->fd, &l->reader, type, &l->frame, soon(), &err);

	assert_true(rc == 0 || type == WIRE_REFUSE || type == WIRE_BYE);
	assert_int_equal(l->frame.type, type);
}

/* Each is told where the others are before the answer. */
static void hear_answer(struct line *l, enum wire_type type)
{
	hear(l, WIRE_SERVER);
	assert_string_equal(l->frame.server.address, "127.0.0.1:1");
	hear(l, type);
}

static bool is_quiet(const struct line *l)
{
	struct pollfd p = { .fd = l->fd, .events = POLLIN };

	return poll(&p, 1, QUIET_MS) == 0;
}

UNIT_TEST(who_comes_early_waits, set_up, tear_down)
{
	struct line l[CLIENTS];

	for (unsigned i = 0; i < CLIENTS; i++)
		say_hello(&l[i], i + 1);
	for (unsigned i = 0; i < CLIENTS; i++)
		assert_true(is_quiet(&l[i]));
	say(SESSIONS_SERVED);
	for (unsigned i = 0; i < CLIENTS; i++) {
		hear_answer(&l[i], WIRE_WELCOME);
		close(l[i].fd);
	}
}

/* Also where nobody says so: the server looks again and again. */
UNIT_TEST(who_waits_in_vain_is_told, set_up, tear_down)
{
	struct line l;

	say_hello(&l, 1);
	assert_true(is_quiet(&l));
	atomic_store(&may, SESSIONS_REFUSED);
	hear_answer(&l, WIRE_REFUSE);
	assert_int_equal(l.frame.refuse.code, -ECONNREFUSED);
	close(l.fd);
}

/* All end, who comes meanwhile waits, and all goes on; again and again. */
UNIT_TEST(sessions_rest_and_go_on, set_up, tear_down)
{
	struct sessions *all = &server.server.sessions;
	struct line l[CLIENTS], late;

	say(SESSIONS_SERVED);
	for (unsigned round = 0; round < ROUNDS; round++) {
		const unsigned before = atomic_load(&rested);

		for (unsigned i = 0; i < CLIENTS; i++)
			say_hello(&l[i], i + 1);
		for (unsigned i = round % CLIENTS; i < CLIENTS; i++)
			hear_answer(&l[i], WIRE_WELCOME); /* the others are at any step */
		atomic_store(&may, SESSIONS_LATER);
		sessions_rest(all);
		for (const uint64_t end_ns = soon(); !sessions_rested(all);) {
			assert_true(time_now_ns() < end_ns);
			time_sleep(NS_PER_MS);
		}
		assert_int_equal(atomic_load(&all->counters.sessions), 0);
		assert_int_equal(atomic_load(&rested), before + 1);
		for (unsigned i = round % CLIENTS; i < CLIENTS; i++)
			hear(&l[i], WIRE_BYE);
		say_hello(&late, CLIENTS + 1);
		if (round == 0)
			assert_true(is_quiet(&late));
		sessions_go_on(all);
		say(SESSIONS_SERVED);
		hear_answer(&late, WIRE_WELCOME);
		close(late.fd);
		for (unsigned i = 0; i < CLIENTS; i++)
			close(l[i].fd);
	}
}
