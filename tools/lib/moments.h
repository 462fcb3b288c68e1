/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Count, least, greatest, mean and deviation of a stream, without keeping it. Sums are of
 * differences to the first value, in floating point: squares of the values themselves would lose
 * a deviation that is small beside the mean. One thread adds; moments_merge() joins two streams
 * (Chan, Golub and LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample
 * Variances, 1979).
 */
#include <math.h>
#include <stdint.h>

struct moments {
	uint64_t count;
	double first, min, max;
	double sum, squares; /* of value - first */
};

/* moments_add_many - @count times the same value, once at least. */
static inline void moments_add_many(struct moments *m, double value, uint64_t count)
{
	double d;

	if (m->count == 0)
		m->first = m->min = m->max = value;
	m->count += count;
	d = value - m->first;
	m->sum += d * (double)count;
	m->squares += d * d * (double)count;
	m->min = value < m->min ? value : m->min;
	m->max = value > m->max ? value : m->max;
}

static inline void moments_add(struct moments *m, double value)
{
	moments_add_many(m, value, 1);
}

/* moments_mean - 0: there is no value. */
static inline double moments_mean(const struct moments *m)
{
	return m->count ? m->first + m->sum / (double)m->count : 0;
}

/* moments_spread - the sum of squares of the differences to the mean. */
static inline double moments_spread(const struct moments *m)
{
	double s = m->count ? m->squares - m->sum * m->sum / (double)m->count : 0;

	return s > 0 ? s : 0;
}

/* moments_stdev - of these values, as of a whole population; 0 of fewer than two. */
static inline double moments_stdev(const struct moments *m)
{
	return m->count > 1 ? sqrt(moments_spread(m) / (double)m->count) : 0;
}

/* moments_merge - @to becomes both. */
static inline void moments_merge(struct moments *to, const struct moments *from)
{
	double n = (double)to->count, k = (double)from->count, apart, mean, spread;

	if (!from->count)
		return;
	if (!to->count) {
		*to = *from;
		return;
	}
	apart = moments_mean(from) - moments_mean(to);
	mean = moments_mean(to) + apart * k / (n + k);
	spread = moments_spread(to) + moments_spread(from) + apart * apart * n * k / (n + k);
	to->count += from->count;
	to->first = mean;
	to->sum = 0;
	to->squares = spread;
	to->min = from->min < to->min ? from->min : to->min;
	to->max = from->max > to->max ? from->max : to->max;
}
