/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The lines that were typed at the prompt, in a file of the user's own: a line each, the newest
 * last, mode 0600. A line is written when it is entered, so that prompts at once all keep theirs
 * (but for one that is entered in the moment in which another prompt cuts the file). Not kept are
 * lines that begin with a space, that repeat the one before, or that have more than
 * HISTORY_LINE_MAX bytes. One thread.
 */
#include <limits.h>
#include <stddef.h>

#include "common/base/error.h"

#define HISTORY_LINES	 1000u
#define HISTORY_LINE_MAX 8192u

struct history_file {
	char path[PATH_MAX]; /* "": there is none */
	char *last; /* the line kept last, or NULL */
	size_t lines; /* in the file, as far as this process knows */
};

/*
 * history_open - make the file in $XDG_STATE_HOME/gracekv, else ~/.local/state/gracekv, and hand
 * its last HISTORY_LINES lines to @each, the oldest first.
 * Returns 0, or a negative errno (@err says why): then @f keeps nothing and can be closed.
 */
int history_open(struct history_file *f, void (*each)(void *arg, const char *line), void *arg,
		 struct error *err);

/* history_keep - add a line that was entered. A failure is told at the next history_open(). */
void history_keep(struct history_file *f, const char *line);

/* history_close - cut the file back to HISTORY_LINES lines. */
void history_close(struct history_file *f);
