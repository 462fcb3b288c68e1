/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A server that was deposed and does not know it is READ as well as any: its processor has no part
 * in that. Its root page says until when nobody takes over, by its own clock, and what that clock
 * was a while ago. What is missing is how long ago.
 *
 * A READ posted at p, by our clock, saw renewal n; a later one sees renewal n + 2 or a later one,
 * with clock c. Renewal n + 1 was not there when the first READ looked, so it was stored after p,
 * and the clock was read for n + 2 after that: c was read after p, and at our time t the server's
 * clock shows c + (t - p)(1 + rho) at most. It has not reached `until` for as long as that is
 * less. One change proves nothing: the server may have read its clock for n + 1 long before p,
 * and have been stopped before it stored it.
 *
 * Counts are compared modulo 2^16. Where more renewals than that lie between two looks, they look
 * fewer, never more.
 *
 * A value is judged by a clock read after its READ has completed. Before, the same could be said of
 * a value that was READ later than the deadline.
 */
#include "client/src/know/fresh.h"

#include <string.h>

#include "common/base/mutant.h"
#include "common/layout/lease_word.h"

void fresh_begin(struct fresh *f, uint32_t rho_ppm)
{
	f->rho_ppm = rho_ppm;
	f->looks = 0;
	atomic_store_explicit(&f->deadline_ns, 0, memory_order_relaxed); /* see fresh_at() */
}

/* The latest look that @count proves to have been posted before its clock was read. */
static const struct fresh_look *proven(const struct fresh *f, uint16_t count)
{
	const unsigned least = MUTANT(fresh_one_change) ? 1 : 2;

	for (unsigned i = 0; i < f->looks; i++)
		if ((uint16_t)(count - f->look[i].count) >= least)
			return &f->look[i];
	return NULL;
}

/* How long our clock takes, at least, while theirs counts @ns. */
static uint64_t shortest(const struct fresh *f, uint64_t ns)
{
	return MUTANT(fresh_no_drift)
		       ? ns
		       : (uint64_t)((__uint128_t)ns * 1000000 / (1000000 + f->rho_ppm));
}

/* Only the newest look at each count: it has the latest time. */
static void remember(struct fresh *f, uint64_t posted_ns, uint16_t count)
{
	if (!f->looks || f->look[0].count != count) {
		memmove(&f->look[1], &f->look[0], (FRESH_LOOKS - 1) * sizeof(*f->look));
		f->looks += f->looks < FRESH_LOOKS;
	}
	f->look[0] = (struct fresh_look){ posted_ns, count };
}

void fresh_look(struct fresh *f, uint64_t posted_ns, uint64_t clock, uint64_t until)
{
	const struct fresh_look *since = proven(f, lease_clock_count(clock));
	const uint64_t clock_us = lease_clock_us(clock);

	if (since && until > clock_us) {
		const uint64_t deadline = since->posted_ns + shortest(f, (until - clock_us) * 1000);

		/* relaxed: this thread stores it */
		if (deadline > atomic_load_explicit(&f->deadline_ns, memory_order_relaxed))
			atomic_store_explicit(&f->deadline_ns, deadline, memory_order_relaxed);
	}
	remember(f, posted_ns, lease_clock_count(clock));
}
