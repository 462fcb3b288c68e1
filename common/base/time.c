/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/base/time.h"

#include <errno.h>

struct time_table time_table = { .read = clock_gettime, .sleep = clock_nanosleep };

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
