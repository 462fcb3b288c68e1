/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A kv-server of the test's own, on soft0. */
#include <sys/types.h>

#include "client/include/gracekv.h"

/* server_program - the path of kv-server; the first argument of the test program. */
void server_program(const char *path);

/*
 * server_start - wait until it is ready. @port: 0 takes a free one. Returns its process; *@port
 * receives what it listens on. Dies with the thread that called it.
 */
pid_t server_start(unsigned *port, const char *memory);

/* server_stop - by @signal; waits for its end and returns the status of waitpid(). */
int server_stop(pid_t pid, int signal);

/* server_pause - SIGSTOP; returns when all its threads stand still. SIGCONT ends it. */
void server_pause(pid_t pid);

/*
 * server_session - with it, on soft0, with what else @o says. Returns as gkv_session_open() does,
 * and prints why it failed.
 */
int server_session(unsigned port, struct gkv_options *o, struct gkv_session **out);

/* server_handle - gkv_open(), likewise. */
int server_handle(struct gkv_session *session, struct gkv **out);
