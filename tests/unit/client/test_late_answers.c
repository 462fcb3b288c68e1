/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A server that is too slow for the call that opens a queue pair again: its answer comes when
 * nobody waits for it, and costs nobody but that call anything.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/src/link/handle.h"
#include "common/base/time.h"
#include "tests/lib/unit.h"
#include "one_client.h"
#include "with_server.h"

#define WAIT_NS	 (20 * NS_PER_S)
#define SHORT_MS 50u

static struct gkv *other;
static uint64_t number;

static int set_up(void **state)
{
	struct gkv_options o = patient();

	o.lifeline_ms = 20000;
	if (one_client("64M", o) || server_handle(session, &other))
		return -1;
	number = atomic_load(&session->number);
	return gkv_put(kv, "k", 1, "value", 5, NULL);
}

static int tear_down_both(void **state)
{
	gkv_close(other);
	return tear_down(state);
}

static void get(struct gkv *h, int wanted)
{
	char value[8];

	assert_int_equal(gkv_get(h, "k", 1, value, sizeof(value), NULL), wanted);
}

/* The queue pair breaks, and @times calls try to open another one, in vain. */
static void open_in_vain(unsigned times)
{
	session->settings.timeout_ms = SHORT_MS;
	for (unsigned i = 0; i < times; i++) {
		kv->link.live = false;
		memset(&kv->link.backoff, 0, sizeof(kv->link.backoff));
		get(kv, -ETIMEDOUT);
	}
	session->settings.timeout_ms = 20000;
	memset(&kv->link.backoff, 0, sizeof(kv->link.backoff));
}

/* The session goes on, and so do its handles. */
static void nothing_was_lost(void)
{
	get(kv, 0);
	get(other, 0);
	assert_int_equal(gkv_put(kv, "k", 1, "newer", 5, NULL), 0);
	assert_int_equal(atomic_load(&session->number), number);
	assert_int_equal(other->reader.stats.reconnects, 0);
}

UNIT_TEST(test_a_late_answer_costs_no_other_handle_anything, set_up, tear_down_both)
{
	server_pause(server);
	open_in_vain(1);
	get(other, 0); /* one-sided, as before */
	kill(server, SIGCONT);
	nothing_was_lost();
}

/* Each is answered, in turn; only the last answer is of use. */
UNIT_TEST(test_a_handle_asks_again_before_it_is_answered, set_up, tear_down_both)
{
	server_pause(server);
	open_in_vain(5);
	kill(server, SIGCONT);
	nothing_was_lost();
}

/* It says of which attempt it is: another handle's, which comes first, is not refused by it. */
UNIT_TEST(test_a_late_refusal_refuses_nothing_else, set_up, tear_down_both)
{
	const unsigned mine = kv->link.number;

	server_pause(server);
	kv->link.number = SESSION_QPS_MAX; /* no such queue pair */
	open_in_vain(2);
	kv->link.number = mine;
	other->link.live = false;
	kill(server, SIGCONT);
	get(other, 0);
	get(kv, 0);
	assert_int_equal(atomic_load(&session->number), number);
	assert_int_equal(other->reader.stats.reconnects, 1);
}

/* Nobody opens anything when they come: whoever looks at the life line drops them. */
UNIT_TEST(test_late_answers_are_dropped_by_who_looks, set_up, tear_down_both)
{
	const uint64_t until_ns = time_now_ns() + WAIT_NS;
	struct error err;

	server_pause(server);
	open_in_vain(3);
	kill(server, SIGCONT);
	while (session->attempts.unanswered && time_now_ns() < until_ns) {
		assert_int_equal(session_check(session, number, until_ns, &err), 0);
		usleep(1000);
	}
	assert_int_equal(session->attempts.unanswered, 0);
	nothing_was_lost();
}

/* A server that stands still for long is not buried in what it will have to do then. */
UNIT_TEST(test_what_a_server_was_not_answering_is_bounded, set_up, tear_down_both)
{
	server_pause(server);
	session->attempts.unanswered = ATTEMPT_FRAMES_MAX - 2;
	open_in_vain(4);
	assert_int_equal(session->attempts.unanswered, ATTEMPT_FRAMES_MAX - 1);
	session->attempts.unanswered = 1; /* as it is */
	kill(server, SIGCONT);
	nothing_was_lost();
	assert_int_equal(session->attempts.unanswered, 0);
}

/* The server's end of one that nobody waited for is taken apart. */
UNIT_TEST(test_what_was_opened_too_late_is_closed, set_up, tear_down_both)
{
	const uint64_t until_ns = time_now_ns() + WAIT_NS;
	char *text = NULL;
	bool gone = false;

	server_pause(server);
	open_in_vain(1);
	kill(server, SIGCONT);
	while (!gone && time_now_ns() < until_ns) {
		free(text);
		assert_int_equal(gkv_server_stats(other, &text), 0);
		gone = strstr(text, "\nqueue_pairs 2\n"); /* other's and the housekeeper's */
	}
	free(text);
	assert_true(gone);
}
