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
	struct data_published published;
	uint64_t store[2], hash_seed; /* of meta, which another thread may write again */
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
	bool in_group; /* data_join() was called */
	struct data_member of; /* with that */
	bool was_member; /* as data_was_member() says */
	_Atomic bool forgets_aside; /* data_forget_aside(): the thread of snapshots does it */
	bool lost; /* no snapshot is taken any more: the log has failed, or nobody wants a last
		    * one. Under snapshots.lock */
	uint64_t recovery_ms, recovery_records, recovery_bytes, recovery_rewritten_bytes;
	struct data_snapshots snapshots;
};

/* data_is_stopping - the process was told to end. */
static inline bool data_is_stopping(const struct data *d)
{
	return d->config.stopping && d->config.stopping(d->config.ctx);
}

/* data_clock_ms - what expiry goes by. Any thread. */
uint64_t data_clock_ms(const struct data *d);

/*
 * data_make_meta - of a directory without records, with a new identity; @was: the one before, of
 * whose store and group it is. NULL: there was none.
 */
int data_make_meta(struct data *d, const struct data_meta *was, struct error *err);

/* data_is_empty - no file of log or snapshots is there. */
bool data_is_empty(const struct data *d);

/* data_begin_log - the log of this life: of @with what log.h says of the records before it. */
int data_begin_log(struct data *d, const struct log_config *with, struct error *err);

/*
 * data_has_aside - something was set aside. data_finish_aside - meta was, and what belongs to it
 * follows. data_set_aside - all there is: aside.c. data_delete_aside - if that was asked for.
 */
bool data_has_aside(const struct log_io *io);
int data_finish_aside(struct data *d, struct error *err);
int data_set_aside(struct data *d, struct error *err);
void data_delete_aside(struct data *d);

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
