/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A walk over one segment: its batches, and their records, one after the other. The file is read in
 * pieces of WALK_PIECE; no more than that and a record is in memory. One thread.
 */
#include "server/log/read.h"

#define WALK_PIECE (1u << 20)

struct log_walk {
	const struct log_io *io;
	struct log_file *file; /* NULL: not open */
	const char *name; /* of the file */
	uint64_t identity;
	uint64_t position; /* of the record that is due */
	uint64_t next; /* offset of the batch that is due */
	struct log_batch_header batch; /* the one that the walk is in */
	uint64_t at, end; /* offsets: of the record that is due, behind the batch's records */
	uint32_t records; /* of the batch, still due */
	/* What is wrong where a call returned -EINVAL, and the offset. */
	const char *why;
	uint64_t bad;
	uint8_t *
		window; /* bytes of the file from @window_at on, which is a multiple of LOG_BLOCK */
	uint64_t window_at, window_len, window_room;
};

/*
 * walk_open - the segment's file, at no batch yet. walk_close() is right in any case, if *w was
 * zero before. -ENOMEM, or as the disk says.
 * walk_start - go to its first batch.
 */
int walk_open(struct log_walk *w, const struct log_io *io, const char *name);
void walk_close(struct log_walk *w);
void walk_start(struct log_walk *w, uint64_t identity, uint64_t first);

/*
 * walk_bytes - *out: @len bytes at @offset, aligned as @offset, until the next call. @len: at most
 * LOG_RECORD_MAX. Returns how many are there, or a negative errno.
 */
int64_t walk_bytes(struct log_walk *w, uint64_t offset, uint64_t len, const uint8_t **out);

/*
 * walk_batch - to the next batch, whatever was left of this one; w->batch is its header then.
 * Returns 0; -ENODATA: there are zeroes in its place, or the file ends; -EINVAL: it is wrong;
 * others as the disk says.
 * walk_record - the next record of the batch. -ENODATA: the batch was right, and is over.
 * walk_skip - all records of the batch, unseen.
 */
int walk_batch(struct log_walk *w);
int walk_record(struct log_walk *w, const struct log_record **out);
void walk_skip(struct log_walk *w);

/* walk_failed - puts into words that the disk returned @rc. Returns it. */
int walk_failed(const struct log_walk *w, int rc, struct error *err);

/* walk_corrupt - -EUCLEAN: @why at @offset of the file @name; the log is whole below @position. */
int walk_corrupt(const char *name, uint64_t offset, uint64_t position, const char *why,
		 struct error *err);
