/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Worker threads. One completion queue and one shared receive queue each; queue pairs of any number
 * of sessions. The loop polls, answers, passes a quiescent state, and after WORKER_SPIN_NS without
 * work arms the channel, goes offline for liburcu, and sleeps.
 *
 * The queue-pair thread talks to a worker by commands about connections, which come back when they
 * are obeyed (command.c); everything else of a worker is its own thread's. Counters are written by
 * the worker and read by anyone, relaxed.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/mailbox.h"
#include "common/layout/wire_measure.h"
#include "server/store/store.h"
#include "server/worker/conn.h"

#define WORKER_SPIN_NS	50000u
#define WORKER_RECEIVES 4096u /* of one shared receive queue: credits given out, at most */

struct worker_counters {
	_Atomic uint64_t gets, puts, dels, pings;
	_Atomic uint64_t updates; /* INCR, TOUCH, APPEND */
	_Atomic uint64_t stats; /* MEASURE and SAVE as well */
	_Atomic uint64_t repeats; /* retries answered from memory */
	_Atomic uint64_t refused; /* requests answered with an error other than not found */
	_Atomic uint64_t full; /* of those, for want of memory */
	_Atomic uint64_t protocol_errors;
	_Atomic uint64_t lost; /* queue pairs that broke under a session */
	_Atomic uint64_t pulled_bytes; /* values fetched by RDMA READ */
	_Atomic uint64_t pushed_bytes; /* values written into staging memory */
	_Atomic uint64_t wakeups;
	_Atomic uint64_t connections;
};

/*
 * Fills the text of a STATS reply: lines "name value". Returns its length, at most @cap.
 * Called on worker threads.
 */
typedef size_t (*worker_stats_fn)(void *ctx, char *text, size_t cap);

/* Fills what the whole server knows of a measurement. Called on worker threads. */
typedef void (*worker_measure_fn)(void *ctx, struct rpc_measured *out);

/*
 * Asks for a snapshot: returns its number, or -EOPNOTSUPP: there is no data directory. Called on
 * worker threads. NULL is the same as the latter.
 */
typedef int64_t (*worker_save_fn)(void *ctx);

struct worker_config {
	const struct rdma_device *dev;
	struct store *store;
	worker_stats_fn stats;
	worker_measure_fn measure;
	worker_save_fn save;
	void *stats_ctx; /* of all three */
	int notice_fd; /* eventfd, written when one was lost: conn_lifeline_lost() */
	struct mailbox *obeyed; /* where connections go whose command is done */
	const _Atomic uint64_t *lease_until; /* of the root page: lease_word.h; NULL: no group */
};

/* worker_create - start a thread. Returns 0 or a negative errno with @err. */
int worker_create(struct worker **out, const struct worker_config *config, unsigned number,
		  struct error *err);

/*
 * worker_stop - every connection was detached. What waits for the log is published and remembered,
 * unless the log has failed; then the thread ends. The rest of the worker stays, its door too.
 * worker_destroy - the same, where that was not done, and all of it goes. NULL is fine.
 */
void worker_stop(struct worker *w);
void worker_destroy(struct worker *w);

/* worker_door - for its `oldest`. */
const struct write_door *worker_door(const struct worker *w);

/*
 * conn_create - a queue pair on @w, in INIT, not attached. @credits: requests in flight, at most
 * RPC_SLOTS_MAX; conn->credits says how many were granted, fewer where few are left. 0: it carries
 * none, and what is sent on it all the same finds no receive. Returns 0;
 * -EUSERS: the worker's receive queue is full; what verbs returned.
 */
int conn_create(struct conn **out, struct worker *w, unsigned credits,
		const struct rdma_source *source, struct error *err);

/*
 * Commands: what the worker is to do with a connection, which it has until it comes back through
 * worker_config.obeyed. What to ask for, and when: apart.c.
 * conn_attach - answer on it. Comes back with conn->result 0, attached; or why not.
 * conn_answer - answer what has arrived, up to @until_ns, and let the answers leave.
 * conn_drain - after conn_fail(): let what was posted come back.
 * conn_detach - after conn_destroy(): forget it.
 */
void conn_attach(struct conn *c);
void conn_answer(struct conn *c, uint64_t until_ns);
void conn_drain(struct conn *c);
void conn_detach(struct conn *c);

/*
 * conn_fail - the queue pair goes to ERR and takes no receive any more; the device may say when it
 * has given back the last one (rdma_device_event(), with the connection as context): the caller
 * waits for that a while and sets conn->gave_back (receives.c). The worker may have it or not.
 */
void conn_fail(struct conn *c);

/*
 * conn_destroy - after conn_fail(), and conn_drain() where it was attached: the queue pair is gone.
 * No remote access through it after this returns (I4). Returns 0; or a negative errno: the device
 * did not take it apart, and nothing can be said of the client's access.
 */
int conn_destroy(struct conn *c);

/* conn_free - after conn_destroy(), and conn_detach() where it was attached. */
void conn_free(struct conn *c);

const struct worker_counters *worker_counters(const struct worker *w);
uint64_t worker_receives_lost(const struct worker *w); /* by dead queue pairs, and found again */
unsigned worker_receives_held(const struct worker *w); /* that they may have kept */
unsigned worker_credits(const struct worker *w); /* given out; queue-pair thread only */
