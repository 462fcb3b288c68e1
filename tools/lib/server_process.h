/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A kv-server of the benchmark's own, and what it costs. */
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"

struct server_process {
	pid_t pid; /* 0: somebody else's server */
	char address[280]; /* HOST:PORT */
	char device[64];
};

/* How the server is started: its options of these names. */
struct server_options {
	const char *binary; /* NULL: beside this program, or in the same build's bin */
	const char *host; /* of --listen; the port is a free one */
	const char *memory, *device, *connect;
	const char *const *more; /* arguments after these, NULL-terminated; NULL: none */
};

/*
 * server_process_start - run it with a free port and wait for its ready line. It dies with this
 * process. Returns 0 or a negative errno with @err.
 */
int server_process_start(struct server_process *p, const struct server_options *o,
			 struct error *err);

/* server_process_stop - SIGTERM, and wait. Returns its exit status, or a negative errno. */
int server_process_stop(struct server_process *p);

/* server_process_cpu_ns - CPU time of all its threads, user and system; or a negative errno. */
int64_t server_process_cpu_ns(pid_t pid);
