/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "client/src/request/fill.h"

#include <errno.h>
#include <string.h>

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

int write_known(struct gkv *h, const struct gkv_write_options *options, unsigned flags)
{
	if (options->flags & ~flags)
		return error_set(&h->error, -EINVAL,
				 "the options' flags are 0x%x, of which this operation takes 0x%x",
				 options->flags, flags);
	if (options->reserved)
		return error_set(&h->error, -EINVAL,
				 "the options' reserved field is %llu, it must be 0 (zero the "
				 "options before you fill them)",
				 (unsigned long long)options->reserved);
	return 0;
}

static int take_condition(struct gkv *h, struct rpc_call *c,
			  const struct gkv_write_options *options)
{
	int rc = write_known(h, options, c->op == RPC_PUT ? GKV_KEEP_EXPIRY : 0);

	if (rc)
		return rc;
	if (options->condition > GKV_IF_VERSION)
		return error_set(&h->error, -EINVAL,
				 "the condition is %u, none that this library knows",
				 options->condition);
	if (options->version && options->condition != GKV_IF_VERSION)
		return error_set(&h->error, -EINVAL,
				 "there is a version, %llu, but the condition is not "
				 "GKV_IF_VERSION",
				 (unsigned long long)options->version);
	c->condition = options->condition;
	c->operand = options->version;
	c->keep = options->flags & GKV_KEEP_EXPIRY;
	if (c->keep && c->condition == GKV_IF_ABSENT)
		return error_set(&h->error, -EINVAL,
				 "a put of a key that must be absent finds no expiry to keep");
	return 0;
}

int item_unknown(struct gkv *h)
{
	return error_set(
		&h->error, -EINVAL,
		"a reserved field of the item is not 0 (zero items before you set fields)");
}

int write_put(struct gkv *h, struct rpc_call *c, const void *value, size_t value_len,
	      const struct gkv_write_options *options)
{
	int rc = options ? take_condition(h, c, options) : 0;

	if (rc == 0 && options)
		rc = take_ttl(h, c, options->ttl_ms);
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

int write_incr(struct gkv *h, struct rpc_call *c, int64_t delta,
	       const struct gkv_write_options *options)
{
	int rc = options ? take_condition(h, c, options) : 0;

	if (rc == 0 && options)
		rc = take_ttl(h, c, options->ttl_ms);
	if (rc == 0 && c->condition == GKV_IF_VERSION)
		rc = error_set(&h->error, -EINVAL,
			       "a number is not added in one version only (use gkv_cas)");
	c->operand = (uint64_t)delta;
	return rc;
}

int write_del(struct gkv *h, struct rpc_call *c, const struct gkv_write_options *options)
{
	int rc = options ? take_condition(h, c, options) : 0;

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

int rpc_found(struct gkv *h, const struct rpc_call *c, struct lookup *l, uint32_t age)
{
	l->value = c->result;
	l->value_len = c->reply->value_len;
	l->version = c->reply->version;
	l->expiry_ms = c->reply->expiry_ms;
	if (!c->result)
		return error_set(&h->error, -EPROTO,
				 "the server answered a GET without its value (%u bytes)",
				 l->value_len);
	if (age && c->reply->index_slot)
		hints_remember(h->reader.hints, l->hash, age, c->reply->index_slot,
			       c->reply->incarnation);
	if (l->cap && l->value_len)
		memcpy(l->dest, l->value, l->value_len < l->cap ? l->value_len : l->cap);
	l->state = LOOKUP_FOUND;
	return 0;
}
