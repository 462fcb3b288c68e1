/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Snapshots in the directory: which there are, and reading one. Changes nothing. kv-inspect's
 * too. */
#include "common/layout/snapshot_format.h"
#include "server/log/io.h"

struct snapshot_info {
	char name[48]; /* "snapshot/....snap" */
	uint64_t bytes; /* of the file */
	struct snapshot_head head;
	struct snapshot_foot foot; /* all zero where the snapshot is not complete */
	const char *why; /* NULL: complete, by its head and foot; else what is wrong, static text */
	uint64_t offset; /* where that is */
};

/* snapshot_list - all there are, newest first (by foot.start), at most @max. Returns how many, or a
 * negative errno with @err. */
int snapshot_list(const struct log_io *io, struct snapshot_info *out, unsigned max,
		  struct error *err);

struct snapshot_reader {
	int (*record)(void *ctx, const struct snapshot_record *r); /* 0: go on */
	int (*client)(void *ctx, const struct snapshot_client *c);
	int (*chunk)(void *ctx, uint64_t offset, const struct snapshot_chunk *c); /* may be NULL */
	void *ctx;
};

/* snapshot_read - all of it, each chunk checked before its items are given out. Returns 0; what a
 * callback returned; -EUCLEAN with @err: file, offset, and what is wrong. */
int snapshot_read(const struct log_io *io, const struct snapshot_info *s,
		  const struct snapshot_reader *reader, struct error *err);
