/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Zipf's law: of n keys the one of rank r (from 0) is asked for with a probability in proportion to
 * 1 / (r + 1)^theta.
 *
 * Ranks are drawn by the method of Gray, Sundaresan, Englert, Baclawski and Weinberger (Quickly
 * Generating Billion-Record Synthetic Databases, SIGMOD 1994), as YCSB does: exact for the first
 * two ranks, an inverse of the integral for the rest. They are scattered over the keys, as by
 * YCSB's "scrambled" generator, but one to one: a hash would let ranks meet on a key, so that a
 * third of the keys are never asked for and fewer are to be remembered than the law says.
 */
#include <stdint.h>

struct zipf {
	uint64_t n;
	double theta, alpha, eta;
	double zeta; /* of n: the sum of all 1 / r^theta */
	double zeta_2; /* of the first two */
	uint64_t mask; /* of the scatter: a power of two from n on, less one */
	unsigned shift;
};

/* zipf_init - @n at least 1, @theta above 0 and below 1. Takes time in proportion to @n. */
void zipf_init(struct zipf *z, uint64_t n, double theta);

/*
 * zipf_grow - of @n keys from now on, more than before: in proportion to how many more. The scatter
 * is of @n then: ranks have other keys.
 */
void zipf_grow(struct zipf *z, uint64_t n);

/* zipf_rank - of one random number: 0 to n - 1, small ones most. */
uint64_t zipf_rank(const struct zipf *z, uint64_t random);

/* zipf_probability - of a rank, by the law. */
double zipf_probability(const struct zipf *z, uint64_t rank);

/* zipf_scatter - the key of a rank: each of 0 to n - 1 is one's. */
uint64_t zipf_scatter(const struct zipf *z, uint64_t rank);
