/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Private to io_kernel.c and io_durable.c: the kernel's files. */
#include <pthread.h>
#include <stdbool.h>

#include <liburing.h>

#include "server/log/io.h"

/* Ways to write and sync. */
enum durable_how {
	DURABLE_PLAIN, /* pwrite(), then fdatasync() */
	DURABLE_DSYNC, /* pwritev2() with RWF_DSYNC */
	DURABLE_URING, /* both in one call: a write and a sync that is linked to it */
	DURABLE_HOWS,
};

struct durable_way {
	enum durable_how how;
	bool direct; /* O_DIRECT, where it is aligned */
};

struct kernel_dir {
	int fd; /* of the data directory */
	int lock_fd; /* -1: it is not ours to write */
	char *path;
	struct durable_way way;
	/* One thread at a time uses the ring: the log's, and now and then another. */
	pthread_mutex_t ring_lock;
	struct io_uring ring;
	bool has_ring;
};

struct log_file {
	struct kernel_dir *dir;
	int fd;
	int direct_fd; /* the same file, O_DIRECT; -1: it cannot be had */
};

/* kernel_write, kernel_write_cached - all of it, whatever pieces the kernel takes. 0 or a negative
 * errno. */
int kernel_write(struct log_file *f, const void *buf, size_t len, uint64_t offset);
int kernel_write_cached(struct log_file *f, const void *buf, size_t len, uint64_t offset);

/* kernel_write_durable - by the directory's way. */
int kernel_write_durable(struct log_file *f, const void *buf, size_t len, uint64_t offset);

/* durable_begin, durable_end - the ring, where the kernel has one for us. */
void durable_begin(struct kernel_dir *d);
void durable_end(struct kernel_dir *d);
