/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Errors, as a line for people or, with --json, as a document a line. All have one form, "what
 * failed: why (what to do)", by which the document's fields are told apart: by the format string
 * where that has the marks of the form, for a key in it may hold any of them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/kv-cli/buffer.h"
#include "tools/kv-cli/cli.h"
#include "tools/kv-cli/text.h"

#define WHY_MARK    '\x1e' /* for ": " */
#define ACTION_MARK '\x1f' /* for " (" */

static uint64_t cli_line; /* of a script; 0: none */
static bool cli_errors_json;

void cli_at_line(uint64_t number)
{
	cli_line = number;
}

void cli_errors_as_json(bool json)
{
	cli_errors_json = json;
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

/* Any bytes as a string of JSON: what is no UTF-8 is escaped, as keys are. */
static json_t *words(const char *text)
{
	json_t *string = text ? json_string(text) : json_null();
	struct buffer b = { 0 };

	if (!string && text_escape(&b, text, strlen(text)) == 0)
		string = json_stringn(b.data, b.len);
	buffer_free(&b);
	return string;
}

static json_t *document(int exit_code, const char *error, char *text)
{
	char *why, *action;

	mark(text);
	why = cut(text, WHY_MARK);
	action = cut(why ? why : text, ACTION_MARK);
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:i, s:s*}", "program", "kv-cli", "line",
			 cli_line ? json_integer((json_int_t)cli_line) : json_null(), "what",
			 words(text), "why", words(why), "action", words(action), "code", exit_code,
			 "error", error);
}

static bool print_document(int exit_code, const char *error, char *text)
{
	json_t *doc = document(exit_code, error, text);
	bool done = doc && json_dumpf(doc, stderr, JSON_COMPACT) == 0;

	if (done)
		fputc('\n', stderr);
	json_decref(doc);
	return done;
}

__attribute__((format(printf, 3, 0))) static int report(int exit_code, const char *error,
							const char *fmt, va_list ap)
{
	char text[2 * ERROR_TEXT_MAX], place[32] = "", marked[512];
	va_list again;

	va_copy(again, ap);
	snprintf(marked, sizeof(marked), "%s", fmt);
	mark(marked);
	vsnprintf(text, sizeof(text), strlen(fmt) < sizeof(marked) ? marked : fmt, again);
	va_end(again);
	if (cli_errors_json && print_document(exit_code, error, text))
		return exit_code;
	vsnprintf(text, sizeof(text), fmt, ap);
	if (cli_line)
		snprintf(place, sizeof(place), "line %" PRIu64 ": ", cli_line);
	fprintf(stderr, "kv-cli: %s%s\n", place, text);
	return exit_code;
}

int cli_error(int exit_code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	report(exit_code, NULL, fmt, ap);
	va_end(ap);
	return exit_code;
}

__attribute__((format(printf, 2, 3))) static int call_failed(int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	report(CLI_FAILED, strerrorname_np(-rc), fmt, ap);
	va_end(ap);
	return CLI_FAILED;
}

int cli_call_failed(const struct cli *cli, int rc, const char *what, const void *key,
		    size_t key_len)
{
	const char *why = cli->handle ? gkv_error(cli->handle) : "";
	char shown[TEXT_KEY_MAX] = "";

	if (key)
		text_key(shown, key, key_len);
	if (!why || !why[0])
		why = gkv_strerror(rc);
	return call_failed(rc, "%s%s%s: %s", what, key ? " " : "", shown, why);
}
