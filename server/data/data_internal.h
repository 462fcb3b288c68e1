/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the files of server/data share. */
#include <pthread.h>
#include <stddef.h>

#include "server/data/data.h"
#include "server/log/snapshot.h"

#define SNAPSHOTS_MAX 64u /* in a directory; two are kept */

/* The newest snapshot that is complete. */
struct data_newest {
	uint64_t start, bytes, took_ms, time_ms; /* time_ms 0: there is none */
};

/* Snapshots of this life. snapshots.c */
struct data_snapshots {
	pthread_t thread;
	bool runs; /* the thread */
	struct reclaim_worker *hazards; /* the thread's */
	const struct write_door *const *doors;
	unsigned door_count;
	pthread_mutex_t lock; /* of what follows, up to the next comment */
	pthread_cond_t changed;
	bool stopping;
	uint64_t begun, wanted; /* numbers: of the last one that began; of the last asked for */
	struct data_newest newest;
	/* Written by the thread, read by anyone, relaxed. */
	_Atomic uint64_t done, failed; /* numbers: of the last complete one; how many failed */
	_Atomic uint64_t progress, total; /* records */
};

struct data {
	struct data_config config;
	char *path;
	struct log_io kernel; /* where config.io is NULL */
	const struct log_io *io;
	struct data_meta meta; /* as it is on disk */
	struct store *store;
	struct clients *clients;
	struct log *log;
	_Atomic uint64_t life; /* of meta; anyone reads */
	bool lost; /* the log has failed: no snapshot is taken at the end. Under snapshots.lock */
	uint64_t recovery_ms, recovery_records, recovery_bytes, recovery_rewritten_bytes;
	struct data_snapshots snapshots;
};

/* data_is_stopping - the process was told to end. */
static inline bool data_is_stopping(const struct data *d)
{
	return d->config.stopping && d->config.stopping(d->config.ctx);
}

/*
 * data_raise_life - meta says @life: durable on return. One thread at a time.
 */
int data_raise_life(struct data *d, uint64_t life, struct error *err);

/*
 * data_cut - make the log end at @position, as far as whole files go: later segments and snapshots
 * that reach beyond it are moved into a folder of their own, and kept. Only with
 * config.recover_until.
 */
int data_cut(struct data *d, uint64_t position, struct error *err);

/*
 * data_choose - of @count snapshots, newest first, from @from on, the first one that is complete.
 * Returns its place, or @count: there is none.
 */
unsigned data_choose(const struct snapshot_info *s, unsigned count, unsigned from);

/* data_outran - refuses a snapshot that the log @survey cannot be added to: -EUCLEAN; else 0. */
int data_outran(const struct snapshot_info *s, const struct log_survey *survey, struct error *err);

/* data_begins - the log must reach back to its beginning where there is no snapshot. */
int data_begins(const struct log_survey *survey, struct error *err);
