/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/words.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A line that is being read: [at, end) is to be looked at, @to is where the next byte goes. */
struct split {
	const char *begin, *at, *end;
	char *to;
	struct error *err;
};

static bool split_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static int split_hex(char c)
{
	const char digits[] = "0123456789abcdef";
	const char *digit = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;

	return digit ? (int)(digit - digits) : -1;
}

static int split_open(struct split *s, const char *quote)
{
	return error_set(s->err, -EBADMSG, "the quote %c of column %zu is not closed", *quote,
			 (size_t)(quote - s->begin) + 1);
}

/* What stands after a backslash inside of "...". */
static int split_escape(struct split *s)
{
	static const char names[] = "ntr\\\"", values[] = "\n\t\r\\\"";
	const char *name = *s->at ? strchr(names, *s->at) : NULL;

	if (name) {
		*s->to++ = values[name - names];
		s->at++;
		return 0;
	}
	if (*s->at == 'x' && s->end - s->at >= 3 && split_hex(s->at[1]) >= 0 &&
	    split_hex(s->at[2]) >= 0) {
		char byte = (char)(split_hex(s->at[1]) << 4 | split_hex(s->at[2]));

		if (!byte)
			return error_set(
				s->err, -EBADMSG,
				"\\x00 in column %zu: words have no zero bytes (load takes "
				"keys and values that have)",
				(size_t)(s->at - s->begin));
		*s->to++ = byte;
		s->at += 3;
		return 0;
	}
	return error_set(s->err, -EBADMSG,
			 "the backslash of column %zu is no escape (known in \"...\" are \\n \\t "
			 "\\r \\\\ \\\" and \\xHH)",
			 (size_t)(s->at - s->begin));
}

static int split_double(struct split *s)
{
	const char *quote = s->at++;

	while (s->at < s->end && *s->at != '"') {
		if (*s->at != '\\') {
			*s->to++ = *s->at++;
			continue;
		}
		if (++s->at < s->end) {
			int rc = split_escape(s);

			if (rc)
				return rc;
		}
	}
	if (s->at >= s->end)
		return split_open(s, quote);
	s->at++;
	return 0;
}

static int split_single(struct split *s)
{
	const char *quote = s->at++;
	const char *close = memchr(s->at, '\'', (size_t)(s->end - s->at));

	if (!close)
		return split_open(s, quote);
	memcpy(s->to, s->at, (size_t)(close - s->at));
	s->to += close - s->at;
	s->at = close + 1;
	return 0;
}

static int split_word(struct split *s)
{
	int rc = 0;

	while (rc == 0 && s->at < s->end && !split_space(*s->at)) {
		if (*s->at == '"') {
			rc = split_double(s);
		} else if (*s->at == '\'') {
			rc = split_single(s);
		} else {
			if (*s->at == '\\' && ++s->at == s->end)
				return error_set(s->err, -EBADMSG,
						 "a backslash ends the line (write \\\\ for one)");
			*s->to++ = *s->at++;
		}
	}
	*s->to++ = '\0';
	return rc;
}

static void split_skip(struct split *s)
{
	while (s->at < s->end && split_space(*s->at))
		s->at++;
}

int words_split(struct words *w, const char *line, size_t len, struct error *err)
{
	struct split s = { .begin = line, .at = line, .end = line + len, .err = err };
	static char name[] = "kv-cli";
	int rc = 0;

	if (memchr(line, '\0', len))
		return error_set(err, -EBADMSG,
				 "the line has a zero byte (load takes keys and values that have)");
	*w = (struct words){ .word = calloc(len / 2 + 3, sizeof(*w->word)),
			     .text = malloc(len + 1) };
	s.to = w->text;
	if (!w->word || !w->text) {
		words_free(w);
		return error_set(err, -ENOMEM, "no memory for the line");
	}
	w->word[w->count++] = name;
	split_skip(&s);
	if (s.at < s.end && *s.at == '#')
		s.at = s.end;
	while (rc == 0 && s.at < s.end) {
		w->word[w->count++] = s.to;
		rc = split_word(&s);
		split_skip(&s);
	}
	if (rc)
		words_free(w);
	return rc;
}

void words_free(struct words *w)
{
	free(w->word);
	free(w->text);
	*w = (struct words){ 0 };
}
