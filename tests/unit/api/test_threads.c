/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Two threads in one handle, and calls from the handle's own visitor. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "tests/unit/api/api.h"
#include "tests/unit/api/api_more.h"
#include "tests/unit/client/with_server.h"

static struct gkv_session *session;
static struct gkv *kv;

static int set_up(void **state)
{
	struct gkv_options o;
	int rc = api_set_up(state);

	if (rc)
		return rc;
	api_options(&o);
	o.flags = GKV_CHECK_THREADS;
	rc = gkv_session_open(&session, &o, NULL, 0);
	return rc ? rc : gkv_open(session, &kv);
}

static int tear_down(void **state)
{
	gkv_close(kv);
	gkv_session_close(session);
	return api_tear_down(state);
}

/* Calls that are not in the table. Returns how many did not return @want. */
static unsigned flight(struct gkv *h, int want)
{
	struct gkv_request request = { .op = GKV_OP_GET, .key = "k", .key_len = 1 };
	struct gkv_completion done;
	unsigned bad = 0;

	bad += gkv_submit(h, &request, 1) != want;
	bad += gkv_poll(h, &done, 1) != want;
	bad += gkv_wait(h, &done, 1, 0) != want;
	bad += gkv_cancel(h, 0) != want;
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
	return (void *)(intptr_t)gkv_scan(kv, hold, NULL);
}

static void test_another_thread(void **state)
{
	pthread_t thread;
	void *rc;

	api_works(kv);
	sem_init(&inside, 0, 0);
	sem_init(&go_on, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, scan, NULL), 0);
	while (sem_wait(&inside))
		;
	for (const struct api_call *c = api_calls; c->name; c++) {
		int busy = c->run(kv);

		if (busy != -EBUSY)
			fail_msg("%s beside another thread: %d", c->name, busy);
	}
	assert_int_equal(flight(kv, -EBUSY), 0);
	api_works(api_kv); /* another handle is nobody else's business */
	sem_post(&go_on);
	pthread_join(thread, &rc);
	assert_int_equal((intptr_t)rc, 7); /* the thread that was first has noticed nothing */
	for (const struct api_call *c = api_calls; c->name; c++)
		assert_int_equal(c->run(kv), 0);
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
static void test_from_the_visitor(void **state)
{
	struct gkv *handle[] = { kv, api_kv };

	for (unsigned i = 0; i < 2; i++) {
		api_works(handle[i]);
		assert_int_equal(gkv_scan(handle[i], call_all, handle[i]), 9);
		assert_true(strlen(gkv_error(handle[i])) > 10);
		for (const struct api_call *c = api_calls; c->name; c++)
			assert_int_equal(c->run(handle[i]), 0);
	}
}

/* One after the other is fine. */
static void *use(void *arg)
{
	api_works(kv);
	return NULL;
}

static void test_threads_in_turn(void **state)
{
	pthread_t thread;

	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(pthread_create(&thread, NULL, use, NULL), 0);
		pthread_join(thread, NULL);
		api_works(kv);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_another_thread),
		cmocka_unit_test(test_from_the_visitor),
		cmocka_unit_test(test_threads_in_turn),
	};

	server_program(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
