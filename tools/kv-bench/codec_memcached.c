/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * memcached's meta commands, text as its older ones, and faster for it where requests are
 * pipelined: answers to "mg" go out together, those to "get" by a system call each. Since 1.6.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "tools/kv-bench/codec.h"
#include "tools/kv-bench/record.h"

static char *bytes_to(char *at, const char *bytes, size_t len)
{
	memcpy(at, bytes, len);
	return at + len;
}

/* mg <key> v; ms <key> <bytes>, then the value; md <key> */
static size_t request(const struct kv_op *op, char *out)
{
	static const char *const verb[] = { [KV_GET] = "mg ", [KV_PUT] = "ms ", [KV_DEL] = "md " };
	char *at = bytes_to(out, verb[op->verb], 3);

	at = bytes_to(at, op->key, op->key_len);
	if (op->verb == KV_GET)
		at = bytes_to(at, " v", 2);
	if (op->verb == KV_PUT) {
		*at++ = ' ';
		at += record_digits(at, op->value_len);
		at = bytes_to(at, "\r\n", 2);
		at = bytes_to(at, op->value, op->value_len);
	}
	return (size_t)(bytes_to(at, "\r\n", 2) - out);
}

static bool begins(const char *in, ssize_t line, const char *text)
{
	return (size_t)line >= strlen(text) && memcmp(in, text, strlen(text)) == 0;
}

/* A line of @text and nothing else. */
static bool is(const char *in, ssize_t line, const char *text)
{
	return (size_t)line == strlen(text) + 2 && begins(in, line, text);
}

/* VA <bytes>, and after the line the value. */
static ssize_t value(struct kv_op *op, const char *in, size_t len, ssize_t line,
		     char why[CODEC_WHY_MAX])
{
	const char *at = in + 3, *end = in + line - 2;
	uint64_t bytes;

	if (codec_number(&at, end, &bytes) || at != end)
		return codec_refused(-EPROTO, in, (size_t)line, why);
	return codec_value(op, in, len, (size_t)line, bytes, "\r\n", why);
}

static ssize_t reply(struct kv_op *op, const char *in, size_t len, char why[CODEC_WHY_MAX])
{
	ssize_t line = codec_line(in, len, why);

	if (line <= 0)
		return line;
	if (op->verb == KV_GET && begins(in, line, "VA "))
		return value(op, in, len, line, why);
	op->status = op->verb != KV_GET && is(in, line, "HD") ? 0 : -ENOENT;
	if (op->status == 0 || (op->verb == KV_GET && is(in, line, "EN")) ||
	    (op->verb == KV_DEL && is(in, line, "NF")))
		return line;
	if (is(in, line, "ERROR") || begins(in, line, "SERVER_ERROR ") ||
	    begins(in, line, "CLIENT_ERROR ") || is(in, line, "NS"))
		return codec_refused(-EIO, in, (size_t)line, why);
	return codec_refused(-EPROTO, in, (size_t)line, why);
}

const struct codec codec_memcached = { request, reply };
