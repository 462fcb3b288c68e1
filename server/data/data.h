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
 * A directory of a group's member (member.c). Between data_open() and data_recover() or
 * data_learn(), in place of which a server without a group calls data_alone().
 *
 * data_proposes - what a cluster should be that is not there yet, so that this directory can belong
 * to it: fields of @out that it asks for.
 * data_join - it is to belong to this group, and does from data_lead() or data_learn() on. -EXDEV
 * with @err: it cannot.
 * data_alone - -EXDEV with @err: it belongs to a group.
 * data_was_member - it did before this start, and has records, perhaps in aside/.
 */
struct data_member {
	uint64_t cluster[2];
	uint64_t hash_seed;
	uint64_t group; /* XXH3 of its name */
};

void data_proposes(const struct data *d, struct data_member *out);
int data_join(struct data *d, const struct data_member *of, struct error *err);
int data_alone(const struct data *d, struct error *err);
bool data_was_member(const struct data *d);

/* data_is_copy - the directory is not the one in which it was last said what the member has: it was
 * copied, or restored, and may lack what was acknowledged since. */
bool data_is_copy(const struct data *d);

/*
 * data_vouches - lives of this member in which it has all here that it acknowledged, if it was
 * primary: up to two; 0: none. Returns how many.
 * data_answered - lives in which it may have acknowledged anything as primary, whether that is all
 * here or not. In a life after this directory began, and not among them, it has not.
 * data_vouch - that is so of @life, too: all that it holds is durable, and it acknowledges nothing
 * before the return. It stays so of @named, one of those before, by which etcd may still name it;
 * 0: none, so it stays so of the last one.
 * data_lead - it is primary in @term, and all that it holds is in its log, which becomes durable;
 * meta vouches for @life; then the log is the group's, and @mirror must hold what is committed.
 */
unsigned data_vouches(const struct data *d, uint64_t lives[2]);
void data_answered(const struct data *d, uint64_t lives[2]);
int data_vouch(struct data *d, uint64_t life, uint64_t named, struct error *err);
int data_lead(struct data *d, uint64_t life, uint64_t term, const struct log_mirror *mirror,
	      struct error *err);

/*
 * data_learn - another server's records will come, in the log from @position on and by a walk: what
 * is there goes aside, and a log begins. -EEXIST with @err: what is there is of no member, or of a
 * later term than @term, so it is not replaced.
 * data_forget_aside - this member has all that its group has: what is aside may go. Any thread,
 * after data_serve().
 */
int data_learn(struct data *d, struct store *store, struct clients *clients, uint64_t term,
	       uint64_t position, struct error *err);
void data_forget_aside(struct data *d);

/* data_is_whole - what is there may be gone on with: nothing is aside. Else -EEXIST with @err. */
int data_is_whole(const struct data *d, struct error *err);

/* data_raise_life - meta says that versions of @life may have been given out: durable on return.
 * -EOVERFLOW: there are no more lives. One thread at a time. */
int data_raise_life(struct data *d, uint64_t life, struct error *err);
uint64_t data_life(const struct data *d);

/*
 * data_recover - the newest complete snapshot, then the log, into @store and @clients, which are
 * empty; then the next life begins: meta, log (with what has to be written again),
 * store_log_open(), but in a group. After it the server may be reached. @err says what failed, on
 * which file, and what can be done; the directory is as before then, but for the life in meta.
 * -ECANCELED: told to stop.
 */
int data_recover(struct data *d, struct store *store, struct clients *clients, struct error *err);

struct log *data_log(const struct data *d);
/* The table of clients tells the log of what it registers and forgets. */

/*
 * A position below which every write is in the store, its reply remembered included. It was read
 * after the log's tail was, and does not fall. Called by the thread of snapshots.
 */
struct data_published {
	uint64_t (*first_not)(void *ctx);
	void *ctx;
};

/*
 * data_serve - begin to take snapshots, by size and by data_save(): one thread. It asks @published
 * until data_rest().
 * data_rest - no session is left: a last snapshot, where @last is true and anything was written
 * since the last, and the thread ends. Where data_serve() was not called it does nothing.
 * data_close - end the log, release the directory. Returns 0; negative, where what was appended
 * last could not be made durable.
 */
int data_serve(struct data *d, const struct data_published *published, struct error *err);
void data_rest(struct data *d, bool last);
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
