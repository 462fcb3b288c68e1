/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Bytes as text: the escapes of tsv, base64 (RFC 4648, section 4; jansson has none), JSON fields
 * that carry any bytes, and figures for people. Any thread.
 */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "tools/kv-cli/buffer.h"

/*
 * text_escape - append @data with \t, \n, \\ and \xHH for other control bytes and for bytes that
 * are not UTF-8. Returns 0, -E2BIG or -ENOMEM.
 */
int text_escape(struct buffer *out, const void *data, size_t len);

/*
 * text_unescape - the inverse; a lone backslash is an error.
 * Returns 0, -EBADMSG (@err says what), -E2BIG or -ENOMEM.
 */
int text_unescape(struct buffer *out, const char *text, size_t len, struct error *err);

/* text_base64 - append the encoding, padded. Returns 0, -E2BIG or -ENOMEM. */
int text_base64(struct buffer *out, const void *data, size_t len);

/* text_base64_decode - padded, no white space. Returns 0, -EBADMSG, -E2BIG or -ENOMEM. */
int text_base64_decode(struct buffer *out, const char *text, size_t len);

/*
 * text_json_set - set field @name of @object to the bytes, or @name_b64 where they are not UTF-8.
 * Returns 0 or -ENOMEM.
 */
int text_json_set(json_t *object, const char *name, const void *data, size_t len);

#define TEXT_KEY_MAX 96 /* of a shortened key in a message, with its end */

/* text_key - a key for a message: escaped, shortened to fit. Returns @out. */
const char *text_key(char out[TEXT_KEY_MAX], const void *key, size_t len);

#define TEXT_SIZE_MAX 32

/* text_size - "812 B", "70.1 MB" (powers of ten, as disks and networks count). Returns @out. */
const char *text_size(char out[TEXT_SIZE_MAX], uint64_t bytes);

/* text_size_binary - "4.0 GiB" (powers of two, as memory is counted). Returns @out. */
const char *text_size_binary(char out[TEXT_SIZE_MAX], uint64_t bytes);

#define TEXT_SHORT_MAX 8 /* of a figure in a narrow column: 5 characters and its end, and spare */

/* text_number - "9999", "12.3k", "1.23M": in full below 10000, else three digits. Returns @out. */
const char *text_number(char out[TEXT_SHORT_MAX], uint64_t n);

/* text_rate - "0", "0.5", "123", "12.3k"; "-" where it is negative. Returns @out. */
const char *text_rate(char out[TEXT_SHORT_MAX], double per_second);

/* text_bytes - "812", "1.50K", "64.0M": powers of two. Returns @out. */
const char *text_bytes(char out[TEXT_SHORT_MAX], uint64_t bytes);
