/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A session of the client library to look through. One thread. */
#include "client/src/link/handle.h"
#include "tools/kv-inspect/inspect.h"
#include "tools/lib/program.h"

struct live {
	struct gkv_session *session;
	struct gkv *h;
	struct inspect in;
};

/*
 * live_open - connect. Returns 0, or the exit status after a line on stderr. What was opened is
 * closed by live_close() in either case.
 */
int live_open(struct live *l, const struct program *p, struct gkv_options *options);
void live_close(struct live *l);
