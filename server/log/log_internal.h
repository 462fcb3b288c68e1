/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Private to the log's writing half: log.c has the argument. */
#include <pthread.h>

#include "server/log/log.h"

#define SEGMENT_NAME_BYTES 48u
#define SEGMENT_NEXT	   "log/next.tmp"
#define SEGMENT_FIRST	   "log/first.tmp"

#define BATCH_RECORDS_BYTES (4u << 20) /* a batch takes no more, where it has more than one */
#define BATCH_BYTES_MAX	    log_batch_bytes(LOG_BATCH_RECORDS_MAX)
#define BUFFERS_BYTES	    (LOG_BUFFERS * BATCH_BYTES_MAX)

#define CACHE_LINE 64

struct segment {
	struct segment *next; /* a later one; under `lock` */
	struct log_file *file; /* NULL: it is not written any more */
	uint64_t first; /* position */
	uint64_t bytes; /* of the file */
	uint64_t identity;
	char name[SEGMENT_NAME_BYTES];
};

/* Filled records that stand one behind the other in the ring. */
struct group {
	uint64_t position; /* of the first */
	uint32_t bytes, records;
	uint64_t worst; /* room on disk that was taken for them */
};

struct log {
	struct log_config config;
	const struct log_io *io;
	uint8_t *ring; /* ring_bytes, mapped twice, one behind the other */
	uint64_t ring_bytes;
	uint8_t *batch; /* BATCH_BYTES_MAX: one of the buffers */
	uint8_t *buffers; /* LOG_BUFFERS; one is used where there are no mirrors */
	const void *zeroes; /* NULL: none are written ahead */

	/* Of those who append. */
	_Alignas(CACHE_LINE) _Atomic uint64_t tail;
	_Atomic int64_t ring_room; /* bytes */
	_Atomic int64_t disk_room; /* bytes, by the worst case */
	_Atomic uint64_t refused_busy, refused_space;

	_Alignas(CACHE_LINE) _Atomic uint64_t committed; /* written under `lock` */
	_Atomic uint64_t durable, written; /* written under `lock` */
	_Atomic uint64_t held; /* below it by all that must; UINT64_MAX: nobody. The writer's */
	_Atomic bool full, failed; /* written under `lock` */
	_Atomic bool refuses; /* log_refuse() */

	_Alignas(CACHE_LINE) _Atomic bool asleep; /* the writer: see log_kick() */
	_Atomic bool stop; /* written under `lock` */
	int wake_fd;

	/* Of the writer alone; without a disk, of who has the turn. Others read the last three. */
	_Alignas(CACHE_LINE) pthread_mutex_t turn; /* see turn.c; `lock` may be taken within it */
	uint64_t taken; /* all below has left the ring */
	uint64_t under_way; /* end of the batch that the mirrors do not all hold yet; 0: none */
	uint64_t offset; /* where the next batch goes, in the current segment */
	_Atomic uint64_t told; /* the committed position that the mirrors were told last */
	_Atomic uint64_t committed_ns; /* without a disk: when `committed` was raised last */
	_Atomic bool is_long; /* likewise: the next batch is the thread's */

	pthread_mutex_t wait_lock; /* a leaf */
	struct log_waiter *waiters; /* under wait_lock */

	pthread_mutex_t lock; /* wait_lock may be taken within it */
	pthread_cond_t changed; /* what the syncer, or somebody in need of a sync, waits for */
	pthread_cond_t chores; /* what the keeper waits for: next, drop, failed, ended */
	struct segment *segments; /* by position; the last one is the current one */
	struct segment *current;
	struct segment *next; /* preallocated, without a header. NULL: it is being made */
	uint64_t drop; /* below it segments may go */
	uint64_t demand; /* log_await_durable(): someone waits for it */
	bool syncing; /* the syncer syncs the current segment */
	bool switching; /* the writer is about to change it */
	bool ended; /* keeper and syncer end */
	bool dirty; /* written > durable, and no sync of it has begun */
	uint64_t dirty_ns; /* since when */
	uint64_t unsynced; /* bytes written to the kernel's memory since the last sync began */
	/* Offsets in the current segment (ahead.c). */
	uint64_t claimed; /* the writer has written all below it, or is about to */
	uint64_t zeroed; /* below it zeroes were written, or would have come too late */
	struct {
		uint64_t from, until; /* equal: the keeper writes none now */
	} zeroing;
	bool small; /* the last batch was */
	struct log_stats stats; /* batches, records, bytes, group, syncs ... */

	pthread_t writer, keeper, syncer;
	bool has_writer, has_keeper, has_syncer;

	_Atomic uint64_t disk_calls; /* begun and ended: see at_disk() */
};

/* ring.c */
int ring_open(struct log *l, struct error *err);
void ring_close(struct log *l);
/* ring_look - what may go into one batch; false: the record at `taken` is not there, or not yet
 * filled. ring_take - copy them to @out, and give their room in memory back. The writer. */
bool ring_look(const struct log *l, struct group *out);
void ring_take(struct log *l, const struct group *g, uint8_t *out);

/* batch.c
 * at_disk - the writer, before it waits for the disk, or for another thread that does, and after
 * it: for log_at_disk(). After a failure it says nothing more.
 * batch_seal - header and checksums for the records that stand in l->batch behind room for the
 * header. Returns the batch's length on disk.
 * batch_count - one of @bytes, @cached of which the kernel's memory has. */
void at_disk(struct log *l);
uint64_t batch_seal(struct log *l, const struct group *g, uint64_t identity);
void batch_count(struct log *l, const struct group *g, uint64_t bytes, uint64_t cached);
void *writer_run(void *log);

/* holders.c: the mirrors, if there are any. The writer, or who has the turn.
 * holders_buffer - make l->batch one that may be written. False: none is, for now.
 * holders_send - the batch that stands there.
 * holders_have - all that must hold the log up to @end do; log_raise() goes by it from now on.
 * holders_lag - they do not know all that is committed. Any thread.
 * holders_tell - tell them, if they lag. */
bool holders_buffer(struct log *l);
void holders_send(struct log *l, const struct group *g);
bool holders_have(struct log *l, uint64_t end);
bool holders_lag(const struct log *l);
void holders_tell(struct log *l);

/* turn.c: of a log without a disk.
 * turn_take - a step, unless there is nothing to do. turn_rests - nothing is left to be done, but
 * to tell. turn_tell - as holders_tell(). The writer; they wait for who has the turn. */
bool turn_take(struct log *l);
bool turn_rests(struct log *l);
void turn_tell(struct log *l);

/* ahead.c
 * ahead_open - returns 0 or a negative errno; ahead_close() is called in any case.
 * ahead_begin - the current segment is another one, whose first batch will stand at @offset. Under
 * the lock, once there are threads.
 * ahead_claim - the writer, before it writes a batch of @bytes; may wait for one write.
 * ahead_due - another piece is to be zeroed; ahead_fill - do that, leaving the lock meanwhile;
 * ahead_busy - that is going on in the current segment. These three under the lock. */
int ahead_open(struct log *l);
void ahead_close(struct log *l);
void ahead_begin(struct log *l, uint64_t offset);
void ahead_claim(struct log *l, uint64_t bytes);
bool ahead_due(const struct log *l);
void ahead_fill(struct log *l);
bool ahead_busy(const struct log *l);

/* segments.c
 * segment_make - file @name, preallocated. segment_begin - its header, synced, and its name.
 * segment_switch - the writer goes on in the next one; 0, or -EIO: writing has failed. */
int segment_make(struct log *l, const char *name, uint64_t bytes, struct segment **out);
int segment_header(struct log *l, struct segment *s, uint64_t first);
int segment_publish(struct log *l, struct segment *s, const char *from);
int segment_switch(struct log *l);
int segments_adopt(struct log *l, struct error *err);
void segments_free(struct log *l);
void *keeper_run(void *log);

/* sync.c
 * log_raise - all below @written is written, and below @durable durable; none of them falls.
 * False: writing has failed meanwhile, and nothing was raised.
 * log_fail - writing has failed: @what, on which file, with @rc. */
bool log_raise(struct log *l, uint64_t written, uint64_t durable);
void log_fail(struct log *l, const char *what, const char *name, int rc);
void log_wake(struct log *l);
/* log_wait_until - under the lock: sleep at @at until told, or until time_now_ns() is @ns. */
void log_wait_until(struct log *l, pthread_cond_t *at, uint64_t ns);
void sync_took(struct log *l, uint64_t ns);
/* sync_keep_up - the writer: while the syncer syncs and as much again has come, wait for it. */
void sync_keep_up(struct log *l);
void *syncer_run(void *log);
