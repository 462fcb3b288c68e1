/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* A kv-server that is stopped, killed, restarted. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/src/link/handle.h"
#include "tests/lib/unit.h"
#include "one_client.h"
#include "with_server.h"

static int set_up(void **state)
{
	if (one_client("64M", patient()))
		return -1;
	session->settings.timeout_ms = 1500;
	return 0;
}

UNIT_TEST(test_stopped_server_serves_reads, set_up, tear_down)
{
	static char large[100000];
	char value[8];
	size_t len;
	int rc;

	assert_int_equal(gkv_put(kv, "k", 1, "value", 5, NULL), 0);
	server_pause(server);
	for (unsigned i = 0; i < 1000; i++) {
		assert_int_equal(gkv_get(kv, "k", 1, value, 8, &len), 0);
		assert_int_equal(len, 5);
		assert_int_equal(gkv_get(kv, "none", 4, value, 8, &len), -ENOENT);
	}
	/* requests are not answered: unknown outcomes, and the handle stays of use */
	rc = gkv_put(kv, "stopped", 7, large, sizeof(large), NULL);
	assert_int_equal(rc, -ETIMEDOUT);
	assert_non_null(strstr(gkv_error(kv), "not known"));
	assert_int_equal(gkv_put(kv, "stopped", 7, large, sizeof(large), NULL), -ETIMEDOUT);
	assert_int_equal(gkv_put(kv, "small", 5, "x", 1, NULL), -ETIMEDOUT);
	assert_int_equal(gkv_get(kv, "k", 1, value, 8, &len), 0);
	kill(server, SIGCONT);
	/* late replies come in between, and confuse nothing */
	assert_int_equal(gkv_put(kv, "k", 1, "newer", 5, NULL), 0);
	assert_int_equal(gkv_put(kv, "stopped", 7, large, sizeof(large), NULL), 0);
	assert_int_equal(gkv_get(kv, "k", 1, value, 8, &len), 0);
	assert_memory_equal(value, "newer", 5);
	assert_int_equal(gkv_exists(kv, "small", 5, NULL), 0);
	assert_int_equal(kv->reader.stats.reconnects, 0);
}

UNIT_TEST(test_requests_fill_the_slots_of_a_stopped_server, set_up, tear_down)
{
	kv->session->settings.timeout_ms = 20;
	server_pause(server);
	for (unsigned i = 0; i < HANDLE_CREDITS + 3; i++)
		assert_int_equal(gkv_put(kv, &i, sizeof(i), "x", 1, NULL), -ETIMEDOUT);
	assert_non_null(strstr(gkv_error(kv), "no request could be sent"));
	assert_non_null(strstr(gkv_error(kv), "within 20 ms: the server has not answered those"));
	kv->session->settings.timeout_ms = 1500;
	kill(server, SIGCONT);
	assert_int_equal(gkv_ping(kv, NULL), 0);
	for (unsigned i = 0; i < HANDLE_CREDITS; i++)
		assert_int_equal(gkv_exists(kv, &i, sizeof(i), NULL), 0);
}

static void *go_on_later(void *arg)
{
	usleep(300000);
	kill(server, SIGCONT);
	return NULL;
}

/* Slots and staging memory of calls that timed out: the next one waits for them, and gets them. */
UNIT_TEST(test_busy_slots_and_staging_memory_are_waited_for, set_up, tear_down)
{
	static char large[100000];
	pthread_t later;

	for (unsigned staging = 0; staging < 2; staging++) {
		kv->session->settings.timeout_ms = 20;
		server_pause(server);
		for (unsigned i = 0; i < (staging ? 1 : HANDLE_CREDITS); i++)
			assert_int_equal(gkv_put(kv, &i, sizeof(i), large,
						 staging ? sizeof(large) : 1, NULL),
					 -ETIMEDOUT);
		kv->session->settings.timeout_ms = 20000;
		assert_int_equal(pthread_create(&later, NULL, go_on_later, NULL), 0);
		assert_int_equal(gkv_put(kv, "k", 1, large, staging ? sizeof(large) : 1, NULL), 0);
		pthread_join(later, NULL);
	}
	assert_int_equal(kv->reader.stats.reconnects, 0);
}

UNIT_TEST(test_server_started_anew, set_up, tear_down)
{
	struct gkv *second;
	char value[8];

	assert_int_equal(gkv_open(session, NULL, &second, NULL, 0), 0);
	for (unsigned round = 0; round < 3; round++) {
		assert_int_equal(gkv_put(kv, "k", 1, "value", 5, NULL), 0);
		assert_int_equal(gkv_get(second, "k", 1, value, 8, NULL), 0);
		server_stop(server, round % 2 ? SIGTERM : SIGKILL);
		server = server_start(&port, "64M");
		if (round == 2)
			assert_int_equal(gkv_put(second, "k", 1, "again", 5, NULL), 0);
		else
			assert_int_equal(gkv_get(second, "k", 1, value, 8, NULL), -ENOENT);
		assert_int_equal(gkv_get(kv, "k", 1, value, 8, NULL), round == 2 ? 0 : -ENOENT);
		assert_true(second->reader.stats.reconnects >= round + 1);
	}
	gkv_close(second);
}

UNIT_TEST(test_server_gone, set_up, tear_down)
{
	uint64_t start;
	char value[8];
	int rc;

	assert_int_equal(gkv_put(kv, "k", 1, "value", 5, NULL), 0);
	server_stop(server, SIGKILL);
	start = time_now_ns();
	rc = gkv_get(kv, "k", 1, value, 8, NULL);
	assert_int_equal(rc, -ECONNREFUSED);
	assert_non_null(strstr(gkv_error(kv), "kv-server"));
	assert_in_range((time_now_ns() - start) / NS_PER_MS, 500, 4000);
	rc = gkv_put(kv, "k", 1, "value", 5, NULL);
	assert_int_equal(rc, -ECONNREFUSED); /* never posted: surely not applied */
	server = server_start(&port, "64M");
	assert_int_equal(gkv_put(kv, "k", 1, "value", 5, NULL), 0);
}

static void *write_one(void *arg)
{
	return (void *)(intptr_t)gkv_put(kv, "k", 1, "value", 5, NULL);
}

/* A write on its way when its server dies: the next one cannot know. */
UNIT_TEST(test_outcome_unknown, set_up, tear_down)
{
	pthread_t thread;
	void *rc;

	assert_int_equal(gkv_ping(kv, NULL), 0);
	kv->session->settings.timeout_ms = 20000;
	server_pause(server);
	pthread_create(&thread, NULL, write_one, NULL);
	usleep(200 * 1000);
	server_stop(server, SIGKILL);
	server = server_start(&port, "64M"); /* by this thread: the server ends with its starter */
	pthread_join(thread, &rc);
	assert_int_equal((intptr_t)rc, -EREMOTEIO);
	assert_non_null(strstr(gkv_error(kv), "no memory of it"));
	assert_int_equal(gkv_exists(kv, "k", 1, NULL), -ENOENT);
	assert_int_equal(gkv_put(kv, "k", 1, "value", 5, NULL), 0);
}

/* Another session of the same client id ends ours; the same server remembers what we wrote. */
UNIT_TEST(test_connection_replaced, set_up, tear_down)
{
	struct gkv *second;
	char value[8];
	uint64_t version;

	assert_int_equal(gkv_open(session, NULL, &second, NULL, 0), 0);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(session_lock(session, time_now_ns() + NS_PER_S, NULL), 0);
		session_lost(session);
		session_unlock(session);
		assert_int_equal(gkv_put(kv, "k", 1, &i, sizeof(i), &version), 0);
		assert_int_equal(gkv_get(second, "k", 1, value, 8, NULL), 0);
		assert_memory_equal(value, &i, sizeof(i));
	}
	assert_int_equal(kv->reader.stats.reconnects, 20);
	gkv_close(second);
}

static void *write_many(void *arg)
{
	struct gkv *h;
	uint64_t failed = 0;

	assert_int_equal(gkv_open(session, NULL, &h, NULL, 0), 0);
	for (uint64_t i = 1; i <= 20000; i++)
		failed += gkv_put(h, arg, 8, &i, sizeof(i), NULL) != 0;
	gkv_close(h);
	return (void *)(uintptr_t)failed;
}

/* Connections break under writers: every write is applied, once, in order. */
UNIT_TEST(test_writers_and_lost_connections, set_up, tear_down)
{
	pthread_t thread[2];
	static char key[2][8] = { "writer0", "writer1" };
	void *failed;
	uint64_t value, first, last;

	kv->session->settings.timeout_ms = 20000;
	assert_int_equal(gkv_put(kv, "x", 1, NULL, 0, &first), 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, write_many, key[i]);
	for (unsigned i = 0; i < 20; i++) {
		usleep(5000);
		assert_int_equal(session_lock(session, time_now_ns() + 20 * NS_PER_S, NULL), 0);
		session_lost(session);
		session_unlock(session);
	}
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(thread[i], &failed);
		assert_null(failed);
		assert_int_equal(gkv_get(kv, key[i], 8, &value, 8, NULL), 0);
		assert_int_equal(value, 20000);
	}
	assert_int_equal(gkv_put(kv, "x", 1, NULL, 0, &last), 0);
	assert_int_equal(last - first, 2 * 20000 + 1); /* the server's log sequence: none twice */
}

UNIT_TEST(test_session_closed_under_a_handle, set_up, tear_down)
{
	gkv_session_close(session);
	assert_int_equal(gkv_ping(kv, NULL), -ECONNRESET);
	gkv_close(kv);
	kv = NULL;
	session = NULL;
}

/* A handle whose queue pairs break: the pause is longer than its calls, and nobody else's
 * business. */
UNIT_TEST(test_pause_longer_than_a_call_leaves_the_session, set_up, tear_down)
{
	uint64_t number = atomic_load(&session->number);
	struct gkv *other;
	char value[8];
	size_t len;

	assert_int_equal(gkv_put(kv, "k", 1, "value", 5, NULL), 0);
	assert_int_equal(gkv_open(session, NULL, &other, NULL, 0), 0);
	kv->link.live = false;
	kv->link.worked = false;
	kv->link.chains_done = 0;
	kv->link.backoff = (struct backoff){ .step_ms = BACKOFF_LAST_MS,
					     .ended_ns = time_now_ns(),
					     .not_before_ns = time_now_ns() + 1900 * NS_PER_MS };
	assert_int_equal(gkv_get(kv, "k", 1, value, sizeof(value), &len), -ETIMEDOUT);
	assert_non_null(strstr(gkv_error(kv), "keep breaking"));
	assert_int_equal(atomic_load(&session->number), number);
	assert_int_equal(gkv_get(other, "k", 1, value, sizeof(value), &len), 0);
	assert_int_equal(gkv_get(kv, "k", 1, value, sizeof(value), &len), 0);
	assert_int_equal(other->reader.stats.reconnects, 0);
	gkv_close(other);
}

/* Numbers of queue pairs come again: what was said of an older one is not of the new one. */
UNIT_TEST(test_news_of_an_older_queue_pair_is_forgotten, set_up, tear_down)
{
	assert_int_equal(gkv_put(kv, "k", 1, "value", 5, NULL), 0);
	atomic_store(&session->qp_lost[kv->link.number], kv->link.qp.qp->qp_num);
	kv->link.live = false;
	assert_int_equal(gkv_put(kv, "k", 1, "other", 5, NULL), 0);
	assert_int_equal(atomic_load(&session->qp_lost[kv->link.number]), 0);
	assert_int_equal(kv->reader.stats.reconnects, 1);
}
