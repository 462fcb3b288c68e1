/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The name that a misspelt word may have meant. Any thread. */

struct nearest {
	const char *word;
	const char *name; /* the best so far; NULL: none is near */
	unsigned distance;
};

/* nearest_to - begin with a @word that is no name; it is kept, not copied. */
struct nearest nearest_to(const char *word);

/*
 * nearest_try - consider one @name, which is kept. A name is near if few letters are wrong,
 * missing, superfluous or swapped (one in three, at least one), or if the word begins it. Case does
 * not count. Of names equally near the first one stays.
 */
void nearest_try(struct nearest *n, const char *name);
