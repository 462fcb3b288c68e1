/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Beats to and fro on soft0, and what an end learns when the other one is gone. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/base/time.h"
#include "common/rdma/device.h"
#include "server/replica/pulse.h"
#include "tests/lib/unit.h"

#define BEATS	    20000u
#define PATIENCE_NS (60 * NS_PER_S)

static struct error err;
static struct rdma_device *dev[2];
static struct pulse *end[2];

static int open_devices(void **state)
{
	struct rdma_options o = rdma_options_default();

	(void)state;
	o.device = "soft0";
	for (unsigned i = 0; i < 2; i++)
		assert_ok(rdma_device_open(&dev[i], &o, NULL, &err));
	return 0;
}

static int close_devices(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++)
		rdma_device_close(dev[i]);
	return 0;
}

UNIT_GROUP(open_devices, close_devices);

static int connect_ends(void **state)
{
	struct replica_pulse_offer offer[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		assert_ok(pulse_open(&end[i], dev[i], &offer[i], &err));
	for (unsigned i = 0; i < 2; i++)
		assert_ok(pulse_connect(end[i], &offer[1 - i], &err));
	return 0;
}

static int close_ends(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		pulse_close(end[i]);
		end[i] = NULL;
	}
	return 0;
}

static _Atomic bool over;

/* Answers the newest beat. */
static void *answer(void *arg)
{
	uint64_t heard = 0;

	(void)arg;
	while (!atomic_load(&over)) {
		const uint64_t n = pulse_heard(end[1]);

		assert_true(n >= heard);
		if (n > heard && pulse_say(end[1], n))
			heard = n;
		else
			time_give_way();
	}
	return NULL;
}

/* Some may be left out; none is made up, and the last one is answered. */
UNIT_TEST(beats_are_answered, connect_ends, close_ends)
{
	const uint64_t until_ns = time_now_ns() + PATIENCE_NS;
	uint64_t said = 0, answered = 0;
	pthread_t thread;

	atomic_store(&over, false);
	assert_ok(pthread_create(&thread, NULL, answer, NULL));
	while (answered < BEATS) {
		const uint64_t n = pulse_heard(end[0]);

		assert_true(time_now_ns() < until_ns);
		assert_in_range(n, answered, said);
		answered = n;
		if (said < BEATS && pulse_say(end[0], said + 1))
			said++;
		else
			time_give_way();
	}
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	assert_false(pulse_is_broken(end[0]) || pulse_is_broken(end[1]));
}

UNIT_TEST(an_end_that_is_gone_hears_nothing, connect_ends, close_ends)
{
	const uint64_t until_ns = time_now_ns() + PATIENCE_NS;

	while (!pulse_say(end[0], 1) || pulse_heard(end[1]) != 1)
		assert_true(time_now_ns() < until_ns);
	pulse_close(end[1]);
	end[1] = NULL;
	for (uint64_t n = 2; !pulse_is_broken(end[0]); n++) {
		assert_true(time_now_ns() < until_ns);
		pulse_say(end[0], n);
	}
	assert_false(pulse_say(end[0], 100));
	assert_int_equal(pulse_heard(end[0]), 0);
}

UNIT_TEST(nothing_is_said_before_it_is_connected)
{
	struct replica_pulse_offer offer, odd = { .addr = 4 };
	struct pulse *p;

	assert_ok(pulse_open(&p, dev[0], &offer, &err));
	assert_false(pulse_say(p, 1));
	assert_int_equal(pulse_heard(p), 0);
	assert_int_equal(pulse_connect(p, &odd, &err), -EPROTO);
	assert_false(pulse_say(p, 1));
	pulse_close(p);
}
