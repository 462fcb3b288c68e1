/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Three protocols: requests byte for byte, replies cut at every byte, and what is no reply. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "tools/kv-bench/codec.h"

#define ROOM 1000u

static struct kv_op operation(enum kv_verb verb)
{
	static char value[ROOM] = "hello";

	return (struct kv_op){ .verb = verb,
			       .key = "user7",
			       .key_len = 5,
			       .value = value,
			       .value_len = verb == KV_PUT ? 5 : ROOM,
			       .status = -1 };
}

static void request_is(const struct codec *c, enum kv_verb verb, const char *bytes, size_t len)
{
	struct kv_op op = operation(verb);
	char out[ROOM + CODEC_MORE];

	assert_int_equal(c->request(&op, out), len);
	assert_memory_equal(out, bytes, len);
}

UNIT_TEST(requests)
{
#define IS(codec, verb, text) request_is(&codec, verb, text, sizeof(text) - 1)
	IS(codec_resp, KV_GET, "*2\r\n$3\r\nGET\r\n$5\r\nuser7\r\n");
	IS(codec_resp, KV_PUT, "*3\r\n$3\r\nSET\r\n$5\r\nuser7\r\n$5\r\nhello\r\n");
	IS(codec_resp, KV_DEL, "*2\r\n$3\r\nDEL\r\n$5\r\nuser7\r\n");
	IS(codec_memcached, KV_GET, "mg user7 v\r\n");
	IS(codec_memcached, KV_PUT, "ms user7 5\r\nhello\r\n");
	IS(codec_memcached, KV_DEL, "md user7\r\n");
	IS(codec_frame, KV_GET, "flor\5\0\0\0\xe8\3\0\0\0\0\0\0user7");
	IS(codec_frame, KV_PUT, "flor\12\0\0\0\0\0\0\0\0\0\0\0user7hello");
}

/* A copy that ends with its last byte, so that a sanitizer sees a read beyond it. */
static ssize_t reply_to(const struct codec *c, struct kv_op *op, const char *bytes, size_t len)
{
	char why[CODEC_WHY_MAX] = "", *in = malloc(len ? len : 1);
	ssize_t rc;

	assert_non_null(in);
	memcpy(in, bytes, len);
	rc = c->reply(op, in, len, why);
	if (rc > 0 && op->status == 0 && op->verb == KV_GET)
		assert_memory_equal(op->data, bytes + (op->data - in), op->data_len);
	if (rc > 0 && op->data)
		op->data = bytes + (op->data - in);
	if (rc < 0)
		assert_int_not_equal(why[0], 0);
	free(in);
	return rc;
}

static void reply_is(const struct codec *c, enum kv_verb verb, const char *bytes, size_t len,
		     int status, const char *value, size_t value_len)
{
	struct kv_op op = operation(verb);
	char more[256];

	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(reply_to(c, &op, bytes, cut), 0);
	memcpy(more, bytes, len);
	memcpy(more + len, "$-1\r\nEN\r\n", 9); /* the next one has come as well */
	for (size_t behind = 0; behind <= 9; behind++) {
		op = operation(verb);
		assert_int_equal(reply_to(c, &op, more, len + behind), len);
		assert_int_equal(op.status, status);
		if (!value)
			continue;
		assert_int_equal(op.data_len, value_len);
		assert_memory_equal(op.data, value, value_len);
	}
}

UNIT_TEST(replies_are_cut_anywhere)
{
#define REPLY(codec, verb, text, status) \
	reply_is(&codec, verb, text, sizeof(text) - 1, status, NULL, 0)
#define VALUE(codec, text, value) \
	reply_is(&codec, KV_GET, text, sizeof(text) - 1, 0, value, sizeof(value) - 1)
	VALUE(codec_resp, "$5\r\nhello\r\n", "hello");
	VALUE(codec_resp, "$0\r\n\r\n", "");
	VALUE(codec_resp, "$4\r\n\r\n\r\n\r\n", "\r\n\r\n");
	REPLY(codec_resp, KV_GET, "$-1\r\n", -ENOENT);
	REPLY(codec_resp, KV_PUT, "+OK\r\n", 0);
	REPLY(codec_resp, KV_DEL, ":1\r\n", 0);
	REPLY(codec_resp, KV_DEL, ":0\r\n", -ENOENT);
	VALUE(codec_memcached, "VA 5\r\nhello\r\n", "hello");
	VALUE(codec_memcached, "VA 4\r\nEN\r\n\r\n", "EN\r\n");
	REPLY(codec_memcached, KV_GET, "EN\r\n", -ENOENT);
	REPLY(codec_memcached, KV_PUT, "HD\r\n", 0);
	REPLY(codec_memcached, KV_DEL, "HD\r\n", 0);
	REPLY(codec_memcached, KV_DEL, "NF\r\n", -ENOENT);
	VALUE(codec_frame, "flor\5\0\0\0hello", "hello");
	REPLY(codec_frame, KV_PUT, "flor\0\0\0\0", 0);
}

static void refused(const struct codec *c, enum kv_verb verb, const char *text, size_t len, int rc)
{
	struct kv_op op = operation(verb);

	if (reply_to(c, &op, text, len) != rc)
		fail_msg("'%s' should be %d", text, rc);
}

UNIT_TEST(what_is_no_reply)
{
	static char line[2 * CODEC_LINE];

#define NONE(codec, verb, text) refused(&codec, verb, text, sizeof(text) - 1, -EPROTO)
#define NO(codec, verb, text)	refused(&codec, verb, text, sizeof(text) - 1, -EIO)
	NONE(codec_resp, KV_GET, "+OK\r\n");
	NONE(codec_resp, KV_GET, ":1\r\n");
	NONE(codec_resp, KV_GET, "$-2\r\n");
	NONE(codec_resp, KV_GET, "$\r\n");
	NONE(codec_resp, KV_GET, "$5x\r\n");
	NONE(codec_resp, KV_GET, "$5\nhello\r\n");
	NONE(codec_resp, KV_GET, "$5\r\nhelloXX");
	NONE(codec_resp, KV_GET, "$1001\r\n");
	NONE(codec_resp, KV_GET, "$18446744073709551621\r\nhello\r\n");
	NONE(codec_resp, KV_GET, "\n");
	NONE(codec_resp, KV_PUT, "$5\r\nhello\r\n");
	NONE(codec_resp, KV_PUT, "+KO\r\n");
	NONE(codec_resp, KV_DEL, "+OK\r\n");
	NO(codec_resp, KV_PUT, "-OOM command not allowed\r\n");
	NO(codec_resp, KV_GET, "-ERR\r\n");
	NONE(codec_memcached, KV_GET, "HD\r\n");
	NONE(codec_memcached, KV_GET, "VA\r\n");
	NONE(codec_memcached, KV_GET, "VA 5 t1\r\nhello\r\n");
	NONE(codec_memcached, KV_GET, "VA 5\r\nhello..");
	NONE(codec_memcached, KV_GET, "VA 9999\r\n");
	NONE(codec_memcached, KV_PUT, "EN\r\n");
	NONE(codec_memcached, KV_DEL, "EN\r\n");
	NONE(codec_memcached, KV_PUT, "HDD\r\n");
	NO(codec_memcached, KV_GET, "ERROR\r\n");
	NO(codec_memcached, KV_PUT, "NS\r\n");
	NO(codec_memcached, KV_PUT, "SERVER_ERROR out of memory storing object\r\n");
	NO(codec_memcached, KV_GET, "CLIENT_ERROR bad command line format\r\n");
	NONE(codec_frame, KV_GET, "floR\5\0\0\0hello");
	NONE(codec_frame, KV_GET, "flor\xe9\3\0\0");
	NONE(codec_frame, KV_PUT, "flor\1\0\0\0x");
	memset(line, '$', sizeof(line));
	refused(&codec_resp, KV_GET, line, CODEC_LINE - 1, 0);
	refused(&codec_resp, KV_GET, line, CODEC_LINE, -EPROTO);
	refused(&codec_memcached, KV_GET, line, sizeof(line), -EPROTO);
}

/* A terminal is not commanded by a server. */
UNIT_TEST(what_a_server_says_is_plain)
{
	static const char evil[] = "-ERR \33[2J\7\r\n";
	struct kv_op op = operation(KV_GET);
	char why[CODEC_WHY_MAX];

	assert_int_equal(codec_resp.reply(&op, evil, sizeof(evil) - 1, why), -EIO);
	assert_string_equal(why, "ERR ?[2J?");
}
