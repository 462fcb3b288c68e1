/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Settings of a server that is a member of a group. */
#include "server/config/config_group.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/parse.h"

#define LEASE_MIN_MS 10
#define LEASE_MAX_MS 60000

#define MIN_IN_SYNC_MAX 8
#define RHO_MAX_PPM	500000

static int copy(const struct setting_values *v, enum setting_id id, char *out, size_t cap,
		struct error *err)
{
	const char *text = settings_text(v, id);
	char where[SETTINGS_WHERE_MAX];

	if (strlen(text) >= cap)
		return error_set(err, -EINVAL, "%s: it is longer than %zu bytes",
				 settings_where(v, id, where), cap - 1);
	strcpy(out, text);
	return 0;
}

static int copy_texts(struct config_group *g, const struct setting_values *v, struct error *err)
{
	const struct {
		enum setting_id id;
		char *out;
		size_t cap;
	} texts[] = {
		{ SET_CLUSTER, g->cluster, sizeof(g->cluster) },
		{ SET_GROUP, g->name, sizeof(g->name) },
		{ SET_ADVERTISE, g->advertise, sizeof(g->advertise) },
		{ SET_NODE, g->node, sizeof(g->node) },
		{ SET_ETCD, g->etcd, sizeof(g->etcd) },
		{ SET_ETCD_USER, g->user, sizeof(g->user) },
		{ SET_ETCD_PASSWORD, g->password, sizeof(g->password) },
		{ SET_ETCD_CA, g->ca, sizeof(g->ca) },
		{ SET_ETCD_CERT, g->cert, sizeof(g->cert) },
		{ SET_ETCD_KEY, g->key, sizeof(g->key) },
	};
	int rc = 0;

	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]) && rc == 0; i++)
		rc = copy(v, texts[i].id, texts[i].out, texts[i].cap, err);
	return rc;
}

/* What is said of a group, without a cluster. */
static int check_none(const struct setting_values *v, struct error *err)
{
	static const enum setting_id of_group[] = {
		SET_ETCD,	 SET_ETCD_USER, SET_ETCD_PASSWORD, SET_ETCD_CA,
		SET_ETCD_CERT,	 SET_ETCD_KEY,	SET_GROUP,	   SET_GROUP_LEASE,
		SET_GROUP_DRIFT, SET_GROUP_MIN, SET_ADVERTISE,	   SET_NODE
	};
	char where[SETTINGS_WHERE_MAX];

	for (unsigned i = 0; i < sizeof(of_group) / sizeof(of_group[0]); i++) {
		if (v->value[of_group[i]])
			return error_set(err, -EINVAL,
					 "%s: this server belongs to no cluster (give --cluster "
					 "NAME too)",
					 settings_where(v, of_group[i], where));
	}
	return 0;
}

static int check_advertise(const struct config_group *g, const struct setting_values *v,
			   struct error *err)
{
	char host[256] = "", port[8] = "", where[SETTINGS_WHERE_MAX];
	int rc;

	settings_where(v, SET_ADVERTISE, where);
	rc = g->advertise[0] ? parse_host_port(where, g->advertise, host, port, err) : 0;
	if (rc || !g->advertise[0])
		return rc;
	if (host[0] && port[0])
		return 0;
	return error_set(err, -EINVAL, "%s: %s has no host, or no port (give HOST:PORT)", where,
			 g->advertise);
}

int config_parse_group(struct config_group *g, const struct setting_values *v, struct error *err)
{
	char where[SETTINGS_WHERE_MAX];
	uint64_t lease_ms = 0, rho_ppm = 0, min_in_sync = 0;
	int rc = copy_texts(g, v, err);

	if (rc)
		return rc;
	if (!g->cluster[0])
		return check_none(v, err);
	rc = check_advertise(g, v, err);
	if (rc == 0)
		rc = parse_duration(settings_where(v, SET_GROUP_LEASE, where),
				    settings_text(v, SET_GROUP_LEASE), "ms", LEASE_MIN_MS,
				    LEASE_MAX_MS, &lease_ms, err);
	if (rc == 0)
		rc = parse_u64(settings_where(v, SET_GROUP_DRIFT, where),
			       settings_text(v, SET_GROUP_DRIFT), 0, RHO_MAX_PPM, &rho_ppm, err);
	if (rc == 0)
		rc = parse_u64(settings_where(v, SET_GROUP_MIN, where),
			       settings_text(v, SET_GROUP_MIN), 1, MIN_IN_SYNC_MAX, &min_in_sync,
			       err);
	g->lease_ms = (unsigned)lease_ms;
	g->rho_ppm = (unsigned)rho_ppm;
	g->min_in_sync = (unsigned)min_in_sync;
	return rc;
}
