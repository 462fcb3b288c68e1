/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* One run: threads with a connection each put a workload on one system, once. */
#include "tools/kv-bench/keys.h"
#include "tools/kv-bench/system.h"
#include "tools/kv-bench/workload.h"
#include "tools/lib/histogram.h"

#define THREADS_MAX 64u /* handles of a session */
#define DEPTH_MAX   1024u

struct run_plan {
	const struct system *system;
	const struct workload *workload;
	enum distribution distribution;
	const struct zipf *zipf; /* of the records */
	uint64_t base; /* records of another base are others */
	uint64_t records; /* that are there: 0 and on */
	uint64_t inserts; /* of new ones, or deletes of those after the records: at most */
	size_t record_len;
	/* The end: so many of all threads (0: by time), or the time, or all inserts. */
	uint64_t operations, duration_ns;
	double target; /* operations a second of all threads, an open loop; 0: a closed one */
	unsigned threads, depth;
	uint64_t seed;
};

struct run_result {
	uint64_t operations, ns;
	uint64_t inserted;
	uint64_t missing, wrong; /* records that were not there, or not what was written */
	uint64_t not_started; /* of an open loop: that were due, and had no turn before the end */
	int64_t server_cpu_ns, client_cpu_ns; /* server: negative where it is not known */
	struct histogram latency[OPERATIONS];
	char trouble[160]; /* the first that was missing or wrong, in words */
};

/*
 * run - the result is large: from the heap, or static. Returns 0, or a negative errno with @err:
 * an operation has failed. SIGINT (stop.h) ends it as its time does.
 */
int run(const struct run_plan *plan, struct run_result *result, struct error *err);
