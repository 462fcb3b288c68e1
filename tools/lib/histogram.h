/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A log-linear histogram of nanoseconds: HISTOGRAM_STEPS steps an octave, so a quantile is right to
 * 1/HISTOGRAM_STEPS of itself; beyond about 18 minutes everything is in the last step. One thread
 * adds; plain words, so that it can lie in shared memory and be read when that thread has said that
 * it is through.
 */
#include <stdint.h>

#define HISTOGRAM_STEPS	  64u /* a power of two */
#define HISTOGRAM_OCTAVES 34u
#define HISTOGRAM_CELLS	  (HISTOGRAM_STEPS * (HISTOGRAM_OCTAVES + 1))

struct histogram {
	uint64_t count;
	uint64_t max_ns;
	uint64_t cell[HISTOGRAM_CELLS];
};

static inline unsigned histogram_cell(uint64_t ns)
{
	unsigned octave, cell;

	if (ns < HISTOGRAM_STEPS)
		return (unsigned)ns;
	octave = 63u - (unsigned)__builtin_clzll(ns) - (unsigned)__builtin_ctz(HISTOGRAM_STEPS);
	cell = (octave + 1) * HISTOGRAM_STEPS + (unsigned)(ns >> octave) % HISTOGRAM_STEPS;
	return cell < HISTOGRAM_CELLS ? cell : HISTOGRAM_CELLS - 1;
}

static inline void histogram_add_many(struct histogram *h, uint64_t ns, uint64_t count)
{
	h->count += count;
	h->cell[histogram_cell(ns)] += count;
	if (ns > h->max_ns)
		h->max_ns = ns;
}

static inline void histogram_add(struct histogram *h, uint64_t ns)
{
	histogram_add_many(h, ns, 1);
}

/* histogram_merge - add all of @from to @to. */
void histogram_merge(struct histogram *to, const struct histogram *from);

/* histogram_at - upper end of the step with quantile @q (0 to 1), nearest rank; 0: empty. */
uint64_t histogram_at(const struct histogram *h, double q);

/* histogram_end - the greatest value of a cell. */
uint64_t histogram_end(unsigned cell);
