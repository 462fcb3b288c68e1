/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/failure.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "common/base/error.h"

#define WHY_MARK    '\x1e' /* for ": " */
#define ACTION_MARK '\x1f' /* for " (" */
#define TEXT_MAX    (2 * ERROR_TEXT_MAX)

static bool as_json;

void failure_as_json(bool json)
{
	as_json = json;
}

bool failure_json_given(int argc, char **argv, char letter)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--json") == 0)
			return true;
		if (letter && argv[i][0] == '-' && argv[i][1] == letter)
			return true;
	}
	return false;
}

/* The "(" that the last byte of @text closes, with a space before it; NULL: it closes none. */
static char *last_bracket(char *text)
{
	size_t len = strlen(text), i = len;
	unsigned depth = 0;

	if (!len || text[len - 1] != ')')
		return NULL;
	while (i-- > 0) {
		depth += text[i] == ')';
		if (text[i] == '(' && --depth == 0)
			return i && text[i - 1] == ' ' ? text + i : NULL;
	}
	return NULL;
}

/* Put the marks where the form has its parts, unless they stand there. */
static void mark(char *text)
{
	char *why = strstr(text, ": "), *action = last_bracket(text);

	if (why && (!action || why < action) && !strchr(text, WHY_MARK)) {
		*why = WHY_MARK;
		memmove(why + 1, why + 2, strlen(why + 2) + 1);
		action = last_bracket(text);
	}
	if (action && !strchr(text, ACTION_MARK)) {
		text[strlen(text) - 1] = '\0';
		action[-1] = ACTION_MARK;
		memmove(action, action + 1, strlen(action + 1) + 1);
	}
}

static char *cut(char *text, char mark)
{
	char *at = strchr(text, mark);

	if (at)
		*at++ = '\0';
	return at;
}

/* Any bytes as a string of JSON: where they are no UTF-8, what is no ASCII is escaped. */
static json_t *words(const char *text)
{
	json_t *string = text ? json_string(text) : json_null();
	char escaped[4 * TEXT_MAX], *to = escaped;

	if (string)
		return string;
	for (; *text && to < escaped + sizeof(escaped) - 5; text++)
		to += sprintf(to, *text & 0x80 ? "\\x%02x" : "%c", (unsigned char)*text);
	*to = '\0';
	return json_string(escaped);
}

static json_t *document(const struct failure *f, char *text)
{
	char *why, *action;

	mark(text);
	why = cut(text, WHY_MARK);
	action = cut(why ? why : text, ACTION_MARK);
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:i, s:s*}", "program", f->program, "line",
			 f->line ? json_integer((json_int_t)f->line) : json_null(), "what",
			 words(text), "why", words(why), "action", words(action), "code", f->code,
			 "error", f->error);
}

static bool print_document(const struct failure *f, char *text)
{
	json_t *doc = document(f, text);
	bool done = doc && json_dumpf(doc, stderr, JSON_COMPACT) == 0;

	if (done)
		fputc('\n', stderr);
	json_decref(doc);
	return done;
}

void failure_print_list(const struct failure *f, const char *fmt, va_list ap)
{
	char text[TEXT_MAX], place[32] = "", marked[512];
	va_list again;

	va_copy(again, ap);
	snprintf(marked, sizeof(marked), "%s", fmt);
	mark(marked);
	vsnprintf(text, sizeof(text), strlen(fmt) < sizeof(marked) ? marked : fmt, again);
	va_end(again);
	if (as_json && print_document(f, text))
		return;
	vsnprintf(text, sizeof(text), fmt, ap);
	if (f->line)
		snprintf(place, sizeof(place), "line %" PRIu64 ": ", f->line);
	fprintf(stderr, "%s: %s%s\n", f->program, place, text);
}

void failure_print(const struct failure *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	failure_print_list(f, fmt, ap);
	va_end(ap);
}
