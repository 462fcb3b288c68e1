/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* How often the calls of fake devices were made, how long they take, and which of them fail. */
#include "tests/lib/fake_internal.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static void count_and_judge(enum fake_call call, unsigned *delay_us, int *error)
{
	struct fake_rule *r = &fake.rule[call];

	pthread_mutex_lock(&fake.lock);
	r->calls++;
	*delay_us = r->delay_us;
	*error = 0;
	if (r->error && (r->calls == r->first || (r->calls > r->first && r->every &&
						  (r->calls - r->first) % r->every == 0)))
		*error = r->error;
	r->failed += *error != 0;
	pthread_mutex_unlock(&fake.lock);
}

int fake_begin(enum fake_call call)
{
	unsigned delay_us;
	int error;

	count_and_judge(call, &delay_us, &error);
	if (delay_us)
		nanosleep(&(struct timespec){ .tv_sec = delay_us / 1000000,
					      .tv_nsec = delay_us % 1000000 * 1000 },
			  NULL);
	errno = error;
	return error;
}

void fake_reset(void)
{
	pthread_mutex_lock(&fake.lock);
	fake.devices = fake.netdevs = 0;
	memset(fake.rule, 0, sizeof(fake.rule));
	memset(fake.vector_queues, 0, sizeof(fake.vector_queues));
	pthread_mutex_unlock(&fake.lock);
}

unsigned fake_calls(const char *call)
{
	unsigned n;

	pthread_mutex_lock(&fake.lock);
	n = fake_call_named(call)->calls;
	pthread_mutex_unlock(&fake.lock);
	return n;
}

unsigned fake_failed(const char *call)
{
	unsigned n;

	pthread_mutex_lock(&fake.lock);
	n = fake_call_named(call)->failed;
	pthread_mutex_unlock(&fake.lock);
	return n;
}

int fake_modified(const char *call, struct ibv_qp_attr *attr)
{
	int mask;

	pthread_mutex_lock(&fake.lock);
	*attr = fake_call_named(call)->attr;
	mask = fake_call_named(call)->mask;
	pthread_mutex_unlock(&fake.lock);
	return mask;
}

unsigned fake_vector_queues(unsigned vector)
{
	unsigned n;

	pthread_mutex_lock(&fake.lock);
	n = vector < FAKE_VECTORS ? fake.vector_queues[vector] : 0;
	pthread_mutex_unlock(&fake.lock);
	return n;
}
