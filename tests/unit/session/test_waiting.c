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
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "tests/unit/session/line.h"
#include "tools/lib/server_thread.h"

#define MEMORY	 (64u << 20)
#define LEASE_MS 60000u /* no session is silent by accident */
#define QUIET_MS 300 /* several ticks */
#define CLIENTS	 8u
#define ROUNDS	 20u
#define MANY	 (STRANGERS_MAX * 3 / 4) /* may wait */
#define TOO_MANY (MANY + 8)

static struct server_thread server;
static _Atomic int may; /* enum sessions_serve */
static _Atomic unsigned rested, members;

static enum sessions_serve serves(void *ctx, uint64_t met, uint64_t waited_ns, struct error *why)
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

static void hang_up(void *ctx, int fd, const struct wire_frame *first)
{
	(void)ctx;
	assert_int_equal(first->type, WIRE_GROUP_ASK);
	atomic_fetch_add(&members, 1);
	close(fd);
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
	all->member = hang_up;
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

/* Each is told where the others are before the answer. */
static void hear_answer(struct line *l, enum wire_type type)
{
	line_hear(l, WIRE_SERVER);
	assert_string_equal(l->frame.server.address, "127.0.0.1:1");
	line_hear(l, type);
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
		line_hello(&l[i], server.server.bound, i + 1);
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

	line_hello(&l, server.server.bound, 1);
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
			line_hello(&l[i], server.server.bound, i + 1);
		for (unsigned i = round % CLIENTS; i < CLIENTS; i++)
			hear_answer(&l[i], WIRE_WELCOME); /* the others are at any step */
		atomic_store(&may, SESSIONS_LATER);
		sessions_rest(all);
		for (const uint64_t end_ns = line_soon(); !sessions_rested(all);) {
			assert_true(time_now_ns() < end_ns);
			time_sleep(NS_PER_MS);
		}
		assert_int_equal(atomic_load(&all->counters.sessions), 0);
		assert_int_equal(atomic_load(&rested), before + 1);
		for (unsigned i = round % CLIENTS; i < CLIENTS; i++)
			line_hear(&l[i], WIRE_BYE);
		line_hello(&late, server.server.bound, CLIENTS + 1);
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

/* It has an answer: it is told to come again. */
static bool hang_up_refused(struct line *l)
{
	struct pollfd p = { .fd = l->fd, .events = POLLIN };

	if (l->fd < 0 || poll(&p, 1, 0) == 0)
		return false;
	line_hear(l, WIRE_REFUSE);
	assert_int_equal(l->frame.refuse.code, -EAGAIN);
	close(l->fd);
	l->fd = -1;
	return true;
}

/* They leave places to those without whom the server will never serve. */
UNIT_TEST(very_many_wait, set_up, tear_down)
{
	const struct wire_frame ask = { .type = WIRE_GROUP_ASK };
	const struct rlimit most = { 4 * TOO_MANY, 4 * TOO_MANY };
	static struct line l[TOO_MANY];
	unsigned refused = 0;
	struct line other;

	if (setrlimit(RLIMIT_NOFILE, &most))
		skip();
	for (unsigned i = 0; i < TOO_MANY; i++)
		line_hello(&l[i], server.server.bound, i + 1);
	/* Some of those that may wait are refused as well: others are accepted meanwhile. */
	for (const uint64_t end_ns = line_soon(); refused < TOO_MANY - MANY;) {
		assert_true(time_now_ns() < end_ns);
		for (unsigned i = 0; i < TOO_MANY; i++)
			refused += hang_up_refused(&l[i]);
	}
	line_dial(&other, server.server.bound);
	line_say(&other, &ask);
	for (const uint64_t end_ns = line_soon(); !atomic_load(&members);) {
		assert_true(time_now_ns() < end_ns);
		time_sleep(NS_PER_MS);
	}
	say(SESSIONS_REFUSED);
	for (unsigned i = 0; i < TOO_MANY; i++) {
		if (l[i].fd < 0)
			continue;
		hear_answer(&l[i], WIRE_REFUSE);
		close(l[i].fd);
	}
	assert_true(refused < MANY / 2);
	close(other.fd);
}
