/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The parts of growth-bench: reader, writer, what it says. growth_bench.c is the program. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/index/index.h"
#include "tools/lib/histogram.h"
#include "tools/lib/program.h"
#include "tools/lib/server_thread.h"

#define GROWTH_KEY_LEN	  16u
#define GROWTH_VALUE_MIN  8u /* a value begins with its key's number */
#define GROWTH_ROUNDS_MAX 4096u /* whose ratios are kept */

/* What the writer does while the reader is measured. */
enum growth_kind { GROWTH_STILL, GROWTH_GROWING, GROWTH_OVERWRITING, GROWTH_KINDS, GROWTH_PAUSE };

struct growth_options {
	uint64_t keys, start, value_len, rate, slice_ms, memory_bytes;
	bool json, check;
};

struct growth_reads {
	struct histogram latency;
	uint64_t gets, reads, refreshes, obsolete, torn, asked;
};

/*
 * Between the two processes. The server's side writes `order`, (number << 3 | kind), the reader
 * `done` when it is through with it: the histograms are then the server's side's to look at.
 */
struct growth_shared {
	char server[280];
	uint64_t value_len;
	_Atomic uint32_t order, done;
	_Atomic uint64_t live; /* keys below it exist */
	_Atomic bool failed; /* the reader has said why, and ends */
	struct growth_reads slice; /* of the last order that was a kind */
};

/* Orders besides kinds. */
#define GROWTH_CONNECT 6u /* connect again, and warm up */
#define GROWTH_END     7u

struct growth_bench {
	struct growth_options o;
	struct growth_shared *shared;
	struct server_thread server;
	struct store_worker store;
	uint64_t seed, live;
	uint64_t rounds;
	/* Results. */
	struct growth_reads total[GROWTH_KINDS];
	struct histogram insert, overwrite;
	uint64_t insert_ns, overwrite_ns; /* spans in which they were done */
	uint64_t grown_waits;
	double round_ratio[GROWTH_ROUNDS_MAX]; /* p99.9 growing over still */
	uint64_t ratios;
	struct index_stats before, after;
};

extern const struct program growth_program;

/* growth_key - the text of key @i. */
void growth_key(uint64_t i, char key[GROWTH_KEY_LEN]);

/* growth_reader - the process that reads; before any thread or device. Never returns. */
_Noreturn void growth_reader(struct growth_shared *s);

/* The thread that calls these is a QSBR reader with b->store. 0 or the exit status, 3. */
int growth_fill(struct growth_bench *b);
int growth_rounds(struct growth_bench *b);

/* growth_report - table or JSON; with --check 1 where a promise is not kept. */
int growth_report(struct growth_bench *b);
