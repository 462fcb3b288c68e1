/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Lines that a person types, edited by libedit: ~/.editrc, arrows, ^R, Tab for names of commands.
 * One prompt in a process, one thread; signals are handled while a line is awaited, and at no
 * other time.
 */
#include <stddef.h>
#include <stdio.h>

struct prompt;

/* prompt_open - "<name>> " stands before each line. Returns 0 or -ENOMEM. */
int prompt_open(struct prompt **out, const char *name);

/*
 * prompt_read - wait for a line. @line: without its newline, valid until the next call.
 * Returns 1; 0 at the end (^D); -EINTR: ^C, the line is abandoned; else minus the signal that
 * came and is to end the program.
 */
int prompt_read(struct prompt *p, const char **line, size_t *len);

/* prompt_remember - a line for the arrows. @arg: the prompt. */
void prompt_remember(void *arg, const char *line);

/* prompt_screen - where the prompt is shown: stdout where it is a terminal, else stderr. */
FILE *prompt_screen(void);

void prompt_close(struct prompt *p);
