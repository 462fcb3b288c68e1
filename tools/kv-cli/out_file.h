/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A file that appears under its name only when it is complete: it is written as NAME.part, synced
 * and renamed. What is not a regular file (a device, a pipe) is written in place. One thread.
 */
#include <stdio.h>

#include "common/base/error.h"

struct out_file {
	FILE *stream; /* NULL: not open */
	char *name; /* the final one */
	char *part; /* NULL: written in place */
};

/* out_file_open - @name is copied. Returns 0, or negative errno with @err saying why. */
int out_file_open(struct out_file *f, const char *name, struct error *err);

/* out_file_commit - all of it is on disk under its name. On failure it is not: abandon it. */
int out_file_commit(struct out_file *f, struct error *err);

/* out_file_abandon - drop what was written; also after a commit, and where nothing is open. */
void out_file_abandon(struct out_file *f);
