/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The parts of index-bench: what it measures, and how it says so. index_bench.c is the program. */
#include <stdbool.h>
#include <stdint.h>

#include "tests/performance/index_pages.h"
#include "tests/performance/index_side.h"
#include "tools/lib/program.h"

#define INDEX_ROUNDS_MAX  99
#define INDEX_WRITERS_MAX 64

enum index_who { OURS, THEIRS, INDEX_SIDES };

/* What is done to both sides in turn; a round goes through all of them, in this order. */
enum index_phase {
	PHASE_INSERT, /* all keys, from an empty table that grows */
	PHASE_HIT, /* random keys that are there */
	PHASE_HIT_READ, /* and all of the value is read */
	PHASE_HIT_SINGLE, /* random keys that are there, each known only when it is its turn */
	PHASE_MISS, /* random keys that are not there */
	PHASE_DELETE, /* all keys, in random order */
	/* The same with the time of each operation, by one writer, then by several. */
	PHASE_INSERT_1,
	PHASE_DELETE_1,
	PHASE_INSERT_N,
	PHASE_DELETE_N,
	INDEX_PHASES,
};

struct index_phase_info {
	const char *name, *key; /* for people; in JSON */
	enum index_op op;
	bool timed, many; /* the time of each operation; by all the writers */
};

extern const struct index_phase_info index_phase[INDEX_PHASES];

struct index_options {
	uint64_t records, value_len, rounds, lookups, writers, group;
	const char *table;
	bool bound, json, check, cpu, quick;
};

struct index_bench {
	struct index_options o;
	bool hugepages; /* enough were reserved at the start */
	uint64_t hugepages_needed, hugepages_free;
	/* Results. */
	double ns[INDEX_PHASES][INDEX_SIDES][INDEX_ROUNDS_MAX]; /* an operation; sorted */
	struct spread ratio[INDEX_PHASES]; /* theirs over ours, by rounds */
	struct histogram times[INDEX_PHASES][INDEX_SIDES]; /* of all rounds */
	struct index_bytes bytes; /* ours, when the last round's inserts were done */
	uint64_t heap[INDEX_SIDES]; /* bytes beside extents and arena; likewise */
	uint64_t heap_empty[INDEX_SIDES]; /* that of tables without records */
	struct index_backing backing[INDEX_BACKINGS]; /* likewise */
};

extern const struct program index_program;

extern const struct index_side *const index_side[INDEX_SIDES];

/* index_measure - all rounds. Returns 0, or a negative errno with @err. */
int index_measure(struct index_bench *b, struct error *err);

/* index_report - table or JSON on stdout. Returns whether all that is promised was kept. */
bool index_report(const struct index_bench *b);
