/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What soft-bench measures: see soft_bench.c. */
#include <stdint.h>

#include "tests/performance/soft_end.h"

enum {
	MEMCPY,
	MAPPED_LIST,
	MAPPED,
	WRITE_LIST,
	PRIVATE,
	PRIVATE_LIST,
	PRIVATE_NEAR,
	KERNEL,
	KERNEL_LIST,
	ATOMIC,
	MESSAGE,
	KINDS
};

enum { ROUNDS_MAX = 99 };

struct soft_kinds {
	/* set by the user */
	struct soft_end end;
	struct soft_other other;
	uint64_t rounds, ops;
	/* results: ns an operation, by round */
	double ns[KINDS][ROUNDS_MAX];
	/* the rest is its own */
	uint64_t seed;
	struct ibv_send_wr wr[SOFT_LIST];
	struct ibv_sge sge[SOFT_LIST];
};

struct soft_kind {
	const char *name, *key;
	int (*run)(struct soft_kinds *b, uint64_t ops);
	uint64_t fewer; /* operations in a round: this part of them */
};

extern const struct soft_kind soft_kind[KINDS];

/* soft_kinds_measure - all rounds. Returns 0 or a negative errno, and *@kind that failed. */
int soft_kinds_measure(struct soft_kinds *b, unsigned *kind);
