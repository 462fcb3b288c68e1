/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-bw-lat/slices.h"

#include <string.h>

void slices_clear(struct slices *s)
{
	memset(s, 0, sizeof(*s));
	s->shift = SLICES_SHIFT_MIN;
}

void slices_coarser(struct slices *s)
{
	for (unsigned i = 0; i < SLICES / 2; i++)
		s->count[i] = s->count[2 * i] + s->count[2 * i + 1];
	memset(&s->count[SLICES / 2], 0, SLICES / 2 * sizeof(s->count[0]));
	s->shift++;
}

void slices_merge(struct slices *to, const struct slices *from)
{
	while (to->shift < from->shift)
		slices_coarser(to);
	for (unsigned i = 0; i < SLICES; i++)
		to->count[i >> (to->shift - from->shift)] += from->count[i];
}

double slices_peak(const struct slices *s, uint64_t duration_ns)
{
	struct slices at = *s;
	uint64_t all = 0, most = 0;
	double average, peak;

	for (unsigned i = 0; i < SLICES; i++)
		all += at.count[i];
	if (!duration_ns || !all)
		return 0;
	average = (double)all / (double)duration_ns;
	while (at.shift < 63 && (1ull << at.shift < duration_ns / SLICES_OF_A_RUN ||
				 average * (double)(1ull << at.shift) < SLICES_OPS_MIN))
		slices_coarser(&at);
	for (unsigned i = 0; i < SLICES && (i + 1ull) << at.shift <= duration_ns; i++)
		most = at.count[i] > most ? at.count[i] : most;
	peak = (double)most / (double)(1ull << at.shift);
	return (peak > average ? peak : average) * 1e9;
}
