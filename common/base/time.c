/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * GIVING WAY. On a small machine a thread that spins may hold the core of the one that it waits
 * for, so it yields. One that spins as well yields back within microseconds. A thread that
 * computes does not: it keeps the core for a slice of milliseconds, however low its priority, as
 * the yield put us behind it. Two that wait for each other then take turns at being away. The
 * clock tells the two apart. After a yield that took long, the thread does not yield for a while.
 * But one alone tells nothing: an interrupt, or the machine below this one, takes as long now and
 * then, and so does a thread that computes a little and sleeps; and a thread that stops yielding
 * because of it makes the yields of all others long. So it takes two that follow each other soon:
 * where they are as long as a slice, within twice the pause; where they are shorter, the second
 * within four times its own length, so that they take up a fifth of the time.
 */
#include "common/base/time.h"

#include <errno.h>
#include <sched.h>

#define YIELD_DEAR_NS  500000u /* longer than one that spins stays away; less than a slice */
#define YIELD_PAUSE_NS (200 * NS_PER_MS) /* after 4 ms, a slice of a kernel of 250 Hz: 2 % */
#define YIELD_SLICE_NS (2 * NS_PER_MS) /* a thread that computes without end keeps it for longer */
#define YIELD_TIMES    4u /* a shorter one's length: so soon after another one it is too many */

#define GIVE_WAY_NS 50000u

struct time_table time_table = { .read = clock_gettime, .sleep = clock_nanosleep };

static _Thread_local uint64_t yield_dear_until_ns, yield_long_ended_ns;

static int sleep_for(int flags, uint64_t ns)
{
	const struct timespec ts = { (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };

	return time_table.sleep(CLOCK_MONOTONIC, flags, &ts, NULL);
}

void time_sleep_until(uint64_t ns)
{
	while (sleep_for(TIMER_ABSTIME, ns) == EINTR)
		;
}

void time_sleep(uint64_t ns)
{
	sleep_for(0, ns);
}

void time_give_way(void)
{
	if (!time_yield())
		time_sleep(GIVE_WAY_NS);
}

/* How soon after another one a yield of that length is one too many. */
static uint64_t soon_ns(uint64_t took_ns)
{
	return took_ns >= YIELD_SLICE_NS ? 2 * YIELD_PAUSE_NS : YIELD_TIMES * took_ns;
}

bool time_yield(void)
{
	uint64_t before = time_now_ns(), after;

	if (before < yield_dear_until_ns) {
		time_relax();
		return false;
	}
	sched_yield();
	after = time_now_ns();
	if (after - before >= YIELD_DEAR_NS) {
		if (before - yield_long_ended_ns <= soon_ns(after - before)) {
			yield_dear_until_ns = after + YIELD_PAUSE_NS;
			yield_long_ended_ns = yield_dear_until_ns; /* one more, then, is enough */
		} else {
			yield_long_ended_ns = after;
		}
	}
	return true;
}
