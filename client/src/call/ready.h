/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
#include "client/src/link/handle.h"

/*
 * handle_connect - a new queue pair, and a new connection where the session's is lost. May take
 * until the call's deadline.
 */
int handle_connect(struct gkv *h);

/* handle_ready - the queue pair is of the session's current connection, or why not: what
 * handle_connect() returns. */
static inline int handle_ready(struct gkv *h)
{
	return handle_current(h) ? 0 : handle_connect(h);
}
