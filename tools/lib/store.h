/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A benchmark's connection to a kv-server. */
#include <gracekv.h>

#include "tools/lib/program.h"

/*
 * bench_store_open - a session and a handle on it, under the program's name. Returns 0, or the exit
 * status after a line on stderr. What was opened is closed by bench_store_close() in either case.
 */
int bench_store_open(const struct program *p, struct gkv_options *options,
		     struct gkv_session **session, struct gkv **kv);
void bench_store_close(struct gkv_session *session, struct gkv *kv);
