/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The parts of get-bench: what it measures, and how it says so. get_bench.c is the program. */
#include <stdbool.h>
#include <stdint.h>

#include "client/src/link/handle.h"
#include "tools/lib/program.h"
#include "tools/lib/server_process.h"

#define ROUNDS_MAX 99
#define KEY_LEN	   16
#define EXTENTS_OF 64 /* each kind: enough for the floor */

struct get_options {
	uint64_t keys, value_len, rounds, ops, seconds;
	const char *server, *binary, *memory, *device, *host, *connect;
	bool json;
};

struct get_bench {
	struct get_options o;
	struct server_process server;
	struct gkv_session *session;
	struct gkv *kv;
	uint64_t seed;
	/* Where the floor reads. */
	struct extent index[EXTENTS_OF], data[EXTENTS_OF];
	unsigned index_count, data_count;
	uint32_t block_len;
	/* Results: ns an operation, a round's and a single one's, sorted. */
	double floor_ns[ROUNDS_MAX], get_ns[ROUNDS_MAX];
	double *floor_lat, *get_lat;
	struct spread ratio; /* GET over raw READs, by rounds */
	double idle_cpu, busy_cpu; /* share of a core */
	uint64_t busy_gets;
	double reads_per_get;
};

extern const struct program get_program;

/* get_key - the text of key @i. */
void get_key(uint64_t i, char key[KEY_LEN + 1]);

/* get_once - one GET of a random key, judged by its length. Returns 0 or a negative errno. */
int get_once(struct get_bench *b);

/*
 * get_measure - rounds of the floor and of GETs, and their latencies. get_measure_cpu - the
 * server's time. Both return 0, or the exit status after a line on stderr.
 */
int get_measure(struct get_bench *b);
int get_measure_cpu(struct get_bench *b);

/* get_report - table or JSON on stdout. Likewise. */
int get_report(struct get_bench *b);
