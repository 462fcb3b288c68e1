/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Decoders of frames: what was encoded comes back, and random bytes do no harm. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/layout/wire_rpc.h"
#include "common/layout/wire_tcp.h"

#define FRAME_MAX (sizeof(struct wire_header) + WIRE_PAYLOAD_MAX)

UNIT_TEST(frames_round_trip)
{
	static const enum wire_type types[] = {
		WIRE_HELLO,	   WIRE_WELCOME,      WIRE_REFUSE,	   WIRE_QP_OPEN,
		WIRE_QP_OPENED,	   WIRE_QP_READY,     WIRE_QP_LIVE,	   WIRE_BYE,
		WIRE_QP_CLOSE,	   WIRE_QP_LOST,      WIRE_PEER_HELLO,	   WIRE_PEER_JOINED,
		WIRE_PEER_OFFER,   WIRE_PEER_ANSWER,  WIRE_PEER_READY,	   WIRE_PEER_BEGIN,
		WIRE_PEER_CLIENTS, WIRE_PEER_WALK,    WIRE_PEER_CAUGHT_UP, WIRE_GROUP_ASK,
		WIRE_GROUP_STATUS, WIRE_GROUP_MEMBER, WIRE_SERVER,	   WIRE_GROUP_DONE,
	};

	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct wire_frame in = { .type = types[i] }, out;
		unsigned char bytes[FRAME_MAX];
		struct error err;
		size_t len;

		in.handle.handle = 5;
		len = wire_encode(&in, bytes);
		assert_int_equal(wire_decode(bytes, len, &out, &err), 0);
		assert_int_equal(out.type, types[i]);
		if (types[i] != WIRE_BYE && types[i] != WIRE_SERVER) /* which begins with a text */
			assert_int_equal(out.handle.handle, 5);
		assert_int_equal(wire_decode(bytes, len - 1, &out, &err), -EPROTO);
	}
}

UNIT_TEST(refusals)
{
	struct wire_frame in = { .type = WIRE_HELLO }, out;
	unsigned char bytes[FRAME_MAX];
	struct error err;
	size_t len = wire_encode(&in, bytes);
	struct wire_header *h = (struct wire_header *)bytes;

	h->version = 77;
	assert_int_equal(wire_decode(bytes, len, &out, &err), -EPROTONOSUPPORT);
	assert_non_null(strstr(err.text, "77"));
	h->version = WIRE_VERSION;
	h->magic ^= 1;
	assert_int_equal(wire_decode(bytes, len, &out, &err), -EPROTO);
	h->magic ^= 1;
	h->length = WIRE_PAYLOAD_MAX + 1;
	assert_int_equal(wire_header_check(h, &err), -EPROTO);
	h->length = sizeof(struct wire_hello);
	memset(in.hello.name, 'x', sizeof(in.hello.name)); /* a text without an end */
	len = wire_encode(&in, bytes);
	assert_int_equal(wire_decode(bytes, len, &out, &err), -EPROTO);
	in = (struct wire_frame){ .type = WIRE_PEER_HELLO };
	memset(in.peer_hello.address, 'x', sizeof(in.peer_hello.address));
	len = wire_encode(&in, bytes);
	assert_int_equal(wire_decode(bytes, len, &out, &err), -EPROTO);
	assert_int_equal(out.type, 0);
	in = (struct wire_frame){ .type = WIRE_GROUP_STATUS };
	memset(in.group_status.waits, 'x', sizeof(in.group_status.waits));
	len = wire_encode(&in, bytes);
	assert_int_equal(wire_decode(bytes, len, &out, &err), -EPROTO);
	in = (struct wire_frame){ .type = WIRE_PEER_CLIENTS,
				  .peer_clients = { .count = WIRE_PEER_ITEMS + 1 } };
	len = wire_encode(&in, bytes);
	assert_int_equal(wire_decode(bytes, len, &out, &err), -EPROTO);
}

/* What a peer calls itself, and why it refuses, is shown on terminals and stands in logs and
 * JSON. */
UNIT_TEST(texts_are_plain)
{
	static const char wild[] = "a\033[2J\r\nb\x7f\xff\t~";
	struct wire_frame in = { .type = WIRE_REFUSE, .refuse = { .code = -EINVAL } }, out;
	unsigned char bytes[FRAME_MAX];
	struct error err;

	strcpy(in.refuse.text, wild);
	assert_int_equal(wire_decode(bytes, wire_encode(&in, bytes), &out, &err), 0);
	assert_string_equal(out.refuse.text, "a?[2J??b???~");
	in = (struct wire_frame){ .type = WIRE_WELCOME };
	strcpy(in.welcome.device, wild);
	assert_int_equal(wire_decode(bytes, wire_encode(&in, bytes), &out, &err), 0);
	assert_string_equal(out.welcome.device, "a?[2J??b???~");
	in = (struct wire_frame){ .type = WIRE_HELLO };
	strcpy(in.hello.name, wild);
	assert_int_equal(wire_decode(bytes, wire_encode(&in, bytes), &out, &err), 0);
	assert_string_equal(out.hello.name, "a?[2J??b???~");
	in = (struct wire_frame){ .type = WIRE_PEER_HELLO };
	strcpy(in.peer_hello.group, wild);
	strcpy(in.peer_hello.node, wild);
	assert_int_equal(wire_decode(bytes, wire_encode(&in, bytes), &out, &err), 0);
	assert_string_equal(out.peer_hello.group, "a?[2J??b???~");
	assert_string_equal(out.peer_hello.node, "a?[2J??b???~");
}

static struct rpc_request request(enum rpc_op op, uint32_t key_len)
{
	return (struct rpc_request){
		.magic = RPC_REQUEST_MAGIC, .op = (uint8_t)op, .key_len = key_len, .sequence = 1
	};
}

static int decode(const struct rpc_request *r, uint32_t len)
{
	static uint64_t frame[RPC_REQUEST_MAX / 8 + 1];
	struct rpc_request_view view;
	const char *why = NULL;
	int rc;

	memcpy(frame, r, sizeof(*r));
	rc = rpc_request_decode(frame, len, &view, &why);
	if (rc)
		assert_non_null(why);
	return rc;
}

UNIT_TEST(requests)
{
	struct rpc_request r = request(RPC_GET, 3);

	assert_int_equal(decode(&r, RPC_REQUEST_BYTES + 3), 0);
	assert_int_equal(decode(&r, RPC_REQUEST_BYTES + 2), -EINVAL);
	assert_int_equal(decode(&r, RPC_REQUEST_BYTES - 1), -EINVAL);
	r.value_len = 1;
	assert_int_equal(decode(&r, RPC_REQUEST_BYTES + 3), -EINVAL);
	r = request(RPC_GET, 0);
	assert_int_equal(decode(&r, RPC_REQUEST_BYTES), -EINVAL);
	r = request(RPC_GET, KEY_MAX + 1);
	assert_int_equal(decode(&r, RPC_REQUEST_BYTES + KEY_MAX + 1), -EINVAL);
	r = request(RPC_PING, 0);
	assert_int_equal(decode(&r, RPC_REQUEST_BYTES), 0);
	r.sequence = 0;
	assert_int_equal(decode(&r, RPC_REQUEST_BYTES), -EINVAL);
	r = request((enum rpc_op)99, 0);
	assert_int_equal(decode(&r, RPC_REQUEST_BYTES), -EOPNOTSUPP);
	r = request(RPC_PUT, 1);
	r.flags = RPC_INLINE_VALUE;
	assert_int_equal(decode(&r, RPC_REQUEST_BYTES + 1), 0); /* empty value */
	r.value_len = RPC_EAGER_MAX;
	assert_int_equal(decode(&r, RPC_REQUEST_BYTES + 1 + RPC_EAGER_MAX), 0);
	r.value_len = RPC_EAGER_MAX + 1;
	assert_int_equal(decode(&r, RPC_REQUEST_BYTES + 1 + RPC_EAGER_MAX + 1), -EINVAL);
	r.flags = 0;
	r.staging_len = RPC_EAGER_MAX;
	assert_int_equal(decode(&r, RPC_REQUEST_BYTES + 1), -EINVAL); /* staging too small */
	r.staging_len = RPC_EAGER_MAX + 1;
	assert_int_equal(decode(&r, RPC_REQUEST_BYTES + 1), 0);
	r.value_len = VALUE_MAX + 1;
	r.staging_len = UINT32_MAX;
	assert_int_equal(decode(&r, RPC_REQUEST_BYTES + 1), -EINVAL);
}

/* Which conditions, times to live and flags each operation takes. */
UNIT_TEST(terms_of_requests)
{
	static const struct {
		enum rpc_op op;
		bool valued, lives, keeps;
		unsigned conditions; /* bits */
	} ops[] = {
		{ RPC_PUT, true, true, true, 15 },    { RPC_APPEND, true, true, false, 15 },
		{ RPC_INCR, false, true, false, 7 },  { RPC_DEL, false, false, false, 9 },
		{ RPC_TOUCH, false, true, false, 1 }, { RPC_GET, false, false, false, 1 },
	};

	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		struct rpc_request r = request(ops[i].op, 1);
		const uint32_t len = RPC_REQUEST_BYTES + 1;

		r.flags = ops[i].valued ? RPC_INLINE_VALUE : 0;
		for (r.condition = 0; r.condition < 5; r.condition++)
			assert_int_equal(decode(&r, len),
					 ops[i].conditions >> r.condition & 1 ? 0 : -EINVAL);
		r.condition = RPC_ALWAYS;
		r.ttl_ms = 1;
		assert_int_equal(decode(&r, len), ops[i].lives ? 0 : -EINVAL);
		r.ttl_ms = 0;
		r.flags |= RPC_KEEP_EXPIRY;
		assert_int_equal(decode(&r, len), ops[i].keeps ? 0 : -EINVAL);
		r.flags = RPC_KEEP_EXPIRY << 1;
		assert_int_equal(decode(&r, len), -EINVAL);
		r.flags = 0; /* a value elsewhere */
		r.value_len = r.staging_len = 9;
		assert_int_equal(decode(&r, len), ops[i].valued ? 0 : -EINVAL);
	}
}

UNIT_TEST(replies)
{
	uint64_t frame[RPC_REPLY_MAX / 8] = { 0 };
	struct rpc_reply *r = (struct rpc_reply *)frame;
	const struct rpc_reply *out;
	const uint8_t *value;

	r->magic = RPC_REPLY_MAGIC;
	assert_int_equal(rpc_reply_decode(frame, RPC_REPLY_BYTES, &out, &value), 0);
	assert_null(value);
	r->flags = RPC_INLINE_VALUE;
	r->value_len = 4;
	assert_int_equal(rpc_reply_decode(frame, RPC_REPLY_BYTES + 4, &out, &value), 0);
	assert_non_null(value);
	assert_int_equal(rpc_reply_decode(frame, RPC_REPLY_BYTES + 5, &out, &value), -EBADMSG);
	r->value_len = RPC_REPLY_INLINE_MAX + 1;
	assert_int_equal(
		rpc_reply_decode(frame, RPC_REPLY_BYTES + RPC_REPLY_INLINE_MAX + 1, &out, &value),
		-EBADMSG);
	assert_int_equal(rpc_reply_decode(frame, RPC_REPLY_BYTES - 1, &out, &value), -EBADMSG);
}

/* Random bytes, half of them after a right beginning: decoders stay within the length given. */
UNIT_TEST(garbage)
{
	uint64_t seed = 20260101, frame[RPC_REQUEST_MAX / 8 + 1];

	printf("seed %llu\n", (unsigned long long)seed);
	for (unsigned i = 0; i < 200000; i++) {
		uint32_t len = (uint32_t)(unit_random(&seed) % 400);
		struct rpc_request_view view;
		const struct rpc_reply *reply;
		const uint8_t *value;
		struct wire_frame out;
		struct error err;
		const char *why;

		for (unsigned j = 0; j < 50; j++)
			frame[j] = unit_random(&seed);
		if (i & 1) {
			struct rpc_request *r = (struct rpc_request *)frame;

			r->magic = RPC_REQUEST_MAGIC;
			r->op = (uint8_t)(1 + i % 8);
			r->flags &= 3;
			r->condition &= 3;
			r->ttl_ms %= 400;
			r->key_len %= 400;
			r->value_len %= 400;
		}
		if (rpc_request_decode(frame, len, &view, &why) == 0 && view.value)
			assert_true(view.value + view.header->value_len <= (uint8_t *)frame + len);
		rpc_reply_decode(frame, len, &reply, &value);
		((struct wire_header *)frame)->magic = WIRE_MAGIC;
		((struct wire_header *)frame)->version = WIRE_VERSION;
		((struct wire_header *)frame)->type = (uint16_t)(i % 10);
		((struct wire_header *)frame)->length = i % 3 ? len - 16 : len;
		wire_decode(frame, len, &out, &err);
	}
}
