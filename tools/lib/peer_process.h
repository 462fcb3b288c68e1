/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Servers of others that a benchmark starts from the PATH, to compare with: a redis-server, a
 * memcached. They listen on 127.0.0.1 at a free port, on a Unix socket in a folder of their own, or
 * both; they write no files, and die with this process. One thread.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"

struct peer_process {
	const char *name; /* of its program; static */
	pid_t pid; /* 0: none */
	uint16_t port; /* 0: it does not listen there */
	char folder[64], socket[80]; /* "": likewise */
	char version[160]; /* as the program tells it */
};

/*
 * peer_program_version - the first line that a program of the PATH prints with @flag. Returns 0;
 * -ENOENT: it is not installed; or another negative errno; with @err.
 */
int peer_program_version(const char *program, const char *flag, char *out, size_t cap,
			 struct error *err);

/*
 * peer_start_redis - on a Unix socket and on a port; it keeps nothing on a disk.
 * peer_start_memcached - on a port, with @memory for records of up to @value_max bytes; it refuses
 * to write where that is full, and evicts nothing.
 * Both return when it answers: 0, or as peer_program_version(). Ended by peer_stop().
 */
int peer_start_redis(struct peer_process *p, struct error *err);
int peer_start_memcached(struct peer_process *p, uint64_t memory, uint64_t value_max,
			 struct error *err);

/* peer_stop - end it, and remove its folder. Harmless where there is none. */
void peer_stop(struct peer_process *p);

/*
 * peer_connect - a connection to what listens on @socket, or where that is NULL or "" on @port of
 * 127.0.0.1. Over TCP small messages are not held back. Returns a descriptor, or a negative errno.
 */
int peer_connect(const char *socket, uint16_t port);

/* peer_listen - on a free port of 127.0.0.1, which @port receives. Likewise. */
int peer_listen(uint16_t *port);
