/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A clock of the test's, for all threads of its program: the kernel's, set ahead by as much as the
 * test says, or one that stands still. So a test waits for no lease and no time to live, and none
 * passes before the test wants it.
 *
 * A thread that waits in the kernel, for a condition or a descriptor, waits by the kernel's clock.
 * So let the clock stand where only the test's own thread runs, and run where there are others.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"

static struct {
	_Atomic bool stands;
	_Atomic uint64_t now_ns, wall_ns; /* where it stands; else what is added */
} fake_clock;

static inline int fake_clock_read(clockid_t clock, struct timespec *now)
{
	uint64_t ns =
		atomic_load(clock == CLOCK_REALTIME ? &fake_clock.wall_ns : &fake_clock.now_ns);
	int rc = atomic_load(&fake_clock.stands) ? 0 : clock_gettime(clock, now);

	if (atomic_load(&fake_clock.stands))
		*now = (struct timespec){ 0 };
	ns += (uint64_t)now->tv_nsec;
	now->tv_sec += (time_t)(ns / NS_PER_S);
	now->tv_nsec = (long)(ns % NS_PER_S);
	return rc;
}

/* A thread that sleeps while the clock stands sets it ahead instead. */
static inline int fake_clock_sleep(clockid_t clock, int flags, const struct timespec *time,
				   struct timespec *left)
{
	uint64_t ns = (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec;

	if (!atomic_load(&fake_clock.stands))
		return clock_nanosleep(clock, flags, time, left);
	if (flags & TIMER_ABSTIME)
		ns = ns > time_now_ns() ? ns - time_now_ns() : 0;
	atomic_fetch_add(&fake_clock.now_ns, ns);
	atomic_fetch_add(&fake_clock.wall_ns, ns);
	return 0;
}

/* fake_clock_begin - before other threads. @stands: it stands at some moment, or it runs. */
static inline void fake_clock_begin(bool stands)
{
	fake_clock.now_ns = stands ? 1000 * NS_PER_S : 0;
	fake_clock.wall_ns = stands ? 1700000000 * NS_PER_S : 0;
	fake_clock.stands = stands;
	time_table = (struct time_table){ fake_clock_read, fake_clock_sleep };
}

static inline void fake_clock_end(void)
{
	time_table = (struct time_table){ clock_gettime, clock_nanosleep };
}

/* fake_clock_ahead - set both clocks ahead; fake_clock_wall_ahead - as if somebody set the time. */
static inline void fake_clock_wall_ahead(uint64_t ms)
{
	atomic_fetch_add(&fake_clock.wall_ns, ms * NS_PER_MS);
}

static inline void fake_clock_ahead(uint64_t ms)
{
	atomic_fetch_add(&fake_clock.now_ns, ms * NS_PER_MS);
	fake_clock_wall_ahead(ms);
}
