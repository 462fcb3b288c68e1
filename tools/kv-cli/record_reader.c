/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/record_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "client/include/gracekv.h"
#include "tools/kv-cli/stanza.h"
#include "tools/kv-cli/text.h"

/* The longest line of a legal record: each byte of a value as \u00HH or \xHH, and the rest. */
#define JSONL_LINE_MAX	((size_t)6 * (GKV_VALUE_MAX + GKV_KEY_MAX) + 65536)
#define TSV_LINE_MAX	((size_t)4 * (GKV_VALUE_MAX + GKV_KEY_MAX) + 1)
#define DEB822_LINE_MAX ((size_t)GKV_VALUE_MAX)

int record_format_parse(const char *text, enum record_format *out)
{
	if (strcmp(text, "deb822") == 0)
		*out = RECORD_DEB822;
	else if (strcmp(text, "tsv") == 0)
		*out = RECORD_TSV;
	else if (strcmp(text, "jsonl") == 0)
		*out = RECORD_JSONL;
	else
		return -EINVAL;
	return 0;
}

int record_format_guess(const char *path, enum record_format *out)
{
	static const struct {
		const char *suffix;
		enum record_format format;
	} known[] = {
		{ ".deb822", RECORD_DEB822 }, { "Packages", RECORD_DEB822 }, { ".tsv", RECORD_TSV },
		{ ".jsonl", RECORD_JSONL },   { ".ndjson", RECORD_JSONL },
	};
	size_t len = strlen(path);

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		size_t n = strlen(known[i].suffix);

		if (len >= n && strcasecmp(path + len - n, known[i].suffix) == 0) {
			*out = known[i].format;
			return 0;
		}
	}
	return -EINVAL;
}

int record_reader_init(struct record_reader *r, int fd, enum record_format format)
{
	static const size_t line_max[] = {
		[RECORD_DEB822] = DEB822_LINE_MAX,
		[RECORD_TSV] = TSV_LINE_MAX,
		[RECORD_JSONL] = JSONL_LINE_MAX,
	};

	*r = (struct record_reader){ .format = format };
	/* one byte more than allowed, so that what is over the limit is seen to be */
	r->key.max = GKV_KEY_MAX + 1;
	r->value.max = GKV_VALUE_MAX + 1;
	return line_reader_init(&r->lines, fd, line_max[format]);
}

void record_reader_free(struct record_reader *r)
{
	line_reader_free(&r->lines);
	buffer_free(&r->key);
	buffer_free(&r->value);
	json_decref(r->json);
	r->json = NULL;
}

/* A result of a buffer as the sentence of a bad record. */
static int record_over(int rc, struct error *err, const char *what, size_t max)
{
	if (rc == -E2BIG)
		return error_set(err, -EBADMSG, "the %s is longer than %zu bytes", what, max);
	if (rc == -ENOMEM)
		return error_set(err, rc, "no memory for the %s", what);
	return rc;
}

static int record_tsv(struct record_reader *r, const struct line *line, struct record *out,
		      struct error *err)
{
	const char *tab = memchr(line->text, '\t', line->len), *value;
	size_t key_len, value_len;
	int rc;

	if (!tab)
		return error_set(err, -EBADMSG, "no tab between key and value");
	value = tab + 1;
	key_len = (size_t)(tab - line->text);
	value_len = line->len - key_len - 1;
	if (memchr(value, '\t', value_len))
		return error_set(err, -EBADMSG,
				 "a second tab (a tab inside a value is written \\t)");
	rc = text_unescape(&r->key, line->text, key_len, err);
	if (rc)
		return record_over(rc, err, "key", GKV_KEY_MAX);
	rc = text_unescape(&r->value, value, value_len, err);
	if (rc)
		return record_over(rc, err, "value", GKV_VALUE_MAX);
	out->key = r->key.data ? r->key.data : "";
	out->key_len = r->key.len;
	out->value = r->value.data ? r->value.data : "";
	out->value_len = r->value.len;
	return 1;
}

/* The bytes of field @name or @name_b64 of the reader's object. Returns 0, -EBADMSG, -ENOMEM. */
static int record_json_field(struct record_reader *r, const char *name, size_t max,
			     struct buffer *decoded, const void **data, size_t *len,
			     struct error *err)
{
	char name_b64[16] = "";
	const json_t *plain, *b64;
	int rc;

	strcat(strcpy(name_b64, name), "_b64");
	plain = json_object_get(r->json, name);
	b64 = json_object_get(r->json, name_b64);
	if (!plain == !b64)
		return error_set(err, -EBADMSG, plain ? "both %s and %s" : "neither %s nor %s",
				 name, name_b64);
	if (!json_is_string(plain ? plain : b64))
		return error_set(err, -EBADMSG, "%s is not a string", plain ? name : name_b64);
	if (plain) {
		*data = json_string_value(plain);
		*len = json_string_length(plain);
		return 0;
	}
	rc = text_base64_decode(decoded, json_string_value(b64), json_string_length(b64));
	if (rc == -EBADMSG)
		return error_set(err, rc, "%s is not base64", name_b64);
	*data = decoded->data ? decoded->data : "";
	*len = decoded->len;
	return record_over(rc, err, name, max);
}

/* The field that a record may have besides its bytes. Returns 0 or -EBADMSG. */
static int record_json_until(const json_t *object, uint64_t *expiry_ms, struct error *err)
{
	const json_t *field = json_object_get(object, "expiry_ms");
	json_int_t ms = field ? json_integer_value(field) : 0;

	if (field && !json_is_integer(field))
		return error_set(err, -EBADMSG, "expiry_ms is not an integer");
	if (ms < 0 || ms > (json_int_t)RECORD_EXPIRY_MAX)
		return error_set(err, -EBADMSG,
				 "expiry_ms is %" JSON_INTEGER_FORMAT ", it must be between 0 and "
				 "%" PRIu64 ", ms since 1970",
				 ms, (uint64_t)RECORD_EXPIRY_MAX);
	*expiry_ms = (uint64_t)ms;
	return 0;
}

static int record_jsonl(struct record_reader *r, const struct line *line, struct record *out,
			struct error *err)
{
	static const char *const known[] = { "key", "key_b64", "value", "value_b64", "expiry_ms" };
	const size_t count = sizeof(known) / sizeof(known[0]);
	const char *name;
	json_error_t json_err;
	json_t *field;
	int rc;

	r->json = json_loadb(line->text, line->len, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES,
			     &json_err);
	if (!r->json)
		return error_set(err, -EBADMSG, "not JSON: %s (column %d)", json_err.text,
				 json_err.column);
	if (!json_is_object(r->json))
		return error_set(err, -EBADMSG, "not a JSON object");
	json_object_foreach(r->json, name, field)
	{
		size_t i = 0;

		while (i < count && strcmp(name, known[i]) != 0)
			i++;
		if (i == count)
			return error_set(err, -EBADMSG,
					 "unknown field '%.40s' (known are key, key_b64, value, "
					 "value_b64, expiry_ms)",
					 name);
	}
	rc = record_json_field(r, "key", GKV_KEY_MAX, &r->key, &out->key, &out->key_len, err);
	if (rc == 0)
		rc = record_json_field(r, "value", GKV_VALUE_MAX, &r->value, &out->value,
				       &out->value_len, err);
	if (rc == 0)
		rc = record_json_until(r->json, &out->expiry_ms, err);
	return rc ? rc : 1;
}

/* One line that is not empty. */
static int record_line(struct record_reader *r, struct record *out, struct error *err)
{
	struct line line;
	int rc;

	do {
		rc = line_reader_next(&r->lines, &line);
	} while (rc == 1 && line.len == 0);
	out->line = r->lines.number;
	if (rc == -E2BIG)
		return error_set(err, -EBADMSG, "longer than any record can be");
	if (rc < 0)
		return error_set(err, rc, "reading: %s", error_name(rc));
	if (rc == 0)
		return 0;
	return r->format == RECORD_TSV ? record_tsv(r, &line, out, err)
				       : record_jsonl(r, &line, out, err);
}

int record_reader_next(struct record_reader *r, struct record *out, struct error *err)
{
	int rc;

	*out = (struct record){ 0 };
	r->key.len = r->value.len = 0;
	json_decref(r->json);
	r->json = NULL;
	if (r->format == RECORD_DEB822)
		rc = stanza_next(&r->lines, &r->key, &r->value, &out->line, err);
	else
		rc = record_line(r, out, err);
	if (rc == 1 && r->format == RECORD_DEB822) {
		out->key = r->key.data;
		out->key_len = r->key.len;
		out->value = r->value.data;
		out->value_len = r->value.len;
	}
	if (rc == 1 && out->key_len == 0)
		rc = error_set(err, -EBADMSG, "the key is empty");
	if (rc == 1 && out->key_len > GKV_KEY_MAX)
		rc = record_over(-E2BIG, err, "key", GKV_KEY_MAX);
	if (rc == 1 && out->value_len > GKV_VALUE_MAX)
		rc = record_over(-E2BIG, err, "value", GKV_VALUE_MAX);
	if (rc < 0)
		error_prefix(err, "line %" PRIu64, out->line);
	return rc;
}
