/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/etcd/etcd_internal.h"

/* 64-bit numbers are strings there, and left out where they are 0. */
static int64_t number(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	char *end;
	long long n;

	if (!text)
		return 0;
	errno = 0;
	n = strtoll(text, &end, 10);
	return errno || *end || n < 0 ? 0 : n;
}

static int64_t revision_of(const json_t *answer)
{
	return number(json_object_get(answer, "header"), "revision");
}

static int no_etcd(const struct etcd *e, struct error *err)
{
	return error_set(err, -EPROTO,
			 "%s does not answer as etcd 3.4 or later does (look what listens there)",
			 etcd_endpoint(e));
}

static bool take_value(const json_t *kv, struct etcd_value *out)
{
	json_t *empty = json_string("");
	const json_t *text = json_object_get(kv, "value");

	out->modified = number(kv, "mod_revision");
	out->bytes = base64_bytes(text ? text : empty, &out->len);
	json_decref(empty);
	return out->bytes && out->modified;
}

int etcd_get(struct etcd *e, const char *key, struct etcd_value *out, struct error *err)
{
	json_t *answer, *kvs;
	int rc;

	*out = (struct etcd_value){ 0 };
	rc = call(e, "/v3/kv/range", json_pack("{so}", "key", base64_key(key)), false, &answer,
		  err);
	if (rc)
		return rc;
	out->revision = revision_of(answer);
	kvs = json_object_get(answer, "kvs");
	if (!out->revision || (json_array_size(kvs) && !take_value(json_array_get(kvs, 0), out)))
		rc = no_etcd(e, err);
	json_decref(answer);
	return rc;
}

void etcd_value_free(struct etcd_value *v)
{
	free(v->bytes);
	*v = (struct etcd_value){ 0 };
}

static json_t *compare_of(const struct etcd_change *c)
{
	char modified[24];

	snprintf(modified, sizeof(modified), "%" PRId64, c->modified);
	return json_pack("{so ss ss ss}", "key", base64_key(c->key), "target", "MOD", "result",
			 "EQUAL", "mod_revision", modified);
}

static json_t *put_of(const struct etcd_change *c)
{
	return json_pack("{s{so so}}", "request_put", "key", base64_key(c->key), "value",
			 base64_json(c->bytes, c->len));
}

/* NULL: there is no memory. */
static json_t *transaction(const struct etcd_change *changes, unsigned count)
{
	json_t *compare = json_array(), *puts = json_array();
	bool all = compare && puts;

	for (unsigned i = 0; i < count && all; i++) {
		all = !json_array_append_new(compare, compare_of(&changes[i]));
		if (all && changes[i].bytes)
			all = !json_array_append_new(puts, put_of(&changes[i]));
	}
	if (all)
		return json_pack("{so so}", "compare", compare, "success", puts);
	json_decref(compare);
	json_decref(puts);
	return NULL;
}

int etcd_change(struct etcd *e, const struct etcd_change *changes, unsigned count,
		int64_t *modified, struct error *err)
{
	json_t *answer;
	int rc = call(e, "/v3/kv/txn", transaction(changes, count), true, &answer, err);

	if (rc)
		return rc;
	*modified = revision_of(answer);
	if (!*modified)
		rc = error_set(err, -EINPROGRESS, "%s does not say what came of a transaction",
			       etcd_endpoint(e));
	else if (!json_is_true(json_object_get(answer, "succeeded")))
		rc = error_set(err, -EAGAIN, "the key %s was changed meanwhile", changes[0].key);
	json_decref(answer);
	return rc;
}
