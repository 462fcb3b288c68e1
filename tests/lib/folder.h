/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A folder of the test program's own, for files, or as the root of a machine that is made up. */

extern char folder[];

/* folder_make, folder_remove - around a group of tests. */
int folder_make(void **state);
int folder_remove(void **state);

/* folder_empty - before a test. */
int folder_empty(void **state);

/* folder_put - a file in it with this text, and the folders above it; @path begins with a slash. */
void folder_put(const char *path, const char *text);
