/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Processes that a benchmark starts and that end with it. One thread, which lives as long. */
#include <sys/types.h>

/*
 * child_settle - in the child, right behind child_fork(): it dies with @parent, whatever ends that,
 * and is in a process group of its own, so that Ctrl-C at the terminal is the parent's to act on.
 */
void child_settle(pid_t parent);

/*
 * child_fork - fork(), with SIGTERM and SIGINT by their defaults in the child from its first moment
 * on: a handler of ours would swallow what is to end it.
 */
pid_t child_fork(void);

/*
 * child_end - SIGTERM, and wait; SIGKILL where that takes longer than a minute.
 * Returns its status as waitpid() tells it, or a negative errno.
 */
int child_end(pid_t pid);
