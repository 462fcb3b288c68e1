/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A whole kv-server inside this process, on soft0 and a free port of loopback: for programs that
 * write into its store by themselves. Only one at a time.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "server/server.h"

struct server_thread {
	unsigned lease_ms; /* set before the start; 0: kv-server's default */
	struct server server;
	pthread_t thread;
	struct error err; /* of server_run() */
	_Atomic bool ended; /* it serves no more */
};

/*
 * server_thread_start - @index_slots: 0 for the default. SIGTERM and SIGINT, which end the server,
 * are blocked in the calling thread from now on. @t: not on a stack. Returns 0 or a negative errno
 * with @err.
 */
int server_thread_start(struct server_thread *t, uint64_t memory_bytes, uint64_t index_slots,
			struct error *err);

/*
 * server_thread_stop - every store_worker is destroyed, every client gone or about to be cut off.
 * Returns what server_run() did, with its sentence in t->err.
 */
int server_thread_stop(struct server_thread *t);
