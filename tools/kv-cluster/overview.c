/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cluster/overview.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool leads(const struct view *v)
{
	return v->err.code == 0 && v->status.role == WIRE_GROUP_LEADS;
}

static bool is_known(const struct overview *o, const char *server)
{
	for (unsigned i = 0; i < o->count; i++)
		if (strcmp(o->view[i].server, server) == 0 ||
		    (o->view[i].err.code == 0 && strcmp(o->view[i].status.address, server) == 0))
			return true;
	return false;
}

/* The same server may have been named twice, by two of its addresses. */
static bool is_another(const struct overview *o, const struct view *v)
{
	for (unsigned i = 0; i < o->count; i++)
		if (v->err.code == 0 && o->view[i].err.code == 0 &&
		    o->view[i].status.life == v->status.life)
			return false;
	return true;
}

static void ask_one(struct overview *o, const char *server, const char *group, uint64_t timeout_ms)
{
	struct view *v = &o->view[o->count];

	if (o->count == SERVERS_MAX || is_known(o, server))
		return;
	*v = (struct view){ 0 };
	snprintf(v->server, sizeof(v->server), "%s", server);
	ask_status(v, group, timeout_ms);
	o->count += is_another(o, v);
}

static void judge(struct overview *o)
{
	o->newest = o->primary = NULL;
	for (unsigned i = 0; i < o->count; i++) {
		const struct view *v = &o->view[i];

		if (v->err.code || !v->status.term)
			continue;
		if (!o->newest || v->status.term > o->newest->status.term ||
		    (v->status.term == o->newest->status.term && leads(v)))
			o->newest = v;
	}
	for (unsigned i = 0; o->newest && i < o->count; i++)
		if (leads(&o->view[i]) && o->view[i].status.life == o->newest->status.primary)
			o->primary = &o->view[i];
}

int overview_take(struct overview *o, const char *servers, const char *group, uint64_t timeout_ms,
		  struct error *err)
{
	char one[ADDRESS_MAX];

	*o = (struct overview){ 0 };
	for (const char *at = servers; at;) {
		const size_t len = strcspn(at, ",");

		if (!len || len >= sizeof(one) || o->count == SERVERS_MAX)
			return error_set(err, -EINVAL,
					 "--server '%.60s' is no list of 1 to %u servers, "
					 "HOST:PORT,...",
					 servers, SERVERS_MAX);
		snprintf(one, sizeof(one), "%.*s", (int)len, at);
		ask_one(o, one, group, timeout_ms);
		at = at[len] ? at + len + 1 : NULL;
	}
	judge(o);
	for (uint32_t i = 0; o->newest && i < o->newest->status.members; i++)
		ask_one(o, o->newest->member[i].address, group, timeout_ms);
	judge(o);
	return 0;
}

const struct view *overview_find(const struct overview *o, const char *node)
{
	for (unsigned i = 0; i < o->count; i++)
		if (o->view[i].err.code == 0 && strcmp(o->view[i].status.node, node) == 0)
			return &o->view[i];
	return NULL;
}

const char *overview_role(const struct overview *o, const struct wire_group_member *m,
			  const struct view *v)
{
	static const char *const role[WIRE_GROUP_ROLES] = {
		[WIRE_GROUP_BEGINS] = "asks etcd",
		[WIRE_GROUP_WAITS] = "waits",
		[WIRE_GROUP_LEARNS] = "learns",
		[WIRE_GROUP_FOLLOWS] = "backup",
		[WIRE_GROUP_TAKES_OVER] = "takes over",
		[WIRE_GROUP_OPENS] = "opens",
		[WIRE_GROUP_LEADS] = "primary",
		[WIRE_GROUP_GIVES_WAY] = "gives way",
		[WIRE_GROUP_ENDS] = "ends",
	};

	if (v && v->err.code == 0 && v->status.role == WIRE_GROUP_LEADS && v != o->primary)
		return "deposed";
	if (v && v->err.code == 0)
		return role[v->status.role];
	if (!m)
		return "silent";
	if (m->life == o->newest->status.primary)
		return "primary?";
	return m->in_sync ? "backup?" : "learns?";
}
