/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A snapshot is complete where its HEAD and its FOOT are right and name each other. What lies
 * between them is checked when it is read: a chunk's items are given out only after the checksum of
 * all of it was right, and the FOOT's counts must be those of what was read.
 */
#include "server/log/snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_USUAL (1u << 20) /* of the buffer, to begin with */

/* An open snapshot, and the chunk that was read last. */
struct source {
	const struct snapshot_info *info;
	struct log_file *file;
	const struct log_io *io;
	uint8_t *buffer;
	uint64_t room; /* of the buffer */
};

static int source_wrong(const struct source *in, uint64_t offset, const char *why,
			struct error *err)
{
	return error_set(err, -EUCLEAN,
			 "%s is corrupt at offset %" PRIu64 ": %s (kv-inspect snapshot shows all "
			 "of them; what it held is in the log from an older snapshot on, if there "
			 "is one)",
			 in->info->name, offset, why);
}

static int source_failed(const struct source *in, uint64_t offset, int rc, struct error *err)
{
	return error_set(err, rc, "reading %s at offset %" PRIu64 " failed: %s (look at the disk)",
			 in->info->name, offset, error_name(rc));
}

/* Read exactly @len bytes at @offset into the buffer, from @at on. */
static int source_fill(struct source *in, uint64_t at, uint64_t len, uint64_t offset,
		       struct error *err)
{
	int64_t got = in->io->read(in->file, in->buffer + at, len, offset);

	if (got < 0)
		return source_failed(in, offset, (int)got, err);
	if ((uint64_t)got < len)
		return source_wrong(in, offset + (uint64_t)got, "the file ends there", err);
	return 0;
}

static int source_grow(struct source *in, uint64_t room, struct error *err)
{
	uint8_t *grown;

	if (room <= in->room)
		return 0;
	grown = aligned_alloc(SNAPSHOT_BLOCK, room);
	if (!grown)
		return error_set(err, -ENOMEM,
				 "out of memory: %" PRIu64 " bytes for a chunk of "
				 "%s (free some memory and start again)",
				 room, in->info->name);
	if (in->room)
		memcpy(grown, in->buffer, SNAPSHOT_BLOCK);
	free(in->buffer);
	in->buffer = grown;
	in->room = room;
	return 0;
}

/* The chunk at @offset, number @number, whole and right. @identity: 0 for HEAD. */
static int source_chunk(struct source *in, uint64_t offset, uint64_t identity, uint32_t number,
			const struct snapshot_chunk **out, struct error *err)
{
	const struct snapshot_chunk *c = (const struct snapshot_chunk *)in->buffer;
	uint64_t bytes;
	const char *why;
	int rc = source_fill(in, 0, SNAPSHOT_BLOCK, offset, err);

	if (rc)
		return rc;
	bytes = snapshot_chunk_bytes(c->bytes);
	if (bytes > SNAPSHOT_CHUNK_MAX || bytes > in->info->bytes - offset)
		return source_wrong(in, offset, "the chunk is longer than there can be", err);
	rc = source_grow(in, bytes, err);
	if (rc == 0 && bytes > SNAPSHOT_BLOCK)
		rc = source_fill(in, SNAPSHOT_BLOCK, bytes - SNAPSHOT_BLOCK,
				 offset + SNAPSHOT_BLOCK, err);
	if (rc)
		return rc;
	rc = snapshot_chunk_decode(in->buffer, bytes, identity, number, out, &why);
	return rc ? source_wrong(in, offset, why, err) : 0;
}

static int source_open(struct source *in, const struct log_io *io, const struct snapshot_info *s,
		       struct error *err)
{
	int rc;

	*in = (struct source){ .info = s, .io = io };
	rc = source_grow(in, CHUNK_USUAL, err);
	if (rc == 0) {
		rc = io->open(io->ctx, s->name, LOG_OPEN_READ, &in->file);
		if (rc)
			error_set(err, rc, "opening %s failed: %s (make it readable)", s->name,
				  error_name(rc));
	}
	return rc;
}

static void source_close(struct source *in)
{
	if (in->file)
		in->io->close(in->file);
	free(in->buffer);
}

static const char *take_head(struct source *in, struct snapshot_info *s, uint64_t *identity)
{
	const struct snapshot_chunk *c;

	s->offset = 0;
	if (s->bytes < 2 * SNAPSHOT_BLOCK)
		return "the file is too short";
	if (source_chunk(in, 0, 0, 0, &c, NULL))
		return "its first chunk is wrong";
	if (c->kind != SNAPSHOT_HEAD || c->bytes != sizeof(s->head))
		return "its first chunk is no HEAD";
	memcpy(&s->head, c + 1, sizeof(s->head));
	*identity = c->identity;
	return NULL;
}

/* The last block of the file. */
static const char *take_foot(struct source *in, struct snapshot_info *s, uint64_t identity)
{
	const struct snapshot_chunk *c = (const struct snapshot_chunk *)in->buffer;
	uint32_t number;

	s->offset = s->bytes - SNAPSHOT_BLOCK;
	if (source_fill(in, 0, SNAPSHOT_BLOCK, s->offset, NULL))
		return "its last block cannot be read";
	number = c->number;
	if (s->bytes % SNAPSHOT_BLOCK || source_chunk(in, s->offset, identity, number, &c, NULL) ||
	    c->kind != SNAPSHOT_FOOT || c->bytes != sizeof(s->foot))
		return "it has no FOOT: it was never finished";
	memcpy(&s->foot, c + 1, sizeof(s->foot));
	if (s->foot.chunks != (uint64_t)number + 1 || s->foot.start != s->head.start ||
	    s->foot.end < s->foot.start) {
		memset(&s->foot, 0, sizeof(s->foot));
		return "its FOOT and the rest of it disagree";
	}
	s->offset = 0;
	return NULL;
}

static int look(const struct log_io *io, struct snapshot_info *s, struct error *err)
{
	uint64_t identity = 0, position;
	struct source in;
	int64_t size;
	int rc = source_open(&in, io, s, err);

	if (rc == 0) {
		size = io->size(in.file);
		rc = size < 0 ? source_failed(&in, 0, (int)size, err) : 0;
		s->bytes = size < 0 ? 0 : (uint64_t)size;
	}
	if (rc == 0) {
		s->why = take_head(&in, s, &identity);
		if (!s->why)
			s->why = take_foot(&in, s, identity);
		if (!s->why && (sscanf(s->name, "snapshot/%16" SCNx64, &position) != 1 ||
				position != s->foot.start))
			s->why = "its name is not its position";
	}
	source_close(&in);
	return rc;
}

struct names {
	struct snapshot_info *out;
	unsigned count, max;
};

#define NAME_DIGITS 16u

static int take_name(void *arg, const char *file)
{
	struct names *n = arg;

	if (strspn(file, "0123456789abcdef") != NAME_DIGITS ||
	    strcmp(file + NAME_DIGITS, ".snap") != 0)
		return 0;
	if (n->count == n->max)
		return -E2BIG;
	n->out[n->count] = (struct snapshot_info){ 0 };
	snprintf(n->out[n->count].name, sizeof(n->out->name), "snapshot/%.21s", file);
	n->count++;
	return 0;
}

/* Newest first. The names are positions in hexadecimal digits, and all of one length. */
static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct snapshot_info *)b)->name,
		      ((const struct snapshot_info *)a)->name);
}

int snapshot_list(const struct log_io *io, struct snapshot_info *out, unsigned max,
		  struct error *err)
{
	struct names names = { .out = out, .max = max };
	int rc = io->list(io->ctx, "snapshot", take_name, &names);

	if (rc == -E2BIG)
		return error_set(err, rc,
				 "there are more than %u snapshots in snapshot/ (a server leaves "
				 "two: move the oldest away)",
				 max);
	if (rc == -ENOENT)
		return 0;
	if (rc)
		return error_set(err, rc, "listing snapshot/ failed: %s (make it readable)",
				 error_name(rc));
	qsort(out, names.count, sizeof(*out), by_name);
	for (unsigned i = 0; i < names.count; i++) {
		rc = look(io, &out[i], err);
		if (rc)
			return rc;
	}
	return (int)names.count;
}

struct counts {
	uint64_t records, clients;
};

static int give_records(const struct source *in, uint64_t offset, const struct snapshot_chunk *c,
			const struct snapshot_reader *reader, struct error *err)
{
	uint32_t at = 0;
	const char *why;

	for (uint32_t i = 0; i < c->items; i++) {
		const struct snapshot_record *r;
		int rc = snapshot_record_decode(c + 1, c->bytes, at, &r, &at, &why);

		if (rc)
			return source_wrong(in, offset, why, err);
		rc = reader->record ? reader->record(reader->ctx, r) : 0;
		if (rc)
			return rc;
	}
	return at == c->bytes ? 0 : source_wrong(in, offset, "it has more than its items", err);
}

static int give_clients(const struct source *in, uint64_t offset, const struct snapshot_chunk *c,
			const struct snapshot_reader *reader, struct error *err)
{
	uint32_t at = 0;
	const char *why;

	for (uint32_t i = 0; i < c->items; i++) {
		const struct snapshot_client *item;
		int rc = snapshot_client_decode(c + 1, c->bytes, at, &item, &at, &why);

		if (rc)
			return source_wrong(in, offset, why, err);
		rc = reader->client ? reader->client(reader->ctx, item) : 0;
		if (rc)
			return rc;
	}
	return at == c->bytes ? 0 : source_wrong(in, offset, "it has more than its items", err);
}

/* One chunk that was read and is right. */
static int give(const struct source *in, uint64_t offset, const struct snapshot_chunk *c,
		const struct snapshot_reader *reader, struct counts *counts, struct error *err)
{
	int rc = reader->chunk ? reader->chunk(reader->ctx, offset, c) : 0;

	if (rc)
		return rc;
	if (c->kind == SNAPSHOT_RECORDS) {
		counts->records += c->items;
		return give_records(in, offset, c, reader, err);
	}
	if (c->kind == SNAPSHOT_CLIENTS) {
		counts->clients += c->items;
		return give_clients(in, offset, c, reader, err);
	}
	return 0;
}

static int read_all(struct source *in, const struct snapshot_reader *reader, struct error *err)
{
	const struct snapshot_foot *foot = &in->info->foot;
	uint64_t offset = 0, identity = 0;
	struct counts counts = { 0, 0 };

	for (uint64_t number = 0; number < foot->chunks; number++) {
		const bool last = number + 1 == foot->chunks;
		const struct snapshot_chunk *c;
		int rc = source_chunk(in, offset, identity, (uint32_t)number, &c, err);

		if (rc)
			return rc;
		if ((c->kind == SNAPSHOT_HEAD) != (number == 0) ||
		    (c->kind == SNAPSHOT_FOOT) != last)
			return source_wrong(in, offset, "a chunk stands where it does not belong",
					    err);
		identity = c->identity;
		rc = give(in, offset, c, reader, &counts, err);
		if (rc)
			return rc;
		offset += snapshot_chunk_bytes(c->bytes);
	}
	if (counts.records != foot->records || counts.clients != foot->clients ||
	    offset != in->info->bytes)
		return source_wrong(in, offset, "its FOOT counts other items than there are", err);
	return 0;
}

int snapshot_read(const struct log_io *io, const struct snapshot_info *s,
		  const struct snapshot_reader *reader, struct error *err)
{
	struct source in;
	int rc = source_open(&in, io, s, err);

	if (rc == 0 && s->why)
		rc = source_wrong(&in, s->offset, s->why, err);
	if (rc == 0)
		rc = read_all(&in, reader, err);
	source_close(&in);
	return rc;
}
