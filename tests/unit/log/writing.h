/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A log that is written on a disk in memory, records that say whose they are, and reading them. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/time.h"
#include "server/log/log.h"
#include "server/log/read.h"
#include "tests/lib/sim_disk.h"

#define MIB	(1ull << 20)
#define WRITERS 4u
/* A test that waits longer has failed, as one with a mutant is to. */
#ifdef GRACEKV_MUTANTS
#define LONG_TIME_NS (10 * NS_PER_S)
#else
#define LONG_TIME_NS (30 * NS_PER_S)
#endif

struct writing {
	struct sim_disk *disk;
	const struct log_io *io;
	struct log *log;
	_Atomic unsigned failures; /* calls of failed() */
	char why[512]; /* of the last one */
};

uint64_t writing_clock(void *ctx);
void writing_failed(void *ctx, const char *why);

/* writing_disk - a disk with the folders of a data directory. */
void writing_disk(struct writing *w);
/* writing_open - a log from @first on, of 64 MiB segments. */
void writing_open(struct writing *w, enum log_sync sync, unsigned sync_ms, uint64_t first);
/* writing_open_mirrored - from 0 on, with a mirror, and without a disk where w->io is NULL. */
void writing_open_mirrored(struct writing *w, enum log_sync sync, unsigned sync_ms,
			   const struct log_mirror *mirror);
/* writing_over - the log is closed, with @rc, and the disk gone. */
void writing_over(struct writing *w, int rc);

/*
 * append - record @count of writer @writer, with a value of @value_len bytes. try_append() returns
 * what log_append_begin() did; append() comes again while that is -EBUSY, and returns where it
 * ends. try_put() kicks nobody.
 */
int try_put(struct log *l, unsigned writer, uint64_t count, uint32_t value_len, uint64_t *end);
int try_append(struct log *l, unsigned writer, uint64_t count, uint32_t value_len, uint64_t *end);
uint64_t append(struct log *l, unsigned writer, uint64_t count, uint32_t value_len);

/* await - until log_committed() has reached it. */
void await_committed(struct log *l, uint64_t position);

/*
 * read_back - the log on @io from @from on: whole, each record right, those of each writer in their
 * order, from record 0 on. @counts: how many of each.
 */
void read_back(const struct log_io *io, uint64_t from, uint64_t counts[WRITERS]);
