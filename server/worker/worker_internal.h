/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A worker from the inside. Its thread: worker.c (the loop), command.c, apart.c, prefetch.c. The
 * queue-pair thread: conn.c.
 */
#include <pthread.h>
#include <stdbool.h>

#include "common/base/mailbox.h"
#include "server/worker/receives.h"
#include "server/worker/rpc.h"
#include "server/worker/worker.h"

#define CQ_ENTRIES   (8 * WORKER_RECEIVES) /* as far as the device goes: conn.c counts */
#define WORKER_CONNS 1024u /* chains of the table of connections by QP number */

struct worker {
	struct rpc_worker rpc;
	unsigned number;
	uint64_t spin_yield_ns; /* idle for this long, it spins; then it yields */
	pthread_t thread;
	bool stopped; /* it was joined. The creator's */
	struct rdma_cq cq;
	struct receives receives;
	struct mailbox commands; /* of the queue-pair thread: connections, or worker_stop */
	struct mail stop;

	/* Queue-pair thread. */
	unsigned credits; /* given out */
	unsigned sends; /* places in send queues: each may complete, flushed */

	/* Worker thread. */
	bool stopping;
	bool spun_in_vain; /* it was idle, and had to sleep in the end */
	bool holders_are_slow; /* the same, while a write waited for them; none was done since */
	uint64_t polled; /* completions */
	uint64_t emptied; /* polls that left none */
	struct conn *leaving; /* those whose command takes its time: apart.c */
	uint64_t tidy_at_ns; /* not before */
	unsigned tidy_back_off; /* doublings of the wait, since there was no memory for it */
	struct conn *conns[WORKER_CONNS];
};

/* worker_prefetch - for the requests among @n completions that were polled together. */
void worker_prefetch(struct worker *w, const struct ibv_wc *wc, int n);

/* worker_poll - handle what has completed. Returns how many completions there were. */
int worker_poll(struct worker *w);

/* worker_chain - of the table of connections, the one that has queue pair @qpn. */
static inline struct conn **worker_chain(struct worker *w, uint32_t qpn)
{
	return &w->conns[qpn % WORKER_CONNS];
}

/* worker_take_commands - obey those that have come. */
void worker_take_commands(struct worker *w);

/* worker_obeyed - the command of @c is done, with @result: it is the queue-pair thread's again. */
void worker_obeyed(struct worker *w, struct conn *c, int result);

/* Commands that take their time begin here, and end in worker_leave(), which is called after each
 * poll while w->leaving is not NULL. @n: completions that were polled. */
void worker_answer(struct worker *w, struct conn *c);
void worker_drain(struct worker *w, struct conn *c);
void worker_detach(struct worker *w, struct conn *c);
void worker_leave(struct worker *w, int n);
