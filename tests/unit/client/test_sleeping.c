/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Operations in flight over lost connections, and sleeping until something is to be done. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/src/flight/async.h"
#include "tests/lib/unit.h"
#include "flight.h"
#include "with_server.h"

#define SHORT_MS 500u

/* The server is another one: what was in flight is done there, or at its end. */
UNIT_TEST(test_server_started_anew, set_up, tear_down)
{
	struct gkv_request q;

	all_keys(GKV_OP_PUT, 1);
	all_keys(GKV_OP_GET, 1);
	for (unsigned i = 0; i < 10; i++) {
		q = request(GKV_OP_GET, i, i);
		assert_int_equal(gkv_submit(kv, &q, 1), 1);
	}
	server_stop(server, SIGKILL);
	for (unsigned i = 10; i < 20; i++) {
		q = request(GKV_OP_GET, i, i);
		assert_int_equal(gkv_submit(kv, &q, 1), 1);
	}
	server = server_start(&port, "64M");
	for (unsigned i = 0; i < 20; i++) {
		struct gkv_completion c = wait_one();

		if (c.status != -ENOENT) /* READ from the one that was */
			expect_life(&c, 1);
	}
	all_keys(GKV_OP_PUT, 5);
	all_keys(GKV_OP_GET, 5);
	assert_true(kv->reader.stats.reconnects >= 1);
}
UNIT_ALSO(test_server_started_anew, set_up_tick, tear_down)

/* What was submitted before the server was known to be gone is looked for as the new one hashes. */
UNIT_TEST(test_gets_that_waited_find_what_the_new_server_has, set_up, tear_down)
{
	static uint8_t value[LARGE + KEYS];
	struct gkv_options options;
	struct gkv_session *other;
	struct gkv_request q;
	struct gkv *writer;

	all_keys(GKV_OP_PUT, 1);
	all_keys(GKV_OP_GET, 1);
	server_stop(server, SIGKILL);
	for (unsigned i = 0; i < 20; i++) {
		q = request(GKV_OP_GET, i, i);
		assert_int_equal(gkv_submit(kv, &q, 1), 1);
	}
	server = server_start(&port, "64M");
	gkv_options_init(&options);
	assert_int_equal(server_session(port, &options, &other), 0);
	assert_int_equal(gkv_open(other, NULL, &writer, NULL, 0), 0);
	for (unsigned i = 0; i < 20; i++)
		assert_ok(gkv_put(writer, &key_of[i], sizeof(key_of[i]), value, fill(i, 2, value),
				  NULL));
	gkv_close(writer);
	gkv_session_close(other);
	for (unsigned i = 0; i < 20; i++) {
		struct gkv_completion c = wait_one();

		expect_life(&c, 2);
	}
}
UNIT_ALSO(test_gets_that_waited_find_what_the_new_server_has, set_up_tick, tear_down)

/* Nobody is there: each ends in its time, and no poll waits for it. */
UNIT_TEST(test_server_gone, set_up, tear_down)
{
	struct gkv_completion c;
	struct gkv_request q;
	uint64_t start, longest = 0;

	all_keys(GKV_OP_PUT, 1);
	server_stop(server, SIGKILL);
	start = time_now_ns();
	for (unsigned i = 0; i < 4; i++) {
		q = request(i % 2 ? GKV_OP_GET : GKV_OP_PUT, i, i);
		q.len = 10;
		q.timeout_ms = 700;
		assert_int_equal(gkv_submit(kv, &q, 1), 1);
	}
	while (gkv_pending(kv)) {
		uint64_t before = time_now_ns();
		int n = gkv_poll(kv, &c, 1);

		before = time_now_ns() - before;
		longest = before > longest ? before : longest;
		if (n)
			assert_true(c.status == -ETIMEDOUT || c.status == -ECONNREFUSED ||
				    c.status == -ECONNRESET || c.status == -EREMOTEIO);
		usleep(1000);
	}
	assert_true(time_now_ns() - start >= 650 * NS_PER_MS);
	assert_true(longest < 500 * NS_PER_MS); /* an attempt may take seconds */
	memset(slot, 0, sizeof(slot));
	server = server_start(&port, "64M");
	all_keys(GKV_OP_PUT, 2);
	all_keys(GKV_OP_GET, 2);
}

/* Something listens where the server was, and is silent. Returns its descriptor. */
static int listen_silently(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

/* Without a thread gkv_poll() connects: it waits for a silent server, but not for longer
 * than its own time. */
UNIT_TEST(test_poll_that_connects_ends_in_time, set_up_tick, tear_down)
{
	struct gkv_completion c = { 0 };
	struct gkv_request q;
	uint64_t from, longest = 0;
	int fd, n;

	all_keys(GKV_OP_PUT, 0);
	server_stop(server, SIGKILL);
	fd = listen_silently();
	kv->session->settings.timeout_ms = SHORT_MS;
	q = request(GKV_OP_PUT, 1, 0);
	q.len = 10;
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	do {
		from = time_now_ns();
		n = gkv_poll(kv, &c, 1);
		if (time_now_ns() - from > longest)
			longest = time_now_ns() - from;
	} while (n == 0);
	assert_int_equal(n, 1);
	assert_int_not_equal(c.status, 0);
	assert_in_range(longest / NS_PER_MS, 0, EXCHANGE_DEADLINE_MS / 2);
	close(fd);
	memset(slot, 0, sizeof(slot));
	kv->session->settings.timeout_ms = WAIT_MS;
	server = server_start(&port, "128M");
}

static void sleep_and_poll(int fd, struct gkv_completion *c)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int rc;

	for (;;) {
		rc = gkv_poll(kv, c, 1);
		assert_true(rc >= 0);
		if (rc)
			return;
		rc = gkv_arm(kv);
		if (rc == -EAGAIN)
			continue;
		assert_int_equal(rc, 0);
		assert_int_equal(poll(&p, 1, (int)WAIT_MS), 1); /* or the wake-up was missed */
	}
}

UNIT_TEST(test_sleeping_on_the_descriptor, set_up, tear_down)
{
	int fd = gkv_fd(kv);
	struct gkv_completion c;
	struct gkv_request q;

	assert_true(fd >= 0);
	assert_int_equal(gkv_fd(kv), fd);
	for (unsigned i = 0; i < 300; i++) {
		q = request(i % 2 ? GKV_OP_GET : GKV_OP_PUT, i / 2, 0);
		q.len = i % 2 ? q.len : 10;
		assert_int_equal(gkv_submit(kv, &q, 1), 1);
		sleep_and_poll(fd, &c);
		assert_int_equal(c.status, 0);
	}
	/* a deadline wakes it */
	server_pause(server);
	q = request(GKV_OP_INCR, 1, 0);
	q.timeout_ms = 50;
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	sleep_and_poll(fd, &c);
	assert_int_equal(c.status, -ETIMEDOUT);
	/* so does a server that is gone, and another one */
	server_stop(server, SIGKILL);
	q = request(GKV_OP_GET, 1, 0);
	q.timeout_ms = 300;
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	sleep_and_poll(fd, &c);
	server = server_start(&port, "64M");
	q = request(GKV_OP_PUT, 1, 0);
	q.len = 10;
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	sleep_and_poll(fd, &c);
	assert_int_equal(c.status, 0);
	assert_int_equal(gkv_fd(kv), fd);
	memset(slot, 0, sizeof(slot));
}

/* Whether the descriptor lets its owner sleep: after a few rounds it is not readable any more. */
static bool comes_to_rest(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	const uint64_t end_ns = time_now_ns() + WAIT_MS * NS_PER_MS;
	struct gkv_completion c;

	do {
		int rc = gkv_arm(kv);

		if (rc == 0 && poll(&p, 1, 100) == 0)
			return true;
		assert_int_equal(gkv_poll(kv, &c, 1), 0);
	} while (time_now_ns() < end_ns);
	return false;
}

/* More completions than one look takes come before the arming, and end nothing. */
UNIT_TEST(test_sleeping_on_what_came_before, set_up, tear_down)
{
	struct pollfd p = { .fd = gkv_fd(kv), .events = POLLIN };
	struct gkv_request q[HANDLE_CREDITS];
	struct gkv_completion c;

	for (unsigned i = 0; i < HANDLE_CREDITS; i++)
		q[i] = request(GKV_OP_INCR, i, i);
	assert_int_equal(gkv_submit(kv, q, HANDLE_CREDITS), HANDLE_CREDITS);
	usleep(300000);
	if (gkv_arm(kv) == 0)
		assert_int_equal(poll(&p, 1, 5000), 1);
	for (unsigned i = 0; i < HANDLE_CREDITS; i++) {
		sleep_and_poll(p.fd, &c);
		assert_int_equal(c.status, 0);
	}
	memset(slot, 0, sizeof(slot));
}

/* With nothing in flight a connection that is lost wakes its owner, and lets it sleep again. */
UNIT_TEST(test_sleeping_beside_a_lost_connection, set_up, tear_down)
{
	struct gkv_request q = request(GKV_OP_INCR, 1, 0);
	struct gkv_completion c;
	int fd = gkv_fd(kv);

	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	sleep_and_poll(fd, &c);
	assert_true(comes_to_rest(fd));
	server_stop(server, SIGKILL);
	assert_true(comes_to_rest(fd));
	server = server_start(&port, "64M");
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	sleep_and_poll(fd, &c);
	assert_int_equal(c.status, 0);
	assert_true(comes_to_rest(fd)); /* the connector's signal was taken */
	memset(slot, 0, sizeof(slot));
}
UNIT_ALSO(test_sleeping_beside_a_lost_connection, set_up_tick, tear_down)
