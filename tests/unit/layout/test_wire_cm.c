/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Private data of the RDMA CM: what was made comes back, what a peer can send wrong is refused. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/layout/limits.h"
#include "common/layout/wire_cm.h"

static struct wire_cm_request good_request(void)
{
	return (struct wire_cm_request){ .header = wire_cm_header(WIRE_CM_REQUEST),
					 .token = 0x1122334455667788,
					 .handle = 63,
					 .credits = 8,
					 .mtu = 5 };
}

static struct wire_cm_reply good_reply(void)
{
	return (struct wire_cm_reply){ .header = wire_cm_header(WIRE_CM_REPLY),
				       .handle = 0,
				       .credits = RPC_SLOTS_MAX,
				       .mtu = 1 };
}

static struct wire_cm_reject good_reject(void)
{
	struct wire_cm_reject r;

	wire_cm_reject_make(-EUSERS, "no room", &r);
	return r;
}

/* One of the three, by kind: from memory of exactly @len bytes. */
static int decode(enum wire_cm_kind kind, const void *bytes, size_t len, void *out,
		  struct error *err)
{
	void *copy = malloc(len ? len : 1);
	int rc;

	assert_non_null(copy);
	if (len)
		memcpy(copy, bytes, len);
	rc = kind == WIRE_CM_REQUEST ? wire_cm_request_decode(copy, len, out, err)
	     : kind == WIRE_CM_REPLY ? wire_cm_reply_decode(copy, len, out, err)
				     : wire_cm_reject_decode(copy, len, out, err);
	free(copy);
	return rc;
}

struct any {
	enum wire_cm_kind kind;
	size_t len, max;
	union {
		struct wire_cm_header header;
		struct wire_cm_request request;
		struct wire_cm_reply reply;
		struct wire_cm_reject reject;
		uint8_t bytes[256];
	};
};

static struct any good(enum wire_cm_kind kind)
{
	struct any a;

	memset(&a, 0, sizeof(a));
	a.kind = kind;
	if (kind == WIRE_CM_REQUEST) {
		a.request = good_request();
		a.len = sizeof(a.request);
		a.max = WIRE_CM_REQUEST_MAX;
	} else if (kind == WIRE_CM_REPLY) {
		a.reply = good_reply();
		a.len = sizeof(a.reply);
		a.max = WIRE_CM_REPLY_MAX;
	} else {
		a.reject = good_reject();
		a.len = sizeof(a.reject);
		a.max = WIRE_CM_REJECT_MAX;
	}
	return a;
}

UNIT_TEST(what_was_made_comes_back)
{
	for (enum wire_cm_kind kind = WIRE_CM_REQUEST; kind <= WIRE_CM_REJECT; kind++) {
		struct any a = good(kind), out;
		struct error err;

		for (size_t len = a.len; len <= a.max; len++) { /* the CM pads with zeros */
			memset(&out, 0xee, sizeof(out));
			assert_int_equal(decode(kind, a.bytes, len, out.bytes, &err), 0);
			assert_memory_equal(out.bytes, a.bytes, a.len);
		}
	}
}

UNIT_TEST(what_is_too_short_is_refused)
{
	for (enum wire_cm_kind kind = WIRE_CM_REQUEST; kind <= WIRE_CM_REJECT; kind++) {
		struct any a = good(kind), out;
		struct error err;

		for (size_t len = 0; len < a.len; len++)
			assert_int_equal(decode(kind, a.bytes, len, out.bytes, &err), -EPROTO);
	}
	assert_int_equal(wire_cm_request_decode(NULL, 0, NULL, NULL), -EPROTO);
	assert_int_equal(wire_cm_request_decode(NULL, 56, NULL, NULL), -EPROTO);
}

static void refused(const struct any *a, int code, const char *word)
{
	struct error err = { 0 };
	struct any out;

	assert_int_equal(decode(a->kind, a->bytes, a->max, out.bytes, &err), code);
	assert_non_null(strstr(err.text, word));
}

UNIT_TEST(another_protocol_version_or_kind)
{
	for (enum wire_cm_kind kind = WIRE_CM_REQUEST; kind <= WIRE_CM_REJECT; kind++) {
		struct any a = good(kind);

		a.header.magic ^= 1;
		refused(&a, -EPROTO, "not of GraceKV");
		a = good(kind);
		a.header.version = 999;
		refused(&a, -EPROTONOSUPPORT, "999");
		a = good(kind);
		a.header.kind = kind == WIRE_CM_REQUEST ? WIRE_CM_REPLY : WIRE_CM_REQUEST;
		refused(&a, -EPROTO, "kind");
		memset(a.bytes, 0, sizeof(a.bytes)); /* no private data: all padding */
		refused(&a, -EPROTO, "0x00000000");
	}
}

UNIT_TEST(numbers_that_cannot_be)
{
	struct any a = good(WIRE_CM_REQUEST);

	a.request.token = 0;
	refused(&a, -EPROTO, "session");
	a = good(WIRE_CM_REQUEST);
	a.request.handle = SESSION_QPS_MAX;
	refused(&a, -EPROTO, "queue pair 65");
	a.request.handle = UINT32_MAX;
	refused(&a, -EPROTO, "queue pair");
	a = good(WIRE_CM_REQUEST);
	a.request.mtu = 0;
	refused(&a, -EPROTO, "MTU code 0");
	a.request.mtu = 6;
	refused(&a, -EPROTO, "MTU code 6");
	a = good(WIRE_CM_REPLY);
	a.reply.handle = SESSION_QPS_MAX;
	refused(&a, -EPROTO, "queue pair 65");
	a = good(WIRE_CM_REPLY);
	a.reply.credits = 0;
	refused(&a, -EPROTO, "0 credits");
	a.reply.credits = RPC_SLOTS_MAX + 1;
	refused(&a, -EPROTO, "65 credits");
	a = good(WIRE_CM_REPLY);
	a.reply.mtu = 0;
	refused(&a, -EPROTO, "MTU code 0");
	a.reply.mtu = 255;
	refused(&a, -EPROTO, "MTU code 255");
	a = good(WIRE_CM_REJECT);
	a.reject.code = 0; /* a rejection that says success */
	refused(&a, -EPROTO, "code 0");
	a.reject.code = 5;
	refused(&a, -EPROTO, "code 5");
	a.reject.code = INT32_MIN;
	refused(&a, -EPROTO, "code -2147483648");
	a.reject.code = -4096;
	refused(&a, -EPROTO, "code -4096");
}

UNIT_TEST(texts_of_a_rejection)
{
	struct any a = good(WIRE_CM_REJECT);
	struct wire_cm_reject out;
	char text[400];

	memset(a.reject.text, 'x', sizeof(a.reject.text));
	refused(&a, -EPROTO, "does not end");
	strcpy(a.reject.text, "red \033[31m\nand\xff");
	assert_int_equal(wire_cm_reject_decode(&a.reject, sizeof(a.reject), &out, NULL), 0);
	assert_string_equal(out.text, "red ?[31m?and?"); /* nothing commands a terminal */
	for (size_t len = 130; len < sizeof(text); len++) {
		memset(text, 'y', len);
		text[len] = '\0';
		wire_cm_reject_make(-ENOMEM, text, &out);
		assert_int_equal(out.code, -ENOMEM);
		assert_int_equal(strlen(out.text), len < 136 ? len : 135);
		assert_int_equal(strcmp(out.text + strlen(out.text) - 3, "...") == 0, len > 135);
	}
}

/* Random bytes, mostly after a right beginning: what is let through is within its limits. */
UNIT_TEST(garbage)
{
	uint64_t seed = 20261121;
	unsigned let_through = 0;

	printf("seed %llu\n", (unsigned long long)seed);
	for (unsigned i = 0; i < 200000; i++) {
		struct any a = good((enum wire_cm_kind)(1 + i % 3)), out;
		size_t flips = unit_random(&seed) % 4;

		for (size_t f = 0; f < flips; f++)
			a.bytes[unit_random(&seed) % a.len] = (uint8_t)unit_random(&seed);
		if (decode(a.kind, a.bytes, unit_random(&seed) % (a.max + 1), out.bytes, NULL))
			continue;
		let_through++;
		assert_true(a.kind != WIRE_CM_REQUEST || out.request.handle < SESSION_QPS_MAX);
		assert_true(a.kind != WIRE_CM_REPLY || out.reply.credits <= RPC_SLOTS_MAX);
		assert_true(a.kind != WIRE_CM_REJECT || memchr(out.reject.text, 0, 136));
	}
	assert_in_range(let_through, 1000, 199000);
}
