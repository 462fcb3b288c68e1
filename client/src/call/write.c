/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Writing: requests that the server applies. */
#include <errno.h>

#include "client/src/call/rpc_run.h"
#include "client/src/request/fill.h"

/* Send it, and wait. */
static int run(struct gkv *h, struct rpc_call *c, struct gkv_meta *meta)
{
	uint32_t age = handle_age(h);
	int rc = rpc_run(h, c);

	write_done(h, c, age, rc, meta);
	return rc;
}

int gkv_put_with(struct gkv *h, const void *key, size_t key_len, const void *value,
		 size_t value_len, const struct gkv_write_options *options, struct gkv_meta *meta)
{
	struct rpc_call c = { 0 };
	int rc = handle_begin(h);

	if (rc)
		return rc;
	rc = write_key(h, &c, RPC_PUT, key, key_len);
	if (rc == 0)
		rc = write_put(h, &c, value, value_len, options);
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
	struct gkv_write_options options = { .condition = GKV_IF_VERSION };
	struct gkv_meta meta;
	int rc;

	if (!version) {
		rc = handle_begin(h);
		return rc ? rc
			  : handle_end(h, error_set(&h->error, -EINVAL,
						    "there is no version to compare with"));
	}
	options.version = *version;
	rc = gkv_put_with(h, key, key_len, value, value_len, &options, &meta);
	if (rc == 0 || rc == -EEXIST)
		*version = meta.version;
	return rc;
}

static int del(struct gkv *h, const void *key, size_t key_len,
	       const struct gkv_write_options *options)
{
	struct rpc_call c = { 0 };
	int rc = handle_begin(h);

	if (rc)
		return rc;
	rc = write_key(h, &c, RPC_DEL, key, key_len);
	if (rc == 0)
		rc = write_del(h, &c, options);
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
	const struct gkv_write_options options = { .condition = GKV_IF_VERSION,
						   .version = version };

	return del(h, key, key_len, &options);
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
