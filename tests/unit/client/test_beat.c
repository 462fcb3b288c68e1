/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What the beat of a session does not wait for: connecting that is under way for somebody else, and
 * the session's lock, which is held meanwhile. And who connects handles with operations in flight.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/src/flight/async.h"
#include "client/src/keeper/housekeeper.h"
#include "client/src/link/handle.h"
#include "common/base/time.h"
#include "flight.h"
#include "tests/lib/own_process.h"
#include "tests/lib/unit.h"

#define WAIT_NS	  (20 * NS_PER_S)
#define STILL_MS  2500u /* more than two leases */
#define CONNECTOR "gkv-connector"

static _Atomic bool no_threads; /* pthread_create() fails */

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (!next)
		next = (typeof(next))dlsym(RTLD_NEXT, "pthread_create");
	return atomic_load(&no_threads) ? EAGAIN : next(thread, attr, run, arg);
}

static uint64_t rounds(void)
{
	struct gkv_session_stats s;

	gkv_session_stats_get(session, &s);
	return s.rounds;
}

/* An operation is in flight, and its handle has no queue pair: somebody else connects it. */
static void break_in_flight(void)
{
	const struct gkv_request get = request(GKV_OP_GET, 0, 0);

	assert_int_equal(gkv_poll(kv, NULL, 0), 0);
	kv->link.live = false;
	memset(&kv->link.backoff, 0, sizeof(kv->link.backoff));
	assert_int_equal(gkv_submit(kv, &get, 1), 1);
	assert_int_equal(gkv_poll(kv, NULL, 0), 0);
}

/* Whether the beat goes on for @ms: no pause of it is half a lease. */
static bool it_beats_for(unsigned ms)
{
	uint64_t now = time_now_ns(), until_ns = now + ms * NS_PER_MS, seen = rounds(),
		 seen_ns = now;

	for (; now < until_ns; now = time_now_ns()) {
		uint64_t n = rounds();

		if (n != seen)
			seen_ns = now;
		seen = n;
		if (now - seen_ns >= session->keeper->lease_ms / 2 * NS_PER_MS)
			return false;
		usleep(5000);
	}
	return true;
}

UNIT_TEST(test_the_beat_goes_on_while_handles_are_connected, set_up, tear_down)
{
	const uint64_t number = atomic_load(&session->number);
	struct error err;
	bool beats;

	all_keys(GKV_OP_PUT, 1);
	assert_int_equal(session_lock(session, time_now_ns() + WAIT_NS, &err), 0);
	break_in_flight(); /* what connects it waits for the lock, as for a server that is slow */
	beats = it_beats_for(STILL_MS);
	session_unlock(session);
	assert_true(beats);
	assert_int_equal(wait_one().status, 0);
	assert_int_equal(atomic_load(&session->number), number);
	assert_int_equal(session->reconnects, 0);
}

/* The life line says something, and the thread that may read it is busy. */
UNIT_TEST(test_the_beat_does_not_wait_to_hear_news, set_up, tear_down)
{
	struct gkv *keeper = session->keeper->h;
	int lifeline = keeper->link.lifeline, ends[2];
	struct error err;
	uint64_t from_ns;

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "?", 1), 1);
	pthread_mutex_lock(&session->keeper->round_lock);
	keeper->link.lifeline = ends[0];
	assert_int_equal(session_lock(session, time_now_ns() + WAIT_NS, &err), 0);
	from_ns = time_now_ns();
	keeper->call.deadline_ns = from_ns + WAIT_NS;
	for (unsigned i = 0; i < 1000; i++)
		channel_look(keeper);
	assert_true(time_now_ns() - from_ns < NS_PER_S);
	assert_true(keeper->link.live);
	session_unlock(session);
	keeper->link.lifeline = lifeline;
	pthread_mutex_unlock(&session->keeper->round_lock);
	close(ends[0]);
	close(ends[1]);
}

UNIT_TEST(test_the_connecting_thread_comes_and_goes, set_up, tear_down)
{
	all_keys(GKV_OP_PUT, 1);
	assert_true(own_threads_end(CONNECTOR));
	for (unsigned i = 0; i < 3; i++) {
		break_in_flight();
		assert_int_equal(wait_one().status, 0);
		assert_true(own_threads(CONNECTOR)); /* for a while */
		assert_true(i == 2 || own_threads_end(CONNECTOR));
	}
	gkv_session_close(session);
	assert_true(own_threads_end(CONNECTOR));
	session = NULL;
}

UNIT_TEST(test_a_session_is_closed_while_a_handle_is_connected, set_up, tear_down)
{
	struct gkv_completion c;

	all_keys(GKV_OP_PUT, 1);
	break_in_flight();
	gkv_session_close(session);
	assert_true(own_threads_end(CONNECTOR));
	session = NULL;
	c = wait_one();
	assert_true(c.status == 0 || c.status == -ECONNRESET);
}

/* Where no thread can be had the handle's own connects. */
UNIT_TEST(test_without_a_connecting_thread, set_up, tear_down)
{
	all_keys(GKV_OP_PUT, 1);
	atomic_store(&no_threads, true);
	break_in_flight();
	assert_int_equal(wait_one().status, 0);
	atomic_store(&no_threads, false);
	assert_true(own_threads_end(CONNECTOR));
	assert_int_equal(session->reconnects, 0);
}
