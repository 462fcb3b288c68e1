/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/layout/wire_rpc.h"

#include <errno.h>
#include <stdbool.h>

static int reject(const char **why, int code, const char *text)
{
	*why = text;
	return code;
}

#define BIT(n) (1u << (n))

/* The conditions of each operation, as bits. */
static const uint8_t conditions[] = {
	[RPC_PUT] = BIT(RPC_IF_ABSENT) | BIT(RPC_IF_PRESENT) | BIT(RPC_IF_VERSION),
	[RPC_APPEND] = BIT(RPC_IF_ABSENT) | BIT(RPC_IF_PRESENT) | BIT(RPC_IF_VERSION),
	[RPC_INCR] = BIT(RPC_IF_ABSENT) | BIT(RPC_IF_PRESENT),
	[RPC_DEL] = BIT(RPC_IF_VERSION),
	[RPC_SAVE] = 0, /* the last operation: there is an entry for each */
};

/* Operations, as bits: they have a key; a value; one that the store keeps; a time to live. */
#define STORED (BIT(RPC_PUT) | BIT(RPC_APPEND))
#define VALUED (STORED | BIT(RPC_PING) | BIT(RPC_MEASURE))
#define KEYED  ~(BIT(RPC_PING) | BIT(RPC_STATS) | BIT(RPC_MEASURE) | BIT(RPC_SAVE))
#define LIVES  (STORED | BIT(RPC_TOUCH) | BIT(RPC_INCR))

static bool is(const struct rpc_request *r, uint32_t operations)
{
	return BIT(r->op) & operations;
}

/* What a write may be bound to, and when its record may expire. */
static int check_terms(const struct rpc_request *r, const char **why)
{
	bool named = r->condition == RPC_IF_VERSION || r->op == RPC_INCR;

	if (!r->ttl_ms && !r->condition && !r->operand && !(r->flags & RPC_KEEP_EXPIRY))
		return 0; /* as most */
	if (r->ttl_ms > (is(r, LIVES) ? RPC_TTL_MAX_MS : 0))
		return reject(why, -EINVAL, "the time to live is out of range");
	if (r->condition > RPC_IF_VERSION ||
	    (r->condition != RPC_ALWAYS && !(conditions[r->op] & BIT(r->condition))))
		return reject(why, -EINVAL, "the condition is none of the operation's");
	if (r->flags & RPC_KEEP_EXPIRY && r->op != RPC_PUT)
		return reject(why, -EINVAL, "only a PUT may be told to keep the expiry");
	if (r->operand && !named)
		return reject(why, -EINVAL, "there is an operand that nothing takes");
	return 0;
}

/* What each op carries: (key, value). */
static int check_lengths(const struct rpc_request *r, uint32_t len, const char **why)
{
	uint64_t want = RPC_REQUEST_BYTES + (uint64_t)r->key_len;

	if (is(r, KEYED) ? r->key_len < KEY_MIN || r->key_len > KEY_MAX : r->key_len != 0)
		return reject(why, -EINVAL, "the key length is out of range");
	if (!is(r, VALUED) && (r->value_len || r->flags & RPC_INLINE_VALUE))
		return reject(why, -EINVAL, "the operation carries no value");
	if (r->value_len > VALUE_MAX)
		return reject(why, -EINVAL, "the value length is out of range");
	if (r->flags & RPC_INLINE_VALUE) {
		if (r->value_len > RPC_EAGER_MAX)
			return reject(why, -EINVAL, "the inline value is over the eager limit");
		want += r->value_len;
	} else if (!is(r, STORED) && r->value_len) {
		return reject(why, -EINVAL, "only a stored value may lie in staging memory");
	} else if (is(r, STORED) && (r->value_len == 0 || r->staging_len < r->value_len)) {
		return reject(why, -EINVAL, "the staging memory does not hold the value");
	}
	if (want != len)
		return reject(why, -EINVAL, "the frame's length and its fields disagree");
	return 0;
}

int rpc_request_decode(const void *frame, uint32_t len, struct rpc_request_view *out,
		       const char **why)
{
	const struct rpc_request *r = frame;
	int rc;

	if (len < RPC_REQUEST_BYTES || r->magic != RPC_REQUEST_MAGIC)
		return reject(why, -EINVAL, "it is no request frame");
	if (r->op < RPC_PING || r->op > RPC_SAVE)
		return reject(why, -EOPNOTSUPP, "this server does not know the operation");
	if (r->flags & ~(RPC_INLINE_VALUE | RPC_RETRY | RPC_KEEP_EXPIRY))
		return reject(why, -EINVAL, "reserved bits are set");
	if (r->sequence == 0 || r->slot >= RPC_SLOTS_MAX)
		return reject(why, -EINVAL, "slot or sequence is out of range");
	rc = check_lengths(r, len, why);
	if (rc == 0)
		rc = check_terms(r, why);
	if (rc)
		return rc;
	out->header = r;
	out->key = r->key_len ? (const uint8_t *)(r + 1) : NULL;
	out->value = r->flags & RPC_INLINE_VALUE ? (const uint8_t *)(r + 1) + r->key_len : NULL;
	return 0;
}

int rpc_reply_decode(const void *frame, uint32_t len, const struct rpc_reply **out,
		     const uint8_t **value)
{
	const struct rpc_reply *r = frame;
	uint32_t want = RPC_REPLY_BYTES;

	if (len < RPC_REPLY_BYTES || r->magic != RPC_REPLY_MAGIC)
		return -EBADMSG;
	if (r->flags & ~RPC_INLINE_VALUE || r->status > 0)
		return -EBADMSG;
	if (r->flags & RPC_INLINE_VALUE) {
		if (r->value_len > RPC_REPLY_INLINE_MAX)
			return -EBADMSG;
		want += r->value_len;
	}
	if (want != len)
		return -EBADMSG;
	*out = r;
	*value = r->flags & RPC_INLINE_VALUE ? (const uint8_t *)(r + 1) : NULL;
	return 0;
}
