/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * When operations completed, in slices of one length: for the fastest slice of a run. The length is
 * a power of two of nanoseconds and doubles when the slices are used up, so that it takes one array
 * for runs of any length. One thread adds.
 */
#include <stdint.h>

#define SLICES		 512u
#define SLICES_SHIFT_MIN 14u /* 16 us */
#define SLICES_OPS_MIN	 1000u /* of a slice that is looked at, on average */
#define SLICES_OF_A_RUN	 100u /* it is no shorter than this part of the run */

struct slices {
	unsigned shift;
	uint64_t count[SLICES];
};

void slices_clear(struct slices *s);

/* slices_coarser - slices twice as long. */
void slices_coarser(struct slices *s);

/* slices_add - @count have completed @at_ns into the run. */
static inline void slices_add(struct slices *s, uint64_t at_ns, uint64_t count)
{
	while (at_ns >> s->shift >= SLICES)
		slices_coarser(s);
	s->count[at_ns >> s->shift] += count;
}

/* slices_merge - add those of another thread. */
void slices_merge(struct slices *to, const struct slices *from);

/*
 * slices_peak - completions per second in the fastest slice that lies within @duration_ns, where a
 * slice is about 1/SLICES_OF_A_RUN of it and has SLICES_OPS_MIN operations or more on average.
 * Where the run has no such slice it is one slice, and this is its average.
 */
double slices_peak(const struct slices *s, uint64_t duration_ns);
