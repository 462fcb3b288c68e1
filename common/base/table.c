/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/base/table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct table {
	unsigned columns;
	bool right[TABLE_COLUMNS_MAX];
	size_t width[TABLE_COLUMNS_MAX];
	size_t cells, cells_max;
	char **text;
};

static void table_add(struct table *t, char *text)
{
	size_t column = t->cells % t->columns;

	if (t->cells == t->cells_max) {
		size_t more = t->cells_max ? 2 * t->cells_max : 64;
		char **grown = realloc(t->text, more * sizeof(*grown));

		if (!grown) {
			free(text);
			return;
		}
		t->text = grown;
		t->cells_max = more;
	}
	if (text && strlen(text) > t->width[column])
		t->width[column] = strlen(text);
	t->text[t->cells++] = text;
}

struct table *table_new(const char *const *headings)
{
	struct table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	while (headings[t->columns] && t->columns < TABLE_COLUMNS_MAX) {
		t->right[t->columns] = headings[t->columns][0] == '>';
		t->columns++;
	}
	for (unsigned i = 0; i < t->columns; i++)
		table_add(t, strdup(headings[i] + (t->right[i] ? 1 : 0)));
	return t;
}

void table_cell(struct table *t, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	if (!t)
		return;
	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	table_add(t, text);
}

static void table_free(struct table *t)
{
	for (size_t i = 0; i < t->cells; i++)
		free(t->text[i]);
	free(t->text);
	free(t);
}

void table_print(struct table *t, FILE *out)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->cells && out; i++) {
		size_t c = i % t->columns;
		const char *text = t->text[i] ? t->text[i] : "";
		bool last = c + 1 == t->columns;
		int width = last && !t->right[c] ? 0 : (int)t->width[c];

		fprintf(out, t->right[c] ? "%*s" : "%-*s", width, text);
		fputs(last ? "\n" : "  ", out);
	}
	table_free(t);
}

void table_print_markdown(struct table *t, FILE *out)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->cells && out; i++) {
		size_t c = i % t->columns;

		fprintf(out, "| %s ", t->text[i] ? t->text[i] : "");
		if (c + 1 < t->columns)
			continue;
		fputs("|\n", out);
		for (c = 0; i < t->columns && c < t->columns; c++)
			fputs(t->right[c] ? "|--:" : "|---", out);
		if (i < t->columns)
			fputs("|\n", out);
	}
	table_free(t);
}
