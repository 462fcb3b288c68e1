/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Two keys that servers which do not know each other change. A transaction whose outcome nobody
 * knows is no harm to either. The cluster's key is only ever made, so whatever is read there
 * stands; and where it is not there yet, it is made again: one of the two is first, and is read.
 * A life that may have been drawn is not used, and the next one is drawn: since each transaction
 * names the revision that it read, no two who know that theirs was done have drawn the same.
 */
#include "server/group/cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/mutant.h"
#include "common/layout/meta_format.h"
#include "server/group/json_fields.h"
#include "server/group/names.h"

#define FORMAT	 1
#define ATTEMPTS 100u /* others were faster; each of them has done what it wanted by then */

static int none(const char *key, struct error *err)
{
	return error_set(err, -EPROTO,
			 "etcd has at %s what no server writes (look at who else writes keys below "
			 "/gracekv/)",
			 key);
}

/* What stands at @key, an object of ours. To be freed. */
static int object_of(const struct etcd_value *v, const char *key, json_t **out, struct error *err)
{
	const json_t *format;

	*out = json_loadb(v->bytes, v->len, JSON_REJECT_DUPLICATES, NULL);
	format = json_object_get(*out, "format");
	if (json_is_integer(format) && json_integer_value(format) > FORMAT)
		return error_set(err, -ENOTSUP,
				 "etcd has at %s what a later version of GraceKV wrote, format "
				 "%lld (start that version here)",
				 key, (long long)json_integer_value(format));
	return json_is_integer(format) && json_integer_value(format) == FORMAT ? 0 : none(key, err);
}

static int take_facts(const struct etcd_value *v, const char *key, struct cluster_facts *out,
		      struct error *err)
{
	json_t *j, *id;
	int rc = object_of(v, key, &j, err);

	id = json_object_get(j, "id");
	if (!rc &&
	    (!json_take_hex(id, "high", &out->id[0]) || !json_take_hex(id, "low", &out->id[1]) ||
	     !json_take_hex(j, "hash_seed", &out->hash_seed)))
		rc = none(key, err);
	json_decref(j);
	return rc;
}

/* @j, which it frees, in place of what was at @key at revision @from. */
static int put(struct etcd *e, const char *key, int64_t from, json_t *j, struct error *err)
{
	autofree char *text = j ? json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	const struct etcd_change change = {
		.key = key, .modified = from, .bytes = text, .len = text ? strlen(text) : 0
	};
	int64_t modified;

	json_decref(j);
	if (!text)
		return error_set(err, -ENOMEM, "there is no memory for what etcd is told");
	return etcd_change(e, &change, 1, &modified, err);
}

static json_t *facts_json(const struct cluster_facts *f)
{
	return json_pack("{si s{so so} so}", "format", FORMAT, "id", "high", json_hex(f->id[0]),
			 "low", json_hex(f->id[1]), "hash_seed", json_hex(f->hash_seed));
}

/* It was made, again and again, and is not there. */
static int gone(const char *key, struct error *err)
{
	return error_set(err, -EPROTO,
			 "etcd loses %s, which is never taken away (look at who else writes keys "
			 "below /gracekv/)",
			 key);
}

static bool goes_on(int rc)
{
	return rc == -EAGAIN || rc == -EINPROGRESS;
}

int cluster_join(struct etcd *e, const char *name, const struct cluster_facts *own,
		 struct cluster_facts *out, struct error *err)
{
	char key[GROUP_KEY_BYTES];
	int rc = group_name_check("cluster", name, err);

	if (rc)
		return rc;
	group_key(name, "cluster", key);
	for (unsigned i = 0; i < ATTEMPTS; i++) {
		struct etcd_value v;
		bool found;

		rc = etcd_get(e, key, &v, err);
		found = v.modified;
		if (!rc)
			rc = found ? take_facts(&v, key, out, err)
				   : put(e, key, 0, facts_json(own), err);
		etcd_value_free(&v);
		if (found || !(rc == 0 || goes_on(rc))) /* what was made is read */
			return rc;
	}
	return rc ? rc : gone(key, err);
}

static int take_life(const struct etcd_value *v, const char *key, uint64_t *out, struct error *err)
{
	json_t *j;
	int rc = object_of(v, key, &j, err);

	if (!rc && !json_take_number(j, "life", LIFE_MAX, out))
		rc = none(key, err);
	json_decref(j);
	return rc;
}

int cluster_draw_life(struct etcd *e, const char *name, uint64_t least, uint64_t *out,
		      struct error *err)
{
	char key[GROUP_KEY_BYTES];
	int rc = group_name_check("cluster", name, err);

	if (rc)
		return rc;
	group_key(name, "lives", key);
	for (unsigned i = 0; i < ATTEMPTS; i++) {
		struct etcd_value v;
		uint64_t last = 0;

		rc = etcd_get(e, key, &v, err);
		if (!rc && v.modified)
			rc = take_life(&v, key, &last, err);
		*out = (last > least ? last : least) + 1;
		if (!rc && *out > LIFE_MAX)
			rc = error_set(
				err, -EOVERFLOW,
				"the cluster has had %llu lives, and there are no more (copy "
				"its records into a new one with kv-cli)",
				(unsigned long long)LIFE_MAX);
		if (!rc)
			rc = put(e, key, v.modified,
				 json_pack("{si sI}", "format", FORMAT, "life", (json_int_t)*out),
				 err);
		etcd_value_free(&v);
		if (rc == -EINPROGRESS && MUTANT(use_unknown_life))
			rc = 0;
		if (!goes_on(rc))
			return rc;
	}
	return rc;
}
