/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * All that the log does to a disk, as a table of functions: the kernel's (io_kernel.c), or in tests
 * a disk in memory that can lose what was not synced, and fail.
 *
 * Names are relative to the data directory: "meta", "log/0000000000000000.log". All functions may
 * be called by any thread; of one file, by one at a time, except that sync() may run beside
 * write(): it covers what was written before it began, and that two may write it where their ranges
 * are apart. They sleep. 0 or a negative errno, where
 * nothing else is said. What write() or preallocate() has changed is durable after sync() of that
 * file, or after write_durable(); which names there are, after sync_dir() of their folder.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

struct log_file; /* open; of its table */

enum log_open {
	LOG_OPEN_READ, /* it is there */
	LOG_OPEN_NEW, /* made, empty; one of that name is emptied */
	LOG_OPEN_WRITE, /* it is there, and written */
};

struct log_io {
	void *ctx;
	/* write_durable() is faster where zeroes were written before than where room was only
	 * preallocated. Stands before log_open(). */
	bool zeroes_pay;
	int (*open)(void *ctx, const char *name, enum log_open how, struct log_file **out);
	void (*close)(struct log_file *f);
	/* Room on the disk for the file's first @bytes, which read as zeroes where not written. It
	 * is @bytes long then. -ENOSPC, -EDQUOT: there is none, and nothing else is wrong. */
	int (*preallocate)(struct log_file *f, uint64_t bytes);
	/* All of it, at @offset. Where @offset, @len and @buf are multiples of LOG_BLOCK the file's
	 * blocks are written directly, where they can be. */
	int (*write)(struct log_file *f, const void *buf, size_t len, uint64_t offset);
	/* The same into the kernel's memory, which outlives the process; it waits for the disk
	 * where the kernel has too much for it. */
	int (*write_cached)(struct log_file *f, const void *buf, size_t len, uint64_t offset);
	int (*sync)(struct log_file *f);
	/* write() and sync() of what it wrote, as fast as the disk does both. */
	int (*write_durable)(struct log_file *f, const void *buf, size_t len, uint64_t offset);
	/* Returns how many bytes came, less than @len at the end of the file only. */
	int64_t (*read)(struct log_file *f, void *buf, size_t len, uint64_t offset);
	int64_t (*size)(struct log_file *f);
	int (*rename)(void *ctx, const char *from, const char *to); /* in place of @to */
	int (*unlink)(void *ctx, const char *name); /* -ENOENT is 0 */
	int (*make_dir)(void *ctx, const char *name); /* -EEXIST is 0 */
	int (*sync_dir)(void *ctx, const char *name); /* "": the data directory */
	/* Calls @each with every file's name in folder @name, in any order; stops where it returns
	 * another value than 0, and returns that. */
	int (*list)(void *ctx, const char *name, int (*each)(void *arg, const char *file),
		    void *arg);
};

/*
 * log_io_kernel - the directory at @path, and its lock, which keeps others out until
 * log_io_kernel_close(). @writes: it is made where there is none, not its parents; false: nothing
 * in it will be changed (and no lock file is made).
 * -EBUSY: a server has it, whose process id @err names. @err says in any case what to do.
 */
int log_io_kernel(struct log_io *out, const char *path, bool writes, struct error *err);
void log_io_kernel_close(struct log_io *io);

/*
 * log_io_kernel_measure - which way to write and sync is the fastest on this disk, and whether
 * zeroes pay: tries each a few times on a file of its own, and takes it from then on. @said: in
 * words, for the log, with the figure and the file system's name (that of one in memory, or on the
 * network, says so).
 */
int log_io_kernel_measure(struct log_io *io, char said[256], struct error *err);
