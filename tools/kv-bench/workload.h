/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The core workloads of YCSB (Cooper and others, Benchmarking Cloud Serving Systems, SoCC 2010). */
#include <stdint.h>

#include "common/base/error.h"

enum operation {
	OP_READ,
	OP_UPDATE, /* writes the whole record, as YCSB with writeallfields=true */
	OP_INSERT,
	OP_RMW, /* reads a record, then writes it */
	OP_DELETE, /* no part of a workload: what a cell has inserted goes after it */
	OPERATIONS,
};

extern const char *const operation_name[OPERATIONS];

enum distribution {
	DIST_UNIFORM,
	DIST_ZIPFIAN, /* 0.99, scattered over all keys */
	DIST_LATEST, /* the same law over how long ago a key was inserted */
	DISTRIBUTIONS,
};

extern const char *const distribution_name[DISTRIBUTIONS];

struct workload {
	const char *name; /* "A" */
	const char *words;
	double share[OPERATIONS]; /* add up to 1 */
	enum distribution distribution;
};

/* workload_find - by its letter, of either case; E is refused. Returns NULL with @err. */
const struct workload *workload_find(const char *name, struct error *err);

/* Not YCSB's: reads at random for the sweep of sizes, and what fills and empties a store. */
extern const struct workload workload_gets, workload_load, workload_delete;

/* workload_choose - the operation of a random number. */
enum operation workload_choose(const struct workload *w, uint64_t random);
