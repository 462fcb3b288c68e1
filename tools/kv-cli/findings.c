/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/findings.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"

#define ABOUT_WIDTH 16

static const char *const words_of[] = { "ok", "note", "problem" };

const char *finding_word(enum finding level)
{
	return words_of[level];
}

void finding_add(json_t *list, enum finding level, const char *about, const char *remedy,
		 const char *fmt, ...)
{
	char words[ERROR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "level", words_of[level],
					      "about", about, "words", words, "remedy", remedy));
}

static const char *member(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "(no memory)";
}

unsigned finding_count(const json_t *list, enum finding level)
{
	unsigned count = 0;
	json_t *f;
	size_t i;

	json_array_foreach (list, i, f)
		count += strcmp(member(f, "level"), words_of[level]) == 0;
	return count;
}

void text_folded(FILE *out, const char *text, unsigned used, unsigned indent)
{
	bool first = true;

	while (*text) {
		size_t len = strcspn(text, " ");

		if (!first && used + 1 + len > TEXT_COLUMNS) {
			fprintf(out, "\n%*s", (int)indent, "");
			used = indent;
			first = true;
		}
		fprintf(out, "%s%.*s", first ? "" : " ", (int)len, text);
		used += (unsigned)len + !first;
		first = false;
		text += len;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

/* Colours for people only. */
static const char *colour(const char *level, FILE *out)
{
	if (!isatty(fileno(out)) || getenv("NO_COLOR"))
		return NULL;
	return strcmp(level, "ok") == 0 ? "32" : strcmp(level, "note") == 0 ? "33" : "31";
}

void findings_print(const json_t *list, FILE *out)
{
	const unsigned indent = 2 + 8 + 1 + ABOUT_WIDTH + 1;
	json_t *f;
	size_t i;

	json_array_foreach (list, i, f) {
		const char *level = member(f, "level"), *paint = colour(level, out);
		const char *remedy = member(f, "remedy");

		if (paint)
			fprintf(out, "  \033[%sm%-8s\033[0m ", paint, level);
		else
			fprintf(out, "  %-8s ", level);
		fprintf(out, "%-*s ", ABOUT_WIDTH, member(f, "about"));
		text_folded(out, member(f, "words"), indent, indent);
		if (remedy[0]) {
			fprintf(out, "%*s-> ", (int)indent, "");
			text_folded(out, remedy, indent + 3, indent + 3);
		}
	}
}
