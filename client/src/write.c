/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Writing: requests that the server applies. */
#include <errno.h>

#include "client/src/rpc.h"
#include "common/base/hash.h"
#include "common/base/mutant.h"

static_assert(GKV_ALWAYS == RPC_ALWAYS && GKV_IF_ABSENT == RPC_IF_ABSENT &&
		      GKV_IF_PRESENT == RPC_IF_PRESENT && GKV_IF_VERSION == RPC_IF_VERSION,
	      "conditions");
static_assert(GKV_TTL_MAX == RPC_TTL_MAX_MS, "time to live");

/* Where the record is now. @age: taken before the request was posted (hints.c). */
static void remember(struct gkv *h, const struct rpc_call *c, uint32_t age)
{
	struct reader *r = &h->reader;

	if (age && c->reply->index_slot && world_has_root(r->world))
		hints_remember(r->hints, hash_key(r->world->hash_seed, c->key, c->key_len), age,
			       c->reply->index_slot, c->reply->incarnation);
}

/* Send it. @meta: of the record then; with -EEXIST the version of the one that is there. */
static int run(struct gkv *h, struct rpc_call *c, struct gkv_meta *meta)
{
	uint32_t age = handle_age(h);
	int rc = rpc_run(h, c);

	h->reader.stats.writes++;
	if (rc == 0)
		remember(h, c, age);
	if (meta && (rc == 0 || rc == -EEXIST))
		*meta = (struct gkv_meta){ c->reply->version, c->reply->expiry_ms, c->value_len };
	return rc;
}

/* The handle and the key of a call that begins. Returns 0, or why it ends here. */
static int begin(struct gkv *h, struct rpc_call *c, const void *key, size_t key_len)
{
	int rc = handle_begin(h);

	if (rc == 0)
		rc = handle_key(h, key, key_len);
	if (rc)
		return rc;
	c->key = key;
	c->key_len = (uint32_t)key_len;
	return 0;
}

static int take_ttl(struct gkv *h, struct rpc_call *c, uint64_t ttl_ms)
{
	if (ttl_ms > GKV_TTL_MAX)
		return error_set(&h->error, -EINVAL,
				 "the time to live is %llu ms, at most %llu are possible (0: the "
				 "record never expires)",
				 (unsigned long long)ttl_ms, GKV_TTL_MAX);
	c->ttl_ms = ttl_ms;
	return 0;
}

static int take_terms(struct gkv *h, struct rpc_call *c, const struct gkv_terms *t)
{
	if (!t)
		return 0;
	if (t->condition > GKV_IF_VERSION || t->reserved)
		return error_set(&h->error, -EINVAL,
				 t->reserved ? "a reserved field of the terms is %u, it must be 0"
					     : "the condition is %u, none that this library knows",
				 t->reserved ? t->reserved : t->condition);
	if (t->version && t->condition != GKV_IF_VERSION)
		return error_set(&h->error, -EINVAL,
				 "there is a version, %llu, but the condition is not "
				 "GKV_IF_VERSION",
				 (unsigned long long)t->version);
	c->condition = t->condition;
	c->operand = t->version;
	return take_ttl(h, c, t->ttl_ms);
}

int gkv_put_with(struct gkv *h, const void *key, size_t key_len, const void *value,
		 size_t value_len, const struct gkv_terms *terms, struct gkv_meta *meta)
{
	struct rpc_call c = { .op = RPC_PUT, .value = value };
	int rc = begin(h, &c, key, key_len);

	if (rc == 0)
		rc = take_terms(h, &c, terms);
	if (rc)
		return rc;
	if (!value && value_len)
		return error_set(&h->error, -EINVAL, "the value is NULL, of %zu bytes", value_len);
	if (value_len > VALUE_MAX)
		return error_set(&h->error, -EINVAL, "the value has %zu bytes, at most %u fit",
				 value_len, VALUE_MAX);
	c.value_len = (uint32_t)value_len;
	h->reader.stats.puts++;
	return run(h, &c, meta);
}

int gkv_put(struct gkv *h, const void *key, size_t key_len, const void *value, size_t value_len,
	    uint64_t *version)
{
	struct gkv_meta meta;
	int rc = gkv_put_with(h, key, key_len, value, value_len, NULL, &meta);

	if (rc == 0 && version)
		*version = meta.version;
	return rc;
}

int gkv_cas(struct gkv *h, const void *key, size_t key_len, uint64_t *version, const void *value,
	    size_t value_len)
{
	struct gkv_terms terms = { .condition = GKV_IF_VERSION };
	struct gkv_meta meta;
	int rc;

	if (!version) {
		rc = handle_begin(h);
		return rc ? rc
			  : error_set(&h->error, -EINVAL, "there is no version to compare with");
	}
	terms.version = *version;
	rc = gkv_put_with(h, key, key_len, value, value_len, &terms, &meta);
	if (rc == 0 || rc == -EEXIST)
		*version = meta.version;
	return rc;
}

static int del(struct gkv *h, const void *key, size_t key_len, const struct gkv_terms *terms)
{
	struct rpc_call c = { .op = RPC_DEL };
	int rc = begin(h, &c, key, key_len);

	if (rc == 0)
		rc = take_terms(h, &c, terms);
	if (rc)
		return rc;
	h->reader.stats.dels++;
	return run(h, &c, NULL);
}

int gkv_del(struct gkv *h, const void *key, size_t key_len)
{
	return del(h, key, key_len, NULL);
}

int gkv_del_if(struct gkv *h, const void *key, size_t key_len, uint64_t version)
{
	const struct gkv_terms terms = { .condition = GKV_IF_VERSION, .version = version };

	return del(h, key, key_len, &terms);
}

int gkv_incr(struct gkv *h, const void *key, size_t key_len, int64_t delta, int64_t *sum)
{
	struct rpc_call c = { .op = RPC_INCR, .operand = (uint64_t)delta };
	int rc = begin(h, &c, key, key_len);

	if (rc == 0)
		rc = run(h, &c, NULL);
	if (rc == 0 && sum)
		*sum = c.reply->number;
	return rc;
}

int gkv_touch(struct gkv *h, const void *key, size_t key_len, uint64_t ttl_ms,
	      struct gkv_meta *meta)
{
	struct rpc_call c = { .op = RPC_TOUCH };
	int rc = begin(h, &c, key, key_len);

	if (rc == 0)
		rc = take_ttl(h, &c, ttl_ms);
	if (rc == 0)
		rc = run(h, &c, meta);
	if (rc == 0 && meta)
		meta->value_len = c.reply->value_len;
	return rc;
}
