/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/histogram.h"

void histogram_merge(struct histogram *to, const struct histogram *from)
{
	to->count += from->count;
	if (from->max_ns > to->max_ns)
		to->max_ns = from->max_ns;
	for (unsigned i = 0; i < HISTOGRAM_CELLS; i++)
		to->cell[i] += from->cell[i];
}

uint64_t histogram_end(unsigned cell)
{
	unsigned octave = cell / HISTOGRAM_STEPS;
	uint64_t step = cell % HISTOGRAM_STEPS;

	if (octave == 0)
		return step;
	return ((HISTOGRAM_STEPS + step + 1) << (octave - 1)) - 1;
}

uint64_t histogram_at(const struct histogram *h, double q)
{
	uint64_t rank, sum = 0;

	if (!h->count)
		return 0;
	rank = (uint64_t)(q * (double)(h->count - 1) + 0.5);
	for (unsigned i = 0; i < HISTOGRAM_CELLS; i++) {
		sum += h->cell[i];
		if (sum > rank)
			return histogram_end(i) < h->max_ns ? histogram_end(i) : h->max_ns;
	}
	return h->max_ns;
}
