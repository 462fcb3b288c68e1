/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Calls at the wrong time: the server has gone or stands still, after fork(), after a close. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tests/lib/unit.h"
#include "tests/unit/api/api.h"
#include "tests/unit/client/with_server.h"

#define HANDLES_MAX 64u

/* Run @call; it ends in its time. */
static int timed(const struct api_call *call, struct gkv *kv)
{
	uint64_t start = time_now_ns();
	int rc = call->run(kv);
	uint64_t took_ms = (time_now_ns() - start) / NS_PER_MS;

	if (took_ms > API_BRIEF_MS + API_SLACK_MS)
		fail_msg("%s: %d after %lu ms of %u", call->name, rc, (unsigned long)took_ms,
			 API_BRIEF_MS);
	return rc;
}

UNIT_TEST(test_server_gone, api_set_up, api_tear_down)
{
	struct gkv_session *s;
	struct gkv *kv, *other;
	char why[640];

	api_open_brief(&s, &kv);
	server_stop(api_server, SIGKILL);
	for (const struct api_call *c = api_calls; c->name; c++) {
		int rc;

		api_stain(kv);
		rc = timed(c, kv);
		if (!api_gone(rc, c) || !strstr(gkv_error(kv), "127.0.0.1"))
			fail_msg("%s: %d, %s", c->name, rc, gkv_error(kv));
	}
	assert_true(api_gone(gkv_open(s, NULL, &other, why, sizeof(why)), &api_calls[0]));
	assert_non_null(strstr(why, "127.0.0.1"));
	assert_true(gkv_tick(s, NULL, 0) >= 1); /* nothing to do */
	api_server = server_start(&api_port, "128M");
	api_works(api_kv);
	for (const struct api_call *c = api_calls; c->name; c++)
		assert_int_equal(c->run(api_kv), 0);
	assert_int_equal(gkv_open(api_session, NULL, &other, NULL, 0), 0);
	api_works(other);
	gkv_close(other);
	gkv_close(kv);
	gkv_session_close(s);
}

/* What needs no server goes on, the rest ends in its time, and works when the server does. */
UNIT_TEST(test_server_stopped, api_set_up, api_tear_down)
{
	struct gkv_session *s;
	struct gkv *kv;

	api_open_brief(&s, &kv);
	server_pause(api_server);
	for (const struct api_call *c = api_calls; c->name; c++) {
		int rc;

		api_stain(kv);
		rc = timed(c, kv);
		if (rc && rc != -ETIMEDOUT)
			fail_msg("%s: %d, %s", c->name, rc, gkv_error(kv));
		/* on its way, or not even that: the slots of earlier ones are busy */
		if (c->writes && (rc != -ETIMEDOUT || !(strstr(gkv_error(kv), "not known") ||
							strstr(gkv_error(kv), "no request"))))
			fail_msg("%s: %d, %s", c->name, rc, gkv_error(kv));
	}
	kill(api_server, SIGCONT);
	api_works(api_kv);
	for (const struct api_call *c = api_calls; c->name; c++)
		assert_int_equal(c->run(api_kv), 0);
	gkv_close(kv);
	gkv_session_close(s);
}

/* In the child. Returns 0, or the number of what went wrong. */
static int child(struct gkv_cursor *scan)
{
	struct gkv_record record;
	struct gkv_session_stats session_stats;
	struct gkv_stats stats;
	struct gkv *kv;
	char why[640];
	int n = 1;

	for (const struct api_call *c = api_calls; c->name; c++, n++)
		if (c->run(api_kv) != -EPERM || !strstr(gkv_error(api_kv), "fork"))
			return n;
	if (gkv_open(api_session, NULL, &kv, why, sizeof(why)) != -EPERM || !strstr(why, "fork"))
		return 100;
	if (gkv_tick(api_session, why, sizeof(why)) != -EPERM || !strstr(why, "fork"))
		return 101;
	if (gkv_scan_next(scan, &record, 1) != -EPERM || !strstr(gkv_error(api_kv), "fork"))
		return 103;
	gkv_stats_get(api_kv, &stats);
	gkv_session_stats_get(api_session, &session_stats);
	if (!stats.gets || !session_stats.rounds || !gkv_session_describe(api_session)[0])
		return 102;
	gkv_close(api_kv);
	gkv_session_close(api_session);
	return 0;
}

UNIT_TEST(test_child_of_fork, api_set_up, api_tear_down)
{
	struct gkv_session_stats stats;
	struct gkv_cursor *scan;
	struct gkv_record record;
	struct gkv *other;
	uint64_t rounds;
	int status;
	pid_t pid;

	api_works(api_kv);
	assert_int_equal(gkv_scan_open(api_kv, NULL, &scan), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(child(scan));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0); /* else the number of a call, from 1 */
	/* what the child closed is the parent's, and goes on */
	gkv_session_stats_get(api_session, &stats);
	rounds = stats.rounds;
	assert_int_equal(gkv_scan_next(scan, &record, 1), 1);
	gkv_scan_close(scan);
	for (const struct api_call *c = api_calls; c->name; c++)
		assert_int_equal(c->run(api_kv), 0);
	assert_int_equal(gkv_open(api_session, NULL, &other, NULL, 0), 0);
	for (unsigned i = 0; i < 1000 && stats.rounds < rounds + 5; i++) {
		api_works(other);
		usleep(10000);
		gkv_session_stats_get(api_session, &stats);
	}
	assert_true(stats.rounds >= rounds + 5);
	assert_int_equal(stats.reconnects, 0);
	gkv_close(other);
}

/* A child with a session of its own, beside the parent's. */
UNIT_TEST(test_child_with_a_session_of_its_own, api_set_up, api_tear_down)
{
	struct gkv_session *s;
	struct gkv_options o;
	struct gkv *kv;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		char value[8];

		api_options(&o);
		if (gkv_session_open(&o, &s, NULL, 0) || gkv_open(s, NULL, &kv, NULL, 0))
			_exit(1);
		if (gkv_put(kv, "child", 5, "v", 1, NULL) ||
		    gkv_get(kv, "child", 5, value, sizeof(value), NULL))
			_exit(2);
		gkv_close(kv);
		gkv_session_close(s);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(gkv_exists(api_kv, "child", 5, NULL), 0);
	api_works(api_kv);
}

UNIT_TEST(test_session_closed_before_its_handles, api_set_up, api_tear_down)
{
	struct gkv_session *s;
	struct gkv_options o;
	struct gkv *kv, *other;

	api_options(&o);
	assert_int_equal(gkv_session_open(&o, &s, NULL, 0), 0);
	assert_int_equal(gkv_open(s, NULL, &kv, NULL, 0), 0);
	assert_int_equal(gkv_open(s, NULL, &other, NULL, 0), 0);
	api_works(kv);
	gkv_session_close(s);
	for (const struct api_call *c = api_calls; c->name; c++) {
		int rc;

		api_stain(kv);
		rc = timed(c, kv);
		if (rc != -ECONNRESET || !strstr(gkv_error(kv), "closed"))
			fail_msg("%s: %d, %s", c->name, rc, gkv_error(kv));
	}
	gkv_close(other);
	assert_int_equal(gkv_ping(kv, NULL), -ECONNRESET);
	gkv_close(kv);
	api_works(api_kv);
}

UNIT_TEST(test_handles, api_set_up, api_tear_down)
{
	struct gkv *kv[HANDLES_MAX], *one_more = NULL;
	char why[640];

	kv[0] = api_kv;
	for (unsigned i = 1; i < HANDLES_MAX; i++)
		assert_int_equal(gkv_open(api_session, NULL, &kv[i], NULL, 0), 0);
	assert_int_equal(gkv_open(api_session, NULL, &one_more, why, sizeof(why)), -EUSERS);
	assert_non_null(strstr(why, "close one"));
	assert_null(one_more);
	for (unsigned i = 0; i < HANDLES_MAX; i++)
		api_works(kv[i]);
	gkv_close(kv[7]);
	assert_int_equal(gkv_open(api_session, NULL, &kv[7], NULL, 0), 0);
	for (unsigned i = 1; i < HANDLES_MAX; i++) {
		api_works(kv[i]);
		gkv_close(kv[i]);
	}
	api_works(api_kv);
}

/* A session without a thread, whose application does not call gkv_tick() in time. */
UNIT_TEST(test_no_tick, api_set_up, api_tear_down)
{
	struct gkv_session *s;
	struct gkv_options o;
	struct gkv *kv;

	api_options(&o);
	o.housekeeper = GKV_HOUSEKEEPER_TICK;
	assert_int_equal(gkv_session_open(&o, &s, NULL, 0), 0);
	assert_true(gkv_tick(s, NULL, 0) >= 1); /* there is no handle: nothing to do */
	assert_int_equal(gkv_open(s, NULL, &kv, NULL, 0), 0);
	assert_true(gkv_tick(s, NULL, 0) >= 1);
	api_works(kv);
	usleep(2500 * 1000); /* the lease is 1 s */
	for (const struct api_call *c = api_calls; c->name; c++)
		assert_int_equal(c->run(kv), 0);
	assert_true(gkv_tick(s, NULL, 0) >= 1);
	gkv_close(kv);
	assert_true(gkv_tick(s, NULL, 0) >= 1);
	gkv_session_close(s);
}
