/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Reading the log of lives that are over: for recovery, checks and kv-inspect. Changes nothing.
 *
 * WHERE IT ENDS. Segments follow each other by their positions. A segment that has a successor is
 * read up to the successor's first position, and nothing behind that counts: the log was cut there.
 * All below the successor's first position was durable, as was all below the `durable` of each
 * batch and header, up to the successor's first position. So with D, the greatest of these,
 *	what is wrong below D is corruption: -EUCLEAN, with file and offset;
 *	what is wrong from D on ends the log, there.
 * What is right from D on may be in the page cache only, or was left by a failed sync: who goes on
 * from here writes it again (log_config.tail).
 */
#include <stdint.h>

#include "common/base/error.h"
#include "common/layout/log_format.h"
#include "server/log/io.h"

struct log_segment_info {
	uint64_t first; /* position */
	uint64_t identity, life, durable, clock_ms;
	uint64_t bytes; /* of the file */
	/* Of the last segment, and where log_survey_look() found it, of all: */
	uint64_t behind; /* position behind its last record that counts */
	uint64_t batches, records; /* in it, that count */
	char name[48];
};

struct log_survey {
	struct log_segment_info *segment; /* by position; owned */
	unsigned segments;
	uint64_t first, end; /* positions: of the oldest record; behind the last */
	uint64_t durable; /* D */
	uint64_t clock_ms; /* the latest of all headers */
	uint64_t life; /* the greatest */
	/* Where the log ends before the last file does, but for zeroes: that place, and why; else
	 * end_why is NULL. */
	char end_name[48];
	uint64_t end_offset;
	const char *end_why; /* static text */
	/* A last file that has a segment's name and no header: nothing was in it. Empty: none. */
	char torn[48];
};

/*
 * log_survey_make - look at the headers of segments, and at all of the last segment. Records before
 * are checked by log_read(). @store: the directory's identity; NULL: any.
 * Returns 0, also where there is no segment; -EUCLEAN: corrupt; -EXDEV: a segment is of another
 * directory; others as they come from the disk. @err says which file, where, and what can be done.
 * log_survey_look - the same for people, with the headers of all batches, which takes as long as
 * reading the log does. Where it fails, *out has what was found until then, and log_survey_free()
 * is due. Of a corrupt last segment, out->end is how far it is whole.
 */
int log_survey_look(struct log_survey *out, const struct log_io *io, const uint64_t store[2],
		    struct error *err);
int log_survey_make(struct log_survey *out, const struct log_io *io, const uint64_t store[2],
		    struct error *err);
void log_survey_free(struct log_survey *s);

/*
 * log_read - each record from position @from on, up to @to, in order: whole batches are read, every
 * record is checked, and those below @from are left out. @each gets a record that is valid during
 * the call; it returns 0 to go on. @batch: called before the first record of each batch, may be
 * NULL. Returns 0; what @each returned; -EUCLEAN and others as above, also where @from is not there
 * any more.
 */
struct log_reader {
	int (*each)(void *ctx, const struct log_record *r);
	int (*batch)(void *ctx, const struct log_segment_info *s, uint64_t offset,
		     const struct log_batch_header *b);
	void *ctx;
};

int log_read(const struct log_survey *s, const struct log_io *io, uint64_t from, uint64_t to,
	     const struct log_reader *reader, struct error *err);
