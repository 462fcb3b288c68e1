/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <nettle/base64.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "server/etcd/etcd_internal.h"

json_t *base64_json(const void *bytes, size_t len)
{
	const size_t text_len = BASE64_ENCODE_RAW_LENGTH(len);
	autofree char *text = malloc(text_len + 1);

	if (!text)
		return NULL;
	base64_encode_raw(text, len, bytes);
	return json_stringn(text, text_len);
}

json_t *base64_key(const char *key)
{
	return base64_json(key, strlen(key));
}

char *base64_bytes(const json_t *text, size_t *len)
{
	struct base64_decode_ctx ctx;
	const size_t text_len = json_string_length(text);
	autofree char *bytes = malloc(BASE64_DECODE_LENGTH(text_len) + 1);
	char *taken = bytes;

	if (!bytes)
		return NULL;
	*len = 0;
	base64_decode_init(&ctx);
	if (text_len &&
	    !base64_decode_update(&ctx, len, (uint8_t *)bytes, text_len, json_string_value(text)))
		return NULL;
	if (!base64_decode_final(&ctx))
		return NULL;
	bytes[*len] = 0;
	bytes = NULL;
	return taken;
}
