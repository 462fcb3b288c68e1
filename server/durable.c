/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/durable.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/log.h"
#include "server/grouped.h"
#include "server/server.h"
#include "server/write/write.h"

/* Any thread, once: the control thread ends the server. */
static void failed(void *ctx, const char *why)
{
	struct server *s = ctx;

	snprintf(s->log_failure, sizeof(s->log_failure), "%s", why);
	log_error("data", "%s: %s", s->config.data_dir, why);
	/* release: pairs with durable_explain(): the words before that there are some */
	atomic_store_explicit(&s->log_failed, true, memory_order_release);
	pairs_fatal(&s->sessions, "the log has failed");
}

static bool stopping(void *ctx)
{
	return server_told_to_stop() || grouped_stops(ctx);
}

static uint64_t first_unpublished(void *ctx)
{
	const struct server *s = ctx;

	return write_first_unpublished(data_log(s->data), s->doors, s->sessions.worker_count);
}

int durable_open(struct server *s, struct error *err)
{
	const struct config *c = &s->config;
	const struct data_config config = {
		.path = c->data_dir,
		.sync = c->sync,
		.sync_ms = c->sync_ms,
		.segment_bytes = c->log_segment_bytes,
		.snapshot_bytes = c->snapshot_bytes,
		.recover_until = c->recover_until,
		.failed = failed,
		.stopping = stopping,
		.ctx = s,
	};

	return c->data_dir[0] ? data_open(&s->data, &config, err) : 0;
}

int durable_recover(struct server *s, struct error *err)
{
	int rc = s->data && !s->grouped ? data_alone(s->data, err) : 0;

	if (rc || !s->data)
		return rc;
	return data_recover(s->data, &s->store, s->sessions.clients, err);
}

int durable_serve(struct server *s, struct error *err)
{
	const struct data_published published = { first_unpublished, s };

	if (!s->data)
		return 0;
	for (unsigned i = 0; i < s->sessions.worker_count; i++)
		s->doors[i] = worker_door(s->sessions.workers[i]);
	return data_serve(s->data, &published, err);
}

void durable_rest(struct server *s)
{
	if (s->data) /* a backup starts with the primary's records, not with its own */
		data_rest(s->data, s->sessions.worker_count && !grouped_has_ended(s));
}

int durable_close(struct server *s)
{
	int rc = data_close(s->data);

	s->data = NULL;
	if (rc)
		log_error("data",
			  "%s: what was written last could not be made durable: %s (look at the "
			  "disk before the next start)",
			  s->config.data_dir, error_name(rc));
	return rc;
}

int durable_explain(const struct server *s, int rc, struct error *err)
{
	/* acquire: pairs with failed() */
	if (rc == 0 || !atomic_load_explicit(&s->log_failed, memory_order_acquire))
		return rc;
	return error_set(err, -EIO, "--data-dir %s: %s", s->config.data_dir, s->log_failure);
}

int64_t durable_save(void *ctx)
{
	struct server *s = ctx;

	return s->data ? (int64_t)data_save(s->data) : -EOPNOTSUPP;
}
