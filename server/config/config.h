/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The settings of kv-server, parsed and checked for their ranges. */
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/rdma/device.h"
#include "server/log/log.h"

enum config_connect { CONNECT_TCP, CONNECT_CM };

/* Of a server that is a member of a group. */
struct config_group {
	char cluster[65]; /* "": it is none */
	char name[65];
	char advertise[280]; /* "HOST:PORT"; "": where it listens */
	char node[64]; /* "": as advertise */
	char etcd[1024], user[128], password[128], ca[512], cert[512], key[512]; /* "": none */
	unsigned lease_ms, rho_ppm, min_in_sync;
};

struct config {
	char host[256];
	char port[8];
	enum config_connect connect;
	struct rdma_options rdma; /* strings are kept by the config */
	char device[64];
	uint64_t memory_bytes;
	char memory_from[320]; /* what set it, as settings_where() says */
	bool populate; /* take memory at the start */
	uint64_t index_slots; /* to begin with; 0: the least */
	unsigned workers; /* 0: half of the cores that there are for them */
	unsigned lease_ms;
	uint64_t deferred_max; /* bytes; 0: the store's default */
	char data_dir[512]; /* "": none */
	enum log_sync sync;
	unsigned sync_ms;
	uint64_t log_segment_bytes, snapshot_bytes;
	uint64_t recover_until; /* a position; UINT64_MAX: all of the log */
	struct config_group group;
	enum log_level log_level;
	enum log_format log_format;
};

enum config_next { CONFIG_SERVE, CONFIG_CHECK_DATA, CONFIG_EXIT };

struct setting_values; /* server/config/settings.h */

/* config_parse - settings from their texts. Returns 0, -EINVAL or -ERANGE with @err. */
int config_parse(struct config *out, const struct setting_values *v, struct error *err);

/*
 * config_collect - as config_load(), and the texts are kept at @v, to be freed with
 * settings_free(), also where it fails.
 */
int config_collect(struct config *out, struct setting_values *v, int argc, char **argv,
		   enum config_next *next, struct error *err);

/*
 * config_load - from the command line, the environment and --config FILE.
 * Prints --help and --version to stdout, then says CONFIG_EXIT. CONFIG_CHECK_DATA: --check-data.
 * Returns 0; -EINVAL, -ERANGE: wrong usage; the error of reading the file. @err says which.
 */
int config_load(struct config *out, int argc, char **argv, enum config_next *next,
		struct error *err);
