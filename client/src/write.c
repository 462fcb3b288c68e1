/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Writing: requests that the server applies. */
#include "client/src/write.h"

#include <errno.h>

#include "common/base/hash.h"

static_assert(GKV_ALWAYS == RPC_ALWAYS && GKV_IF_ABSENT == RPC_IF_ABSENT &&
		      GKV_IF_PRESENT == RPC_IF_PRESENT && GKV_IF_VERSION == RPC_IF_VERSION,
	      "conditions");
static_assert(GKV_TTL_MAX == RPC_TTL_MAX_MS, "time to live");

int write_key(struct gkv *h, struct rpc_call *c, enum rpc_op op, const void *key, size_t key_len)
{
	int rc = handle_key(h, key, key_len);

	if (rc)
		return rc;
	c->op = op;
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

static int take_condition(struct gkv *h, struct rpc_call *c, const struct gkv_terms *t)
{
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
	return 0;
}

int write_put(struct gkv *h, struct rpc_call *c, const void *value, size_t value_len,
	      const struct gkv_terms *terms)
{
	int rc = terms ? take_condition(h, c, terms) : 0;

	if (rc == 0 && terms)
		rc = take_ttl(h, c, terms->ttl_ms);
	if (rc)
		return rc;
	if (!value && value_len)
		return error_set(&h->error, -EINVAL, "the value is NULL, of %zu bytes", value_len);
	if (value_len > VALUE_MAX)
		return error_set(&h->error, -EINVAL, "the value has %zu bytes, at most %u fit",
				 value_len, VALUE_MAX);
	c->value = value;
	c->value_len = (uint32_t)value_len;
	return 0;
}

int write_del(struct gkv *h, struct rpc_call *c, const struct gkv_terms *terms)
{
	int rc = terms ? take_condition(h, c, terms) : 0;

	if (rc == 0 && c->condition != GKV_ALWAYS && c->condition != GKV_IF_VERSION)
		rc = error_set(&h->error, -EINVAL,
			       "a record is deleted always, or in one version: the condition is "
			       "%u",
			       c->condition);
	return rc;
}

int write_touch(struct gkv *h, struct rpc_call *c, uint64_t ttl_ms)
{
	return take_ttl(h, c, ttl_ms);
}

static void count(struct gkv *h, enum rpc_op op)
{
	h->reader.stats.writes++;
	h->reader.stats.puts += op == RPC_PUT;
	h->reader.stats.dels += op == RPC_DEL;
}

void write_done(struct gkv *h, const struct rpc_call *c, uint32_t age, int rc,
		struct gkv_meta *meta)
{
	struct reader *r = &h->reader;
	const struct rpc_reply *reply = c->reply;

	count(h, c->op);
	if (!reply || (rc && rc != -EEXIST))
		return;
	if (rc == 0 && age && reply->index_slot && world_has_root(r->world))
		hints_remember(r->hints, hash_key(r->world->hash_seed, c->key, c->key_len), age,
			       reply->index_slot, reply->incarnation);
	if (meta)
		*meta = (struct gkv_meta){
			.version = reply->version,
			.expiry_ms = reply->expiry_ms,
			.value_len = c->op == RPC_PUT ? c->value_len : reply->value_len,
		};
}

/* Send it, and wait. */
static int run(struct gkv *h, struct rpc_call *c, struct gkv_meta *meta)
{
	uint32_t age = handle_age(h);
	int rc = rpc_run(h, c);

	write_done(h, c, age, rc, meta);
	return rc;
}

int gkv_put_with(struct gkv *h, const void *key, size_t key_len, const void *value,
		 size_t value_len, const struct gkv_terms *terms, struct gkv_meta *meta)
{
	struct rpc_call c = { 0 };
	int rc = handle_begin(h);

	if (rc)
		return rc;
	rc = write_key(h, &c, RPC_PUT, key, key_len);
	if (rc == 0)
		rc = write_put(h, &c, value, value_len, terms);
	if (rc == 0)
		rc = run(h, &c, meta);
	return handle_end(h, rc);
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
			  : handle_end(h, error_set(&h->error, -EINVAL,
						    "there is no version to compare with"));
	}
	terms.version = *version;
	rc = gkv_put_with(h, key, key_len, value, value_len, &terms, &meta);
	if (rc == 0 || rc == -EEXIST)
		*version = meta.version;
	return rc;
}

static int del(struct gkv *h, const void *key, size_t key_len, const struct gkv_terms *terms)
{
	struct rpc_call c = { 0 };
	int rc = handle_begin(h);

	if (rc)
		return rc;
	rc = write_key(h, &c, RPC_DEL, key, key_len);
	if (rc == 0)
		rc = write_del(h, &c, terms);
	if (rc == 0)
		rc = run(h, &c, NULL);
	return handle_end(h, rc);
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
	struct rpc_call c = { .operand = (uint64_t)delta };
	int rc = handle_begin(h);

	if (rc)
		return rc;
	rc = write_key(h, &c, RPC_INCR, key, key_len);
	if (rc == 0)
		rc = run(h, &c, NULL);
	if (rc == 0 && sum)
		*sum = c.reply->number;
	return handle_end(h, rc);
}

int gkv_touch(struct gkv *h, const void *key, size_t key_len, uint64_t ttl_ms,
	      struct gkv_meta *meta)
{
	struct rpc_call c = { 0 };
	int rc = handle_begin(h);

	if (rc)
		return rc;
	rc = write_key(h, &c, RPC_TOUCH, key, key_len);
	if (rc == 0)
		rc = write_touch(h, &c, ttl_ms);
	if (rc == 0)
		rc = run(h, &c, meta);
	return handle_end(h, rc);
}
