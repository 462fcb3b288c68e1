/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Settings as text, before they mean anything: where each came from, and its help. */
#include "common/base/error.h"

enum setting_id {
	SET_LISTEN,
	SET_DEVICE,
	SET_IB_PORT,
	SET_GID_INDEX,
	SET_MTU,
	SET_MEMORY,
	SET_INDEX_SLOTS,
	SET_WORKERS,
	SET_LEASE,
	SET_DEFERRED_MAX,
	SET_CONNECT,
	SET_TIMEOUT,
	SET_RETRY_CNT,
	SET_RNR_RETRY,
	SET_LOG_LEVEL,
	SET_LOG_FORMAT,
	SETTINGS_COUNT,
};

struct setting {
	const char
		*name; /* of the flag: --name; of the file: name; of the environment: see below */
	char letter; /* of the short flag, or 0 */
	const char *metavar;
	const char *fallback; /* NULL: computed */
	const char *help;
};

extern const struct setting settings[SETTINGS_COUNT];

struct setting_values {
	char *value[SETTINGS_COUNT]; /* NULL: not given; owned */
	char *config_file;
	int help, version;
};

/*
 * settings_collect - flag, then environment (GRACEKV_ and the name in capitals; empty is not set),
 * then file.
 * Returns 0 or a negative errno with @err.
 */
int settings_collect(struct setting_values *out, int argc, char **argv, struct error *err);
void settings_free(struct setting_values *v);
void settings_print_help(void);
