/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * How long threads wait for a core: one on each core sleeps for a moment, again and again, and sees
 * how late it wakes. A server's clock that is told late is no fault of its own.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "common/base/time.h"
#include "tests/stress/differ/differ.h"

#define CORES_MAX 64u
#define NAP_NS	  (2 * NS_PER_MS)
#define SECONDS	  8u /* that are looked back on */

static _Atomic uint64_t worst_ms[SECONDS + 2]; /* of each second, round and round */
static _Atomic uint64_t second_of[SECONDS + 2];

static void note(uint64_t now, uint64_t ms)
{
	unsigned i = (unsigned)(now / NS_PER_S % (SECONDS + 2));

	/* relaxed, as all here: figures; two threads of one moment may lose the smaller */
	if (atomic_exchange_explicit(&second_of[i], now / NS_PER_S, memory_order_relaxed) !=
	    now / NS_PER_S)
		atomic_store_explicit(&worst_ms[i], 0, memory_order_relaxed);
	if (ms > atomic_load_explicit(&worst_ms[i], memory_order_relaxed))
		atomic_store_explicit(&worst_ms[i], ms, memory_order_relaxed);
}

static void *watch(void *arg)
{
	const struct timespec nap = { 0, NAP_NS };

	for (;;) {
		uint64_t start = time_now_ns(), end;

		nanosleep(&nap, NULL);
		end = time_now_ns();
		note(end, (end - start - NAP_NS) / NS_PER_MS);
	}
	return NULL;
}

int stall_start(void)
{
	cpu_set_t all, one;

	if (sched_getaffinity(0, sizeof(all), &all))
		return -1;
	for (unsigned cpu = 0, n = 0; cpu < CPU_SETSIZE && n < CORES_MAX; cpu++) {
		pthread_t thread;

		if (!CPU_ISSET(cpu, &all))
			continue;
		if (pthread_create(&thread, NULL, watch, NULL))
			return -1;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		pthread_setaffinity_np(thread, sizeof(one), &one);
		pthread_detach(thread);
		n++;
	}
	return 0;
}

uint64_t stall_ms(void)
{
	uint64_t second = time_now_ns() / NS_PER_S, worst = 0;

	for (unsigned i = 0; i < SECONDS + 2; i++) {
		uint64_t ms = atomic_load_explicit(&worst_ms[i], memory_order_relaxed);

		if (atomic_load_explicit(&second_of[i], memory_order_relaxed) + SECONDS >= second &&
		    ms > worst)
			worst = ms;
	}
	return worst;
}
