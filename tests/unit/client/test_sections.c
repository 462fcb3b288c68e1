/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Sections of operations in flight: they hold nothing back for longer than they must. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/src/flight/async.h"
#include "tests/lib/unit.h"
#include "flight.h"
#include "with_server.h"

static void submit_gets(void)
{
	struct gkv_request q[DEPTH];

	all_keys(GKV_OP_PUT, 1);
	for (unsigned i = 0; i < DEPTH; i++)
		q[i] = request(GKV_OP_GET, i, i);
	assert_int_equal(gkv_submit(kv, q, DEPTH), DEPTH);
	assert_true(kv->sections > 0);
}

static void expect_gets(void)
{
	while (gkv_pending(kv)) {
		struct gkv_completion c = wait_one();

		expect_life(&c, 1);
	}
}

/* Submitting without polling holds no memory for longer than the housekeeper's patience. */
UNIT_TEST(test_sections_of_a_handle_that_nobody_polls_end, set_up, tear_down)
{
	struct gkv_session_stats before, now;
	struct gkv_request q[DEPTH];
	struct gkv *other;

	all_keys(GKV_OP_PUT, 1);
	assert_int_equal(gkv_open(session, NULL, &other, NULL, 0), 0);
	for (unsigned i = 0; i < DEPTH; i++)
		q[i] = request(GKV_OP_GET, i, i);
	assert_int_equal(gkv_submit(kv, q, DEPTH), DEPTH);
	gkv_session_stats_get(session, &before);
	for (unsigned i = 0; i < 10000; i++) {
		assert_int_equal(gkv_put(other, "other", 5, &i, sizeof(i), NULL), 0);
		gkv_session_stats_get(session, &now);
		if (now.polled && now.announced > before.epoch)
			break;
		usleep(1000);
	}
	assert_true(now.polled > 0);
	assert_true(now.announced > before.epoch);
	assert_int_equal(now.reconnects, 0);
	for (unsigned i = 0; i < DEPTH; i++) {
		struct gkv_completion c = wait_one();

		expect_life(&c, 1);
	}
	gkv_close(other);
}

/* Lanes follow each other without a gap, and what is announced advances. */
UNIT_TEST(test_sections_that_overlap_hold_nothing_back, set_up, tear_down)
{
	struct gkv_session_stats stats;
	struct gkv_completion c[DEPTH];
	uint64_t first, end_ns;
	struct gkv *other;
	unsigned writes = 0;

	all_keys(GKV_OP_PUT, 1);
	assert_int_equal(gkv_open(session, NULL, &other, NULL, 0), 0);
	for (unsigned i = 0; i < DEPTH; i++) {
		struct gkv_request q = request(GKV_OP_GET, i, i);

		assert_int_equal(gkv_submit(kv, &q, 1), 1);
	}
	assert_true(kv->sections > 1);
	gkv_session_stats_get(session, &stats);
	first = stats.epoch;
	end_ns = time_now_ns() + WAIT_MS * NS_PER_MS;
	do {
		int n = gkv_poll(kv, c, 1);

		assert_true(n >= 0);
		if (n) {
			struct gkv_request q =
				request(GKV_OP_GET, writes % KEYS, (unsigned)slot_of(c));

			assert_int_equal(gkv_submit(kv, &q, 1), 1);
		}
		assert_true(kv->sections > 0 || gkv_pending(kv));
		if (++writes % 16 == 0)
			assert_int_equal(gkv_put(other, "other", 5, &writes, 4, NULL), 0);
		gkv_session_stats_get(session, &stats);
	} while (stats.announced < first + 5 && time_now_ns() < end_ns);
	assert_true(stats.announced >= first + 5);
	assert_int_equal(stats.polled, 0);
	gkv_close(other);
	memset(slot, 0, sizeof(slot));
}

/* A call that waits for the server does not keep it from memory by sections of its own handle. */
UNIT_TEST(test_sections_end_beside_a_call_that_waits, set_up, tear_down)
{
	submit_gets();
	kv->session->settings.timeout_ms = 1000;
	server_pause(server);
	assert_int_equal(gkv_put(kv, "k", 1, "v", 1, NULL), -ETIMEDOUT);
	assert_int_equal(kv->sections, 0);
	kill(server, SIGCONT);
	kv->session->settings.timeout_ms = WAIT_MS;
	expect_gets();
}

static int wait_for_housekeeper(void *arg, const void *key, size_t key_len, const void *value,
				const struct gkv_meta *meta)
{
	struct gkv_session_stats stats;

	for (unsigned i = 0; i < WAIT_MS; i++) {
		gkv_session_stats_get(session, &stats);
		if (stats.polled)
			return 1;
		assert_int_equal(gkv_ping(kv, NULL), -EDEADLK);
		usleep(1000);
	}
	return 2;
}

/* The same of a visitor that takes long. On a busy machine the scan itself may have met the end of
 * all GETs before it visits, and nothing is left to the housekeeper: then once more. */
UNIT_TEST(test_sections_end_beside_a_visitor, set_up, tear_down)
{
	int rc = 2;

	for (unsigned i = 0; i < 3 && rc == 2; i++) {
		if (i)
			expect_gets();
		submit_gets();
		rc = gkv_scan(kv, NULL, wait_for_housekeeper, NULL);
	}
	assert_int_equal(rc, 1);
	assert_int_equal(kv->sections, 0);
	expect_gets();
}

/*
 * A handle that nobody polls keeps no pin of a connection that was lost: over the next one, another
 * handle's, nothing would be announced.
 */
UNIT_TEST(test_sections_of_a_lost_connection_end, set_up, tear_down)
{
	struct gkv_session_stats stats;
	struct gkv *other;
	uint64_t first = 0;

	submit_gets();
	assert_int_equal(gkv_open(session, NULL, &other, NULL, 0), 0);
	/* the transport is lost before it has brought anything */
	channel_fail(kv, "by hand");
	for (unsigned i = 0; i < WAIT_MS; i++) {
		assert_int_equal(gkv_put(other, "other", 5, &i, sizeof(i), NULL), 0);
		gkv_session_stats_get(session, &stats);
		if (!first)
			first = stats.epoch;
		if (stats.announced > first)
			break;
		usleep(1000);
	}
	assert_true(stats.announced > first);
	expect_gets();
	gkv_close(other);
}

/* A child of fork() has no thread that would give the handle back. */
UNIT_TEST(test_figures_in_a_child, set_up, tear_down)
{
	struct gkv_request q = request(GKV_OP_EXISTS, 1, 0);
	struct gkv_stats stats;
	int status;
	pid_t pid;

	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	assert_int_equal(wait_one().status, -ENOENT);
	while (handle_own(kv))
		;
	atomic_store(&kv->call.owner, OWNER_HOUSEKEEPER);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(WAIT_MS / 1000);
		gkv_stats_get(kv, &stats);
		_exit(stats.submitted != 1);
	}
	atomic_store(&kv->call.owner, OWNER_NONE);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}
