/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* kv-server as a whole: made in order, taken apart in reverse. The main thread's. */
#include "common/base/numa.h"
#include "common/rdma/device.h"
#include "common/rdma/region.h"
#include "server/clock.h"
#include "server/config/config.h"
#include "server/data/data.h"
#include "server/session/session.h"
#include "server/store/store.h"

struct server {
	struct config config;
	struct rdma_device *dev;
	struct store store;
	struct rdma_buffer root; /* struct root */
	struct sessions sessions;
	struct clock clock;
	struct numa_place place;
	uint64_t started_ns;
	int listen_fd;
	uint64_t full_told_ns, full_told; /* the log was told of so many refused writes */
	struct cm_listener *cm; /* NULL: --connect tcp */
	struct data *data; /* NULL: no data directory */
	struct grouped *grouped; /* NULL: the server belongs to no group */
	uint64_t hash_seed; /* of a cluster */
	const struct write_door *doors[WORKERS_MAX]; /* of the workers, for data_serve() */
	_Atomic bool log_failed;
	char log_failure[400]; /* why, written before log_failed */
	char bound[280]; /* "HOST:PORT" */
	char spare[sizeof(((struct config *)0)->memory_from) + 8]; /* of rdma_options */
};

/*
 * server_create - listen, open the device, make memory, index, root and workers. Nobody can connect
 * before server_run(). Returns 0 or a negative errno with @err; nothing is left then. -ECANCELED:
 * SIGTERM or SIGINT came, which server_block_signals() keeps, while memory was taken or records
 * came back from the data directory.
 */
int server_create(struct server *s, const struct config *config, struct error *err);

/* server_make_workers - those that the settings say. Returns 0 or a negative errno with @err. */
int server_make_workers(struct server *s, struct error *err);

/*
 * server_told_to_stop - SIGTERM or SIGINT waits, while server_create() is under way. Any thread.
 */
bool server_told_to_stop(void);

/*
 * server_block_signals - in the first thread, before the others: signals that the server heeds,
 * or ignores on purpose, come by signalfd; a closed socket is an error, not a signal.
 */
void server_block_signals(void);

/*
 * server_run - serve until SIGTERM or SIGINT. Those of server_block_signals() must be blocked.
 * @reload: what SIGHUP does, with @ctx; NULL: nothing. *@again: after server_destroy() the process
 * is to start once more: the server's group has it learn from its primary.
 */
int server_run(struct server *s, void (*reload)(void *ctx), void *ctx, bool *again,
	       struct error *err);

/* server_destroy - returns 0, or a negative errno: what was written last may not be durable. */
int server_destroy(struct server *s);
