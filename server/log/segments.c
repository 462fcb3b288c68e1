/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Segments: made ahead, begun, left, dropped.
 *
 * The keeper makes the next segment's file while the current one is filled: it has all its room on
 * the disk, and no header, for its first position is not known yet. When a batch does not fit into
 * the current segment, the writer
 *	syncs that, so all that stands in it is durable,
 *	writes the header of the next one, whose first position says so, and syncs it,
 *	renames it to its position, and syncs the folder,
 * and only then writes batches into it. So a segment that has a name has a header, and what was
 * acknowledged stands in one that has a name.
 *
 * ROOM ON DISK is taken at the append, by the worst case: that each record is alone in its batch.
 * With rem, what is left of the current segment, and U, all that a new one has for batches,
 *	disk_room + what was taken for records that are not yet in a batch = rem
 *	      or, where the next one is there                            = rem + U - M
 * M, the length of the longest batch, stands for the end of the current segment, which is left
 * unused where a batch does not fit. Batches need no more than their records took. So in the first
 * case every batch fits, and in the second the next segment is there when one does not.
 *	made:   + U - M, after it is there under the lock
 *	left:   + M - rem
 *	batch:  + what its records took - what it has
 *
 * Where there is no room for the file, appends are refused once disk_room is used up: with -ENOSPC,
 * as `full` says so, else with -EBUSY, for the keeper is at work. It tries again soon, and at once
 * when a segment was dropped. Nobody waits for either: who was refused comes again.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/random.h"
#include "common/base/time.h"
#include "server/log/log_internal.h"
#include "server/log/read.h"

#define RETRY_NS (200 * NS_PER_MS)

static void name_of(uint64_t first, char name[SEGMENT_NAME_BYTES])
{
	snprintf(name, SEGMENT_NAME_BYTES, "log/%016" PRIx64 ".log", first);
}

/* Nothing is wrong with the disk; there is no room, of whatever kind, at the moment. */
static bool is_shortage(int rc)
{
	return rc == -ENOSPC || rc == -EDQUOT || rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM;
}

int segment_make(struct log *l, const char *name, uint64_t bytes, struct segment **out)
{
	struct segment *s = calloc(1, sizeof(*s));
	int rc = s ? l->io->open(l->io->ctx, name, LOG_OPEN_NEW, &s->file) : -ENOMEM;

	if (rc) {
		free(s);
		return rc;
	}
	s->bytes = bytes;
	rc = l->io->preallocate(s->file, bytes);
	while (!rc && !s->identity)
		rc = random_fill(&s->identity, sizeof(s->identity), NULL);
	if (rc) {
		l->io->close(s->file);
		l->io->unlink(l->io->ctx, name);
		free(s);
		return rc;
	}
	*out = s;
	return 0;
}

int segment_header(struct log *l, struct segment *s, uint64_t first)
{
	struct log_segment_header *h = (void *)l->batch; /* no batch stands there now */

	memset(l->batch, 0, LOG_BLOCK);
	*h = (struct log_segment_header){
		.magic = LOG_SEGMENT_MAGIC,
		.identity = s->identity,
		.first = first,
		.durable = first,
		.life = l->config.life,
		.store = { l->config.store[0], l->config.store[1] },
		.bytes = s->bytes,
		.clock_ms = l->config.clock_ms(l->config.ctx),
	};
	h->checksum = log_segment_checksum(h);
	s->first = first;
	name_of(first, s->name);
	return l->io->write_durable(s->file, l->batch, LOG_BLOCK, 0);
}

int segment_publish(struct log *l, struct segment *s, const char *from)
{
	int rc = l->io->rename(l->io->ctx, from, s->name);

	return rc ? rc : l->io->sync_dir(l->io->ctx, "log");
}

/* All that was written is in the current segment: it becomes durable. */
static int settle(struct log *l)
{
	uint64_t began_ns;
	int rc;

	if (log_durable(l) == l->taken)
		return 0;
	began_ns = time_now_ns();
	at_disk(l);
	rc = l->io->sync(l->current->file);
	at_disk(l);
	if (rc) {
		log_fail(l, "syncing", l->current->name, rc);
		return -EIO;
	}
	sync_took(l, time_now_ns() - began_ns);
	return log_raise(l, l->taken, l->taken) ? 0 : -EIO;
}

static void go_on_in(struct log *l, struct segment *s)
{
	struct segment *old = l->current;
	struct log_file *file = old->file;

	pthread_mutex_lock(&l->lock);
	old->file = NULL;
	old->next = s; /* from here on the keeper may drop it */
	l->current = s;
	l->next = NULL;
	l->dirty = false;
	l->unsynced = 0;
	l->switching = false;
	ahead_begin(l, LOG_BLOCK);
	/* relaxed: a count of bytes */
	atomic_fetch_add_explicit(&l->disk_room,
				  (int64_t)(BATCH_BYTES_MAX - (old->bytes - l->offset)),
				  memory_order_relaxed);
	pthread_cond_broadcast(&l->changed);
	pthread_cond_broadcast(&l->chores);
	pthread_mutex_unlock(&l->lock);
	l->io->close(file);
	l->offset = LOG_BLOCK;
}

int segment_switch(struct log *l)
{
	struct segment *s;
	int rc;

	at_disk(l);
	pthread_mutex_lock(&l->lock);
	l->switching = true;
	while (l->syncing || ahead_busy(l))
		pthread_cond_wait(&l->changed, &l->lock);
	s = l->next;
	pthread_mutex_unlock(&l->lock);
	at_disk(l);
	if (log_has_failed(l) || settle(l)) /* a sync that failed is not made again */
		return -EIO;
	assert(s); /* ROOM ON DISK */
	at_disk(l);
	rc = segment_header(l, s, l->taken);
	if (!rc)
		rc = segment_publish(l, s, SEGMENT_NEXT);
	at_disk(l);
	if (rc)
		log_fail(l, "beginning the segment", s->name, rc);
	if (log_has_failed(l)) /* or was given up meanwhile */
		return -EIO;
	go_on_in(l, s);
	return 0;
}

/* It would stand in the way when the log has come past its name. */
static int delete_torn(struct log *l, const char *name, struct error *err)
{
	int rc = l->io->unlink(l->io->ctx, name);

	return rc ? error_set(err, rc,
			      "deleting %s, which has a segment's name and nothing in it, "
			      "failed: %s (move it away)",
			      name, error_name(rc))
		  : 0;
}

int segments_adopt(struct log *l, struct error *err)
{
	const struct log_survey *older = l->config.older;
	struct segment **at = &l->segments;
	int rc = older && older->torn[0] ? delete_torn(l, older->torn, err) : 0;

	if (rc)
		return rc;
	for (unsigned i = 0; older && i < older->segments; i++) {
		const struct log_segment_info *info = &older->segment[i];

		if (info->first == l->config.first)
			continue; /* the new one takes its name */
		if (info->first > l->config.first)
			return error_set(err, -EINVAL,
					 "%s begins behind position %" PRIu64
					 ", where the log is to go on (move the file away, or "
					 "start with a greater --recover-until)",
					 info->name, l->config.first);
		*at = calloc(1, sizeof(**at));
		if (!*at)
			return error_set(err, -ENOMEM,
					 "there is no memory for the list of the log's segments "
					 "(give the server more memory)");
		(*at)->first = info->first;
		(*at)->bytes = info->bytes;
		name_of(info->first, (*at)->name);
		at = &(*at)->next;
	}
	return 0;
}

void segments_free(struct log *l)
{
	if (l->next) {
		l->io->close(l->next->file);
		l->io->unlink(l->io->ctx, SEGMENT_NEXT);
		free(l->next);
	}
	while (l->segments) {
		struct segment *s = l->segments;

		l->segments = s->next;
		if (s->file)
			l->io->close(s->file);
		free(s);
	}
}

void log_drop(struct log *l, uint64_t position)
{
	pthread_mutex_lock(&l->lock);
	if (l->drop < position) {
		l->drop = position;
		pthread_cond_broadcast(&l->chores);
	}
	pthread_mutex_unlock(&l->lock);
}

/*
 * Under the lock, which it leaves meanwhile. The oldest goes first, and its name is gone for good
 * before the next one goes: there never is a gap. False: there is none to drop.
 */
static bool drop_one(struct log *l)
{
	struct segment *s = l->segments;
	const char *what = "deleting";
	int rc;

	if (!s->next || s->next->first > l->drop)
		return false;
	l->segments = s->next;
	pthread_mutex_unlock(&l->lock);
	rc = l->io->unlink(l->io->ctx, s->name);
	if (!rc) {
		what = "syncing the folder of";
		rc = l->io->sync_dir(l->io->ctx, "log");
	}
	if (rc)
		log_fail(l, what, s->name, rc);
	free(s);
	pthread_mutex_lock(&l->lock);
	return true;
}

/* Under the lock, which it leaves meanwhile. False: there is no room. */
static bool make_next(struct log *l)
{
	struct segment *s = NULL;
	int rc;

	pthread_mutex_unlock(&l->lock);
	rc = segment_make(l, SEGMENT_NEXT, l->config.segment_bytes, &s);
	if (rc && !is_shortage(rc))
		log_fail(l, "making", SEGMENT_NEXT, rc);
	pthread_mutex_lock(&l->lock);
	/* release: pairs with log_is_full() */
	atomic_store_explicit(&l->full, rc && is_shortage(rc), memory_order_release);
	if (rc)
		return false;
	l->next = s;
	/* relaxed: a count of bytes. Whoever takes them is followed by the writer, which looks at
	 * `next` under the lock. */
	atomic_fetch_add_explicit(&l->disk_room, (int64_t)(s->bytes - LOG_BLOCK - BATCH_BYTES_MAX),
				  memory_order_relaxed);
	return true;
}

void *keeper_run(void *log)
{
	struct log *l = log;
	uint64_t retry_ns = 0; /* not before it */

	pthread_mutex_lock(&l->lock);
	while (!l->ended && !log_has_failed(l)) {
		if (!l->switching && ahead_due(l)) {
			ahead_fill(l);
		} else if (drop_one(l)) {
			retry_ns = 0; /* there may be room now */
		} else if (l->next) {
			pthread_cond_wait(&l->chores, &l->lock);
		} else if (time_now_ns() < retry_ns) {
			log_wait_until(l, &l->chores, retry_ns);
		} else if (!make_next(l)) {
			retry_ns = time_now_ns() + RETRY_NS;
		}
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}
