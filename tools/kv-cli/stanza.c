/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/stanza.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

static const char stanza_field[] = "Package";

struct stanza {
	struct buffer *key, *value;
	bool begun; /* a field was seen */
	bool in_key; /* the last field is the one that names the key */
	bool has_key;
};

static bool stanza_blank(const struct line *line)
{
	for (size_t i = 0; i < line->len; i++) {
		if (!isspace((unsigned char)line->text[i]))
			return false;
	}
	return true;
}

/* A line "Name: value". */
static int stanza_add_field(struct stanza *s, const struct line *line, struct error *err)
{
	const char *colon = memchr(line->text, ':', line->len), *value;
	size_t name_len = colon ? (size_t)(colon - line->text) : 0, len;

	for (size_t i = 0; i < name_len; i++) {
		if (!isgraph((unsigned char)line->text[i]))
			name_len = 0;
	}
	if (name_len == 0)
		return error_set(err, -EBADMSG, "not a field (a field looks like 'Name: value')");
	s->in_key = name_len == strlen(stanza_field) &&
		    strncasecmp(line->text, stanza_field, name_len) == 0;
	if (!s->in_key)
		return 0;
	if (s->has_key)
		return error_set(err, -EBADMSG, "a second %s field in one stanza", stanza_field);
	value = colon + 1;
	len = line->len - name_len - 1;
	while (len && isspace((unsigned char)value[0])) {
		value++;
		len--;
	}
	while (len && isspace((unsigned char)value[len - 1]))
		len--;
	s->has_key = true;
	if (buffer_append(s->key, value, len < s->key->max ? len : s->key->max))
		return error_set(err, -ENOMEM, "no memory for the key");
	return 0;
}

static int stanza_add_line(struct stanza *s, const struct line *line, struct error *err)
{
	bool comment = line->text[0] == '#';
	bool more = line->text[0] == ' ' || line->text[0] == '\t';
	int rc = 0;

	if (comment && !s->begun)
		return 0;
	if (more && !s->begun)
		return error_set(err, -EBADMSG, "a continuation line with nothing to continue");
	if (more && s->in_key)
		return error_set(err, -EBADMSG, "the %s field goes on over a second line",
				 stanza_field);
	if (!comment && !more)
		rc = stanza_add_field(s, line, err);
	if (rc)
		return rc;
	s->begun = true;
	rc = buffer_append(s->value, line->text, line->len);
	if (rc == 0 && line->newline)
		rc = buffer_append(s->value, "\n", 1);
	if (rc == -E2BIG)
		return error_set(err, -EBADMSG, "the stanza is longer than %zu bytes",
				 s->value->max - 1);
	if (rc)
		return error_set(err, rc, "no memory for the stanza");
	return 0;
}

/* Go on to the blank line that ends a bad stanza. */
static void stanza_skip(struct line_reader *lines)
{
	struct line line;
	int rc;

	do {
		rc = line_reader_next(lines, &line);
	} while (rc == -E2BIG || (rc == 1 && !stanza_blank(&line)));
}

int stanza_next(struct line_reader *lines, struct buffer *key, struct buffer *value,
		uint64_t *line_number, struct error *err)
{
	struct stanza s = { .key = key, .value = value };
	struct line line;
	int rc;

	for (;;) {
		bool was_begun = s.begun;

		rc = line_reader_next(lines, &line);
		if (rc == -E2BIG)
			rc = error_set(err, -EBADMSG, "the line is longer than %zu bytes",
				       value->max - 1);
		else if (rc < 0)
			error_set(err, rc, "reading: %s", error_name(rc));
		else if (rc == 0 && !s.begun)
			return 0;
		else if (rc == 0)
			break;
		else if (stanza_blank(&line) && s.begun)
			break;
		else
			rc = stanza_blank(&line) ? 0 : stanza_add_line(&s, &line, err);
		if (rc < 0) {
			*line_number = lines->number;
			if (rc == -EBADMSG)
				stanza_skip(lines);
			return rc;
		}
		if (s.begun && !was_begun)
			*line_number = lines->number;
	}
	if (!s.has_key)
		return error_set(err, -EBADMSG, "the stanza has no %s field", stanza_field);
	return 1;
}
