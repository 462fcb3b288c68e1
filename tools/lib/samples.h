/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Rounds: medians, spreads and ratios. */
#include <stddef.h>
#include <stdint.h>

/* What is said of samples; zeroes where there are none. */
struct spread {
	double median, min, max;
};

/* samples_sort - ascending, in place. */
void samples_sort(double *v, size_t n);

/* samples_median - of sorted samples; of an even number the mean of the two in the middle. */
double samples_median(const double *sorted, size_t n);

/* samples_spread - of samples in any order, which are sorted in place. */
struct spread samples_spread(double *v, size_t n);

/*
 * samples_ratios - @a / @b, round by round into @ratio: what disturbs a round disturbs both of its
 * sides. 0 where @b is. Returns their spread; @ratio is sorted then, @a and @b are left alone.
 */
struct spread samples_ratios(const double *a, const double *b, double *ratio, size_t n);

/* bench_random - splitmix64: the same keys and addresses for a seed. */
uint64_t bench_random(uint64_t *state);
