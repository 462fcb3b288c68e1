/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/base/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define WORD_MAX 40u /* longer ones are near to nothing */

static bool same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Letters to change, insert, remove, or swap with their neighbour (optimal string alignment). */
static unsigned distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	unsigned rows[3][WORD_MAX + 1], *before = rows[0], *last = rows[1], *row = rows[2];

	for (size_t j = 0; j <= b_len; j++)
		last[j] = (unsigned)j;
	for (size_t i = 1; i <= a_len; i++) {
		unsigned *oldest = before;

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b_len; j++) {
			row[j] = last[j - 1] + !same(a[i - 1], b[j - 1]);
			row[j] = least(row[j], least(last[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
				row[j] = least(row[j], before[j - 2] + 1);
		}
		before = last;
		last = row;
		row = oldest;
	}
	return last[b_len];
}

struct nearest nearest_to(const char *word)
{
	return (struct nearest){ .word = word };
}

void nearest_try(struct nearest *n, const char *name)
{
	size_t len = strlen(n->word), name_len = strlen(name);
	unsigned d;

	if (len < 2 || len > WORD_MAX || name_len > WORD_MAX)
		return;
	d = distance(n->word, len, name, name_len);
	if (d > (len < 3 ? 1 : len / 3)) {
		if (strncasecmp(n->word, name, len) != 0)
			return;
		d = WORD_MAX; /* a beginning: rather any name that is near as a whole */
	}
	if (n->name && d >= n->distance)
		return;
	n->name = name;
	n->distance = d;
}
