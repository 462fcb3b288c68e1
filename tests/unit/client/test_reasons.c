/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Operations in flight that end without a connection: their sentence says why there is none. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/src/async.h"
#include "flight.h"
#include "with_server.h"

#define SOON_MS 50u

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
		if (kv->async->op[i].q.user_data == at)
			kv->async->op[i].deadline_ns = 0;
	}
	kv->async->next_ns = 0;
	c = wait_one();
	assert_int_equal(c.user_data, at);
	return c;
}

static void wait_until_wanted(void)
{
	while (atomic_load(&kv->async->connector.state) != CONNECTOR_WANTED)
		assert_int_equal(gkv_wait(kv, NULL, 0, 1), 0);
}

/* An attempt that nobody began leaves no error behind, and certainly no success. */
static void test_an_attempt_that_was_not_begun(void **state)
{
	struct gkv_completion c;
	char byte;
	int rc;

	all_keys(GKV_OP_PUT, 1);
	pthread_mutex_lock(&session->keeper.round_lock); /* the thread does not come to it */
	server_stop(server, SIGKILL);
	pthread_mutex_lock(&session->lock);
	session_lost(session);
	pthread_mutex_unlock(&session->lock);
	memset(&kv->error, 0, sizeof(kv->error));
	submit(GKV_OP_GET, 0);
	wait_until_wanted();
	kv->session->settings.timeout_ms = SOON_MS;
	rc = gkv_get(kv, "k", 1, &byte, 1, NULL);
	wait_until_wanted();
	c = end(0);
	pthread_mutex_unlock(&session->keeper.round_lock);
	assert_true(rc < 0);
	assert_int_equal(c.status, -ECONNRESET);
	expect_words("was lost");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_an_attempt_that_was_not_begun, set_up,
						tear_down),
	};

	server_program(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
