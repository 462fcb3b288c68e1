/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
#include <stdio.h>

/* version_print - what --version says: the line of @program, of @version, and what it was built
 * with. */
void version_print(FILE *out, const char *program, const char *version);
