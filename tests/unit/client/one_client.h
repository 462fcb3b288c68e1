/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A server of the test's own and a client of it, which most tests against a server begin with. */
#include <sys/types.h>

#include "client/include/gracekv.h"

extern unsigned port;
extern pid_t server;
extern struct gkv_session *session;
extern struct gkv *kv;

/* patient - options with calls that take 20 s at most, for what takes milliseconds. */
struct gkv_options patient(void);

/* one_client - a server with so much @memory, and a session with it as @o says; kv is a handle of
 * it. Returns 0 or -1. */
int one_client(const char *memory, struct gkv_options o);

/* tear_down - of all that; the server is killed, in_order: told to stop, which it must do well. */
int tear_down(void **state);
int tear_down_in_order(void **state);
