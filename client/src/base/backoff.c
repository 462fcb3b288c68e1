/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "client/src/base/backoff.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>

#include "common/base/time.h"

static_assert(BACKOFF_CALM_MS > BACKOFF_LAST_MS, "failures would forget themselves");

static bool calm(const struct backoff *b, uint64_t now)
{
	return !b->step_ms || now - b->ended_ns >= BACKOFF_CALM_MS * NS_PER_MS;
}

uint64_t backoff_due(const struct backoff *b, uint64_t now)
{
	return calm(b, now) ? now : b->not_before_ns;
}

void backoff_attempted(struct backoff *b, uint64_t started_ns, uint64_t ended_ns, uint64_t chance)
{
	uint64_t half_ns;

	if (calm(b, started_ns))
		b->step_ms = BACKOFF_FIRST_MS;
	else
		b->step_ms = 2 * b->step_ms < BACKOFF_LAST_MS ? 2 * b->step_ms : BACKOFF_LAST_MS;
	half_ns = b->step_ms * NS_PER_MS / 2;
	b->not_before_ns = ended_ns + half_ns + chance % (half_ns + 1);
	b->ended_ns = ended_ns;
}

void backoff_sleep(uint64_t until_ns, uint64_t deadline_ns)
{
	time_sleep_until(until_ns < deadline_ns ? until_ns : deadline_ns);
}
