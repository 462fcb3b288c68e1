/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the command line of kv-bw and kv-lat says. */
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "tools/lib/program.h"

#define PERF_SIZES_MAX	32u
#define PERF_QPS_MAX	63u /* a session has 64 handles, and one loads the keys */
#define PERF_KEYS_MAX	(1u << 24)
#define PERF_ROUNDS_MAX 99u
#define PERF_GROUP_MAX	64u /* keys of an mget */
#define PERF_NAME_MAX	32u
#define PERF_KEPT_MAX	(1u << 26) /* results of -U */
#define PERF_UNSET	UINT64_MAX

enum perf_op { PERF_GET, PERF_PUT, PERF_MIXED, PERF_MGET };

struct perf_options {
	bool latency; /* this is kv-lat */
	const char *server; /* as it was given */
	char host[256], port[8];
	char address[280]; /* HOST:PORT of both */

	const char *device;
	uint64_t ib_port, gid_index, mtu; /* PERF_UNSET: not given */
	uint64_t inline_bytes; /* likewise */
	uint64_t pkey_index, service_level, traffic_class;
	uint64_t timeout_ms; /* 0: not given */
	bool cm;

	enum perf_op op;
	double get_share; /* of PERF_MIXED */
	unsigned group; /* of PERF_MGET; else 1 */
	uint64_t size[PERF_SIZES_MAX];
	unsigned sizes;
	uint64_t keys;
	uint64_t hint_bytes; /* 0: room for all keys */
	double theta; /* of Zipf's law; 0: uniform */
	const char *name; /* what keys begin with; NULL: the tool and a number of this run */

	uint64_t iterations; /* of each queue pair */
	double seconds; /* instead, where it is not 0 */
	double warm_seconds, idle_seconds; /* 0: a short warm-up; no idle time */
	uint64_t depth, qps, threads, post_list, moderation, rounds;
	double rate; /* operations per second; 0: as fast as they go */
	bool events, no_hints, raw, raw_checksum, keep;

	bool cycles, histogram, unsorted, gbits, json;
	const char *json_file;
};

extern const struct program perf_bw_program, perf_lat_program;

/*
 * perf_options - take the command line of kv-lat, or of kv-bw. Returns 0, or -1: it has said what
 * there is to say, exit with *status.
 */
int perf_options(bool latency, int argc, char **argv, struct perf_options *out, int *status);

/* perf_program - which of the two. */
const struct program *perf_program(const struct perf_options *o);

/* perf_op_name - "get"; @text: 32 bytes for those that have a number. */
const char *perf_op_name(const struct perf_options *o, char text[32]);

/* perf_cold - whether GETs go by the index: a READ of a bucket comes before that of a block. */
static inline bool perf_cold(const struct perf_options *o)
{
	return o->no_hints && o->op == PERF_GET;
}

/* What was given as words (settle.c). All return 0, or a negative errno with @err. */

/* perf_take_sizes - "64" or "64,4K"; NULL: @all of them, powers of two from 2 to 8 MiB. */
int perf_take_sizes(struct perf_options *o, const char *text, bool all, struct error *err);
/* perf_take_op - "get", "put", "mixed:R", "mget:N". */
int perf_take_op(struct perf_options *o, const char *text, struct error *err);
/* perf_take_dist - "uniform", "zipf:S". */
int perf_take_dist(struct perf_options *o, const char *text, struct error *err);
/* perf_take_server - HOST or HOST:PORT, which @what gave; @port where that has none. */
int perf_take_server(struct perf_options *o, const char *what, uint64_t port, struct error *err);
/* perf_settle - defaults that depend on others, and what does not go together. */
int perf_settle(struct perf_options *o, struct error *err);
