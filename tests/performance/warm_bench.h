/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The parts of warm-bench: what it measures, and how it says so. warm_bench.c is the program. */
#include <stdbool.h>
#include <stdint.h>

#include "client/src/link/handle.h"
#include "tools/lib/program.h"
#include "tools/lib/raw_reads.h"
#include "tools/lib/redis_process.h"
#include "tools/lib/samples.h"
#include "tools/lib/server_process.h"
#include "tests/performance/warm_keys.h"

#define WARM_ROUNDS_MAX 99
#define WARM_DEPTH	32u
#define WARM_AREA	(64ull << 20) /* memory that the blocks lie in, at least */

/* What is timed: ns an operation in each round. */
enum warm_kind {
	WARM_RAW, /* a READ of a block */
	WARM_GET,
	WARM_RAW_CHAIN, /* WARM_DEPTH READs behind a doorbell, XXH3 of each block */
	WARM_MGET, /* of WARM_DEPTH */
	WARM_ASYNC, /* GETs, WARM_DEPTH in flight */
	WARM_REDIS, /* redis-benchmark -c 1 */
	WARM_REDIS_MANY, /* -c 50 -P 16 */
	WARM_KINDS,
};

extern const struct warm_kind_name {
	const char *name, *key;
} warm_kind[WARM_KINDS];

struct warm_options {
	uint64_t keys, zipf_keys, value_len, rounds, seconds, hint_bytes;
	const char *only, *binary, *device, *host, *connect;
	bool no_redis, cpu, json, check;
};

/* A key and where its block lies: both sides go through the same list. */
struct warm_step {
	char key[WARM_KEY_LEN];
	struct raw_place place;
};

/* READs for each GET, of one number of keys. */
struct warm_zipf {
	uint64_t keys;
	uint64_t warm_gets, gets; /* until it was steady; then */
	uint64_t warm_rounds;
	double cold; /* READs per GET in the first of them */
	double reads[WARM_ROUNDS_MAX]; /* per GET; by round */
	double hit_rate, stale_rate; /* of hints */
	uint64_t hints, hint_bytes;
	uint64_t retries, fallbacks;
};

struct warm_bench {
	struct warm_options o;
	struct server_process server;
	struct gkv_session *session;
	struct gkv *kv, *floor; /* floor: its queue pair carries the raw READs */
	struct raw_reads raw;
	struct warm_keys keys;
	char device[64];
	bool software;
	uint32_t block_len;

	struct warm_step *step;
	uint64_t steps, at; /* a power of two; where both are */
	uint64_t seed;

	bool wanted[WARM_KINDS];
	double ns[WARM_KINDS][WARM_ROUNDS_MAX];
	uint64_t gets, reads; /* of WARM_GET, WARM_MGET and WARM_ASYNC */

	struct redis_process redis;
	char redis_versions[340];
	char no_redis[200]; /* why its rows are missing */

	struct warm_zipf zipf[2];
	unsigned zipfs;
};

extern const struct program warm_program;

static inline int warm_failed(const char *what, const char *why)
{
	return program_failed(&warm_program, what, why);
}

/* warm_part - whether --only leaves "sync", "depth", "redis" or "zipf" in. */
bool warm_part(const struct warm_bench *b, const char *part);

/* All of these return 0, or the exit status after a line on stderr. */

/* warm_server - start one for so many records; an own one each, ended by warm_server_end(). */
int warm_server(struct warm_bench *b, uint64_t keys, uint32_t block_len);
int warm_server_end(struct warm_bench *b, int status);

/* warm_connect - a session with a handle on the server, for @hint_bytes of hints. */
int warm_connect(struct warm_bench *b, uint64_t hint_bytes);

/* warm_places - fill @b->step: where the blocks of keys lie. */
int warm_places(struct warm_bench *b);

/* The next of the list; its key stays where it is. */
static inline const struct warm_step *warm_next_step(struct warm_bench *b)
{
	return &b->step[b->at++ & (b->steps - 1)];
}

/* warm_async - @count GETs, WARM_DEPTH of them in flight. Returns 0 or a negative errno. */
int warm_async(struct warm_bench *b, unsigned count);

/* warm_measure - rounds of all kinds that are wanted. */
int warm_measure(struct warm_bench *b);

/* warm_redis_start - the peer, with the same number of keys; without it no_redis says why. */
int warm_redis_start(struct warm_bench *b);
/* warm_redis_round - one slice of about @seconds; ns an operation. */
int warm_redis_round(struct warm_bench *b, enum warm_kind kind, double seconds, double *ns);

/* warm_zipf - READs for each GET, by Zipf's law, on a server of its own. */
int warm_zipf(struct warm_bench *b);

/* warm_report - table or JSON on stdout. Returns the exit status of --check. */
int warm_report(struct warm_bench *b);
