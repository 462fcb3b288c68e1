/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The protocol of Redis: arrays of strings there; a line, or a string behind its length, back. */
#include <errno.h>
#include <string.h>

#include "tools/kv-bench/codec.h"
#include "tools/kv-bench/record.h"

static char *words(char *at, const char *text)
{
	size_t len = strlen(text);

	memcpy(at, text, len);
	return at + len;
}

static char *string(char *at, const char *bytes, size_t len)
{
	*at++ = '$';
	at += record_digits(at, len);
	at = words(at, "\r\n");
	memcpy(at, bytes, len);
	return words(at + len, "\r\n");
}

static size_t request(const struct kv_op *op, char *out)
{
	char *at = out;

	switch (op->verb) {
	case KV_GET:
		at = words(at, "*2\r\n$3\r\nGET\r\n");
		break;
	case KV_PUT:
		at = words(at, "*3\r\n$3\r\nSET\r\n");
		break;
	case KV_DEL:
		at = words(at, "*2\r\n$3\r\nDEL\r\n");
		break;
	}
	at = string(at, op->key, op->key_len);
	if (op->verb == KV_PUT)
		at = string(at, op->value, op->value_len);
	return (size_t)(at - out);
}

static ssize_t reply(struct kv_op *op, const char *in, size_t len, char why[CODEC_WHY_MAX])
{
	ssize_t line = codec_line(in, len, why);
	const char *at = in + 1, *end = in + line - 2;
	uint64_t n;

	if (line <= 0)
		return line;
	if (in[0] == '-')
		return codec_refused(-EIO, in + 1, (size_t)line - 1, why);
	if (op->verb == KV_PUT && line == 5 && memcmp(in, "+OK", 3) == 0) {
		op->status = 0;
		return line;
	}
	if (op->verb == KV_GET && line == 5 && memcmp(in, "$-1", 3) == 0) {
		op->status = -ENOENT;
		return line;
	}
	if (in[0] != (op->verb == KV_GET ? '$' : ':') || op->verb == KV_PUT ||
	    codec_number(&at, end, &n) || at != end)
		return codec_refused(-EPROTO, in, (size_t)line, why);
	if (op->verb == KV_GET)
		return codec_value(op, in, len, (size_t)line, n, "\r\n", why);
	op->status = n ? 0 : -ENOENT;
	return line;
}

const struct codec codec_resp = { request, reply };
