/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Slabs that fell empty, on their way to another size class. memory/recut.c says why they wait, and
 * grace.c (HINTS) for whom; here clients are asked to drop hints, and the slabs are let go.
 */
#include "common/base/time.h"
#include "server/reclaim/reclaim_internal.h"

/* Returns whether slabs wait for clients that were asked to drop hints. */
static bool recut(struct reclaim *r, bool stop)
{
	uint64_t wanted = memory_recut_wanted(r->memory, grace_now(&r->grace)), passed;

	if (!wanted)
		return false;
	passed = stop ? wanted : grace_pass_hints(&r->grace, wanted);
	if (!memory_recut(r->memory, passed))
		return false;
	if (passed < r->asked) { /* grace.c says why nobody is asked again meanwhile */
		grace_urge_hints(&r->grace, r->asked);
		return true;
	}
	if (reclaim_short_at(r, time_now_ns()) || memory_slabs_few(r->memory)) {
		r->asked = wanted;
		grace_ask_hints(&r->grace, wanted);
	}
	return false;
}

void reclaim_recut(struct reclaim *r, bool stop)
{
	const bool behind = recut(r, stop);
	/* relaxed, both: this thread wrote them */
	const uint64_t before = atomic_load_explicit(&r->behind_asked, memory_order_relaxed);
	const uint64_t since_ns = atomic_load_explicit(&r->behind_ns, memory_order_relaxed);

	told_set(&r->behind_ns, &r->behind_asked, behind ? r->asked : 0,
		 before ? since_ns : time_now_ns());
}
