/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Segments that a test writes by hand, on a disk in memory, and what a reader makes of them. */
#include "common/layout/log_format.h"
#include "server/log/log.h"
#include "server/log/read.h"
#include "tests/lib/sim_disk.h"
#include "tests/lib/unit.h"

/* A segment that is being written. */
struct seg {
	struct sim_disk *d;
	char name[48];
	uint64_t identity;
	uint64_t position; /* of the next record */
	uint64_t offset; /* of the next batch */
	uint64_t batch_at; /* offset of the last one */
	uint64_t clock_ms; /* of the last header */
};

#define SEG_STORE          \
	{                  \
		0x51, 0x52 \
	}

/* seg_begin - a segment with its header, of 1000 ms a life; the file is made. */
struct seg seg_begin(struct sim_disk *d, uint64_t first, uint64_t life, uint64_t durable);

/* seg_batch - @records records, numbered by *@number, which it counts on; 1 ms later. */
void seg_batch(struct seg *s, unsigned records, uint64_t *number, uint64_t durable);

/* seg_flip - turns a bit of the file. */
void seg_flip(struct sim_disk *d, const char *name, uint64_t offset);

/* seg_record_bytes - of record @number; seg_record - the record itself, at @position. */
uint32_t seg_record_bytes(uint64_t number);
void seg_record(struct log_record *r, uint64_t number, uint64_t position, uint64_t identity);

/* seg_entry - what a writer is given for record @number; its key and value are static, until the
 * next call. */
struct log_entry seg_entry(uint64_t number);

/* seg_number - that of a record, whose contents must be those of seg_record(). */
uint64_t seg_number(const struct log_record *r);

/* What log_read() found. */
struct found {
	uint64_t number[4096], position[4096];
	unsigned count;
	uint64_t behind; /* position behind the last */
};

/*
 * found_read - survey and read all from @from on. Positions that do not follow each other make it
 * fail with -ERANGE. @survey: filled, to be freed, where 0 is returned; may be NULL.
 */
int found_read(struct found *out, struct sim_disk *d, uint64_t from, struct log_survey *survey,
	       struct error *err);
