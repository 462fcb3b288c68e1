/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* kv-bench: what is asked for, what came of it, how it is said. */
#include <stdio.h>

#include <jansson.h>

#include "common/base/table.h"
#include "tools/kv-bench/run.h"
#include "tools/lib/program.h"
#include "tools/lib/samples.h"

#define ROUNDS_MAX    99u
#define WORKLOADS_MAX 5u
#define POINTS_MAX    12u /* of a sweep */
#define RECORD_MAX    (1u << 20) /* bytes */
#define IN_FLIGHT     (256u << 20) /* bytes of values, of all threads together, at most */
#define SECONDS_MIN   0.01
#define SECONDS_MAX   3600.0
#define TIMES_FASTER  10.0 /* what is promised of a client's GETs, one by one, against Redis's */
#define PLOT_BEYOND   10u /* operations beyond a percentile in a plot, at least: fewer are none */

struct bench_options {
	/* As given. */
	uint64_t records, operations, fields, field_len, threads, target, depth, rounds, seed;
	uint64_t timeout_ms; /* 0: not given */
	const char *workloads_text, *sizes_text, *depths_text, *distribution_text, *seconds;
	const char *server, *binary, *host, *device, *connect, *report;
	char peers_text[PROGRAM_LIST_MAX];
	bool json, check;
	/* What was made of it. */
	const struct workload *workload[WORKLOADS_MAX];
	unsigned workloads;
	uint64_t size[POINTS_MAX], depth_at[POINTS_MAX];
	unsigned sizes, depths;
	bool wanted[SYSTEMS];
	enum distribution distribution; /* DISTRIBUTIONS: each workload's own */
	uint64_t duration_ns; /* of a cell in a round */
	size_t record_len;
};

/* A system with so many operations in flight for each thread; a rate for each round. */
struct cell {
	unsigned system, depth;
	double per_s[ROUNDS_MAX];
	/* Of all rounds. */
	uint64_t operations, missing, wrong, not_started;
	int64_t server_cpu_ns, client_cpu_ns; /* server: negative: not known */
	struct histogram latency[OPERATIONS];
};

enum group_kind { GROUP_WORKLOAD, GROUP_DEPTHS, GROUP_SIZE };

/* Cells that take turns. */
struct group {
	enum group_kind kind;
	struct run_plan plan; /* but for the system and the depth */
	struct cell *cell;
	unsigned cells, rounds; /* rounds: that are whole */
};

/* How a store was filled. */
struct load {
	uint64_t records; /* 0: it was not */
	double seconds;
};

struct bench {
	struct bench_options o;
	struct systems systems;
	struct zipf zipf;
	struct group *group;
	unsigned groups;
	struct load load[SYSTEMS]; /* by place in systems */
	uint64_t wrong, missing; /* of all that was read, not only what was measured */
	char trouble[160];
	char machine[160], date[32];
	bool interrupted;
};

/* options_settle - what was given in words. Returns 0, or a negative errno with @err. */
int options_settle(struct bench_options *o, struct error *err);

/* options_memory - bytes that records take in each store, at most. */
uint64_t options_memory(const struct bench_options *o);

/* sweep_records - how many values of a size there are in the sweep of sizes. */
uint64_t sweep_records(const struct bench_options *o, uint64_t size);

/*
 * bench_measure - start the systems, fill them, measure, end them. b->group is allocated, and freed
 * by bench_free(). SIGINT leaves what there is by then. Returns 0, or a negative errno with @err.
 */
int bench_measure(struct bench *b, struct error *err);
void bench_free(struct bench *b);

/* group_cell - NULL: there is none. @kind: of the system. */
const struct cell *group_cell(const struct bench *b, const struct group *g, enum system_kind kind,
			      unsigned depth);

/* What is said of figures. */
struct spread cell_rate(const struct group *g, const struct cell *c);

/* cell_ratio - gracekv's rate over the cell's, round by round; zeroes where it was not measured. */
struct spread cell_ratio(const struct bench *b, const struct group *g, const struct cell *c);

/* cell_writes - what a cell's operations are that are no reads; OPERATIONS: there are none. */
enum operation cell_writes(const struct cell *c);

double latency_us(const struct histogram *h, double q);

struct promise {
	char name[64];
	struct spread is;
	bool known, kept;
};

#define PROMISES_MAX 4u

/* bench_promises - those of which something was measured, or is asked for. Returns how many. */
unsigned bench_promises(const struct bench *b, struct promise out[PROMISES_MAX]);

/* report_text - for people, on a terminal or as Markdown with the plots of report_folder(). */
void report_text(const struct bench *b, FILE *out, bool markdown);

/* report_json - the document; NULL: no memory. */
json_t *report_json(const struct bench *b, const struct program *p);

/* report_folder - into o.report, which is there. Returns 0, or a negative errno with @err. */
int report_folder(const struct bench *b, const struct program *p, struct error *err);
