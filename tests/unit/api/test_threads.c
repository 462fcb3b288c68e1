/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Two threads in one handle, and calls from the handle's own visitor. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/unit.h"
#include "tests/unit/api/api.h"
#include "tests/unit/client/with_server.h"

#define WAIT_MS 60000u

static struct gkv_session *session; /* with GKV_CHECK_THREADS */
static struct gkv *kv;

static char room[16];
static struct gkv_memory *memory[2]; /* that is room: for kv, and for api_kv */
static struct gkv_cursor *cursor[2];

static unsigned place(const struct gkv *h)
{
	return h == api_kv;
}

static int set_up(void **state)
{
	struct gkv_options o;
	int rc = api_set_up(state);

	if (rc)
		return rc;
	api_options(&o);
	o.flags = GKV_CHECK_THREADS;
	rc = gkv_session_open(&o, &session, NULL, 0);
	if (rc == 0)
		rc = gkv_open(session, NULL, &kv, NULL, 0);
	for (unsigned i = 0; i < 2 && rc == 0; i++) {
		rc = gkv_memory_register(i ? api_session : session, room, sizeof(room), &memory[i],
					 NULL, 0);
		if (rc == 0)
			rc = gkv_scan_open(i ? api_kv : kv, NULL, &cursor[i]);
	}
	return rc;
}

static int tear_down(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		gkv_scan_close(cursor[i]);
		gkv_memory_release(memory[i]);
	}
	gkv_close(kv);
	gkv_session_close(session);
	return api_tear_down(state);
}

/* Calls that are not in the table. Returns how many did not return @want. */
static unsigned flight(struct gkv *h, int want)
{
	struct gkv_request request = { .op = GKV_OP_GET, .key = "k", .key_len = 1 };
	struct gkv_completion done;
	struct gkv_record record;
	unsigned bad = 0;

	bad += gkv_get_into(h, "works", 5, memory[place(h)], room, sizeof(room), NULL) != want;
	bad += gkv_scan_next(cursor[place(h)], &record, 1) != want;
	bad += gkv_fd(h) != want;
	bad += gkv_submit(h, &request, 1) != want;
	bad += gkv_poll(h, &done, 1) != want;
	bad += gkv_wait(h, &done, 1, 0) != want;
	bad += gkv_cancel(h, NULL) != want;
	bad += gkv_arm(h) != want;
	return bad;
}

/* A visitor that holds the handle's thread until it is let go. */
static sem_t inside, go_on;

static int hold(void *arg, const void *key, size_t key_len, const void *value,
		const struct gkv_meta *meta)
{
	sem_post(&inside);
	while (sem_wait(&go_on))
		;
	return 7;
}

static void *scan(void *arg)
{
	return (void *)(intptr_t)gkv_scan(arg, NULL, hold, NULL);
}

/* Another thread is in a call on @h: all calls say so. */
static void all_are_busy(struct gkv *h)
{
	for (const struct api_call *c = api_calls; c->name; c++) {
		int busy = c->run(h);

		if (busy != -EBUSY)
			fail_msg("%s beside another thread: %d", c->name, busy);
	}
	assert_int_equal(flight(h, -EBUSY), 0);
}

/* It has gone: all go well, on from where they were. */
static void all_go_well(struct gkv *h)
{
	struct gkv_record record;

	for (const struct api_call *c = api_calls; c->name; c++)
		assert_int_equal(c->run(h), 0);
	assert_ok(gkv_get_into(h, "works", 5, memory[place(h)], room, sizeof(room), NULL));
	assert_true(gkv_scan_next(cursor[place(h)], &record, 1) >= 0);
}

/* During a visit with the flag of the session and without. */
UNIT_TEST(test_another_thread)
{
	struct gkv *handle[] = { kv, api_kv };

	for (unsigned i = 0; i < 2; i++) {
		pthread_t thread;
		void *rc;

		api_works(handle[i]);
		sem_init(&inside, 0, 0);
		sem_init(&go_on, 0, 0);
		assert_int_equal(pthread_create(&thread, NULL, scan, handle[i]), 0);
		while (sem_wait(&inside))
			;
		all_are_busy(handle[i]);
		api_works(handle[!i]); /* another handle is nobody else's business */
		sem_post(&go_on);
		pthread_join(thread, &rc);
		assert_int_equal((intptr_t)rc, 7); /* the first thread has noticed nothing */
		all_go_well(handle[i]);
	}
}

static void *wait_for_one(void *arg)
{
	struct gkv_completion done;
	int rc;

	sem_post(&inside);
	do
		rc = gkv_wait(arg, &done, 1, WAIT_MS);
	while (rc == -EBUSY); /* the other one was first */
	return (void *)(intptr_t)rc;
}

/* After the first gkv_submit() it is found in all calls, also without the flag. */
UNIT_TEST(test_another_thread_with_operations_in_flight)
{
	struct gkv_request request = { .op = GKV_OP_PUT, .key = "k", .key_len = 1 };
	struct gkv *h;
	pthread_t thread;
	unsigned i;
	void *rc;
	int busy;

	assert_int_equal(gkv_open(api_session, NULL, &h, NULL, 0), 0);
	sem_init(&inside, 0, 0);
	server_pause(api_server);
	assert_int_equal(gkv_submit(h, &request, 1), 1);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_one, h), 0);
	while (sem_wait(&inside))
		;
	for (i = 0, busy = 0; i < WAIT_MS && busy != -EBUSY; i++) {
		usleep(1000); /* it is about to wait */
		busy = gkv_cancel(h, &request);
	}
	assert_int_equal(busy, -EBUSY);
	for (const struct api_call *c = api_calls; c->name; c++)
		assert_int_equal(c->run(h), -EBUSY);
	kill(api_server, SIGCONT);
	pthread_join(thread, &rc);
	assert_int_equal((intptr_t)rc, 1);
	for (const struct api_call *c = api_calls; c->name; c++)
		assert_int_equal(c->run(h), 0);
	gkv_close(h);
}

static int call_all(void *arg, const void *key, size_t key_len, const void *value,
		    const struct gkv_meta *meta)
{
	struct gkv *own = arg;

	for (const struct api_call *c = api_calls; c->name; c++) {
		int rc = c->run(own);

		if (rc != -EDEADLK)
			fail_msg("%s from the visitor: %d", c->name, rc);
	}
	assert_int_equal(flight(own, -EDEADLK), 0);
	api_works(own == kv ? api_kv : kv); /* another handle may be used */
	return 9;
}

/* With and without the flag of the session. */
UNIT_TEST(test_from_the_visitor)
{
	struct gkv *handle[] = { kv, api_kv };

	for (unsigned i = 0; i < 2; i++) {
		api_works(handle[i]);
		assert_int_equal(gkv_scan(handle[i], NULL, call_all, handle[i]), 9);
		assert_true(strlen(gkv_error(handle[i])) > 10);
		all_go_well(handle[i]);
	}
}

/* One after the other is fine. */
static void *use(void *arg)
{
	api_works(kv);
	return NULL;
}

UNIT_TEST(test_threads_in_turn)
{
	pthread_t thread;

	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(pthread_create(&thread, NULL, use, NULL), 0);
		pthread_join(thread, NULL);
		api_works(kv);
	}
}

UNIT_GROUP(set_up, tear_down);
