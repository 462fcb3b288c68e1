/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/stats_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"

#define DIGITS	   "0123456789"
#define NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.-" DIGITS

/* The number at @text, which has @len bytes. */
static bool table_number(const char *text, size_t len, uint64_t *out)
{
	*out = 0;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(*out, 10u, out) ||
		    __builtin_add_overflow(*out, (uint64_t)(text[i] - '0'), out))
			return false;
	}
	return len > 0;
}

static bool table_line(const char *line, size_t len, struct stats_value *v)
{
	size_t name_len = strspn(line, NAME_BYTES);

	*v = (struct stats_value){ 0 };
	if (name_len == 0 || name_len >= STATS_NAME_MAX || name_len >= len || line[name_len] != ' ')
		return false;
	memcpy(v->name, line, name_len);
	return table_number(line + name_len + 1, len - name_len - 1, &v->value);
}

static int by_name(const void *a, const void *b)
{
	const struct stats_value *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

/* The lines of @text into the empty table @t. */
static int table_fill(struct stats_table *t, const char *text)
{
	size_t lines = 1;

	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	if (lines > STATS_LINES_MAX)
		lines = STATS_LINES_MAX;
	t->values = calloc(lines, sizeof(*t->values));
	t->sorted = calloc(lines, sizeof(struct stats_value *));
	if (!t->values || !t->sorted)
		return -ENOMEM;
	while (*text && t->count < lines) {
		size_t len = strcspn(text, "\n");

		if (table_line(text, len, &t->values[t->count]))
			t->count++;
		else if (len)
			t->malformed++;
		text += len + (text[len] == '\n');
	}
	for (size_t i = 0; i < t->count; i++)
		t->sorted[i] = &t->values[i];
	qsort(t->sorted, t->count, sizeof(struct stats_value *), by_name);
	return 0;
}

/* Seconds from @before to @now; 0: they cannot be compared. */
static double table_seconds(const struct stats_table *before, const struct stats_table *now)
{
	const struct stats_value *old_pid = stats_find(before, "pid");
	const struct stats_value *new_pid = stats_find(now, "pid");
	const struct stats_value *old_ms = stats_find(before, "uptime_ms");
	const struct stats_value *new_ms = stats_find(now, "uptime_ms");

	if (!before->at_ns || before->lost ||
	    (old_pid && new_pid && old_pid->value != new_pid->value))
		return 0;
	if (old_ms && new_ms)
		return new_ms->value > old_ms->value
			       ? (double)(new_ms->value - old_ms->value) / 1000
			       : 0;
	return now->at_ns > before->at_ns ? (double)(now->at_ns - before->at_ns) / (double)NS_PER_S
					  : 0;
}

int stats_table_read(struct stats_table *t, const char *text, uint64_t at_ns)
{
	struct stats_table before = *t;
	int rc;

	*t = (struct stats_table){ .at_ns = at_ns };
	rc = table_fill(t, text);
	if (rc)
		stats_table_free(t);
	else
		t->seconds = table_seconds(&before, t);
	for (size_t i = 0; t->seconds > 0 && i < t->count; i++) {
		struct stats_value *v = &t->values[i];
		const struct stats_value *old = stats_find(&before, v->name);

		v->compared = old && old->value <= v->value;
		v->before = v->compared ? old->value : 0;
	}
	stats_table_free(&before);
	return rc;
}

void stats_table_lose(struct stats_table *t)
{
	t->lost = true;
	t->seconds = 0;
	for (size_t i = 0; i < t->count; i++)
		t->values[i].compared = false;
}

void stats_table_free(struct stats_table *t)
{
	free(t->values);
	free(t->sorted);
	*t = (struct stats_table){ 0 };
}

const struct stats_value *stats_find(const struct stats_table *t, const char *name)
{
	size_t low = 0, high = t->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(name, t->sorted[middle]->name);

		if (order == 0)
			return t->sorted[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

double stats_rate_of(const struct stats_table *t, const struct stats_value *v)
{
	if (!v || !v->compared || t->seconds <= 0)
		return STATS_UNKNOWN;
	return (double)(v->value - v->before) / t->seconds;
}

double stats_rate(const struct stats_table *t, const char *name)
{
	return stats_rate_of(t, stats_find(t, name));
}

double stats_ratio(const struct stats_value *over, const struct stats_value *under)
{
	if (!over || !under || !over->compared || !under->compared || under->value == under->before)
		return STATS_UNKNOWN;
	return (double)(over->value - over->before) / (double)(under->value - under->before);
}

/* Is @name PREFIX_NUMBER_FIELD? Returns the field's number, or -1. */
static int row_field(const char *name, const char *prefix, const char *const *fields,
		     uint64_t *number)
{
	size_t prefix_len = strlen(prefix), digits;

	if (strncmp(name, prefix, prefix_len) != 0)
		return -1;
	name += prefix_len;
	digits = strspn(name, DIGITS);
	if (name[digits] != '_' || !table_number(name, digits, number))
		return -1;
	for (int i = 0; fields[i]; i++) {
		if (strcmp(name + digits + 1, fields[i]) == 0)
			return i;
	}
	return -1;
}

int stats_rows(const struct stats_table *t, const char *prefix, const char *const *fields,
	       struct stats_row **rows, size_t *count)
{
	struct stats_row *r = calloc(t->count + 1, sizeof(*r));
	size_t used = 0;

	*rows = r;
	*count = 0;
	if (!r)
		return -ENOMEM;
	for (size_t i = 0; i < t->count; i++) {
		uint64_t number;
		int field = row_field(t->values[i].name, prefix, fields, &number);
		size_t at = used;

		if (field < 0)
			continue;
		while (at > 0 && r[at - 1].number != number) /* mostly it is the last one */
			at--;
		at = at > 0 ? at - 1 : used++;
		r[at].number = number;
		r[at].field[field] = &t->values[i];
	}
	*count = used;
	return 0;
}
