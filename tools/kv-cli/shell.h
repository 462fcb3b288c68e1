/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * kv-cli without a command: a prompt where stdin is a terminal, else the lines of stdin as a
 * script. All lines use one session and one handle.
 */

#include "tools/kv-cli/cli.h"

#define SHELL_LINE_MAX (1u << 20) /* bytes of a line */

/* shell_run - until the end of stdin, or of the commands. Returns enum cli_exit. */
int shell_run(struct cli *cli);

/* shell_builtins - the words that are no commands of kv-cli's own; ends with NULL. */
extern const char *const shell_builtins[];
