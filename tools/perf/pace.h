/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The schedule of an open loop (--rate): operations have intended starts at one interval, dealt to
 * the threads in turns. What is late is started when there is room and still counts from its
 * intended start: users who come meanwhile do not wait for each other, and a server that stands
 * still is seen by all that should have started then, not by the one operation that it kept.
 */
#include <stdbool.h>
#include <stdint.h>

struct pace {
	uint64_t start; /* of the first operation of all, in ticks */
	double interval; /* ticks between two of all threads */
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
	return p->start + (uint64_t)((double)(i * p->threads + p->number) * p->interval);
}

/* pace_due - whether there is one that should have been started by @now. */
static inline bool pace_due(const struct pace *p, uint64_t now)
{
	return p->next < p->count && pace_intended(p, p->next) <= now;
}

/* pace_behind - how many should have been started by @now, and were not. */
static inline uint64_t pace_behind(const struct pace *p, uint64_t now)
{
	uint64_t low = p->next, high = p->count > p->next ? p->count : p->next;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (pace_intended(p, middle) <= now)
			low = middle + 1;
		else
			high = middle;
	}
	return low - p->next;
}

/* pace_take - it is started; returns since when it counts. */
static inline uint64_t pace_take(struct pace *p)
{
	return pace_intended(p, p->next++);
}
