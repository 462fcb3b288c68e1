/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A folder that a benchmark writes its report into: --report FOLDER. One thread. */
#include <stdio.h>

#include "common/base/error.h"

/* A file of it; one without a name ends a list. */
struct report_file {
	const char *name;
	/* @ctx: as given to report_write(). Returns 0, or a negative errno. */
	int (*write)(const void *ctx, FILE *out);
};

/*
 * report_folder_make - @folder, where it is not there, and whether it may be written into: before
 * what takes minutes. Returns 0, or a negative errno with @err.
 */
int report_folder_make(const char *folder, struct error *err);

/* report_write - all @files into @folder, which is there. Likewise. */
int report_write(const char *folder, const struct report_file *files, const void *ctx,
		 struct error *err);
