/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The cheapest clock that there is: the CPU's time stamp counter where that counts at one rate in
 * every state and on every core (x86 with constant_tsc and nonstop_tsc), else CLOCK_MONOTONIC in
 * nanoseconds. ticks_init() comes first, before there are threads.
 */
#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"

struct ticks {
	bool cycles; /* a tick is a cycle of the counter */
	double per_ns;
	uint64_t ns_shifted; /* nanoseconds of a tick, times 2^32 */
};

extern struct ticks ticks;

/* ticks_init - find out which clock, and its rate: 20 ms where it is the counter. */
void ticks_init(void);

/* ticks_invariant - whether @flags, of a line "flags" in /proc/cpuinfo, say what is wanted. */
bool ticks_invariant(const char *flags);

static inline uint64_t ticks_now(void)
{
#if defined(__x86_64__)
	if (ticks.cycles)
		return __builtin_ia32_rdtsc();
#endif
	return time_now_ns();
}

/* ticks_ns - how long so many take. */
static inline uint64_t ticks_ns(uint64_t count)
{
	return (uint64_t)((unsigned __int128)count * ticks.ns_shifted >> 32);
}

/* ticks_of_ns - how many there are in that time. */
static inline uint64_t ticks_of_ns(double ns)
{
	return (uint64_t)(ns * ticks.per_ns);
}
