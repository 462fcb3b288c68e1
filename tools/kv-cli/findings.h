/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What doctor finds: a level, what it is about, words, and what to do. One thread. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum finding { FINDING_OK, FINDING_NOTE, FINDING_PROBLEM };

/* finding_word - "ok", "note", "problem": static. */
const char *finding_word(enum finding level);

/*
 * finding_add - append {"level", "about", "words", "remedy"} to the JSON array @list.
 * @remedy: what to do; "" where nothing is. NULL elements show as "no memory" when printed.
 */
void finding_add(json_t *list, enum finding level, const char *about, const char *remedy,
		 const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* finding_count - how many of a level. */
unsigned finding_count(const json_t *list, enum finding level);

/* findings_print - a line each, and its remedy below; long ones are folded. */
void findings_print(const json_t *list, FILE *out);

/*
 * text_folded - print @text, folded at spaces to lines of at most TEXT_COLUMNS; lines after the
 * first begin with @indent spaces. @used: columns that the first line has already.
 */
#define TEXT_COLUMNS 100u
void text_folded(FILE *out, const char *text, unsigned used, unsigned indent);
