/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Requests as bytes, and refusals in words. */
#include <errno.h>
#include <string.h>

#include "client/src/request/rpc.h"
#include "common/base/hash.h"
#include "common/base/mutant.h"

/* Since the first "not now"; at least 1 then: 0 says that there was none. */
static uint32_t waited_ms(const struct rpc_call *c)
{
	uint64_t ms = c->busy_ns ? (time_now_ns() - c->busy_ns) / NS_PER_MS + 1 : 0;

	return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

size_t rpc_staging_bytes(const struct rpc_call *c)
{
	return rpc_stores(c) && c->value_len > RPC_EAGER_MAX ? c->value_len : c->room;
}

static struct rpc_request *frame_begin(const struct gkv *h, const struct rpc_call *c)
{
	struct rpc_request *q = handle_request_at(h, c->slot);

	*q = (struct rpc_request){
		.magic = RPC_REQUEST_MAGIC,
		.op = (uint8_t)c->op,
		.flags = (c->posted && rpc_is_write(c) && !MUTANT(retry_as_new) ? RPC_RETRY : 0) |
			 (c->keep ? RPC_KEEP_EXPIRY : 0),
		.slot = (uint16_t)c->slot,
		.client_id = { h->session->client_id[0], h->session->client_id[1] },
		.generation = h->link.generation,
		.sequence = c->sequence,
		.key_len = c->key_len,
		.value_len = c->value_len,
		.ttl_ms = c->ttl_ms,
		.waited_ms = waited_ms(c),
		.condition = c->condition,
		.operand = c->operand,
	};
	if (c->key_len)
		memcpy(q + 1, c->key, c->key_len);
	return q;
}

uint32_t rpc_frame(struct gkv *h, struct rpc_call *c)
{
	struct rpc_request *q = frame_begin(h, c);
	uint32_t len = RPC_REQUEST_BYTES + c->key_len;

	if ((rpc_stores(c) || c->op == RPC_MEASURE) && c->value_len <= RPC_EAGER_MAX) {
		q->flags |= RPC_INLINE_VALUE;
		if (c->value_len)
			memcpy((uint8_t *)q + len, c->value, c->value_len);
		len += c->value_len;
		if (rpc_stores(c))
			return len;
	}
	if (!rpc_staging_bytes(c))
		return len;
	if (rpc_stores(c)) {
		memcpy(h->requests->staging.addr, c->value, c->value_len);
		q->value_hash = hash_bytes(h->requests->staging.addr, c->value_len);
	}
	q->staging_addr = (uintptr_t)h->requests->staging.addr;
	q->staging_len = (uint32_t)h->requests->staging.len;
	q->staging_rkey = h->requests->staging.region.rkey;
	return len;
}

int rpc_known_status(int status)
{
	switch (status) {
	case 0:
	case -ENOENT:
	case -ENOMEM:
	case -EINVAL:
	case -EMSGSIZE:
	case -EBADMSG:
	case -ESTALE:
	case -EREMOTEIO:
	case -EOPNOTSUPP:
	case -EBUSY:
	case -EEXIST:
	case -EDOM:
	case -ERANGE:
	case -EFBIG:
	case -ENOSPC:
	case -EROFS:
		return status;
	}
	return -EPROTO;
}

/* What to do, or to know, of a refusal. */
static const char *advice(const struct rpc_call *c, int rc)
{
	switch (rc) {
	case -ENOMEM:
		if (c->reply && c->reply->status == -EBUSY)
			return " (it found no room in time, and nothing was changed: its memory "
			       "grows or waits for grace periods, or its disk is slow; allow more "
			       "time, and look at its stats)";
		return " (its store is full, and nothing was changed: delete records, or start it "
		       "with more --memory)";
	case -ENOSPC:
		return " (its disk is full, and nothing was changed: make room there, and it goes on by "
		       "itself)";
	case -EROFS:
		return " (fewer servers of its group have every write than the group wants, and "
		       "nothing was changed: start more of them, kv-cluster status shows which are "
		       "missing)";
	case -EOPNOTSUPP:
		return c->op == RPC_SAVE ? " (it keeps nothing on disk: start it with --data-dir)"
					 : "";
	case -EREMOTEIO:
		return "; the connection was lost while the request was on its way and the server "
		       "has no memory of it: it was applied once, or never";
	case -EEXIST:
		return c->condition == RPC_IF_VERSION
			       ? " (the record has another version: get it again)"
			       : " (the key is there already)";
	case -EDOM:
		return " (the value is no decimal number of 64 bits)";
	case -ERANGE:
		return " (the sum would have more than 64 bits; nothing was changed)";
	case -EFBIG:
		return " (the value would be longer than 16 MiB; nothing was changed)";
	}
	return "";
}

int rpc_refused(struct gkv *h, const struct rpc_call *c, int rc)
{
	static const char *const names[] = { "?",    "PING",  "GET",	 "PUT",	   "DEL", "STATS",
					     "INCR", "TOUCH", "MEASURE", "APPEND", "SAVE" };

	return error_set(&h->error, rc, "%s on the server at %s:%s failed: %s%s", names[c->op],
			 session_server(h->session)->host, session_server(h->session)->port,
			 error_name(rc), advice(c, rc));
}
