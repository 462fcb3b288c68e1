/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/zipf.h"

#include <math.h>

/* What follows from n and zeta. */
static void settle(struct zipf *z)
{
	unsigned bits = 1;

	/* of fewer than three only the first two are drawn, and this may be 0 / 0 */
	z->eta = z->n < 3 ? 0
			  : (1 - pow(2 / (double)z->n, 1 - z->theta)) / (1 - z->zeta_2 / z->zeta);
	while (bits < 63 && 1ull << bits < z->n)
		bits++;
	z->mask = (1ull << bits) - 1;
	z->shift = bits > 1 ? bits / 2 : 1;
}

void zipf_init(struct zipf *z, uint64_t n, double theta)
{
	z->n = n;
	z->theta = theta;
	z->alpha = 1 / (1 - theta);
	z->zeta = 0;
	/* small ones first: they would be lost after large ones */
	for (uint64_t r = n; r > 0; r--)
		z->zeta += pow((double)r, -theta);
	z->zeta_2 = 1 + pow(0.5, theta);
	settle(z);
}

void zipf_grow(struct zipf *z, uint64_t n)
{
	for (uint64_t r = z->n + 1; r <= n; r++)
		z->zeta += pow((double)r, -z->theta);
	z->n = n;
	settle(z);
}

uint64_t zipf_rank(const struct zipf *z, uint64_t random)
{
	double u = (double)(random >> 11) * 0x1p-53; /* 0 to below 1 */
	double uz = u * z->zeta;
	uint64_t rank;

	if (uz < 1)
		return 0;
	if (uz < z->zeta_2 || z->n < 3)
		return 1;
	rank = (uint64_t)((double)z->n * pow(z->eta * u - z->eta + 1, z->alpha));
	return rank < z->n ? rank : z->n - 1;
}

double zipf_probability(const struct zipf *z, uint64_t rank)
{
	return pow((double)(rank + 1), -z->theta) / z->zeta;
}

uint64_t zipf_scatter(const struct zipf *z, uint64_t rank)
{
	uint64_t x = rank;

	/* each step is one to one on 0 to mask; what lies after n goes on until it does not */
	do {
		x = (x + 0x632be59bd9b4e019ull) & z->mask;
		x = x * 0x9e3779b97f4a7c15ull & z->mask;
		x ^= x >> z->shift;
		x = x * 0xbf58476d1ce4e5b9ull & z->mask;
		x ^= x >> z->shift;
	} while (x >= z->n);
	return x;
}
