/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* memcached's text: lines, and values behind their length. */
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

static size_t request(const struct kv_op *op, char *out)
{
	static const char *const verb[] = {
		[KV_GET] = "get ", [KV_PUT] = "set ", [KV_DEL] = "delete "
	};
	char *at = bytes_to(out, verb[op->verb], strlen(verb[op->verb]));

	at = bytes_to(at, op->key, op->key_len);
	if (op->verb == KV_PUT) {
		at = bytes_to(at, " 0 0 ", 5);
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

static bool is(const char *in, ssize_t line, const char *text)
{
	return (size_t)line == strlen(text) + 2 && begins(in, line, text);
}

/* VALUE <key> <flags> <bytes>, of the key that was asked for. */
static int head_of(const struct kv_op *op, const char *in, ssize_t line, uint64_t *bytes)
{
	const char *at = in + 6, *end = in + line - 2;
	uint64_t flags;

	if (line < (ssize_t)(6 + op->key_len + 2) || memcmp(in, "VALUE ", 6) != 0 ||
	    memcmp(at, op->key, op->key_len) != 0)
		return -EPROTO;
	at += op->key_len;
	if (*at++ != ' ' || codec_number(&at, end, &flags) || at == end || *at++ != ' ' ||
	    codec_number(&at, end, bytes) || at != end)
		return -EPROTO;
	return 0;
}

static ssize_t reply(struct kv_op *op, const char *in, size_t len, char why[CODEC_WHY_MAX])
{
	static const char *const done[] = { [KV_PUT] = "STORED", [KV_DEL] = "DELETED" };
	ssize_t line = codec_line(in, len, why);
	uint64_t bytes;

	if (line <= 0)
		return line;
	op->status = 0;
	if (op->verb != KV_GET && is(in, line, done[op->verb]))
		return line;
	if ((op->verb == KV_GET && is(in, line, "END")) ||
	    (op->verb == KV_DEL && is(in, line, "NOT_FOUND"))) {
		op->status = -ENOENT;
		return line;
	}
	if (op->verb == KV_GET && head_of(op, in, line, &bytes) == 0)
		return codec_value(op, in, len, (size_t)line, bytes, "\r\nEND\r\n", why);
	if (is(in, line, "ERROR") || begins(in, line, "SERVER_ERROR ") ||
	    begins(in, line, "CLIENT_ERROR "))
		return codec_refused(-EIO, in, (size_t)line, why);
	return codec_refused(-EPROTO, in, (size_t)line, why);
}

const struct codec codec_memcached = { request, reply };
