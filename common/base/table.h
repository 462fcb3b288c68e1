/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Tables for people: columns that line up, numbers to the right. One thread at a time. */
#include <stdio.h>

#define TABLE_COLUMNS_MAX 16

struct table;

/*
 * table_new - @headings: one a column, NULL-terminated, a leading '>' aligns to the right.
 * Returns NULL when memory is out. Freed by table_print().
 */
struct table *table_new(const char *const *headings);

/* table_cell - append a cell; the row ends by itself with its last column. */
void table_cell(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* table_print - write the table to @out, where that is not NULL, and free it. */
void table_print(struct table *t, FILE *out);

/* table_print_markdown - the same as a table of Markdown. */
void table_print_markdown(struct table *t, FILE *out);
