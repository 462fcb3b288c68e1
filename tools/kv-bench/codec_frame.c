/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Frames of the floor server: floor.h. */
#include <errno.h>
#include <string.h>

#include "tools/kv-bench/codec.h"
#include "tools/kv-bench/floor.h"

static size_t request(const struct kv_op *op, char *out)
{
	size_t value = op->verb == KV_PUT ? op->value_len : 0;
	const uint32_t head[4] = { FLOOR_MAGIC, (uint32_t)(op->key_len + value),
				   op->verb == KV_GET ? (uint32_t)op->value_len : 0, 0 };

	memcpy(out, head, FLOOR_REQUEST);
	memcpy(out + FLOOR_REQUEST, op->key, op->key_len);
	if (value)
		memcpy(out + FLOOR_REQUEST + op->key_len, op->value, value);
	return FLOOR_REQUEST + op->key_len + value;
}

static ssize_t reply(struct kv_op *op, const char *in, size_t len, char why[CODEC_WHY_MAX])
{
	uint32_t head[2];

	if (len < FLOOR_REPLY)
		return 0;
	memcpy(head, in, sizeof(head));
	if (head[0] != FLOOR_MAGIC || (op->verb != KV_GET && head[1] != 0))
		return codec_refused(-EPROTO, "no frame of the floor server", 28, why);
	return codec_value(op, in, len, FLOOR_REPLY, head[1], "", why);
}

const struct codec codec_frame = { request, reply };
