/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Processes that a benchmark starts and that end with it. One thread, which lives as long. */
#include <sys/types.h>

/*
 * child_fork - fork(). The child dies with its parent, whatever ends that, is in a process group of
 * its own, so that Ctrl-C at the terminal is the parent's to act on, and has none of the parent's
 * handlers of SIGINT, SIGTERM and SIGHUP.
 */
pid_t child_fork(void);

/*
 * child_end - SIGTERM, and wait; SIGKILL where that takes longer than a minute.
 * Returns its status as waitpid() tells it, or a negative errno.
 */
int child_end(pid_t pid);
