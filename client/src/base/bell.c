/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "client/src/base/bell.h"

#include <time.h>

#include "common/base/time.h"

void bell_init(struct bell *b)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&b->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&b->wake, &attr);
	pthread_condattr_destroy(&attr);
	b->rung = b->stopped = false;
}

void bell_destroy(struct bell *b)
{
	pthread_cond_destroy(&b->wake);
	pthread_mutex_destroy(&b->lock);
}

void bell_ring(struct bell *b)
{
	pthread_mutex_lock(&b->lock);
	b->rung = true;
	pthread_cond_signal(&b->wake);
	pthread_mutex_unlock(&b->lock);
}

void bell_stop(struct bell *b)
{
	pthread_mutex_lock(&b->lock);
	b->stopped = true;
	pthread_cond_signal(&b->wake);
	pthread_mutex_unlock(&b->lock);
}

bool bell_stopped(struct bell *b)
{
	bool stopped;

	pthread_mutex_lock(&b->lock);
	stopped = b->stopped;
	pthread_mutex_unlock(&b->lock);
	return stopped;
}

bool bell_wait(struct bell *b, uint64_t soonest_ns, uint64_t until_ns)
{
	struct timespec until;
	uint64_t end_ns;
	bool stopped;

	pthread_mutex_lock(&b->lock);
	while (!b->stopped) {
		end_ns = b->rung ? soonest_ns : until_ns;
		if (time_now_ns() >= end_ns)
			break;
		until = (struct timespec){ (time_t)(end_ns / NS_PER_S), (long)(end_ns % NS_PER_S) };
		pthread_cond_timedwait(&b->wake, &b->lock, &until);
	}
	b->rung = false;
	stopped = b->stopped;
	pthread_mutex_unlock(&b->lock);
	return !stopped;
}
