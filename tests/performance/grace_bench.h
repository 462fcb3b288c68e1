/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The parts of grace-bench: its clients, what is measured, what it says. grace_bench.c is the
 * program. */
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <gracekv.h>

#include "tools/lib/program.h"
#include "tools/lib/server_process.h"

#define GRACE_WORKERS_MAX 14u
#define GRACE_STUCK	  2u /* clients with a section that does not end */
#define GRACE_CLIENTS_MAX (GRACE_WORKERS_MAX + GRACE_STUCK)
#define GRACE_ROUNDS_MAX  99u
#define GRACE_SLICES_MAX  65536u
#define GRACE_SLICES_ONE  4096u /* of a round */
#define GRACE_HANDLES	  10u /* of the idle client */
#define GRACE_KEY_LEN	  16u
#define GRACE_OWN_KEYS	  64u /* that a writer overwrites, one after the other */

/* What a client process is to do. */
enum grace_order {
	GRACE_CLOSED, /* it has no session */
	GRACE_PARKED, /* a session that does nothing */
	GRACE_MIX, /* GETs and PUTs of random keys */
	GRACE_WRITE, /* PUTs that overwrite keys of its own */
	GRACE_HOLD, /* a section, held open for ever, and again once it was fenced */
	GRACE_IDLE, /* many handles, nothing to do: results in grace_shared.idle */
	GRACE_COST, /* GETs with a housekeeper and without: grace_shared.cost */
	GRACE_END,
};

#define GRACE_ORDER(word) ((enum grace_order)((word)&7u))

struct grace_options {
	const char *binary, *memory, *device, *host, *connect;
	uint64_t workers, keys, value_len, puts, rounds, lease_ms, slice_ms, deferred_bytes;
	uint64_t idle_s;
	bool json, check;
};

/* One client process. The parent writes `order`, the process all the rest. */
struct grace_client {
	alignas(64) _Atomic uint32_t order; /* (number << 3 | enum grace_order), a futex */
	alignas(64) _Atomic uint32_t doing; /* the order that it has begun with */
	_Atomic uint32_t done; /* the order whose results are there */
	_Atomic uint64_t ops; /* calls that ended, since it was started */
	_Atomic uint64_t errors; /* those that failed */
	_Atomic uint64_t longest_ns; /* of the calls of this order */
	_Atomic uint64_t reconnects; /* of its present session */
	_Atomic uint64_t beat_ns; /* a time before its last beat that it has seen; 0: none */
};

struct grace_idle {
	uint64_t span_ns, rounds, messages, reads; /* reads: of its handles */
};

struct grace_cost {
	uint64_t gets, reads, rounds, messages, reconnects;
	double ns[GRACE_ROUNDS_MAX]; /* a GET, by round */
};

/* Between the processes. */
struct grace_shared {
	struct grace_options o;
	char server[280];
	struct grace_client client[GRACE_CLIENTS_MAX];
	struct grace_idle idle;
	struct grace_cost cost[2]; /* housekeeper at work, at rest */
};

struct grace_stop {
	double slice[2][GRACE_SLICES_MAX]; /* operations a second; nobody stopped, one stopped */
	size_t slices[2];
	double ratio[GRACE_ROUNDS_MAX], fence_ms[GRACE_ROUNDS_MAX], back_ms[GRACE_ROUNDS_MAX];
	double silent_ms[GRACE_ROUNDS_MAX]; /* from before the last beat to the fence */
	unsigned rounds;
};

struct grace_cap {
	double rate[2][GRACE_ROUNDS_MAX]; /* PUTs a second; nobody stuck, two stuck */
	uint64_t deferred_most[2], longest_ns[2], samples[2];
	uint64_t deferred_max, fences, refused, least_puts;
	unsigned rounds;
};

struct grace_bench {
	struct grace_options o;
	struct grace_shared *shared;
	pid_t pid[GRACE_CLIENTS_MAX];
	unsigned clients;
	struct server_process server;
	struct gkv_session *session;
	struct gkv *kv; /* the parent's, for filling and statistics */
	struct grace_stop stop;
	struct grace_cap cap;
	uint64_t rpcs; /* that the server answered while the client was idle */
};

extern const struct program grace_program;

void grace_key(uint64_t i, char key[GRACE_KEY_LEN + 1]);

/* grace_client - the process of client @number; before any thread or device. Never returns. */
_Noreturn void grace_client(struct grace_shared *s, unsigned number);

/* The measurements of one client's, in its own process; false: it has said why not. */
bool grace_client_idle(struct grace_shared *s, struct gkv_session *session, struct gkv *kv);
bool grace_client_cost(struct grace_shared *s, struct gkv_session *session, struct gkv *kv);

/* grace_connect - a session with @housekeeper and a handle. 0 or the exit status. */
int grace_connect(const struct grace_shared *s, unsigned housekeeper, struct gkv_session **session,
		  struct gkv **kv);

/* grace_order - tell client @i, and wait until it has begun with it. 0 or the exit status. */
int grace_order(struct grace_bench *b, unsigned i, enum grace_order what);

/* grace_results - wait until client @i is through with its order. 0 or the exit status. */
int grace_results(struct grace_bench *b, unsigned i, uint64_t seconds);

/* grace_stats - counters of the server by their names. 0 or the exit status. */
int grace_stats(struct grace_bench *b, const char *const *names, uint64_t *values, unsigned count);

uint64_t grace_errors(const struct grace_bench *b);

/* The measurements. 0 or the exit status. */
int grace_measure_stop(struct grace_bench *b);
int grace_measure_cap(struct grace_bench *b);
int grace_measure_rest(struct grace_bench *b);

/* grace_report - table or JSON; with --check 1 where a promise is not kept. */
int grace_report(struct grace_bench *b);
