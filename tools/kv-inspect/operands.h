/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What stands after a command. Each returns 0, or -EINVAL with @err. Any thread. */
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

/* Hashes that begin with the same bits. */
struct operand_prefix {
	uint32_t bits;
	unsigned depth; /* how many; 0: all hashes */
};

/* operand_prefix - "0110", at most DEPTH_MAX bits; "-": none. */
int operand_prefix(const char *text, struct operand_prefix *out, struct error *err);

/*
 * operand_segment - a prefix, or a hash: "0x" and 16 digits, which is all of a hash's bits.
 * @hash: the first one with the prefix. @exact: it was a hash.
 */
int operand_segment(const char *text, uint64_t *hash, unsigned *depth, bool *exact,
		    struct error *err);

/* operand_bucket - a hash, or "PREFIX:N" with the number of a bucket of the segment. @number is set
 * in either case. */
int operand_bucket(const char *text, uint64_t *hash, unsigned *depth, unsigned *number,
		   struct error *err);

/* operand_place - "EXTENT:OFFSET"; the offset in bytes, decimal or with 0x, a multiple of 64. */
int operand_place(const char *text, unsigned *extent, uint32_t *offset, struct error *err);

/* operand_first - the first hash with a prefix. */
static inline uint64_t operand_first(struct operand_prefix p)
{
	return p.depth ? (uint64_t)p.bits << (64 - p.depth) : 0;
}
