/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A data directory as a server has it: opened, recovered into store and clients, its log, and its
 * snapshots. docs/internals/log.md has the whole story.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "server/clients/clients.h"
#include "server/log/log.h"
#include "server/log/meta.h"
#include "server/log/read.h"
#include "server/store/store.h"
#include "server/write/write.h"

struct data_config {
	const char *path;
	const struct log_io
		*io; /* in place of the kernel's, for tests: nothing is locked; else NULL */
	enum log_sync sync;
	unsigned sync_ms;
	uint64_t segment_bytes;
	uint64_t snapshot_bytes; /* of log since the last snapshot, then one is taken; 0: never */
	uint64_t recover_until; /* cut the log there; UINT64_MAX: do not */
	unsigned threads; /* of recovery; 0: one for each core */
	void (*failed)(void *ctx, const char *why); /* log_config.failed */
	bool (*stopping)(void *ctx); /* recovery is to be given up; NULL: never. Any thread */
	void *ctx;
};

struct data;

/*
 * data_open - lock the directory, read or make meta; nothing is recovered yet, so that the store
 * can be made with data_hash_seed(). Returns 0 or a negative errno with @err.
 */
int data_open(struct data **out, const struct data_config *config, struct error *err);
uint64_t data_hash_seed(const struct data *d);

/*
 * data_recover - the newest complete snapshot, then the log, into @store and @clients, which are
 * empty; then the next life begins: meta, log (with what has to be written again),
 * store_log_open(). After it the server may be reached. @err says what failed, on which file, and
 * what can be done; the directory is as before then, but for the life in meta. -ECANCELED: told to
 * stop.
 */
int data_recover(struct data *d, struct store *store, struct clients *clients, struct error *err);

struct log *data_log(const struct data *d);
/* The table of clients tells the log of what it registers and forgets. */

/*
 * data_serve - begin to take snapshots, by size and by data_save(): one thread. @doors: of all
 * workers, for their oldest writes; they stay until data_rest().
 * data_rest - no session is left: a last snapshot, where anything was written since the last, and
 * the thread ends. Where data_serve() was not called it does nothing.
 * data_close - end the log, release the directory. Returns 0; negative, where what was appended
 * last could not be made durable.
 */
int data_serve(struct data *d, const struct write_door *const *doors, unsigned count,
	       struct error *err);
void data_rest(struct data *d);
int data_close(struct data *d);

/*
 * data_save - take a snapshot now, or after the one that is under way. Returns the number of the
 * one that will have all that is acknowledged by now (data_stats.snapshots says when it is there).
 */
uint64_t data_save(struct data *d);

struct data_stats {
	uint64_t life;
	uint64_t recovery_ms, recovery_records, recovery_bytes, recovery_rewritten_bytes;
	uint64_t snapshots; /* complete, since the start */
	uint64_t snapshots_failed;
	uint64_t snapshot_wanted; /* number of the last one that was asked for */
	uint64_t snapshot_progress,
		snapshot_total; /* records of the one under way; 0, 0: none is */
	uint64_t snapshot_time_ms; /* wall clock, of the newest; 0: there is none */
	uint64_t snapshot_start; /* position where replay from the newest begins */
	uint64_t snapshot_bytes, snapshot_took_ms; /* of the newest */
	struct log_stats log;
};

void data_stats_get(struct data *d, struct data_stats *out);

/*
 * data_check - everything in a directory that no server has open, without changing it: snapshots
 * and log, whole. Prints a line a file to stdout. Returns 0: a server would start with all of it;
 * negative with @err.
 */
int data_check(const char *path, struct error *err);
