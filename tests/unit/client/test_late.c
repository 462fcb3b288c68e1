/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * READs to the caller's memory that take longer than the call may: once it has returned nothing is
 * written there. The device delays each request by up to DELAY_US.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/src/link/handle.h"
#include "client/src/link/memory.h"
#include "tests/lib/unit.h"
#include "one_client.h"

#define DELAY_US 60000u
#define BYTES	 100000u
#define CANARY	 0x5a
#define ROUNDS	 12u

static int set_up(void **state)
{
	struct gkv_options o = patient();
	char fault[64];

	snprintf(fault, sizeof(fault), "delay=%u,seed=5", DELAY_US);
	setenv("SOFTRDMA_FAULT", fault, 1);
	o.timeout_ms = 60000;
	return one_client("64M", o);
}

UNIT_TEST(test_nothing_comes_behind_a_time_out, set_up, tear_down)
{
	static uint8_t want[BYTES], bytes[BYTES];
	struct gkv_memory *memory;
	unsigned late = 0, rounds = 0;

	memset(want, 'v', BYTES);
	assert_int_equal(gkv_put(kv, "k", 1, want, BYTES, NULL), 0);
	assert_int_equal(gkv_memory_register(session, bytes, BYTES, &memory, NULL, 0), 0);
	while (late < ROUNDS && rounds++ < 10 * ROUNDS) {
		int rc;

		kv->session->settings.timeout_ms = 3;
		rc = gkv_get_into(kv, "k", 1, memory, bytes, BYTES, NULL);
		memset(bytes, CANARY, BYTES);
		kv->session->settings.timeout_ms = 60000;
		assert_true(rc == 0 || rc == -ETIMEDOUT || rc == -ECONNRESET);
		late += rc == -ETIMEDOUT;
		usleep(DELAY_US + DELAY_US / 2);
		assert_int_equal(bytes[0], CANARY);
		assert_memory_equal(bytes, bytes + 1, BYTES - 1);
		assert_int_equal(gkv_exists(kv, "k", 1, NULL), 0); /* connects again */
	}
	assert_int_equal(late, ROUNDS);
	assert_int_equal(gkv_memory_release(memory), 0);
}
