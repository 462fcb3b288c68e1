/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A redis-server on a Unix socket, and redis-benchmark on it. Both from the PATH. */
#include <stdint.h>

#include "tools/lib/peer_process.h"

struct redis_process {
	struct peer_process server;
	int fd; /* a connection of ours */
	char benchmark_version[160];
};

/*
 * redis_start - run it and connect; it dies with this process. Returns 0; -ENOENT: it is not
 * installed; or another negative errno; with @err.
 */
int redis_start(struct redis_process *r, struct error *err);
void redis_stop(struct redis_process *r);

/*
 * redis_load - SET @keys keys as redis-benchmark -r calls them, key:000000000000 and on, to values
 * of @value_len bytes. Returns 0 or a negative errno with @err.
 */
int redis_load(struct redis_process *r, uint64_t keys, uint32_t value_len, struct error *err);

/*
 * redis_gets - GETs per second by redis-benchmark: @count of them at random among @keys keys, over
 * @clients connections, @pipeline in flight on each. Each must have found its key. Likewise.
 */
int redis_gets(struct redis_process *r, uint64_t keys, uint32_t value_len, unsigned clients,
	       unsigned pipeline, uint64_t count, double *per_s, struct error *err);
