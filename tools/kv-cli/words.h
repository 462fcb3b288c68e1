/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A line of the prompt or of a script into words, quoted much as in a shell. Any thread. */
#include <stddef.h>

#include "common/base/error.h"

struct words {
	char **word; /* count of them, then NULL; word[0] is "kv-cli", as argv[0] is */
	int count;
	char *text; /* what they lie in */
};

/*
 * words_split - white space separates. '...' is taken as it is; "..." knows \n \t \r \\ \" and
 * \xHH; outside, a backslash takes the next character as it is. Parts that touch are one word.
 * A line that begins with # is a comment, and has no words.
 * Returns 0; -EBADMSG (@err says what is wrong with it), -ENOMEM: there is nothing to free then.
 */
int words_split(struct words *w, const char *line, size_t len, struct error *err);

void words_free(struct words *w);
