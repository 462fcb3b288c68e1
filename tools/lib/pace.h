/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The schedule of an open loop: operations have intended starts at one interval, dealt to the
 * threads in turns. What is late is started when there is room and still counts from its intended
 * start: users that come meanwhile do not wait for each other, and a server that stands still is
 * seen by all that should have started then, not by the one operation that it kept (coordinated
 * omission). Time is in any unit, ns or ticks. Pure; it does not drift.
 */
#include <stdbool.h>
#include <stdint.h>

struct pace {
	uint64_t start; /* of the first operation of all */
	double interval; /* between two of all threads; 0: a closed loop, which has no schedule */
	unsigned number, threads; /* which thread this is, of how many */
	uint64_t next; /* of this thread's operations, the one that is to be started */
	uint64_t count; /* how many it has */
};

/* pace_share - of @all operations those of thread @number. */
static inline uint64_t pace_share(uint64_t all, unsigned number, unsigned threads)
{
	return all / threads + (number < all % threads);
}

/* pace_intended - when this thread's operation @i was to start. */
static inline uint64_t pace_intended(const struct pace *p, uint64_t i)
{
	return p->start + (uint64_t)((double)(i * p->threads + p->number) * p->interval + 0.5);
}

/* pace_due - whether there is one that should have been started by @now. */
static inline bool pace_due(const struct pace *p, uint64_t now)
{
	return p->next < p->count && pace_intended(p, p->next) <= now;
}

/* pace_behind - how many from the next one on should have been started by @now. */
static inline uint64_t pace_behind(const struct pace *p, uint64_t now)
{
	uint64_t i;
	double n;

	if (!pace_due(p, now))
		return 0;
	n = ((double)(now - p->start) / p->interval - p->number) / p->threads;
	if (n - 1 >= (double)p->count)
		return p->count - p->next;
	i = n > 1 ? (uint64_t)n - 1 : 0; /* rounding may be off by one */
	if (i < p->next)
		i = p->next;
	while (i < p->count && pace_intended(p, i) <= now)
		i++;
	return i - p->next;
}

/* pace_take - it is started; returns since when it counts. */
static inline uint64_t pace_take(struct pace *p)
{
	return pace_intended(p, p->next++);
}
