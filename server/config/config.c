/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/config/config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory_default.h"
#include "common/base/parse.h"
#include "common/layout/limits.h"
#include "common/layout/version.h"
#include "server/config/config_group.h"

static int number(const struct setting_values *v, enum setting_id id, uint64_t min, uint64_t max,
		  unsigned *out, struct error *err)
{
	char where[SETTINGS_WHERE_MAX];
	uint64_t value;
	int rc = parse_u64(settings_where(v, id, where), settings_text(v, id), min, max, &value,
			   err);

	if (rc == 0)
		*out = (unsigned)value;
	return rc;
}

/* A value that is none of those that there are. */
static int no_choice(const struct setting_values *v, enum setting_id id, const char *choices,
		     struct error *err)
{
	char where[SETTINGS_WHERE_MAX];

	return error_set(err, -EINVAL, "%s: '%.80s' is none of %s", settings_where(v, id, where),
			 settings_text(v, id), choices);
}

static int parse_memory(struct config *c, const struct setting_values *v, struct error *err)
{
	char where[SETTINGS_WHERE_MAX];
	unsigned slots = 0;
	int rc;

	c->memory_bytes = memory_default(SLAB_BYTES);
	settings_where(v, SET_MEMORY, c->memory_from);
	if (v->value[SET_MEMORY]) {
		rc = parse_size(c->memory_from, v->value[SET_MEMORY], &c->memory_bytes, err);
		if (rc)
			return rc;
	}
	rc = parse_size(settings_where(v, SET_DEFERRED_MAX, where),
			settings_text(v, SET_DEFERRED_MAX), &c->deferred_max, err);
	if (rc)
		return rc;
	if (c->deferred_max && (c->deferred_max < SLAB_BYTES || c->deferred_max > c->memory_bytes))
		return error_set(err, -EINVAL,
				 "%s: %llu bytes (give 1M at least, and no more than memory, "
				 "or 0 for a quarter of it)",
				 where, (unsigned long long)c->deferred_max);
	c->populate = strcmp(settings_text(v, SET_POPULATE), "yes") == 0;
	if (!c->populate && strcmp(settings_text(v, SET_POPULATE), "no") != 0)
		return no_choice(v, SET_POPULATE, "yes, no", err);
	rc = number(v, SET_INDEX_SLOTS, 0, UINT32_MAX, &slots, err);
	c->index_slots = slots;
	return rc;
}

static int parse_rdma(struct config *c, const struct setting_values *v, struct error *err)
{
	struct rdma_options *o = &c->rdma;
	char where[SETTINGS_WHERE_MAX];
	unsigned gid = 0;
	int rc;

	if (strlen(settings_text(v, SET_DEVICE)) >= sizeof(c->device))
		return error_set(err, -EINVAL,
				 "%s: the name is too long (kv-cli doctor names the "
				 "devices)",
				 settings_where(v, SET_DEVICE, where));
	strcpy(c->device, settings_text(v, SET_DEVICE));
	o->device = c->device;
	o->gid_index = RDMA_GID_AUTO;
	rc = number(v, SET_IB_PORT, 0, 255, &o->ib_port, err);
	if (rc == 0)
		rc = number(v, SET_MTU, 0, 4096, &o->mtu_bytes, err);
	if (rc == 0)
		rc = number(v, SET_PKEY_INDEX, 0, RDMA_PKEY_INDEX_MAX, &o->pkey_index, err);
	if (rc == 0)
		rc = number(v, SET_SERVICE_LEVEL, 0, RDMA_SERVICE_LEVEL_MAX, &o->service_level,
			    err);
	if (rc == 0)
		rc = number(v, SET_TRAFFIC_CLASS, 0, RDMA_TRAFFIC_CLASS_MAX, &o->traffic_class,
			    err);
	if (rc == 0)
		rc = number(v, SET_TIMEOUT, 1, 31, &o->timeout, err);
	if (rc == 0)
		rc = number(v, SET_RETRY_CNT, 0, 7, &o->retry_cnt, err);
	if (rc == 0)
		rc = number(v, SET_RNR_RETRY, 0, 7, &o->rnr_retry, err);
	if (rc == 0 && strcmp(settings_text(v, SET_GID_INDEX), "auto") != 0) {
		rc = number(v, SET_GID_INDEX, 0, RDMA_GID_INDEX_MAX, &gid, err);
		o->gid_index = (int)gid;
	}
	return rc;
}

/* What the log does when: a word, or a time. */
static int parse_sync(struct config *c, const struct setting_values *v, struct error *err)
{
	const char *text = settings_text(v, SET_SYNC);
	char where[SETTINGS_WHERE_MAX];
	uint64_t ms = 0;
	int rc;

	if (strcmp(text, "always") == 0) {
		c->sync = LOG_SYNC_ALWAYS;
		return 0;
	}
	if (strcmp(text, "never") == 0) {
		c->sync = LOG_SYNC_NEVER;
		return 0;
	}
	if (text[0] < '0' || text[0] > '9')
		return no_choice(v, SET_SYNC, "always, never, or a time such as 10ms", err);
	rc = parse_duration(settings_where(v, SET_SYNC, where), text, "ms", 1, 3600000, &ms, err);
	c->sync = LOG_SYNC_MS;
	c->sync_ms = (unsigned)ms;
	return rc;
}

/* What is said of a data directory, without one. */
static int check_no_data(const struct setting_values *v, struct error *err)
{
	static const enum setting_id of_data[] = { SET_SYNC, SET_LOG_SEGMENT, SET_SNAPSHOT_EVERY };
	char where[SETTINGS_WHERE_MAX];

	for (unsigned i = 0; i < sizeof(of_data) / sizeof(of_data[0]); i++) {
		if (v->value[of_data[i]])
			return error_set(err, -EINVAL,
					 "%s: nothing is written without a data directory (give "
					 "--data-dir DIR too)",
					 settings_where(v, of_data[i], where));
	}
	if (v->recover_until || v->check_data)
		return error_set(err, -EINVAL, "%s: of which directory? (give --data-dir DIR too)",
				 v->check_data ? "--check-data" : "--recover-until");
	return 0;
}

static int parse_data(struct config *c, const struct setting_values *v, struct error *err)
{
	const char *dir = settings_text(v, SET_DATA_DIR);
	char where[SETTINGS_WHERE_MAX];
	int rc;

	c->recover_until = UINT64_MAX;
	if (!dir[0] && v->value[SET_DATA_DIR])
		return error_set(err, -EINVAL,
				 "%s: it is empty (give a directory, or leave it out: then nothing "
				 "outlives the server)",
				 settings_where(v, SET_DATA_DIR, where));
	if (!dir[0])
		return check_no_data(v, err);
	if (strlen(dir) >= sizeof(c->data_dir))
		return error_set(err, -EINVAL,
				 "%s: the path is longer than %zu bytes (give a "
				 "shorter one)",
				 settings_where(v, SET_DATA_DIR, where), sizeof(c->data_dir) - 1);
	strcpy(c->data_dir, dir);
	rc = parse_sync(c, v, err);
	if (rc == 0)
		rc = parse_size(settings_where(v, SET_LOG_SEGMENT, where),
				settings_text(v, SET_LOG_SEGMENT), &c->log_segment_bytes, err);
	if (rc == 0 &&
	    (c->log_segment_bytes < LOG_SEGMENT_MIN || c->log_segment_bytes > LOG_SEGMENT_MAX))
		rc = error_set(err, -ERANGE, "%s: %llu bytes (give 64M to 16G)", where,
			       (unsigned long long)c->log_segment_bytes);
	if (rc == 0)
		rc = parse_size(settings_where(v, SET_SNAPSHOT_EVERY, where),
				settings_text(v, SET_SNAPSHOT_EVERY), &c->snapshot_bytes, err);
	if (rc == 0 && v->recover_until)
		rc = parse_u64("--recover-until", v->recover_until, 0, UINT64_MAX - 1,
			       &c->recover_until, err);
	return rc;
}

static int parse_log(struct config *c, const struct setting_values *v, struct error *err)
{
	if (log_level_parse(settings_text(v, SET_LOG_LEVEL), &c->log_level))
		return no_choice(v, SET_LOG_LEVEL, "error, warn, info, debug", err);
	if (strcmp(settings_text(v, SET_LOG_FORMAT), "json") == 0)
		c->log_format = LOG_JSON;
	else if (strcmp(settings_text(v, SET_LOG_FORMAT), "text") != 0)
		return no_choice(v, SET_LOG_FORMAT, "text, json", err);
	return 0;
}

static int parse_rest(struct config *c, const struct setting_values *v, struct error *err)
{
	char where[SETTINGS_WHERE_MAX];
	uint64_t lease_ms = 0;
	int rc;

	strcpy(c->host, "127.0.0.1");
	strcpy(c->port, "7471");
	settings_where(v, SET_LISTEN, where);
	if (!settings_text(v, SET_LISTEN)[0])
		return error_set(err, -EINVAL, "%s: it is empty (give HOST:PORT)", where);
	rc = parse_host_port(where, settings_text(v, SET_LISTEN), c->host, c->port, err);
	if (rc == 0)
		rc = number(v, SET_WORKERS, 0, 64, &c->workers, err);
	if (rc == 0)
		rc = parse_duration(settings_where(v, SET_LEASE, where),
				    settings_text(v, SET_LEASE), "ms", 10, 600000, &lease_ms, err);
	c->lease_ms = (unsigned)lease_ms;
	return rc ? rc : parse_log(c, v, err);
}

static int parse_connect(struct config *c, const struct setting_values *v, struct error *err)
{
	const char *text = settings_text(v, SET_CONNECT);
	char where[SETTINGS_WHERE_MAX];

	if (strcmp(text, "tcp") == 0)
		return 0;
	if (strcmp(text, "cm") != 0)
		return no_choice(v, SET_CONNECT, "tcp, cm", err);
	c->connect = CONNECT_CM;
	if (strcmp(c->device, "soft0") == 0)
		return error_set(err, -EINVAL,
				 "%s cm: the RDMA CM is the kernel's and does not know "
				 "soft0 (leave --device out, name a real device, or use --connect "
				 "tcp)",
				 settings_where(v, SET_CONNECT, where));
	if (c->rdma.gid_index != RDMA_GID_AUTO)
		return error_set(err, -EINVAL,
				 "%s %d: with --connect cm the CM chooses GIDs, by "
				 "addresses (leave it out, or use --connect tcp)",
				 settings_where(v, SET_GID_INDEX, where), c->rdma.gid_index);
	if (c->rdma.pkey_index)
		return error_set(err, -EINVAL,
				 "%s %u: with --connect cm the partition is that of the network "
				 "device with the address (leave it out, or use --connect tcp)",
				 settings_where(v, SET_PKEY_INDEX, where), c->rdma.pkey_index);
	return 0;
}

static_assert(sizeof(((struct config *)0)->memory_from) == SETTINGS_WHERE_MAX, "any place fits");

int config_parse(struct config *out, const struct setting_values *v, struct error *err)
{
	int rc;

	memset(out, 0, sizeof(*out));
	rc = parse_rest(out, v, err);
	if (rc == 0)
		rc = parse_rdma(out, v, err);
	if (rc == 0)
		rc = parse_connect(out, v, err);
	if (rc == 0)
		rc = parse_data(out, v, err);
	if (rc == 0)
		rc = config_parse_group(&out->group, v, err);
	return rc ? rc : parse_memory(out, v, err);
}

int config_collect(struct config *out, struct setting_values *v, int argc, char **argv,
		   enum config_next *next, struct error *err)
{
	int rc = settings_collect(v, argc, argv, err);

	*next = CONFIG_SERVE;
	if (rc == 0 && (v->help || v->version)) {
		*next = CONFIG_EXIT;
		v->help ? settings_print_help()
			: version_print(stdout, "kv-server", GRACEKV_VERSION);
	} else if (rc == 0) {
		rc = config_parse(out, v, err);
		*next = v->check_data ? CONFIG_CHECK_DATA : CONFIG_SERVE;
	}
	return rc;
}

int config_load(struct config *out, int argc, char **argv, enum config_next *next,
		struct error *err)
{
	struct setting_values v;
	int rc = config_collect(out, &v, argc, argv, next, err);

	settings_free(&v);
	return rc;
}
