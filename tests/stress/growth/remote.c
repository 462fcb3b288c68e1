/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Remote readers of stress: single gets, batches, or scans; connected for a whole phase or for a
 * few dozen milliseconds at a time.
 */
#include <stdlib.h>
#include <time.h>

#include "tests/stress/growth/growth.h"

#define VISIT_MS_MIN 20u /* of those that come and go */
#define VISIT_MS_ALL 100u

static uint32_t step; /* that this process is at */
static uint32_t leave; /* that it has followed */

static bool still(const struct visitor *r)
{
	return atomic_load(&r->s->step) == step && !atomic_load(&r->s->model->any_wrong);
}

/* Work until the step, or this visit, ends. */
static void visit(struct visitor *r)
{
	uint64_t end = UINT64_MAX;

	if ((step & 3) == STEP_VERIFY) {
		remote_verify(r);
		return;
	}
	if (!r->seat->stays || !atomic_load(&r->s->stay))
		end = time_now_ns() +
		      (VISIT_MS_MIN + model_random(&r->random) % VISIT_MS_ALL) * NS_PER_MS;
	do {
		if (r->seat->role == ROLE_SCAN)
			remote_scan(r, step);
		else if (r->seat->role == ROLE_MGET)
			visitor_get_many(r);
		else
			visitor_get(r, growth_pick(r->s, &r->random));
		if (atomic_load(&r->s->leave) != leave)
			break;
	} while (still(r) && time_now_ns() < end);
	leave = atomic_load(&r->s->leave);
}

static void do_step(struct visitor *r)
{
	if ((step & 3) == STEP_RUN) {
		atomic_store(&r->seat->counts.phase_work, 0);
		while (still(r))
			visitor_session(r, visit);
	} else if ((step & 3) == STEP_VERIFY) {
		visitor_session(r, visit);
	}
}

void growth_remote(struct shared *s, unsigned number)
{
	const struct timespec pause = { 0, NS_PER_MS };
	struct visitor r = { 0 };

	visitor_enter(&r, s, number, 0);
	do {
		while (atomic_load(&s->step) == step)
			nanosleep(&pause, NULL);
		step = atomic_load(&s->step);
		do_step(&r);
		atomic_store(&r.seat->at, step);
	} while ((step & 3) != STEP_END);
	exit(0);
}
