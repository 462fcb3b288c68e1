/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/log/walk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The window: a piece behind what is asked for, which may be a record and begin within a block. */
#define WINDOW_BYTES (WALK_PIECE + LOG_RECORD_MAX + 2 * LOG_BLOCK)

int walk_open(struct log_walk *w, const struct log_io *io, const char *name)
{
	int64_t size;
	int rc;

	*w = (struct log_walk){ .io = io, .name = name };
	rc = io->open(io->ctx, name, LOG_OPEN_READ, &w->file);
	if (rc)
		return rc;
	size = io->size(w->file);
	if (size < 0)
		return (int)size;
	/* No more than the file has: there may be many small ones. */
	w->window_room = (uint64_t)size < WINDOW_BYTES ? (uint64_t)size + LOG_BLOCK : WINDOW_BYTES;
	w->window_room &= ~(uint64_t)(LOG_BLOCK - 1);
	w->window = aligned_alloc(LOG_BLOCK, w->window_room);
	return w->window ? 0 : -ENOMEM;
}

void walk_close(struct log_walk *w)
{
	if (w->file)
		w->io->close(w->file);
	free(w->window);
	w->file = NULL;
	w->window = NULL;
}

void walk_start(struct log_walk *w, uint64_t identity, uint64_t first)
{
	w->identity = identity;
	w->position = first;
	w->next = LOG_BLOCK;
	w->at = w->end = LOG_BLOCK;
	w->records = 0;
	w->why = NULL;
}

/* The window begins at @from, a multiple of LOG_BLOCK, and keeps what it has from there on. */
static void window_move(struct log_walk *w, uint64_t from)
{
	uint64_t end = w->window_at + w->window_len;

	if (from >= w->window_at && from < end) {
		w->window_len = end - from;
		memmove(w->window, w->window + (from - w->window_at), w->window_len);
	} else {
		w->window_len = 0;
	}
	w->window_at = from;
}

/* Read on until it has @len bytes, whole pieces at a time, or the file ends. */
static int window_fill(struct log_walk *w, uint64_t len)
{
	while (w->window_len < len) {
		uint64_t end = w->window_at + w->window_len;
		uint64_t want =
			((len - w->window_len + WALK_PIECE - 1) & ~(uint64_t)(WALK_PIECE - 1));
		uint64_t room = w->window_room - w->window_len;
		int64_t got = w->io->read(w->file, w->window + w->window_len,
					  want < room ? want : room, end);

		if (got <= 0)
			return (int)got;
		w->window_len += (uint64_t)got;
	}
	return 0;
}

int64_t walk_bytes(struct log_walk *w, uint64_t offset, uint64_t len, const uint8_t **out)
{
	uint64_t have;
	int rc;

	if (offset < w->window_at || offset + len > w->window_at + w->window_len) {
		window_move(w, offset & ~(uint64_t)(LOG_BLOCK - 1));
		rc = window_fill(w, offset - w->window_at + len);
		if (rc)
			return rc;
	}
	*out = w->window + (offset - w->window_at);
	have = w->window_at + w->window_len;
	if (have <= offset)
		return 0;
	return (int64_t)(have - offset < len ? have - offset : len);
}

static int wrong(struct log_walk *w, uint64_t offset, const char *why)
{
	w->why = why;
	w->bad = offset;
	return -EINVAL;
}

static bool is_zero(const uint8_t *p, int64_t len)
{
	for (int64_t i = 0; i < len; i++) {
		if (p[i])
			return false;
	}
	return true;
}

int walk_batch(struct log_walk *w)
{
	const struct log_batch_header *h;
	const uint8_t *p;
	const char *why;
	int64_t got = walk_bytes(w, w->next, sizeof(*h), &p);

	if (got < 0)
		return (int)got;
	w->bad = w->next;
	if (is_zero(p, got))
		return -ENODATA;
	if (log_batch_decode(p, (uint64_t)got, w->identity, &h, &why))
		return wrong(w, w->next, why);
	if (h->position != w->position)
		return wrong(w, w->next, "the batch has another position than the log");
	w->batch = *h;
	w->at = w->next + sizeof(*h);
	w->end = w->at + h->bytes;
	w->records = h->records;
	w->next += log_batch_bytes(h->bytes);
	return 0;
}

int walk_record(struct log_walk *w, const struct log_record **out)
{
	uint64_t left = w->end - w->at;
	const char *why;
	const uint8_t *p;
	int64_t got;
	uint32_t length;

	if (!left)
		return w->records ? wrong(w, w->at, "the batch has fewer records than it says")
				  : -ENODATA;
	if (!w->records)
		return wrong(w, w->at, "the batch has more records than it says");
	got = walk_bytes(w, w->at, left < LOG_RECORD_BYTES ? left : LOG_RECORD_BYTES, &p);
	if (got < 0)
		return (int)got;
	if (got == (int64_t)LOG_RECORD_BYTES) {
		length = ((const struct log_record *)(const void *)p)->length;
		if (length > LOG_RECORD_BYTES && length <= LOG_RECORD_MAX && length <= left)
			got = walk_bytes(w, w->at, length, &p);
		if (got < 0)
			return (int)got;
	}
	if (log_record_decode(p, (uint64_t)got, w->identity, w->position, out, &why))
		return wrong(w, w->at, why);
	w->at += (*out)->length;
	w->position += (*out)->length;
	w->records--;
	return 0;
}

void walk_skip(struct log_walk *w)
{
	w->position += w->end - w->at;
	w->at = w->end;
	w->records = 0;
}

int walk_failed(const struct log_walk *w, int rc, struct error *err)
{
	return error_set(err, rc, "%s of the data directory cannot be read: %s", w->name,
			 error_name(rc));
}

int walk_corrupt(const char *name, uint64_t offset, uint64_t position, const char *why,
		 struct error *err)
{
	return error_set(
		err, -EUCLEAN,
		"%s of the data directory is corrupt at offset %" PRIu64
		": %s; what stands there was durable, so the disk has lost it. Restore the "
		"directory from a copy; or look at it with `kv-inspect log DIR`, and start "
		"kv-server with `--recover-until %" PRIu64
		"`, which gives up everything that was written from that position on",
		name, offset, why, position);
}
