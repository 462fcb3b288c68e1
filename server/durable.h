/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The data directory of kv-server, where there is one (--data-dir). The main thread's. */
#include <stdint.h>

#include "common/base/error.h"

struct server;

/*
 * durable_open - lock and read it, before the store is made: s->data; NULL where there is none.
 * durable_recover - into store and clients, which are there and empty; no worker is.
 * durable_serve - snapshots, from now on: workers are there.
 * All do nothing without a data directory, and return 0 or a negative errno with @err.
 */
int durable_open(struct server *s, struct error *err);
int durable_recover(struct server *s, struct error *err);
int durable_serve(struct server *s, struct error *err);

/* durable_rest - no session is left: a last snapshot. durable_close - no worker is left. Returns 0;
 * negative: what was written last may not be durable, as the log was told. */
void durable_rest(struct server *s);
int durable_close(struct server *s);

/* durable_explain - where the log has failed, that is what ended the server: @err says so. Returns
 * @rc, what it ended with. */
int durable_explain(const struct server *s, int rc, struct error *err);

/* durable_save - worker_config.save, @ctx: struct server. Any worker thread. */
int64_t durable_save(void *ctx);
