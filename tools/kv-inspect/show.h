/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* JSON objects as text for people, on stdout. One thread. */

#include <jansson.h>

enum show_as {
	SHOW_PLAIN, /* texts, lists of them and numbers as they are; null: "-" */
	SHOW_SIZE, /* bytes */
	SHOW_GOOD, /* true: "good" */
	SHOW_IF, /* true: the heading's word; false: nothing */
	SHOW_BYTES, /* a key: escaped, shortened; the field, or that with _b64 */
	SHOW_FAULT, /* null: "good" */
};

/* A column of a table, or a line of an object; one without a field ends a list. */
struct show_field {
	const char *field; /* "a.b": b of a */
	const char *name; /* heading; of a column with a leading '>' to the right */
	enum show_as as;
	const char *meaning; /* of a line */
};

/* show_rows - an array of objects as a table. */
void show_rows(const json_t *rows, const struct show_field *fields);

/* show_lines - an object: a line for each field, with its meaning. Missing ones are left out. */
void show_lines(const json_t *o, const struct show_field *fields);

/* show_dump - bytes written as hex, 16 a line, with their text beside. */
void show_dump(const char *hex, const char *indent);

/* show_text - a field of an object as a table would show it. @room: SHOW_MAX bytes. */
#define SHOW_MAX 256u
const char *show_text(const json_t *o, const char *field, enum show_as as, char room[SHOW_MAX]);
