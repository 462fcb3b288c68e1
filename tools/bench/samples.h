/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Rounds and latencies: medians, percentiles. */
#include <stddef.h>
#include <stdint.h>

/* samples_sort - ascending, in place. */
void samples_sort(double *v, size_t n);

/* samples_at - the value at quantile @q (0 to 1) of sorted samples, nearest rank. */
double samples_at(const double *sorted, size_t n, double q);

/* samples_median - of sorted samples; of an even number the mean of the two in the middle. */
double samples_median(const double *sorted, size_t n);

/* bench_random - splitmix64: the same keys and addresses for a seed. */
uint64_t bench_random(uint64_t *state);
