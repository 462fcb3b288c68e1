/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The core of kv-bw and kv-lat.
 *
 * main() connects, and goes over the sizes: keys are loaded, threads run rounds between two
 * barriers, tallies are joined, a row is printed, the keys go. A round is of one kind: operations
 * by the public API, or what the device does alone, on the same queue pairs.
 *
 * A thread owns its handles and its tally during a round; between rounds all is main's.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/src/link/device.h"
#include "client/src/link/handle.h"
#include "client/src/call/measure.h"
#include "common/base/error.h"
#include "tools/lib/histogram.h"
#include "tools/lib/moments.h"
#include "tools/lib/pace.h"
#include "tools/lib/samples.h"
#include "tools/lib/stop.h"
#include "tools/lib/ticks.h"
#include "tools/lib/zipf.h"
#include "tools/kv-bw-lat/options.h"
#include "tools/kv-bw-lat/slices.h"

#define PERF_POLL     64u /* completions of one poll */
#define PERF_RAW_WAIT (5 * NS_PER_S) /* for a completion of what the device does alone */

enum perf_kind { PERF_OPERATION, PERF_RAW_READ, PERF_RAW_SEND };

/* What a thread has counted. */
struct perf_tally {
	uint64_t ops;
	uint64_t missed; /* due, and given up: they are in the latencies, not in ops */
	uint64_t begun, ended; /* ticks */
	struct histogram lat;
	struct moments moments; /* of latencies in ns */
	struct slices slices;
};

/* A handle, and what is in flight on it. Arrays have depth entries. */
struct perf_handle {
	struct gkv *kv;
	struct gkv_memory *registered;
	uint8_t *memory; /* a place of stride bytes for each operation in flight */
	size_t memory_bytes;
	uint64_t *since; /* ticks from which it counts */
	uint32_t *free; /* a stack of places */
	unsigned free_count;
	struct gkv_request *request; /* post_list of them */
	uint64_t todo; /* of this round, not handed over */
	unsigned collected; /* completions since the last hand-over */
	struct gkv_item *item; /* of an mget: group of them */
};

struct perf;

struct perf_thread {
	struct perf *p;
	pthread_t thread;
	unsigned first, count; /* its handles */
	uint64_t end; /* ticks when this round's time is over; UINT64_MAX: never */
	uint64_t random;
	struct pace pace; /* of an open loop */
	struct perf_tally tally;
	uint64_t *kept; /* -U: latencies of this size in ns */
	uint64_t kept_count, kept_max;
	struct error error; /* why it stopped the run; code 0: it did not */
};

struct perf_round {
	enum perf_kind kind;
	bool kept; /* -U: its latencies are */
	bool paced; /* by an open loop */
	uint64_t ops; /* of each handle; UINT64_MAX: until the time is over */
	uint64_t ns; /* 0: until they are done */
	uint32_t bytes; /* of a raw READ or SEND */
	uint64_t before_ns; /* of its kind's rounds before it */
};

/* A place in the server's memory. */
struct raw_place {
	uint64_t addr;
	uint32_t rkey;
};

/* Keys and records of one size. */
struct perf_keys {
	uint64_t size;
	uint64_t count, asked; /* count may be less: memory */
	uint32_t key_len, block_bytes;
	char *text; /* count * key_len */
	uint8_t *made; /* by us; NULL: none is there */
	struct raw_place *place; /* of --raw: of blocks, */
	struct raw_place *bucket; /* and of the buckets that lead to them */
	uint8_t *value;
};

/* What came of one kind of rounds of one size. */
struct perf_figures {
	uint64_t ops, missed;
	uint64_t duration_ns;
	struct histogram lat;
	struct moments moments;
	struct slices slices;
	double rate[PERF_ROUNDS_MAX]; /* of each round: operations per second, */
	double p50_ns[PERF_ROUNDS_MAX]; /* and median latency */
	unsigned rounds;
	double client_cpu_s, server_cpu_s;
};

struct perf_result {
	uint64_t size, keys, depth;
	uint32_t block_bytes;
	uint32_t raw_bytes;
	enum perf_kind raw; /* PERF_OPERATION: none */
	struct perf_figures op, floor;
	struct spread over_raw; /* of the rounds' ratios; the median is what is told */
	struct gkv_stats stats; /* of the operations: what the handles counted */
	double idle_s, idle_cpu_s; /* the server's time while nothing was asked */
	json_t *kept; /* -U: all latencies in us; NULL: not asked for */
};

struct perf {
	struct perf_options o;
	char name[PERF_NAME_MAX + 1];
	struct gkv_session *session;
	struct session_device *device; /* that it was opened on */
	struct gkv *loader; /* loads, warms and deletes; always with hints */
	struct perf_handle handle[PERF_QPS_MAX];
	struct perf_thread *thread; /* o.threads of them */
	unsigned opened, started;
	bool software;
	unsigned spin_polls;
	struct rpc_measured server; /* what it said last */

	struct perf_keys keys;
	unsigned depth; /* on each handle, for this size */
	size_t stride; /* of places for values */
	struct zipf zipf;
	uint32_t get_below; /* of 2^24: a mix's share of GETs */

	pthread_mutex_t gate; /* closed until all threads were started */
	pthread_barrier_t barrier; /* of main and the threads */
	struct perf_round round;
	_Atomic bool halt; /* this round is to end: SIGINT, or a thread has failed */
	bool few; /* a thread could not be started; the others end */
	bool quit; /* there are no more rounds; read after the barrier */
	bool complete; /* all sizes, to their end */

	struct perf_result *result; /* o.sizes of them */
	unsigned results;
	struct error error; /* of main's own work */
};

static inline bool perf_halted(struct perf *p)
{
	/* relaxed: nothing but the flag is passed on */
	return stop_wanted() || atomic_load_explicit(&p->halt, memory_order_relaxed);
}

/* perf_fail - of a thread: the round ends for all. Returns @code. */
int perf_fail(struct perf_thread *t, int code, const char *what, const char *why);

/* perf_latency - one that counts since @since was over, or given up, at @now ticks. */
static inline void perf_latency(struct perf_thread *t, uint64_t since, uint64_t now)
{
	uint64_t ns = ticks_ns(now - since);

	histogram_add(&t->tally.lat, ns);
	moments_add(&t->tally.moments, (double)ns);
	if (t->p->round.kept && t->kept_count < t->kept_max)
		t->kept[t->kept_count++] = ns;
}

/* perf_count - an operation has completed at @now ticks that counts since @since. */
static inline void perf_count(struct perf_thread *t, uint64_t since, uint64_t now)
{
	t->tally.ops++;
	perf_latency(t, since, now);
}

/* perf_missed - what was due by @now of an open loop, and was not started, is given up. */
void perf_missed(struct perf_thread *t, uint64_t now);

/* perf_slice - @count have, at @now ticks. */
static inline void perf_slice(struct perf_thread *t, uint64_t now, unsigned count)
{
	slices_add(&t->tally.slices, t->p->round.before_ns + ticks_ns(now - t->tally.begun), count);
}

/* perf_draw - the next key's number. */
static inline uint64_t perf_draw(struct perf_thread *t, uint64_t random)
{
	const struct zipf *z = &t->p->zipf;

	if (t->p->o.theta > 0)
		return zipf_scatter(z, zipf_rank(z, random));
	return (uint64_t)((unsigned __int128)random * t->p->keys.count >> 64);
}

static inline const char *perf_key(const struct perf *p, uint64_t i)
{
	return p->keys.text + i * p->keys.key_len;
}

/* perf_is_get - whether the next operation is one, by bits that hardly count in perf_draw(). */
static inline bool perf_is_get(const struct perf *p, uint64_t random)
{
	return (uint32_t)(random & 0xffffff) < p->get_below;
}

/* Connecting (link.c). All return 0, or a negative errno with p->error. */
int perf_connect(struct perf *p);
void perf_disconnect(struct perf *p);
/* perf_prepare_handles - memory for what is in flight, for the size of p->keys. */
int perf_prepare_handles(struct perf *p);
void perf_release_handles(struct perf *p);
/* perf_tell - the server what is about to be measured; its answer stands in p->server. */
int perf_tell(struct perf *p, struct gkv *h, enum measure_phase phase);
/* perf_begin - the same on each queue pair that is measured: both ends of it are compared. */
int perf_begin(struct perf *p);

/* Keys (keys.c). */
int perf_keys_load(struct perf *p, uint64_t size);
/* perf_keys_find (places.c) - read those that no hint leads to; for --raw, find their blocks. */
int perf_keys_find(struct perf *p);
/* perf_buckets_find - and of the buckets that lead to them, where GETs have no hints. */
int perf_buckets_find(struct perf *p);
/* perf_keys_unload - delete what was put, unless it is to be kept, or @rc, why the run ended, says
 * that the server is not there: -ENOTCONN. */
int perf_keys_unload(struct perf *p, int rc);

/* Rounds (run.c). */
int perf_threads_start(struct perf *p);
void perf_threads_stop(struct perf *p);
/* perf_measure - a size, whose keys are loaded. */
int perf_measure(struct perf *p, struct perf_result *r);

/* One round of a thread: 0, or a negative errno with t->error. */
int perf_flight(struct perf_thread *t); /* kv-bw: flight.c */
int perf_single(struct perf_thread *t); /* kv-lat: single.c */
int perf_raw_reads(struct perf_thread *t); /* raw.c */
int perf_raw_sends(struct perf_thread *t); /* raw_send.c */
/* perf_idle - nothing came of @count polls. */
void perf_idle(const struct perf *p, unsigned count);
/* perf_sleep - -e: until one of the thread's handles has an event, or @until ticks. */
int perf_sleep(struct perf_thread *t, uint64_t until);

/* What is shown. */
void perf_table_head(const struct perf *p);
void perf_table_row(const struct perf *p, const struct perf_result *r);
void perf_table_end(const struct perf *p);
json_t *perf_json(const struct perf *p);
/* perf_json_kept - what -U has kept of the last size. */
json_t *perf_json_kept(const struct perf *p);
