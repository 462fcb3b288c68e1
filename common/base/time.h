/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Clocks, sleeping, and what a spinning thread does between two looks. Nothing else in client,
 * server and common asks the kernel for the time, so that a test can have a clock of its own.
 * Any thread.
 */
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull

/* The kernel's calls. A test replaces them before other threads begin. */
struct time_table {
	int (*read)(clockid_t clock, struct timespec *now); /* clock_gettime() */
	int (*sleep)(clockid_t clock, int flags, const struct timespec *time,
		     struct timespec *left); /* clock_nanosleep() */
};

extern struct time_table time_table __attribute__((visibility("hidden")));

static inline uint64_t time_read_ns(clockid_t clock)
{
	struct timespec ts;

	time_table.read(clock, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* time_now_ns - CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t time_now_ns(void)
{
	return time_read_ns(CLOCK_MONOTONIC);
}

/* time_wall_ns - CLOCK_REALTIME in nanoseconds since 1970: 64 bits are enough until 2554. */
static inline uint64_t time_wall_ns(void)
{
	return time_read_ns(CLOCK_REALTIME);
}

/* time_wall_ms - the same in milliseconds that have passed, the unit of a record's expiry. */
static inline uint64_t time_wall_ms(void)
{
	return time_wall_ns() / NS_PER_MS;
}

/* time_cpu_ns - CPU time that this process has used, in nanoseconds. */
static inline uint64_t time_cpu_ns(void)
{
	return time_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* time_sleep_until - sleep until time_now_ns() would be @ns. */
void time_sleep_until(uint64_t ns);

/* time_sleep - sleep for @ns, or less where a signal is caught. */
void time_sleep(uint64_t ns);

/* time_relax - tell the core that this is a spin loop. */
static inline void time_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield" ::: "memory");
#endif
}

/*
 * time_yield - let others run that want this core, where that is cheap (time.c). Returns false
 * where it has been dear lately: nothing was done but time_relax(). A thread that waits for another
 * one soon sleeps then instead, or keeps it from running.
 */
bool time_yield(void);

/*
 * time_give_way - time_yield(), and where that does nothing sleep for a moment: for attempts that
 * are counted, and would else be over before the other one had run.
 */
void time_give_way(void);
