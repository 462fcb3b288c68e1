/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A data directory that no server has open, as `log` and `snapshot` look at it. One thread. */
#include "server/log/io.h"
#include "server/log/meta.h"
#include "server/log/read.h"
#include "tools/kv-inspect/tool.h"

/* What the command line says of it. */
struct disk_options {
	bool records, verify;
	uint64_t from, cut; /* positions; UINT64_MAX: not given */
};

struct disk {
	struct log_io io;
	struct data_meta meta; /* all zero where it cannot be read */
	const uint64_t *store; /* identity of the directory; NULL: not known, any is taken */
	char path[4096];
};

/*
 * disk_open - read only: not even a lock file is made. What it tells about meta goes to t->doc.
 * Returns TOOL_GOOD; TOOL_NO: meta is corrupt, which is said; TOOL_FAILED after a line on stderr,
 * and there is nothing to close then.
 */
int disk_open(struct disk *d, struct tool *t, const char *path);
void disk_close(struct disk *d);

/* disk_head - lines about the directory, for people. */
void disk_head(const struct tool *t);

/* disk_failed - a line on stderr. Returns TOOL_NO where the directory is at fault, else
 * TOOL_FAILED. */
int disk_failed(const struct tool *t, const char *what, int rc, const struct error *err);

/* disk_time - ms since 1970 as a date, or null. */
json_t *disk_time(uint64_t ms);

/*
 * disk_records - t->disk->records, verify and cut: what log_read() finds. @whole: s->end is where
 * the log ends; else it is where something is wrong. Returns enum tool_exit.
 */
int disk_records(struct tool *t, const struct disk *d, const struct log_survey *s, bool whole);
