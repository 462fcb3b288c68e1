/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The systems that are compared: what is started for them, and how they are reached. */
#include <stdbool.h>
#include <stdint.h>

#include <gracekv.h>

#include "tools/kv-bench/codec.h"
#include "tools/kv-bench/driver.h"
#include "tools/lib/peer_process.h"
#include "tools/lib/server_process.h"

enum system_kind {
	SYSTEM_GRACEKV,
	SYSTEM_REDIS_UNIX,
	SYSTEM_REDIS_TCP,
	SYSTEM_MEMCACHED,
	SYSTEM_FLOOR,
	SYSTEMS,
};

extern const char *const system_name[SYSTEMS];

/* What a client has to know of one. */
struct system {
	const char *name;
	enum system_kind kind;
	const struct driver *driver;
	const struct codec *codec; /* of those over sockets, as these two */
	const char *socket;
	uint16_t port;
	struct gkv_session *session; /* of ours */
	pid_t pid; /* 0: not on this machine, for all that is known */
	bool keeps_nothing; /* what is read says nothing */
	bool filled_by_another; /* its store is that of the system before it */
	char version[160], how[160];
};

struct systems {
	struct system one[SYSTEMS];
	unsigned count;
	char device[64];
	bool software;
	struct server_process server;
	struct peer_process redis, memcached, floor;
};

struct systems_options {
	bool wanted[SYSTEMS];
	const char *server; /* HOST:PORT of a running one; NULL: an own one is started */
	const char *binary, *host, *device, *connect;
	uint64_t timeout_ms; /* 0: the library's */
	uint64_t memory, value_max; /* bytes for records, in each of them; of the longest value */
};

/*
 * systems_start - all that are wanted. Returns 0, or a negative errno with @err; in either case
 * systems_stop() ends what was started.
 */
int systems_start(struct systems *s, const struct systems_options *o, struct error *err);

/* systems_stop - Returns 0, or a negative errno with @err: kv-server did not stop in order. */
int systems_stop(struct systems *s, struct error *err);
