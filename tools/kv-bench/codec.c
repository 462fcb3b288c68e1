/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-bench/codec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/plain.h"

int codec_refused(int code, const char *in, size_t len, char why[CODEC_WHY_MAX])
{
	while (len && (in[len - 1] == '\n' || in[len - 1] == '\r'))
		len--;
	if (len >= CODEC_WHY_MAX)
		len = CODEC_WHY_MAX - 1;
	snprintf(why, CODEC_WHY_MAX, "%.*s", len ? (int)len : 10, len ? in : "empty line");
	plain_text(why);
	return code;
}

ssize_t codec_line(const char *in, size_t len, char why[CODEC_WHY_MAX])
{
	const char *end = memchr(in, '\n', len < CODEC_LINE ? len : CODEC_LINE);

	if (!end && len < CODEC_LINE)
		return 0;
	if (!end || end == in || end[-1] != '\r')
		return codec_refused(-EPROTO, in, len < 40 ? len : 40, why);
	return end + 1 - in;
}

int codec_number(const char **at, const char *end, uint64_t *out)
{
	const char *from = *at;

	*out = 0;
	while (*at < end && **at >= '0' && **at <= '9' && *at - from < 19)
		*out = *out * 10 + (uint64_t)(*(*at)++ - '0');
	return *at == from ? -EPROTO : 0;
}

ssize_t codec_value(struct kv_op *op, const char *in, size_t len, size_t head, uint64_t bytes,
		    const char *end, char why[CODEC_WHY_MAX])
{
	size_t end_len = strlen(end);

	if (bytes > op->value_len) {
		snprintf(why, CODEC_WHY_MAX, "a value of %llu bytes, longer than any that was put",
			 (unsigned long long)bytes);
		return -EPROTO;
	}
	if (len < head + bytes + end_len)
		return 0;
	if (memcmp(in + head + bytes, end, end_len) != 0)
		return codec_refused(-EPROTO, in + head + bytes, end_len, why);
	op->status = 0;
	op->data = in + head;
	op->data_len = bytes;
	return (ssize_t)(head + bytes + end_len);
}
