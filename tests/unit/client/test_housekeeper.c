/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The housekeeper of a session, as a thread and as gkv_tick(), against a running kv-server. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/src/keeper/housekeeper.h"
#include "client/src/keeper/pace.h"
#include "client/src/link/handle.h"
#include "common/layout/root.h"
#include "common/softrdma/softrdma.h"
#include "tests/lib/own_process.h"
#include "tests/lib/unit.h"
#include "with_server.h"

#define HANDLES	  10u
#define WAIT_NS	  (20 * NS_PER_S) /* for what takes milliseconds where the machine is idle */
#define WAKES_NS  (500 * NS_PER_MS)
#define EPOCH_OLD 1000000u /* of no server here */

static unsigned port;
static pid_t server;
static struct gkv_session *session;
static struct gkv *kv[HANDLES];

static int open_session(unsigned housekeeper)
{
	struct gkv_options o;

	gkv_options_init(&o);
	o.housekeeper = housekeeper;
	if (server_session(port, &o, &session))
		return -1;
	return 0;
}

static int set_up(void **state)
{
	port = 0;
	server = server_start(&port, "64M");
	memset(kv, 0, sizeof(kv));
	return open_session(GKV_HOUSEKEEPER_THREAD);
}

static int set_up_ticks(void **state)
{
	port = 0;
	server = server_start(&port, "64M");
	memset(kv, 0, sizeof(kv));
	return open_session(GKV_HOUSEKEEPER_TICK);
}

static int tear_down(void **state)
{
	for (unsigned i = 0; i < HANDLES; i++)
		gkv_close(kv[i]);
	gkv_session_close(session);
	server_stop(server, SIGKILL);
	return 0;
}

static struct gkv_session_stats stats(void)
{
	struct gkv_session_stats s;

	gkv_session_stats_get(session, &s);
	return s;
}

/* Of a moment without a round under way. */
static struct gkv_session_stats stats_between_rounds(void)
{
	struct gkv_session_stats s;

	pthread_mutex_lock(&session->keeper->round_lock);
	s = stats();
	pthread_mutex_unlock(&session->keeper->round_lock);
	return s;
}

/* The library's own threads that have this name. */
UNIT_TEST(test_idle_session_of_ten_handles, set_up, tear_down)
{
	struct gkv_session_stats before, after;
	uint64_t from_ns, took_ns;

	assert_true(own_threads_end("gkv-house"));
	assert_int_equal(stats().messages, 0); /* no handle, no queue pair */
	for (unsigned i = 0; i < HANDLES; i++)
		assert_int_equal(gkv_open(session, NULL, &kv[i], NULL, 0), 0);
	assert_int_equal(own_threads("gkv-house"), 1);
	sleep(2); /* 1, 2, 4 ... 250 ms */
	from_ns = time_now_ns();
	before = stats_between_rounds();
	sleep(3);
	after = stats_between_rounds();
	took_ns = time_now_ns() - from_ns;
	assert_true((after.messages - before.messages) * NS_PER_S < 10 * took_ns);
	assert_true(after.rounds > before.rounds);
	assert_int_equal(after.messages - before.messages, 2 * (after.rounds - before.rounds));
	assert_int_equal(after.reconnects, 0);
}

UNIT_TEST(test_a_get_costs_no_message_more, set_up, tear_down)
{
	const unsigned gets = 2000;
	struct gkv_session_stats before;
	uint64_t until_ns = time_now_ns() + WAIT_NS;
	struct gkv_stats own;
	char value[8];

	assert_int_equal(gkv_open(session, NULL, &kv[0], NULL, 0), 0);
	assert_int_equal(gkv_put(kv[0], "k", 1, "value", 5, NULL), 0);
	do { /* its extent; and a round, before which no hint is used */
		assert_int_equal(gkv_get(kv[0], "k", 1, value, sizeof(value), NULL), 0);
		gkv_stats_get(kv[0], &own);
	} while (!own.hint_hits && time_now_ns() < until_ns);
	for (unsigned i = 0; i < gets; i++)
		assert_int_equal(gkv_get(kv[0], "k", 1, value, sizeof(value), NULL), 0);
	assert_int_equal(kv[0]->reader.stats.reads - own.reads, gets);
	/* at work, it goes round far more often than in a quarter of a lease */
	before = stats();
	while (stats().rounds < before.rounds + 100 && time_now_ns() < until_ns)
		assert_int_equal(gkv_get(kv[0], "k", 1, value, sizeof(value), NULL), 0);
	assert_true(stats().rounds >= before.rounds + 100);
	assert_true(time_now_ns() < until_ns - WAIT_NS / 2); /* idle, these were 25 s */
}

/* Writes that wait wake it, many at once perhaps: it goes round no faster for that. */
UNIT_TEST(test_wakes_do_not_hurry_it, set_up, tear_down)
{
	struct gkv_session_stats before, after;
	uint64_t from_ns, took_ns;

	assert_int_equal(gkv_open(session, NULL, &kv[0], NULL, 0), 0);
	from_ns = time_now_ns();
	before = stats();
	do {
		bell_ring(&session->bell);
		after = stats();
		took_ns = time_now_ns() - from_ns;
	} while (took_ns < WAKES_NS || (after.rounds == before.rounds && took_ns < WAIT_NS));
	/* one was under way, and one began at once */
	assert_true(after.rounds - before.rounds <=
		    took_ns / (HOUSEKEEPER_BUSY_MS * NS_PER_MS) + 2);
	assert_true(after.rounds > before.rounds);
}

/* Epochs that stood still are followed again within milliseconds: memory waits for no more. */
UNIT_TEST(test_what_is_replaced_is_announced_within_milliseconds, set_up, tear_down)
{
	uint64_t best_ns = WAIT_NS, sum_ns = 0, from_ns, epoch;
	const unsigned times = 20;
	char value[8];

	assert_int_equal(gkv_open(session, NULL, &kv[0], NULL, 0), 0);
	assert_int_equal(gkv_put(kv[0], "k", 1, "value", 5, NULL), 0);
	for (unsigned i = 0; i < times; i++) {
		from_ns = time_now_ns();
		while (time_now_ns() - from_ns < 50 * NS_PER_MS) /* at work, and nobody writes */
			assert_int_equal(gkv_get(kv[0], "k", 1, value, sizeof(value), NULL), 0);
		epoch = stats().epoch;
		from_ns = time_now_ns();
		assert_int_equal(gkv_put(kv[0], "k", 1, "value", 5, NULL), 0);
		while (stats().announced <= epoch && time_now_ns() - from_ns < WAIT_NS)
			assert_int_equal(gkv_get(kv[0], "k", 1, value, sizeof(value), NULL), 0);
		from_ns = time_now_ns() - from_ns;
		best_ns = from_ns < best_ns ? from_ns : best_ns;
		sum_ns += from_ns;
	}
	printf("announced after %.1f ms, %.1f at best\n", (double)sum_ns / times / NS_PER_MS,
	       (double)best_ns / NS_PER_MS);
	assert_true(best_ns < 4 * HOUSEKEEPER_STILL_MS * NS_PER_MS);
}

static const struct epoch_slot *written(void)
{
	return (const void *)((const uint8_t *)session->keeper->h->reader.scratch +
			      HOUSEKEEPER_SLOT_AT);
}

UNIT_TEST(test_ticks, set_up_ticks, tear_down)
{
	const uint64_t until_ns = time_now_ns() + WAIT_NS;
	struct gkv_session_stats before;
	int rc;

	assert_int_equal(gkv_tick(NULL, NULL, 0), -EINVAL);
	assert_true(gkv_tick(session, NULL, 0) >= 1); /* without a handle there is nothing to do */
	assert_int_equal(stats().messages, 0);
	assert_int_equal(gkv_open(session, NULL, &kv[0], NULL, 0), 0);
	assert_true(own_threads_end("gkv-house"));
	before = stats();
	for (unsigned i = 1; i <= 20; i++) {
		rc = gkv_tick(session, NULL, 0);
		assert_in_range(rc, 1, 250);
		assert_int_equal(stats().messages, before.messages + 2 * i);
	}
	assert_int_equal(rc, 250);
	do { /* a round that takes ms itself is followed by a longer pause */
		assert_int_equal(gkv_put(kv[0], "k", 1, "value", 5, NULL), 0);
		rc = gkv_tick(session, NULL, 0);
	} while (rc > (int)HOUSEKEEPER_STILL_MS && time_now_ns() < until_ns);
	assert_in_range(rc, 1, HOUSEKEEPER_STILL_MS); /* a request counts as work */
	/* what it said */
	assert_int_equal(written()->generation, kv[0]->link.generation);
	assert_int_equal(written()->e, stats().announced);
	assert_int_equal(written()->not_e, ~stats().announced);
	assert_int_equal(written()->h, 0); /* nobody has asked for hints to be dropped */
	assert_int_equal(written()->beat, stats().rounds);
	assert_true(stats().announced <= stats().epoch && stats().epoch >= 1);
	/* with the last handle goes the queue pair */
	assert_non_null(session->keeper->h->link.qp.qp);
	gkv_close(kv[0]);
	kv[0] = NULL;
	assert_null(session->keeper->h->link.qp.qp);
	assert_true(gkv_tick(session, NULL, 0) >= 1);
	assert_int_equal(gkv_open(session, NULL, &kv[0], NULL, 0), 0);
	assert_non_null(session->keeper->h->link.qp.qp);
}

static unsigned access_of(const struct gkv *h)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_ok(softrdma_query_qp(h->link.qp.qp, &attr, IBV_QP_ACCESS_FLAGS, &init));
	return attr.qp_access_flags;
}

/* What the server may do in this process: nothing, where it has no request to answer. */
UNIT_TEST(the_servers_access, set_up_ticks, tear_down)
{
	assert_int_equal(gkv_open(session, NULL, &kv[0], NULL, 0), 0);
	assert_int_equal(access_of(session->keeper->h), IBV_ACCESS_LOCAL_WRITE);
	assert_int_equal(access_of(kv[0]),
			 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
}

static uint64_t server_figure(const char *name)
{
	char *text, *at, wanted[64];
	uint64_t value = 0;

	snprintf(wanted, sizeof(wanted), "\n%s ", name);
	assert_int_equal(gkv_server_stats(kv[1], &text), 0);
	at = strstr(text, wanted);
	assert_non_null(at);
	value = strtoull(at + strlen(wanted), NULL, 10);
	free(text);
	return value;
}

static void gets_of_a_key(struct gkv *h, unsigned count)
{
	char value[8];

	for (unsigned i = 0; i < count; i++)
		assert_int_equal(gkv_get(h, "k", 1, value, sizeof(value), NULL), 0);
}

/* What the server cannot see is said with the announcements, once, over handles and servers. */
UNIT_TEST(test_figures_travel_with_the_announcements, set_up_ticks, tear_down)
{
	struct handle_figures all;

	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(gkv_open(session, NULL, &kv[i], NULL, 0), 0);
	assert_int_equal(gkv_put(kv[0], "k", 1, "value", 5, NULL), 0);
	gets_of_a_key(kv[0], 30);
	gets_of_a_key(kv[1], 5);
	assert_true(gkv_tick(session, NULL, 0) >= 1);
	assert_int_equal(written()->gets, 35);
	assert_true(written()->reads >= 35);
	assert_int_equal(written()->retries, 0);
	assert_int_equal(server_figure("client_gets"), 35);
	assert_int_equal(server_figure("session_1_gets"), 35);
	assert_int_equal(server_figure("client_reads"), written()->reads);
	assert_int_equal(server_figure("session_1_pid"), getpid());
	kv[0]->reader.stats.retry_obsolete = 1;
	kv[0]->reader.stats.retry_checksum = 2;
	kv[0]->reader.stats.retry_directory = 4;
	gets_of_a_key(kv[0], 1);
	assert_true(gkv_tick(session, NULL, 0) >= 1);
	assert_int_equal(server_figure("client_retries"), 7);
	/* a handle of the same number goes on where the other one ended */
	gkv_close(kv[0]);
	assert_int_equal(gkv_open(session, NULL, &kv[0], NULL, 0), 0);
	gets_of_a_key(kv[0], 4);
	assert_true(gkv_tick(session, NULL, 0) >= 1);
	assert_int_equal(server_figure("client_gets"), 40);
	/* another server hears of what is new, and of nothing twice */
	all = figures_of_all(session);
	assert_int_equal(all.gets, 40);
	server_stop(server, SIGKILL);
	server = server_start(&port, "64M");
	assert_int_equal(gkv_put(kv[1], "k", 1, "value", 5, NULL), 0);
	gets_of_a_key(kv[1], 3);
	assert_true(gkv_tick(session, NULL, 0) >= 1);
	assert_int_equal(server_figure("client_gets"), 3);
}

/* A session that closes at once has said all, and the server goes on knowing it. */
UNIT_TEST(test_figures_of_who_has_gone, set_up_ticks, tear_down)
{
	struct gkv_session *first = session;

	assert_int_equal(gkv_open(session, NULL, &kv[0], NULL, 0), 0);
	assert_int_equal(gkv_put(kv[0], "k", 1, "value", 5, NULL), 0);
	gets_of_a_key(kv[0], 11);
	gkv_close(kv[0]);
	kv[0] = NULL;
	gkv_session_close(first);
	assert_int_equal(open_session(GKV_HOUSEKEEPER_TICK), 0);
	assert_int_equal(gkv_open(session, NULL, &kv[1], NULL, 0), 0);
	assert_int_equal(server_figure("client_gets"), 11);
}

/* A write that waits makes rounds, but has no time to make up for what gkv_tick() would do. */
UNIT_TEST(test_a_nudge_opens_no_queue_pair, set_up_ticks, tear_down)
{
	const uint64_t until_ns = time_now_ns() + WAIT_NS;
	struct gkv_session_stats before;

	assert_int_equal(gkv_open(session, NULL, &kv[0], NULL, 0), 0);
	do { /* a machine that stalls may cut one short */
		assert_true(gkv_tick(session, NULL, 0) >= 1);
		before = stats();
		housekeeper_nudge(session, until_ns);
	} while (stats().rounds == before.rounds && time_now_ns() < until_ns);
	assert_int_equal(stats().messages, before.messages + 2);
	assert_true(session->keeper->h->link.live);
	housekeeper_nudge(session, time_now_ns()); /* the call is over */
	assert_int_equal(stats().messages, before.messages + 2);
	assert_true(session->keeper->h->link.live);
	session->keeper->h->link.live = false;
	housekeeper_nudge(session, until_ns + WAIT_NS);
	assert_int_equal(stats().messages, before.messages + 2);
	assert_false(session->keeper->h->link.live);
	assert_true(handle_current(kv[0])); /* the session has lost nothing by it */
	assert_true(gkv_tick(session, NULL, 0) >= 1);
	assert_true(session->keeper->h->link.live);
}

/* The newest epoch of a server that is gone means nothing to the next one. */
static void lose_the_server(void)
{
	char value[8];
	struct announcement say;

	assert_int_equal(gkv_open(session, NULL, &kv[0], NULL, 0), 0);
	assert_int_equal(epochs_announce(&session->epochs, 1, EPOCH_OLD, 0, 0, &say), 0);
	assert_int_equal(stats().epoch, EPOCH_OLD);
	server_stop(server, SIGKILL);
	server = server_start(&port, "64M");
	assert_int_equal(gkv_get(kv[0], "k", 1, value, sizeof(value), NULL), -ENOENT);
	assert_true(stats().epoch < EPOCH_OLD);
}

UNIT_TEST(test_thread_follows_to_another_server, set_up, tear_down)
{
	uint64_t until_ns, rounds;

	lose_the_server();
	rounds = stats().rounds;
	for (until_ns = time_now_ns() + WAIT_NS;
	     stats().rounds < rounds + 3 && time_now_ns() < until_ns;)
		usleep(1000);
	assert_true(stats().rounds >= rounds + 3);
	assert_true(stats().announced < EPOCH_OLD);
	assert_true(stats().reconnects >= 1);
}

UNIT_TEST(test_ticks_follow_to_another_server, set_up_ticks, tear_down)
{
	uint64_t until_ns, rounds;

	lose_the_server();
	rounds = stats().rounds;
	for (until_ns = time_now_ns() + WAIT_NS;
	     stats().rounds < rounds + 3 && time_now_ns() < until_ns;) {
		assert_true(gkv_tick(session, NULL, 0) >= 1);
		usleep(1000);
	}
	assert_true(stats().rounds >= rounds + 3);
	assert_true(written()->e < EPOCH_OLD);
	assert_int_equal(written()->generation, kv[0]->link.generation);
}

/* The news of it waits in the life line when the call finds its queue pair broken. */
UNIT_TEST(test_a_fenced_session_is_replaced_at_once, set_up_ticks, tear_down)
{
	const uint64_t until_ns = time_now_ns() + WAIT_NS;
	struct pollfd news;
	char value[8];

	assert_int_equal(gkv_open(session, NULL, &kv[0], NULL, 0), 0);
	assert_int_equal(gkv_put(kv[0], "k", 1, "value", 5, NULL), 0);
	news = (struct pollfd){ .fd = kv[0]->link.lifeline, .events = POLLIN };
	assert_int_equal(poll(&news, 1, (int)(WAIT_NS / NS_PER_MS)), 1); /* without a tick */
	do /* the queue pair may last a moment longer */
		assert_int_equal(gkv_get(kv[0], "k", 1, value, sizeof(value), NULL), 0);
	while (!stats().reconnects && time_now_ns() < until_ns);
	assert_int_equal(stats().reconnects, 1);
	assert_int_equal(kv[0]->link.backoff.step_ms, BACKOFF_FIRST_MS); /* no queue pair in vain */
}

UNIT_TEST(test_tick_without_a_server, set_up_ticks, tear_down)
{
	assert_int_equal(gkv_open(session, NULL, &kv[0], NULL, 0), 0);
	server_stop(server, SIGKILL);
	for (unsigned i = 0; i < 5; i++) {
		assert_true(gkv_tick(session, NULL, 0) >= 1);
		usleep(2000);
	}
	server = server_start(&port, "64M");
}

/* The server has another number of queue pairs than a housekeeper needs. */
UNIT_TEST(test_no_room_for_a_housekeeper, set_up_ticks, tear_down)
{
	struct gkv *second = NULL;
	uint64_t until_ns;
	char why[640];
	int rc;

	assert_int_equal(gkv_open(session, NULL, &kv[0], NULL, 0), 0);
	gkv_close(kv[0]);
	kv[0] = NULL;
	session->keeper->h->link.number = SESSION_QPS_MAX; /* the server refuses it */
	/* the first attempt is free, the others come in the pause after one in vain */
	for (unsigned i = 0; i < 4; i++) {
		rc = gkv_open(session, NULL, &second, why, sizeof(why));
		assert_true(rc < 0);
		assert_null(second);
		assert_non_null(strstr(why, "no housekeeper"));
	}
	session->keeper->h->link.number = HOUSEKEEPER_QP;
	assert_int_equal(gkv_open(session, NULL, &kv[0], NULL, 0), 0); /* in the pause as well */
	assert_true(session->keeper->h->link.live);
	assert_true(gkv_tick(session, why, sizeof(why)) >= 1);
	assert_string_equal(why, "");
	session->keeper->h->link.number = SESSION_QPS_MAX;
	session->keeper->h->link.live = false;
	until_ns = time_now_ns() + WAIT_NS;
	do { /* an attempt, or a pause */
		rc = gkv_tick(session, why, sizeof(why));
	} while (rc > 0 && time_now_ns() < until_ns);
	assert_true(rc < 0);
	assert_non_null(strstr(why, "no housekeeper"));
	session->keeper->h->link.number = HOUSEKEEPER_QP;
}

/* A gkv_open() that another thread's gkv_session_close() has overtaken. */
UNIT_TEST(test_none_is_begun_behind_the_end, set_up, tear_down)
{
	struct error err = { 0 };

	assert_int_equal(gkv_open(session, NULL, &kv[0], NULL, 0), 0);
	gkv_session_close(session); /* with a handle: the session is not freed yet */
	assert_null(session->keeper->h);
	assert_int_equal(housekeeper_begin(session, time_now_ns() + WAIT_NS, &err), -ECONNRESET);
	assert_non_null(strstr(err.text, "closed"));
	assert_null(session->keeper->h);
	gkv_close(kv[0]);
	kv[0] = NULL;
	session = NULL;
}

UNIT_TEST(test_child_has_no_housekeeper, set_up, tear_down)
{
	int status = 0;
	pid_t pid;

	assert_int_equal(gkv_open(session, NULL, &kv[0], NULL, 0), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int rc = gkv_tick(session, NULL, 0);

		gkv_close(kv[0]);
		gkv_session_close(session);
		_exit(rc == -EPERM ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(gkv_put(kv[0], "k", 1, "value", 5, NULL), 0);
}
