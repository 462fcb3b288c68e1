/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * An open loop: operations have a time at which they are meant to start, whatever became of those
 * before. Their latency counts from there. A client that waits for a slow answer would otherwise
 * send fewer in that time, and the slow span would hardly show (coordinated omission). Pure.
 */
#include <stdint.h>

#include "common/base/time.h"

struct pace {
	uint64_t start_ns;
	double per_s; /* of all threads together; 0: a closed loop */
	unsigned thread, threads; /* they take turns */
};

/* pace_intended - when operation @i of this thread is meant to start. Does not drift. */
static inline uint64_t pace_intended(const struct pace *p, uint64_t i)
{
	double n = (double)i * p->threads + p->thread;

	return p->start_ns + (uint64_t)(n * (double)NS_PER_S / p->per_s);
}

/* pace_due - how many operations of this thread are meant to start before @end_ns. */
static inline uint64_t pace_due(const struct pace *p, uint64_t end_ns)
{
	double span, n;
	uint64_t i;

	if (end_ns <= p->start_ns)
		return 0;
	span = (double)(end_ns - p->start_ns);
	n = (span * p->per_s / (double)NS_PER_S - p->thread) / p->threads;
	i = n > 1 ? (uint64_t)n - 1 : 0; /* rounding may be off by one */
	while (pace_intended(p, i) < end_ns)
		i++;
	return i;
}
