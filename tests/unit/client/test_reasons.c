/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Operations in flight that end without a connection: their sentence says why there is none.
 * Requests that end unsent: it says what kept them.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/src/flight/async.h"
#include "client/src/keeper/housekeeper.h"
#include "client/src/link/trace.h"
#include "client/src/request/rpc.h"
#include "tests/lib/unit.h"
#include "flight.h"
#include "with_server.h"

#define SOON_MS	   50u
#define ATTEMPT_MS 1000u /* an attempt to connect that needs more fails, and so does the next one */

static void expect_words(const char *words)
{
	if (!strstr(gkv_error(kv), words))
		fail_msg("no '%s' in: %s", words, gkv_error(kv));
}

static void submit(unsigned op, unsigned at)
{
	struct gkv_request q = request(op, at, at);

	if (op != GKV_OP_GET)
		q.len = 10;
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
}

/* The time of the operation at @at is over. */
static struct gkv_completion end(unsigned at)
{
	struct gkv_completion c;

	for (unsigned i = 0; i < DEPTH; i++) {
		if (kv->async->op[i].q.user == &slot[at])
			kv->async->op[i].deadline_ns = 0;
	}
	kv->async->next_ns = 0;
	c = wait_one();
	assert_ptr_equal(c.user, &slot[at]);
	return c;
}

static void wait_until_wanted(void)
{
	while (atomic_load(&kv->connector.state) != CONNECTOR_WANTED)
		assert_int_equal(gkv_wait(kv, NULL, 0, 1), 0);
}

/* Neither the housekeeper nor the connecting thread comes to any handle. */
static void hold_threads(void)
{
	pthread_mutex_lock(&session->keeper->round_lock);
	pthread_mutex_lock(&session->flights->lock);
}

static void release_threads(void)
{
	pthread_mutex_unlock(&session->flights->lock);
	pthread_mutex_unlock(&session->keeper->round_lock);
}

UNIT_TEST(test_nobody_listens, set_up, tear_down)
{
	struct gkv_request wrong = request(GKV_OP_GET, 0, 5);

	struct gkv_request large = request(GKV_OP_PUT, 0, 0);

	all_keys(GKV_OP_PUT, 1);
	server_pause(server);
	assert_int_equal(gkv_submit(kv, &large, 1), 1); /* it is on its way */
	large = request(GKV_OP_PUT, 2, 2);
	assert_int_equal(gkv_submit(kv, &large, 1), 1); /* waits for the staging memory */
	server_stop(server, SIGKILL);
	submit(GKV_OP_GET, 1);
	while (kv->why.code != -ECONNREFUSED)
		assert_int_equal(gkv_wait(kv, NULL, 0, 1), 0);
	wrong.key_len = 0; /* the last error of the handle is another one */
	assert_int_equal(gkv_submit(kv, &wrong, 1), 1);
	assert_int_equal(wait_one().status, -EINVAL);
	assert_int_equal(end(0).status, -ETIMEDOUT);
	expect_words("Connection refused");
	expect_words("not known");
	assert_int_equal(end(1).status, -ECONNREFUSED);
	expect_words("Connection refused");
	assert_int_equal(end(2).status, -ECONNREFUSED);
	expect_words("Connection refused");
}
UNIT_ALSO(test_nobody_listens, set_up_tick, tear_down)

/* Which side lost it does not matter, nor what went wrong before. */
UNIT_TEST(test_the_loss_is_told, set_up, tear_down)
{
	struct gkv_completion c;

	all_keys(GKV_OP_PUT, 1);
	for (unsigned tended = 0; tended < 2; tended++) {
		assert_int_equal(gkv_ping(kv, NULL), 0);
		error_set(&kv->error, -ECONNRESET, "another loss, long ago");
		kv->call.tended = tended;
		channel_fail(kv, "loss %u", tended);
		kv->call.tended = false;
		hold_threads();
		submit(GKV_OP_GET, 0);
		assert_int_equal(gkv_wait(kv, NULL, 0, 1), 0);
		c = end(0);
		release_threads();
		assert_int_equal(c.status, -ECONNRESET);
		expect_words(tended ? "loss 1" : "loss 0");
	}
	assert_int_equal(gkv_ping(kv, NULL), 0);
	assert_int_equal(kv->link.lost.code, 0);
}

/* A SEND may be told after its reply: what comes late would free a slot again. */
static void until_all_are_sent(void)
{
	unsigned due = 1;

	for (unsigned i = 0; due && i < WAIT_MS; i++) {
		assert_int_equal(handle_begin(kv), 0);
		assert_true(channel_poll(kv) >= 0);
		due = 0;
		for (unsigned k = 0; k < kv->link.credits; k++)
			due += kv->slot[k].send_due;
		handle_end(kv, 0);
		if (due)
			usleep(1000);
	}
	assert_int_equal(due, 0);
}

/* All slots are in use: @sent: their SENDs were not polled; @due: one has no reply. */
static void all_are_in_use(bool sent, bool due, const char *words)
{
	until_all_are_sent();
	kv->session->settings.timeout_ms = SOON_MS;
	for (unsigned i = 0; i < kv->link.credits; i++) {
		kv->slot[i].send_due = sent;
		kv->slot[i].reply_due = due && i == 1;
		kv->requests->taken[i] = !sent;
	}
	assert_int_equal(gkv_ping(kv, NULL), -ETIMEDOUT);
	expect_words("no request could be sent");
	expect_words("within 50 ms");
	expect_words(words);
	for (unsigned i = 0; i < kv->link.credits; i++)
		kv->requests->taken[i] = kv->slot[i].send_due = kv->slot[i].reply_due = false;
	kv->session->settings.timeout_ms = WAIT_MS;
	assert_int_equal(gkv_ping(kv, NULL), 0);
}

UNIT_TEST(test_no_request_can_be_sent, set_up, tear_down)
{
	assert_int_equal(gkv_ping(kv, NULL), 0);
	all_are_in_use(true, true, "the server has not answered those before it");
	all_are_in_use(true, false, "the device has not told that they are sent");
	all_are_in_use(false, false, "give it more time");
}

/* An attempt that found others connecting says nothing of the server. */
UNIT_TEST(test_a_lock_that_is_held, set_up, tear_down)
{
	struct gkv_stats stats;
	int ended = 0;

	all_keys(GKV_OP_PUT, 1);
	submit(GKV_OP_GET, 0);
	assert_int_equal(wait_one().status, 0);
	kv->session->settings.timeout_ms = ATTEMPT_MS;
	pthread_mutex_lock(&session->lock);
	session_lost(session);
	submit(GKV_OP_GET, 0);
	for (unsigned i = 0; i < DEPTH; i++) {
		if (kv->async->op[i].state == OP_READ)
			kv->async->op[i].deadline_ns = UINT64_MAX;
	}
	for (unsigned i = 0; i < WAIT_MS && !strstr(kv->why.text, "still connecting"); i++) {
		struct gkv_completion c;

		usleep(1000);
		ended += gkv_poll(kv, &c, 1);
	}
	pthread_mutex_unlock(&session->lock);
	assert_non_null(strstr(kv->why.text, "still connecting"));
	assert_int_equal(ended, 0);
	gkv_stats_get(kv, &stats);
	assert_int_equal(stats.reconnects, 0);
	assert_int_equal(wait_one().status, 0);
	gkv_stats_get(kv, &stats);
	assert_true(stats.reconnects > 0); /* on a slow machine the first one may be lost again */
}
UNIT_ALSO(test_a_lock_that_is_held, set_up_tick, tear_down)

/* Calls that find no server have not connected. */
UNIT_TEST(test_failures_are_no_reconnects, set_up, tear_down)
{
	struct gkv_stats stats;
	char byte;

	assert_int_equal(gkv_ping(kv, NULL), 0);
	server_stop(server, SIGKILL);
	kv->session->settings.timeout_ms = SOON_MS;
	for (unsigned i = 0; i < 3; i++)
		assert_true(gkv_get(kv, "k", 1, &byte, 1, NULL) < 0);
	gkv_stats_get(kv, &stats);
	assert_int_equal(stats.reconnects, 0);
	kv->session->settings.timeout_ms = WAIT_MS;
	server = server_start(&port, "128M");
	assert_int_equal(gkv_get(kv, "k", 1, &byte, 1, NULL), -ENOENT);
	gkv_stats_get(kv, &stats);
	assert_int_equal(stats.reconnects, 1);
}

/* In place of the server: it accepts, and is silent. */
static int listen_in_its_place(void)
{
	const struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	assert_int_equal(bind(fd, (const void *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

static bool is_welcomed(void)
{
	const char *step = trace_step(session);

	return atomic_load(&kv->connector.state) == CONNECTOR_BUSY && step &&
	       strcmp(step, "welcome") == 0;
}

/* The attempt takes longer than the operation may: it is known how far it has come. */
UNIT_TEST(test_a_silent_server, set_up, tear_down)
{
	struct gkv_completion c;
	char byte;
	int fd;

	all_keys(GKV_OP_PUT, 1);
	server_stop(server, SIGKILL);
	fd = listen_in_its_place();
	submit(GKV_OP_GET, 0);
	while (!is_welcomed())
		assert_int_equal(gkv_wait(kv, NULL, 0, 1), 0);
	c = end(0);
	assert_true(c.status == -ECONNRESET || c.status == -ETIMEDOUT);
	expect_words("step welcome");
	submit(GKV_OP_GET, 0);
	while (!is_welcomed())
		assert_int_equal(gkv_wait(kv, NULL, 0, 1), 0);
	kv->session->settings.timeout_ms = SOON_MS; /* and so of a call */
	assert_int_equal(gkv_get(kv, "k", 1, &byte, 1, NULL), -ETIMEDOUT);
	expect_words("step welcome");
	close(fd);
}

/* An attempt that nobody began leaves no error behind, and certainly no success: what is known then
 * is why that of a call failed. */
UNIT_TEST(test_an_attempt_that_was_not_begun, set_up, tear_down)
{
	struct gkv_completion c;
	char byte;
	int rc;

	all_keys(GKV_OP_PUT, 1);
	hold_threads();
	server_stop(server, SIGKILL);
	pthread_mutex_lock(&session->lock);
	session_lost(session);
	pthread_mutex_unlock(&session->lock);
	memset(&kv->error, 0, sizeof(kv->error));
	submit(GKV_OP_GET, 0);
	wait_until_wanted();
	kv->session->settings.timeout_ms = SOON_MS;
	do { /* on a busy machine its time may be over before it is refused */
		rc = gkv_get(kv, "k", 1, &byte, 1, NULL);
		assert_true(rc < 0);
	} while (kv->why.code != -ECONNREFUSED);
	wait_until_wanted();
	c = end(0);
	release_threads();
	assert_int_equal(c.status, -ECONNREFUSED);
	expect_words("Connection refused");
	expect_words("waiting for its turn");
}

/* A server that says "not now" until the call's time is over may have much room. */
UNIT_TEST(test_no_room_in_time_is_not_a_full_store, set_up, tear_down)
{
	struct rpc_reply reply = { .status = -EBUSY };
	struct rpc_call c = { .op = RPC_PUT, .reply = &reply };

	assert_int_equal(rpc_refused(kv, &c, -ENOMEM), -ENOMEM);
	expect_words("no room in time");
	reply.status = -ENOMEM;
	assert_int_equal(rpc_refused(kv, &c, -ENOMEM), -ENOMEM);
	expect_words("its store is full");
}

/* What waits for the next attempt does not where there will be none. */
UNIT_TEST(test_a_session_that_is_closed, set_up, tear_down)
{
	struct pollfd p = { .events = POLLIN };
	struct gkv_completion c;

	server_stop(server, SIGKILL);
	submit(GKV_OP_GET, 0);
	while (kv->connector.due_ns < time_now_ns() + SOON_MS * NS_PER_MS)
		assert_int_equal(gkv_wait(kv, NULL, 0, 1), 0);
	kv->connector.due_ns += 10 * WAIT_MS * NS_PER_MS;
	p.fd = gkv_fd(kv);
	assert_int_equal(gkv_arm(kv), 0);
	assert_int_equal(poll(&p, 1, 0), 0);
	gkv_session_close(session);
	session = NULL; /* it is gone with its last handle */
	assert_int_equal(poll(&p, 1, 0), 1);
	c = wait_one();
	assert_int_equal(c.status, -ECONNRESET);
	expect_words("was closed");
}
UNIT_ALSO(test_a_session_that_is_closed, set_up_tick, tear_down)
