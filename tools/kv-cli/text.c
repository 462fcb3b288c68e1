/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Length of the UTF-8 sequence at @p, 0 where there is none (RFC 3629: no surrogates, shortest). */
static size_t text_utf8(const unsigned char *p, size_t len)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t n;

	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		n = 2;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		n = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		n = 4;
	else
		return 0;
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	if (len < n || p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	return n;
}

/* The escape of one unit at @p into @out (at most 4 bytes); returns how many bytes it stands
 * for. */
static size_t text_escape_unit(const unsigned char *p, size_t len, char out[5], size_t *out_len)
{
	size_t n = text_utf8(p, len);

	if (*p == '\t' || *p == '\n' || *p == '\\') {
		out[0] = '\\';
		out[1] = *p == '\t' ? 't' : *p == '\n' ? 'n' : '\\';
		*out_len = 2;
		return 1;
	}
	if (n == 0 || *p < 0x20 || *p == 0x7f) {
		snprintf(out, 5, "\\x%02x", *p);
		*out_len = 4;
		return 1;
	}
	memcpy(out, p, n);
	*out_len = n;
	return n;
}

int text_escape(struct buffer *out, const void *data, size_t len)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < len;) {
		size_t plain = i, unit_len;
		char unit[5];
		int rc;

		while (plain < len && p[plain] >= 0x20 && p[plain] < 0x7f && p[plain] != '\\')
			plain++;
		rc = buffer_append(out, p + i, plain - i);
		i = plain;
		if (rc == 0 && i < len) {
			i += text_escape_unit(p + i, len - i, unit, &unit_len);
			rc = buffer_append(out, unit, unit_len);
		}
		if (rc)
			return rc;
	}
	return 0;
}

static int text_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int text_unescape(struct buffer *out, const char *text, size_t len, struct error *err)
{
	size_t i = 0;

	while (i < len) {
		const char *slash = memchr(text + i, '\\', len - i);
		size_t plain = slash ? (size_t)(slash - text) : len;
		int rc = buffer_append(out, text + i, plain - i);
		size_t left = len - plain;
		char c;

		if (rc || !slash)
			return rc;
		if (left >= 2 && strchr("tn\\", slash[1]) && slash[1]) {
			c = slash[1] == 't' ? '\t' : slash[1] == 'n' ? '\n' : '\\';
			i = plain + 2;
		} else if (left >= 4 && slash[1] == 'x' && text_hex(slash[2]) >= 0 &&
			   text_hex(slash[3]) >= 0) {
			c = (char)(text_hex(slash[2]) << 4 | text_hex(slash[3]));
			i = plain + 4;
		} else {
			return error_set(err, -EBADMSG,
					 "a backslash that is no escape (known are "
					 "\\t \\n \\\\ and \\xHH)");
		}
		rc = buffer_append(out, &c, 1);
		if (rc)
			return rc;
	}
	return 0;
}

static const char base64_digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int text_base64(struct buffer *out, const void *data, size_t len)
{
	const unsigned char *p = data;
	int rc = buffer_reserve(out, (len + 2) / 3 * 4);
	char *to;

	if (rc)
		return rc;
	to = out->data + out->len;
	for (size_t i = 0; i < len; i += 3) {
		size_t n = len - i < 3 ? len - i : 3;
		uint32_t bits = (uint32_t)p[i] << 16;

		if (n > 1)
			bits |= (uint32_t)p[i + 1] << 8;
		if (n > 2)
			bits |= p[i + 2];
		*to++ = base64_digits[bits >> 18];
		*to++ = base64_digits[bits >> 12 & 63];
		*to++ = n > 1 ? base64_digits[bits >> 6 & 63] : '=';
		*to++ = n > 2 ? base64_digits[bits & 63] : '=';
	}
	out->len += (len + 2) / 3 * 4;
	return 0;
}

int text_base64_decode(struct buffer *out, const char *text, size_t len)
{
	size_t padding = len > 1 ? (text[len - 1] == '=') + (text[len - 2] == '=') : 0;
	int rc;

	if (len % 4)
		return -EBADMSG;
	/* exactly: what decodes to as much as the buffer may hold is not over its limit */
	rc = buffer_reserve(out, len / 4 * 3 - padding);
	if (rc)
		return rc;
	for (size_t i = 0; i < len; i += 4) {
		uint32_t bits = 0;
		unsigned pads = 0;

		for (unsigned k = 0; k < 4; k++) {
			char c = text[i + k];
			const char *digit = c ? strchr(base64_digits, c) : NULL;

			if (c == '=' && k >= 2 && i + 4 == len)
				pads++;
			else if (!digit || pads)
				return -EBADMSG;
			bits = bits << 6 | (digit ? (uint32_t)(digit - base64_digits) : 0);
		}
		/* the unused bits of the last digit are zero, so that each value has one text */
		if (bits & ((1u << 8 * pads) - 1))
			return -EBADMSG;
		out->data[out->len++] = (char)(bits >> 16);
		if (pads < 2)
			out->data[out->len++] = (char)(bits >> 8);
		if (pads < 1)
			out->data[out->len++] = (char)bits;
	}
	return 0;
}

int text_json_set(json_t *object, const char *name, const void *data, size_t len)
{
	json_t *string = json_stringn(len ? data : "", len); /* NULL where it is not UTF-8 */
	struct buffer b = { 0 };
	char field[32];
	int rc;

	if (string)
		return json_object_set_new(object, name, string) ? -ENOMEM : 0;
	rc = text_base64(&b, data, len);
	if (rc == 0) {
		snprintf(field, sizeof(field), "%s_b64", name);
		rc = json_object_set_new(object, field, json_stringn(b.data, b.len)) ? -ENOMEM : 0;
	}
	buffer_free(&b);
	return rc;
}

const char *text_key(char out[TEXT_KEY_MAX], const void *key, size_t len)
{
	const unsigned char *p = key;
	size_t used = 0;

	for (size_t i = 0; i < len;) {
		char unit[5];
		size_t unit_len, eaten = text_escape_unit(p + i, len - i, unit, &unit_len);

		if (used + unit_len + sizeof("...") > TEXT_KEY_MAX) {
			memcpy(out + used, "...", 3);
			used += 3;
			break;
		}
		memcpy(out + used, unit, unit_len);
		used += unit_len;
		i += eaten;
	}
	out[used] = '\0';
	return out;
}

static const char *text_scaled(char out[TEXT_SIZE_MAX], uint64_t bytes, unsigned base,
			       const char *const *units)
{
	double value = (double)bytes;
	unsigned unit = 0;

	/* 999.95 would print as 1000.0 of the smaller unit */
	while (value >= (unit ? base - 0.05 : base) && unit < 5) {
		value /= base;
		unit++;
	}
	if (unit == 0)
		snprintf(out, TEXT_SIZE_MAX, "%" PRIu64 " B", bytes);
	else
		snprintf(out, TEXT_SIZE_MAX, "%.1f %s", value, units[unit]);
	return out;
}

const char *text_size(char out[TEXT_SIZE_MAX], uint64_t bytes)
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB" };

	return text_scaled(out, bytes, 1000, units);
}

const char *text_size_binary(char out[TEXT_SIZE_MAX], uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };

	return text_scaled(out, bytes, 1024, units);
}

/* Three digits and a unit, from 1000 or 1024 on. */
static const char *text_short(char out[TEXT_SHORT_MAX], double value, double base,
			      const char *units)
{
	unsigned unit = 0;

	while (value >= base - 0.5 && unit < 6) {
		value /= base;
		unit++;
	}
	snprintf(out, TEXT_SHORT_MAX, "%.*f%.1s",
		 value < 9.995	 ? 2
		 : value < 99.95 ? 1
				 : 0,
		 value, units + unit);
	return out;
}

const char *text_number(char out[TEXT_SHORT_MAX], uint64_t n)
{
	if (n >= 10000)
		return text_short(out, (double)n, 1000, " kMGTPE");
	snprintf(out, TEXT_SHORT_MAX, "%" PRIu64, n);
	return out;
}

const char *text_rate(char out[TEXT_SHORT_MAX], double per_second)
{
	if (per_second >= 999.5)
		return text_short(out, per_second, 1000, " kMGTPE");
	if (per_second > 0)
		snprintf(out, TEXT_SHORT_MAX, "%.*f", per_second < 99.95, per_second);
	else
		strcpy(out, per_second < 0 ? "-" : "0");
	return out;
}

const char *text_bytes(char out[TEXT_SHORT_MAX], uint64_t bytes)
{
	if (bytes >= 1024)
		return text_short(out, (double)bytes, 1024, " KMGTPE");
	snprintf(out, TEXT_SHORT_MAX, "%" PRIu64, bytes);
	return out;
}
