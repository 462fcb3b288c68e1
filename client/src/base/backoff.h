/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * How often something may be attempted again. The first attempt is free; each further one waits for
 * half of a step to all of it, by chance, so that many clients that lost one server do not come
 * back in step. Steps double from BACKOFF_FIRST_MS to BACKOFF_LAST_MS. An attempt counts whether it
 * went well or not: a server that takes connections and drops them is not hammered either. What
 * lasted for BACKOFF_CALM_MS was a success: steps start over, and the next attempt is free.
 *
 * One thread at a time. The clock and the chance are the caller's.
 */
#include <stdint.h>

#define BACKOFF_FIRST_MS 10u
#define BACKOFF_LAST_MS	 500u
#define BACKOFF_CALM_MS	 2000u /* more than the last step, or failures would forget themselves */

struct backoff {
	unsigned step_ms; /* the last one; 0: none yet */
	uint64_t not_before_ns; /* the next attempt */
	uint64_t ended_ns; /* the last attempt */
};

/* backoff_due - when the next attempt may start; @now or earlier: at once. */
uint64_t backoff_due(const struct backoff *b, uint64_t now);

/*
 * backoff_attempted - an attempt that started at @started_ns ended at @ended_ns, well or not.
 * @chance: any number, at random.
 */
void backoff_attempted(struct backoff *b, uint64_t started_ns, uint64_t ended_ns, uint64_t chance);

/* backoff_at_most - steps are no longer than @step_ms: what is waited for ends soon. */
static inline void backoff_at_most(struct backoff *b, unsigned step_ms)
{
	const uint64_t latest_ns = b->ended_ns + step_ms * 1000000ull;

	if (b->step_ms > step_ms)
		b->step_ms = step_ms;
	if (b->not_before_ns > latest_ns)
		b->not_before_ns = latest_ns;
}

/* backoff_forget - it went well: the next attempt is free. */
static inline void backoff_forget(struct backoff *b)
{
	b->step_ms = 0;
}

/* backoff_sleep - until @until or @deadline (CLOCK_MONOTONIC), whichever comes first. */
void backoff_sleep(uint64_t until_ns, uint64_t deadline_ns);
