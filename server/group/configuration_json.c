/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <errno.h>

#include "common/base/plain.h"
#include "server/group/configuration_internal.h"
#include "server/group/json_fields.h"

#define FORMAT 2

static bool take_node(const json_t *j, struct group_member *out)
{
	return json_take_hex(j, "life", &out->life) &&
	       json_take_text(j, "node", out->node, sizeof(out->node)) &&
	       json_take_text(j, "address", out->address, sizeof(out->address));
}

static bool take_member(const json_t *j, struct group_member *out)
{
	const json_t *in_sync = json_object_get(j, "in_sync");

	out->in_sync = json_is_true(in_sync);
	return json_is_boolean(in_sync) && take_node(j, out);
}

static bool take_list(const json_t *list, bool (*take)(const json_t *j, struct group_member *out),
		      struct group_member out[GROUP_MEMBERS_MAX], uint32_t *count)
{
	if (!json_is_array(list) || json_array_size(list) > GROUP_MEMBERS_MAX)
		return false;
	*count = (uint32_t)json_array_size(list);
	for (uint32_t i = 0; i < *count; i++)
		if (!take(json_array_get(list, i), &out[i]))
			return false;
	return true;
}

static bool take_config(const json_t *j, struct group_config *out)
{
	uint64_t lease_ms, rho_ppm, least;

	*out = (struct group_config){ 0 };
	if (!json_take_number(j, "term", INT64_MAX, &out->term) ||
	    !json_take_number(j, "lease_ms", UINT32_MAX, &lease_ms) ||
	    !json_take_number(j, "rho_ppm", UINT32_MAX, &rho_ppm) ||
	    !json_take_number(j, "min_in_sync", UINT32_MAX, &least))
		return false;
	out->lease_ms = (uint32_t)lease_ms;
	out->rho_ppm = (uint32_t)rho_ppm;
	out->min_in_sync = (uint32_t)least;
	return json_take_hex(j, "primary", &out->primary) &&
	       json_take_hex(j, "writer", &out->writer) && json_take_hex(j, "nonce", &out->nonce) &&
	       json_take_text(j, "why", out->why, sizeof(out->why)) &&
	       take_list(json_object_get(j, "members"), take_member, out->member, &out->count) &&
	       take_list(json_object_get(j, "before"), take_node, out->before, &out->before_count);
}

int group_config_decode(const char *bytes, size_t len, struct group_config *out, struct error *err)
{
	json_t *j = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, NULL);
	const json_t *format = json_object_get(j, "format");
	const char *fault = NULL;
	int rc = 0;

	if (json_is_integer(format) && json_integer_value(format) > FORMAT)
		rc = error_set(err, -ENOTSUP,
			       "the group's configuration in etcd is of a later version of "
			       "GraceKV, format %lld (start that version here)",
			       (long long)json_integer_value(format));
	else if (json_is_integer(format) && json_integer_value(format) > 0 &&
		 json_integer_value(format) < FORMAT)
		rc = error_set(err, -ENOTSUP,
			       "the group's configuration in etcd is of an earlier version of "
			       "GraceKV, format %lld (start that version here, or stop all servers "
			       "and delete the cluster's keys)",
			       (long long)json_integer_value(format));
	else if (!json_is_integer(format) || json_integer_value(format) != FORMAT ||
		 !take_config(j, out))
		fault = "it is not what a server writes";
	else
		fault = group_config_fault(out);
	plain_text(out->why); /* it goes to terminals */
	if (fault)
		rc = error_set(err, -EPROTO,
			       "the group's configuration in etcd is none: %s (look at who else "
			       "writes keys below /gracekv/)",
			       fault);
	json_decref(j);
	return rc;
}

static json_t *node_json(const struct group_member *m)
{
	return json_pack("{ss so ss}", "node", m->node, "life", json_hex(m->life), "address",
			 m->address);
}

static json_t *member_json(const struct group_member *m)
{
	json_t *j = node_json(m);

	json_object_set_new(j, "in_sync", json_boolean(m->in_sync));
	return j;
}

/* NULL: there is no memory. */
static json_t *list_json(json_t *(*of)(const struct group_member *m), const struct group_member *m,
			 uint32_t count)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < count; i++)
		if (json_array_append_new(list, of(&m[i]))) {
			json_decref(list);
			return NULL;
		}
	return list;
}

char *group_config_encode(const struct group_config *c)
{
	json_t *j = json_pack("{si sI so si si si so so so so ss}", "format", FORMAT, "term",
			      (json_int_t)c->term, "primary", json_hex(c->primary), "lease_ms",
			      (int)c->lease_ms, "rho_ppm", (int)c->rho_ppm, "min_in_sync",
			      (int)c->min_in_sync, "members",
			      list_json(member_json, c->member, c->count), "before",
			      list_json(node_json, c->before, c->before_count), "writer",
			      json_hex(c->writer), "nonce", json_hex(c->nonce), "why", c->why);
	char *text;

	text = j ? json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	json_decref(j);
	return text;
}
