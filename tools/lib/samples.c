/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/samples.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

void samples_sort(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare);
}

double samples_median(const double *sorted, size_t n)
{
	return n ? (sorted[(n - 1) / 2] + sorted[n / 2]) / 2 : 0;
}

struct spread samples_spread(double *v, size_t n)
{
	if (n == 0)
		return (struct spread){ 0 };
	samples_sort(v, n);
	return (struct spread){ samples_median(v, n), v[0], v[n - 1] };
}

struct spread samples_ratios(const double *a, const double *b, double *ratio, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ratio[i] = b[i] > 0 ? a[i] / b[i] : 0;
	return samples_spread(ratio, n);
}

uint64_t bench_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}
