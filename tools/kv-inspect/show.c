/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-inspect/show.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/table.h"
#include "tools/kv-cli/text.h"

#define FIELD_MAX 64u
#define DUMP_LINE 16u

/* "a.b": b of a. */
static const json_t *find(const json_t *o, const char *field)
{
	const char *dot = strchr(field, '.');
	char first[FIELD_MAX];

	if (!dot)
		return json_object_get(o, field);
	snprintf(first, sizeof(first), "%.*s", (int)(dot - field), field);
	return find(json_object_get(o, first), dot + 1);
}

/* A key that is no UTF-8 stands in base64. */
static const char *bytes_text(const json_t *o, const char *field, char room[SHOW_MAX])
{
	const json_t *v = find(o, field);
	struct buffer b = { 0 };
	char name[FIELD_MAX];

	static_assert(TEXT_KEY_MAX <= SHOW_MAX, "room");
	if (json_is_string(v))
		return text_key(room, json_string_value(v), json_string_length(v));
	snprintf(name, sizeof(name), "%s_b64", field);
	v = find(o, name);
	if (!json_is_string(v) ||
	    text_base64_decode(&b, json_string_value(v), json_string_length(v)))
		strcpy(room, "-");
	else
		text_key(room, b.data, b.len);
	buffer_free(&b);
	return room;
}

/* Of texts. */
static const char *list_text(const json_t *list, char room[SHOW_MAX])
{
	size_t len = 0;

	strcpy(room, json_array_size(list) ? "" : "-");
	for (size_t i = 0; i < json_array_size(list) && len < SHOW_MAX; i++)
		len += (size_t)snprintf(room + len, SHOW_MAX - len, "%s%s", i ? ", " : "",
					json_string_value(json_array_get(list, i)));
	return room;
}

const char *show_text(const json_t *o, const char *field, enum show_as as, char room[SHOW_MAX])
{
	const json_t *v = find(o, field);

	if (as == SHOW_BYTES)
		return bytes_text(o, field, room);
	if (as == SHOW_FAULT && json_is_null(v))
		return "good";
	if (json_is_boolean(v) && as == SHOW_GOOD)
		return json_is_true(v) ? "good" : "BAD";
	if (json_is_boolean(v))
		return json_is_true(v) ? "yes" : as == SHOW_IF ? "" : "no";
	if (json_is_string(v)) {
		snprintf(room, SHOW_MAX, "%s", json_string_value(v));
		return room;
	}
	if (json_is_array(v))
		return list_text(v, room);
	if (json_is_integer(v) && as == SHOW_SIZE)
		return text_size_binary(room, (uint64_t)json_integer_value(v));
	if (json_is_integer(v))
		snprintf(room, SHOW_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
	else if (json_is_real(v))
		snprintf(room, SHOW_MAX, "%.1f", json_real_value(v));
	else
		strcpy(room, as == SHOW_IF ? "" : "-");
	return room;
}

void show_rows(const json_t *rows, const struct show_field *fields)
{
	const char *headings[TABLE_COLUMNS_MAX + 1] = { 0 };
	char room[SHOW_MAX];
	struct table *t;

	for (unsigned i = 0; fields[i].field && i < TABLE_COLUMNS_MAX; i++)
		headings[i] = fields[i].name;
	t = table_new(headings);
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *o = json_array_get(rows, i);

		for (const struct show_field *f = fields; f->field; f++)
			table_cell(t, "%s", show_text(o, f->field, f->as, room));
	}
	table_print(t, stdout);
}

void show_lines(const json_t *o, const struct show_field *fields)
{
	static const char *const headings[] = { "field", "value", "meaning", NULL };
	struct table *t = table_new(headings);
	char room[SHOW_MAX];

	for (const struct show_field *f = fields; f->field; f++) {
		if (f->as != SHOW_BYTES && !find(o, f->field))
			continue;
		table_cell(t, "%s", f->name);
		table_cell(t, "%s", show_text(o, f->field, f->as, room));
		table_cell(t, "%s", f->meaning);
	}
	table_print(t, stdout);
}

void show_dump(const char *hex, const char *indent)
{
	size_t len = strlen(hex) / 2;

	for (size_t at = 0; at < len; at += DUMP_LINE) {
		char text[DUMP_LINE + 1] = "";

		printf("%s%06zx ", indent, at);
		for (size_t i = 0; i < DUMP_LINE; i++) {
			unsigned byte = 0;

			if (at + i >= len) {
				fputs("   ", stdout);
				continue;
			}
			sscanf(hex + 2 * (at + i), "%2x", &byte);
			printf(" %02x", byte);
			text[i] = byte >= 0x20 && byte < 0x7f ? (char)byte : '.';
		}
		printf("  %s\n", text);
	}
}
