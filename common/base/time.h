/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Clocks and the pause of a spinning thread. Any thread. */
#include <stdint.h>
#include <time.h>

#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull

/* time_now_ns - CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t time_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* time_wall_ns - CLOCK_REALTIME in nanoseconds since 1970: 64 bits are enough until 2554. */
static inline uint64_t time_wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* time_wall_ms - the same in milliseconds that have passed, the unit of a record's expiry. */
static inline uint64_t time_wall_ms(void)
{
	return time_wall_ns() / NS_PER_MS;
}

/* time_relax - tell the core that this is a spin loop. */
static inline void time_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield" ::: "memory");
#endif
}
