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
	SET_PKEY_INDEX,
	SET_SERVICE_LEVEL,
	SET_TRAFFIC_CLASS,
	SET_MEMORY,
	SET_POPULATE,
	SET_INDEX_SLOTS,
	SET_WORKERS,
	SET_LEASE,
	SET_DEFERRED_MAX,
	SET_CONNECT,
	SET_TIMEOUT,
	SET_RETRY_CNT,
	SET_RNR_RETRY,
	SET_DATA_DIR,
	SET_SYNC,
	SET_LOG_SEGMENT,
	SET_SNAPSHOT_EVERY,
	SET_CLUSTER,
	SET_ETCD,
	SET_ETCD_USER,
	SET_ETCD_PASSWORD,
	SET_ETCD_CA,
	SET_ETCD_CERT,
	SET_ETCD_KEY,
	SET_GROUP,
	SET_GROUP_LEASE,
	SET_GROUP_DRIFT,
	SET_GROUP_MIN,
	SET_ADVERTISE,
	SET_NODE,
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
	const char *fixed; /* why it cannot change while the server runs; NULL: it can */
};

extern const struct setting settings[SETTINGS_COUNT];

struct setting_values {
	char *value[SETTINGS_COUNT]; /* NULL: not given; owned */
	char *from[SETTINGS_COUNT]; /* where it was given, as errors name it; owned */
	char *config_file;
	char *recover_until; /* of the command line alone: a position, or NULL. Owned */
	int check_data; /* likewise: look at the data directory, and exit */
	int help, version;
};

/*
 * settings_collect - flag, then environment (GRACEKV_ and the name in capitals; empty is not set),
 * then file.
 * Returns 0 or a negative errno with @err.
 */
int settings_collect(struct setting_values *out, int argc, char **argv, struct error *err);
void settings_free(struct setting_values *v);

/* settings_check_environment - the log warns of each GRACEKV_ variable that nothing reads. */
void settings_check_environment(void);

/* settings_swap - exchange one setting of two. */
void settings_swap(struct setting_values *a, struct setting_values *b, enum setting_id id);

/* settings_text - the value, or what it is where none is given; "" where that is computed. */
const char *settings_text(const struct setting_values *v, enum setting_id id);

#define SETTINGS_WHERE_MAX 320 /* longer names of files are cut */

/* settings_where - "--memory", "GRACEKV_MEMORY" or "FILE line 3: memory", for an error. Returns
 * @out. */
const char *settings_where(const struct setting_values *v, enum setting_id id,
			   char out[SETTINGS_WHERE_MAX]);

void settings_print_help(void);
