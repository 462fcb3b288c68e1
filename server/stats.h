/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The counters of kv-server as lines "name value": what RPC_STATS answers. Any worker thread. */
#include <stddef.h>
#include <stdint.h>

/* server_stats_text - @ctx: struct server. Returns the length; lines that do not fit are left
 * out. */
size_t server_stats_text(void *ctx, char *text, size_t cap);

struct server;

/* server_writes_refused - requests that were answered with "out of memory". Any thread. */
uint64_t server_writes_refused(const struct server *s);
