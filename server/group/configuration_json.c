/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "common/base/plain.h"
#include "server/group/configuration_internal.h"

#define FORMAT	   1
#define LIFE_CHARS 16u

/* 64-bit numbers that are drawn are written in digits that JSON cannot round. */
static json_t *hex(uint64_t n)
{
	char text[LIFE_CHARS + 1];

	snprintf(text, sizeof(text), "%016" PRIx64, n);
	return json_string(text);
}

static bool take_hex(const json_t *object, const char *name, uint64_t *out)
{
	const char *text = json_string_value(json_object_get(object, name));

	if (!text || strlen(text) != LIFE_CHARS || strspn(text, "0123456789abcdef") != LIFE_CHARS)
		return false;
	return sscanf(text, "%" SCNx64, out) == 1;
}

static bool take_number(const json_t *object, const char *name, uint64_t max, uint64_t *out)
{
	const json_t *n = json_object_get(object, name);

	if (!json_is_integer(n) || json_integer_value(n) < 0 ||
	    (uint64_t)json_integer_value(n) > max)
		return false;
	*out = (uint64_t)json_integer_value(n);
	return true;
}

static bool take_text(const json_t *object, const char *name, char *out, size_t cap)
{
	const json_t *text = json_object_get(object, name);

	if (!json_is_string(text) || json_string_length(text) >= cap ||
	    strlen(json_string_value(text)) != json_string_length(text))
		return false;
	strcpy(out, json_string_value(text));
	return true;
}

static bool take_member(const json_t *j, struct group_member *out)
{
	const json_t *in_sync = json_object_get(j, "in_sync");

	out->in_sync = json_is_true(in_sync);
	return json_is_boolean(in_sync) && take_hex(j, "life", &out->life) &&
	       take_text(j, "node", out->node, sizeof(out->node)) &&
	       take_text(j, "address", out->address, sizeof(out->address));
}

static bool take_members(const json_t *list, struct group_config *out)
{
	const size_t count = json_array_size(list);

	if (!json_is_array(list) || count > GROUP_MEMBERS_MAX)
		return false;
	out->count = (uint32_t)count;
	for (uint32_t i = 0; i < out->count; i++)
		if (!take_member(json_array_get(list, i), &out->member[i]))
			return false;
	return true;
}

static bool take_config(const json_t *j, struct group_config *out)
{
	uint64_t lease_ms, least;

	*out = (struct group_config){ 0 };
	if (!take_number(j, "term", INT64_MAX, &out->term) ||
	    !take_number(j, "lease_ms", UINT32_MAX, &lease_ms) ||
	    !take_number(j, "min_in_sync", UINT32_MAX, &least))
		return false;
	out->lease_ms = (uint32_t)lease_ms;
	out->min_in_sync = (uint32_t)least;
	return take_hex(j, "primary", &out->primary) && take_hex(j, "writer", &out->writer) &&
	       take_hex(j, "nonce", &out->nonce) &&
	       take_text(j, "why", out->why, sizeof(out->why)) &&
	       take_members(json_object_get(j, "members"), out);
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

static json_t *member_json(const struct group_member *m)
{
	return json_pack("{ss so ss sb}", "node", m->node, "life", hex(m->life), "address",
			 m->address, "in_sync", m->in_sync);
}

char *group_config_encode(const struct group_config *c)
{
	json_t *members = json_array(), *j;
	char *text;

	for (uint32_t i = 0; i < c->count; i++)
		if (json_array_append_new(members, member_json(&c->member[i]))) {
			json_decref(members);
			return NULL;
		}
	j = json_pack("{si sI so si si so so so ss}", "format", FORMAT, "term", (json_int_t)c->term,
		      "primary", hex(c->primary), "lease_ms", (int)c->lease_ms, "min_in_sync",
		      (int)c->min_in_sync, "members", members, "writer", hex(c->writer), "nonce",
		      hex(c->nonce), "why", c->why);
	text = j ? json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	json_decref(j);
	return text;
}
