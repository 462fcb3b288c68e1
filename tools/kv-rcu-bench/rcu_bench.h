/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* kv-rcu-bench: what is asked for, what came of it, how it is said. */
#include <stdio.h>

#include <jansson.h>

#include "tools/lib/program.h"
#include "tools/kv-rcu-bench/run.h"

#define PAUSES_MAX     9u /* columns of a table */
#define STRATEGIES_MAX 12u
#define ROUNDS_MAX     99u
#define CHECK_ROUNDS   9u /* that the promises are of */
#define OBJECTS_MAX    4096u
#define PAUSE_US_MAX   1000000u

#define RATIO_MIN   0.97 /* gpc's updates over liburcu's, lower bound, at every pause */
#define FLOOR_TIMES 5.0 /* gpc's p99 of an update over the floor's stays below it */

struct rcu_options {
	/* As given. */
	uint64_t readers, updaters, objects, rounds;
	uint64_t deferred_max; /* bytes */
	const char *time, *pauses_text, *strategies_text, *report;
	bool json, check, broken;
	/* What was made of it. */
	uint64_t duration_ns;
	unsigned pause_us[PAUSES_MAX], pauses;
	const struct rcu_strategy *strategy[STRATEGIES_MAX];
	unsigned strategies;
};

/* One strategy at one pause; a value for each round, in their order. */
struct rcu_cell {
	double updates_per_s[ROUNDS_MAX], reads_per_s[ROUNDS_MAX], graces_per_s[ROUNDS_MAX];
	double update_p99_ns[ROUNDS_MAX];
	/* Of all rounds. */
	struct histogram update_ns;
	struct rcu_grace grace;
	uint64_t deferred; /* objects, the most that were seen waiting */
};

struct rcu_bench {
	struct rcu_options o;
	struct rcu_cell *cell; /* [strategy * pauses + pause] */
};

static inline struct rcu_cell *rcu_cell(const struct rcu_bench *b, unsigned strategy,
					unsigned pause)
{
	return &b->cell[strategy * b->o.pauses + pause];
}

/* rcu_options_defaults - readers and updaters fit this machine's cores. */
void rcu_options_defaults(struct rcu_options *o);

/* rcu_options_settle - what was given in words. Returns 0, or a negative errno with @err. */
int rcu_options_settle(struct rcu_options *o, struct error *err);

/*
 * rcu_measure - all rounds, into b->cell, which is allocated. Returns 0, or a negative errno with
 * @err; -EBADMSG: a strategy freed what was being read.
 */
int rcu_measure(struct rcu_bench *b, struct error *err);

/*
 * rcu_ratio - of pairs measured next to each other: the geometric mean of a[i] / b[i], and the
 * bound that the true one is above with a confidence of 95 %: one-sided, by Student's t over the
 * logarithms of the ratios.
 */
struct rcu_ratio {
	double mean, lower; /* lower: 0 where there is one pair only, which bounds nothing */
};

struct rcu_ratio rcu_ratio(const double *a, const double *b, unsigned n);

/* rcu_median - of @n values, at most ROUNDS_MAX. */
double rcu_median(const double *v, unsigned n);

/* What is promised, at one pause. */
struct rcu_promise {
	/* The strategies for it were run; the ratio: more than once, and never did nothing. */
	bool ratio_known, floor_known;
	struct rcu_ratio ratio; /* gpc's updates over liburcu's */
	double p99_ns, floor_ns, times; /* medians of the rounds; gpc's p99 over the floor's */
	bool kept; /* what is known of it; false where nothing is */
};

struct rcu_promise rcu_promise(const struct rcu_bench *b, unsigned pause);

/* rcu_promises_kept - at every pause. */
bool rcu_promises_kept(const struct rcu_bench *b);

/* A strategy over all its pauses, for a row of the table. */
struct rcu_summary {
	double reads, graces; /* of a run; mean over the pauses of the rounds' medians */
	struct rcu_grace grace;
	struct histogram update_ns;
	uint64_t deferred;
};

/* rcu_summarize - @out is large: static, or from the heap. */
void rcu_summarize(const struct rcu_bench *b, unsigned strategy, struct rcu_summary *out);

/* rcu_grace_mean_us - 0: there was none. */
double rcu_grace_mean_us(const struct rcu_grace *g);

/* rcu_report_text - tables for people. */
void rcu_report_text(const struct rcu_bench *b, FILE *out);

/* rcu_report_json - the document; NULL: no memory. */
json_t *rcu_report_json(const struct rcu_bench *b, const struct program *p);

/*
 * rcu_report_folder_make - o.report, where it is not there, and whether it may be written into:
 * before what takes minutes. Returns 0, or a negative errno with @err.
 */
int rcu_report_folder_make(const struct rcu_bench *b, struct error *err);

/*
 * rcu_report_folder - into o.report, which is there: report.md, results.json, and the pictures.
 * Returns 0, or a negative errno with @err.
 */
int rcu_report_folder(const struct rcu_bench *b, const struct program *p, struct error *err);
