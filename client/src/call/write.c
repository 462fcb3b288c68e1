/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Writing: requests that the server applies.
 *
 * GET AND DELETE is no request of its own: a get, which is one-sided as a rule, and a DEL on the
 * condition that the version is the one that was read, over again where another write was in
 * between. What the application gets is what was deleted: a server draws each version once, for
 * all keys, so the record in this version is the one that was read, with its value; and the DEL
 * goes to no other server than the one that the record came from. The call takes effect when the
 * DEL does, or, with -ENOENT, at the moment at which the get or the DEL found no record. The DEL is
 * applied once, as any write is; a call whose outcome is unknown has deleted the record of its last
 * get, or nothing. A get returns no record that is older than one that was acknowledged before, so
 * a turn fails only where a write went through since it began: all callers together go on, and one
 * that never wins ends with its deadline.
 */
#include <errno.h>

#include "client/src/call/get.h"
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

static int store(struct gkv *h, enum rpc_op op, const void *key, size_t key_len, const void *value,
		 size_t value_len, const struct gkv_write_options *options, struct gkv_meta *meta)
{
	struct rpc_call c = { 0 };
	int rc = handle_begin(h);

	if (rc)
		return rc;
	rc = write_key(h, &c, op, key, key_len);
	if (rc == 0)
		rc = write_put(h, &c, value, value_len, options);
	if (rc == 0)
		rc = run(h, &c, meta);
	return handle_end(h, rc);
}

int gkv_put_with(struct gkv *h, const void *key, size_t key_len, const void *value,
		 size_t value_len, const struct gkv_write_options *options, struct gkv_meta *meta)
{
	return store(h, RPC_PUT, key, key_len, value, value_len, options, meta);
}

int gkv_append(struct gkv *h, const void *key, size_t key_len, const void *value, size_t value_len,
	       const struct gkv_write_options *options, struct gkv_meta *meta)
{
	return store(h, RPC_APPEND, key, key_len, value, value_len, options, meta);
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
	       const struct gkv_write_options *options, uint64_t server)
{
	struct rpc_call c = { .server = server };
	int rc = write_key(h, &c, RPC_DEL, key, key_len);

	if (rc == 0)
		rc = write_del(h, &c, options);
	return rc ? rc : run(h, &c, NULL);
}

int gkv_del(struct gkv *h, const void *key, size_t key_len)
{
	int rc = handle_begin(h);

	return rc ? rc : handle_end(h, del(h, key, key_len, NULL, 0));
}

int gkv_del_if(struct gkv *h, const void *key, size_t key_len, uint64_t version)
{
	const struct gkv_write_options options = { .condition = GKV_IF_VERSION,
						   .version = version };
	int rc = handle_begin(h);

	return rc ? rc : handle_end(h, del(h, key, key_len, &options, 0));
}

static int getdel(struct gkv *h, const void *key, size_t key_len, void *value, size_t cap,
		  struct gkv_meta *meta)
{
	struct gkv_write_options options = { .condition = GKV_IF_VERSION };
	struct lookup l;
	int rc;

	do {
		rc = get_copy(h, &l, key, key_len, value, cap);
		if (meta && (rc == 0 || rc == -EMSGSIZE))
			get_meta(meta, &l);
		if (rc)
			return rc;
		options.version = l.version;
		rc = del(h, key, key_len, &options, h->reader.world->incarnation);
	} while (rc == -EEXIST && time_now_ns() < handle_deadline(h));
	if (rc == -EEXIST)
		return error_set(&h->error, -ETIMEDOUT,
				 "nothing was deleted: others rewrote the key between each get and "
				 "its delete for %u ms (give timeout_ms more)",
				 h->session->settings.timeout_ms);
	return rc;
}

int gkv_getdel(struct gkv *h, const void *key, size_t key_len, void *value, size_t cap,
	       struct gkv_meta *meta)
{
	int rc = handle_begin(h);

	return rc ? rc : handle_end(h, getdel(h, key, key_len, value, cap, meta));
}

int gkv_incr_with(struct gkv *h, const void *key, size_t key_len, int64_t delta,
		  const struct gkv_write_options *options, int64_t *sum, struct gkv_meta *meta)
{
	struct rpc_call c = { 0 };
	int rc = handle_begin(h);

	if (rc)
		return rc;
	rc = write_key(h, &c, RPC_INCR, key, key_len);
	if (rc == 0)
		rc = write_incr(h, &c, delta, options);
	if (rc == 0)
		rc = run(h, &c, meta);
	if (rc == 0 && sum)
		*sum = c.reply->number;
	return handle_end(h, rc);
}

int gkv_incr(struct gkv *h, const void *key, size_t key_len, int64_t delta, int64_t *sum)
{
	return gkv_incr_with(h, key, key_len, delta, NULL, sum, NULL);
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
