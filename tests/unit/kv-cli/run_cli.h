/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Whole command lines in this process: exit codes, stdout, stderr, files. */
#include <stddef.h>

#include "tests/lib/folder.h"
#include "tests/unit/kv-cli/fake_gkv.h"
#include "tools/kv-cli/cli.h"

#define CAPTURE_MAX 65536

extern char out[CAPTURE_MAX], errors[CAPTURE_MAX]; /* what the last command printed */
extern size_t out_len;
extern const char *stdout_path; /* stdout of the next command, NULL: captured */

/* run - "kv-cli" with the words up to NULL, @input on stdin. Returns its exit code. */
int run(const char *input, ...);

/* run_script - the same with @len bytes on stdin. */
int run_script(const char *text, size_t len, ...);

/* path - of a name in the folder; valid for three more calls. */
const char *path(const char *name);

/* file - the same, written. */
const char *file(const char *name, const char *text);

/* has - fails unless @part stands in @text. */
void has(const char *text, const char *part);

/* setup - before each test: an empty store without faults. */
int setup(void **state);

/* make_folder - before a group of tests; folder_remove() after it. */
int make_folder(void **state);
