/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A call that waits gives its core away, and a thread that computes keeps it for milliseconds: here
 * sched_yield() comes back late. That may happen now and then, and not for each call.
 */
#include "tests/lib/unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "client/include/gracekv.h"
#include "client/src/link/handle.h"
#include "common/base/time.h"
#include "one_client.h"

#define CALLS	 200u
#define AWAY_NS	 (4 * NS_PER_MS)
#define BUSY_MS	 60u
#define PAUSE_MS 200u /* of common/base/time.c */

static unsigned yields;

int __wrap_sched_yield(void);

int __wrap_sched_yield(void)
{
	yields++;
	time_sleep(AWAY_NS);
	return 0;
}

static int set_up(void **state)
{
	return one_client("64M", patient());
}

static void put(void)
{
	assert_int_equal(gkv_put(kv, "k", 1, "one", 3, NULL), 0);
}

static void submit_and_wait(void)
{
	struct gkv_request r;
	struct gkv_completion c;

	gkv_request_put(&r, "k", 1, "two", 3, NULL);
	assert_int_equal(gkv_submit(kv, &r, 1), 1);
	assert_int_equal(gkv_wait(kv, &c, 1, 5000), 1);
	assert_int_equal(c.status, 0);
}

static void calls(void (*call)(void))
{
	uint64_t begun_ns = time_now_ns();

	kv->call.spin_polls = 0; /* each wait yields at once */
	yields = 0;
	for (unsigned i = 0; i < CALLS; i++)
		call();
	assert_true(yields <= 2 + (time_now_ns() - begun_ns) / NS_PER_MS / PAUSE_MS);
}

UNIT_TEST(calls_that_wait_yield_seldom_where_that_is_dear, set_up, tear_down_in_order)
{
	calls(put);
}

static void *give_back(void *unused)
{
	time_sleep(BUSY_MS * NS_PER_MS);
	atomic_store(&kv->call.owner, OWNER_NONE);
	return NULL;
}

/* A handle that the housekeeper has: the thread that waits for it must not stand back. */
UNIT_TEST(waits_for_a_handle_do_likewise, set_up, tear_down_in_order)
{
	pthread_t other;

	time_sleep(PAUSE_MS * NS_PER_MS); /* a yield is cheap again */
	atomic_store(&kv->call.owner, OWNER_HOUSEKEEPER);
	assert_int_equal(pthread_create(&other, NULL, give_back, NULL), 0);
	yields = 0;
	assert_int_equal(handle_own(kv), 0);
	atomic_store(&kv->call.owner, OWNER_NONE);
	pthread_join(other, NULL);
	assert_in_range(yields, 1, 2);
}

UNIT_TEST(waits_for_operations_in_flight_do_likewise, set_up, tear_down_in_order)
{
	calls(submit_and_wait);
}
