/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The session's own copy of its options, checked, with defaults filled in. */
#include <stdbool.h>

#include "client/include/gracekv.h"
#include "common/base/error.h"
#include "common/rdma/device.h"

#define SETTINGS_SERVERS_MAX 8u

/* Where a server is: by name, or by address. */
struct settings_server {
	char host[256];
	char port[8];
};

struct settings {
	struct settings_server server[SETTINGS_SERVERS_MAX]; /* one, or those of a group */
	unsigned servers; /* at least 1 */
	char device[64];
	char name[64]; /* shown by the server */
	unsigned timeout_ms;
	unsigned lifeline_ms;
	unsigned connect; /* GKV_CONNECT_... */
	unsigned housekeeper; /* GKV_HOUSEKEEPER_... */
	unsigned flags; /* GKV_CHECK_THREADS, GKV_SERVERS_GIVEN */
	uint64_t hint_bytes;
	gkv_trace trace; /* NULL: nobody */
	void *trace_arg;
	struct rdma_options rdma; /* device points into this struct */
};

/* options_reserved - whether any of @bytes of reserved fields is not 0. */
bool options_reserved(const void *reserved, size_t bytes);

/* settings_take - @options may be NULL. Returns 0, -EINVAL or -ERANGE with @err. */
int settings_take(struct settings *out, const struct gkv_options *options, struct error *err);
