/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Writing: requests that the server applies. */
#include <errno.h>

#include "client/src/rpc.h"
#include "common/base/hash.h"

/* Where the record is now. @age: taken before the request was posted (hints.c). */
static void remember(struct gkv *h, const struct rpc_call *c, uint32_t age)
{
	struct reader *r = &h->reader;

	if (age && c->reply->index_slot && world_has_root(r->world))
		hints_remember(r->hints, hash_key(r->world->hash_seed, c->key, c->key_len), age,
			       c->reply->index_slot, c->reply->incarnation);
}

int gkv_put(struct gkv *h, const void *key, size_t key_len, const void *value, size_t value_len,
	    uint64_t *version)
{
	struct rpc_call c = { .op = RPC_PUT, .key = key, .value = value };
	int rc = handle_begin(h);
	uint32_t age;

	if (rc == 0)
		rc = handle_key(h, key, key_len);
	if (rc)
		return rc;
	if (!value && value_len)
		return error_set(&h->error, -EINVAL, "the value is NULL, of %zu bytes", value_len);
	if (value_len > VALUE_MAX)
		return error_set(&h->error, -EINVAL, "the value has %zu bytes, at most %u fit",
				 value_len, VALUE_MAX);
	c.key_len = (uint32_t)key_len;
	c.value_len = (uint32_t)value_len;
	h->reader.stats.puts++;
	age = handle_age(h);
	rc = rpc_run(h, &c);
	if (rc == 0)
		remember(h, &c, age);
	if (rc == 0 && version)
		*version = c.reply->version;
	return rc;
}

int gkv_del(struct gkv *h, const void *key, size_t key_len)
{
	struct rpc_call c = { .op = RPC_DEL, .key = key };
	int rc = handle_begin(h);

	if (rc == 0)
		rc = handle_key(h, key, key_len);
	if (rc)
		return rc;
	c.key_len = (uint32_t)key_len;
	h->reader.stats.dels++;
	return rpc_run(h, &c);
}
