/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A worker from the inside. Its thread: worker.c (the loop), command.c, apart.c, prefetch.c. The
 * control thread: conn.c.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "server/worker/receives.h"
#include "server/worker/rpc.h"
#include "server/worker/worker.h"

#define CQ_ENTRIES   (8 * WORKER_RECEIVES) /* as far as the device goes: conn.c counts */
#define WORKER_CONNS 1024u /* chains of the table of connections by QP number */

/* A command of the control thread, which waits for @done. */
enum command_kind { COMMAND_ATTACH, COMMAND_FAIL, COMMAND_DETACH, COMMAND_STOP };

struct command {
	enum command_kind kind;
	struct conn *conn;
	uint64_t answer_until_ns; /* FAIL */
	int result;
	sem_t done;
};

struct worker {
	struct rpc_worker rpc;
	unsigned number;
	uint64_t spin_yield_ns; /* idle for this long, it spins; then it yields */
	pthread_t thread;
	struct rdma_cq cq;
	struct receives receives;
	int wake_fd; /* eventfd: a command waits */

	/* Control thread. */
	unsigned credits; /* given out */
	unsigned sends; /* places in send queues: each may complete, flushed */

	/* One command at a time: the control thread stores it, the worker takes it (release,
	 * acquire), and posts its semaphore when done. */
	_Atomic(struct command *) command;

	/* Worker thread. */
	bool stopping;
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

/* worker_command - hand a command to the worker and wait for it. Control thread. */
void worker_command(struct worker *w, struct command *command);

/* worker_take_command - obey one, if there is one. worker_fail, worker_detach - two of them. */
void worker_take_command(struct worker *w);
void worker_fail(struct worker *w, struct command *cmd);
void worker_detach(struct worker *w, struct command *cmd);
