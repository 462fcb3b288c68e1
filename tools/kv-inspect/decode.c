/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-inspect/decode.h"

#include <inttypes.h>
#include <string.h>

#include "common/layout/size_code.h"
#include "common/layout/slot.h"
#include "tools/kv-cli/text.h"
#include "tools/kv-cli/units.h"

#define DATE_END_MS 253402300800000ull /* the year 10000 */

json_t *decode_hex(uint64_t value)
{
	return json_sprintf("0x%" PRIx64, value);
}

json_t *decode_word(uint64_t value)
{
	return json_sprintf("0x%016" PRIx64, value);
}

json_t *decode_number(uint64_t value)
{
	return value <= INT64_MAX ? json_integer((json_int_t)value)
				  : json_sprintf("%" PRIu64, value);
}

json_t *decode_text(const char *words)
{
	return words ? json_string(words) : json_null();
}

const char *decode_prefix(char out[DECODE_PREFIX], uint32_t prefix, unsigned depth)
{
	if (depth > DEPTH_MAX)
		return strcpy(out, "?");
	for (unsigned i = 0; i < depth; i++)
		out[i] = '0' + (char)(prefix >> (depth - 1 - i) & 1);
	out[depth] = '\0';
	return depth ? out : strcpy(out, "-");
}

const char *decode_kind(uint32_t kind)
{
	static const char *const names[] = { "none", "index", "dir", "data" };

	return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "?";
}

json_t *decode_entry(uint64_t entry)
{
	return json_pack("{s:o, s:i, s:i, s:i, s:i}", "word", decode_word(entry), "extent",
			 directory_entry_extent(entry), "segment", directory_entry_segment(entry),
			 "local_depth", directory_entry_depth(entry), "incarnation",
			 (int)directory_entry_incarnation(entry));
}

json_t *decode_header(uint64_t header)
{
	char prefix[DECODE_PREFIX];

	return json_pack(
		"{s:o, s:i, s:s, s:i, s:b, s:i}", "word", decode_word(header), "incarnation",
		(int)bucket_header_incarnation(header), "prefix",
		decode_prefix(prefix, bucket_header_prefix(header), bucket_header_depth(header)),
		"local_depth", bucket_header_depth(header), "moved", bucket_header_moved(header),
		"overflow", bucket_header_overflow(header));
}

json_t *decode_slot(uint64_t slot, const struct placed *p)
{
	return json_pack(
		"{s:o, s:o, s:i, s:i, s:i, s:o, s:o, s:o}", "word", decode_word(slot),
		"fingerprint", json_sprintf("0x%06x", slot_fingerprint(slot)), "size_code",
		slot_size_code(slot), "read_bytes", (int)size_code_bytes(slot_size_code(slot)),
		"extent", slot_extent(slot), "offset", decode_hex(slot_offset(slot)), "address",
		p->fault ? json_null() : decode_hex(p->addr), "fault", decode_text(p->fault));
}

/* The value's first bytes, as text and as hex. */
static int value_head(json_t *o, const uint8_t *value, uint32_t len)
{
	static const char digits[] = "0123456789abcdef";
	char *hex = malloc(2 * (size_t)len + 1);
	int rc;

	if (!hex)
		return -1;
	for (uint32_t i = 0; i < len; i++) {
		hex[2 * i] = digits[value[i] >> 4];
		hex[2 * i + 1] = digits[value[i] & 15];
	}
	hex[2 * (size_t)len] = '\0';
	rc = json_object_set_new(o, "value_hex", json_string(hex));
	free(hex);
	return rc ? rc : text_json_set(o, "value_head", value, len);
}

json_t *decode_block(const struct block *b, uint32_t len, const struct judged *j, uint64_t now_ms,
		     uint32_t head)
{
	char expiry[UNITS_TIME_MAX], left[UNITS_LEFT_MAX];
	json_t *o = json_pack(
		"{s:s, s:o, s:o, s:o, s:i, s:o, s:b, s:o, s:s, s:b, s:i, s:o, s:i, s:o, s:b, s:o}",
		"state", judge_state(j->state), "state_number", decode_number(j->state),
		"incarnation", decode_number(j->incarnation), "version", decode_number(b->version),
		"fetched_bytes", (int)len, "key_hash", decode_word(b->key_hash), "hash_good",
		j->hash_good, "expiry_ms", decode_number(b->expiry_ms), "expiry",
		b->expiry_ms < DATE_END_MS ? units_time(expiry, b->expiry_ms)
					   : "beyond the year 9999",
		"expired", b->expiry_ms && now_ms && b->expiry_ms <= now_ms, "key_bytes",
		b->key_len, "value_bytes", decode_number(b->value_len), "flags", b->flags,
		"checksum", decode_word(b->checksum), "checksum_good", j->checksum_good, "fault",
		decode_text(j->fault));

	if (!o)
		return NULL;
	if (b->expiry_ms && b->expiry_ms < DATE_END_MS && now_ms)
		json_object_set_new(o, "expires_in_s",
				    json_string(units_left(left, b->expiry_ms, now_ms)));
	if (!j->bytes)
		return o;
	if (head > b->value_len)
		head = b->value_len;
	if (text_json_set(o, "key", b->data, b->key_len) ||
	    value_head(o, b->data + b->key_len, head)) {
		json_decref(o);
		return NULL;
	}
	return o;
}

json_t *decode_extent(unsigned number, const struct extent_entry *e)
{
	char text[JUDGE_TEXT];

	return json_pack("{s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "number", (int)number,
			 "kind", decode_kind(e->kind), "address", decode_hex(e->addr), "end",
			 decode_hex(e->addr + e->length), "bytes", decode_number(e->length), "rkey",
			 decode_hex(e->rkey), "checksum", decode_word(e->checksum), "checksum_good",
			 extent_entry_sound(e), "fault", decode_text(judge_extent(e, text)));
}
