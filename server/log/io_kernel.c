/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The log's table of functions over the kernel's files, and the lock of a data directory. */
#include "server/log/io_kernel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_NAME    "LOCK"
#define ZEROES_BYTES (256u << 10)

static int result(int rc)
{
	return rc < 0 ? -errno : 0;
}

static int io_open(void *ctx, const char *name, enum log_open how, struct log_file **out)
{
	static const int flags[] = {
		[LOG_OPEN_READ] = O_RDONLY,
		[LOG_OPEN_NEW] = O_RDWR | O_CREAT | O_TRUNC,
		[LOG_OPEN_WRITE] = O_RDWR,
	};
	struct kernel_dir *d = ctx;
	struct log_file *f = calloc(1, sizeof(*f));
	struct stat st;
	int rc;

	if (!f)
		return -ENOMEM;
	f->dir = d;
	f->direct_fd = -1;
	/* O_NONBLOCK: to open a FIFO would wait for its other end */
	f->fd = openat(d->fd, name, flags[how] | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (f->fd < 0 || fstat(f->fd, &st) || !S_ISREG(st.st_mode)) {
		rc = f->fd < 0 ? -errno : -EINVAL; /* not a file */
		if (f->fd >= 0)
			close(f->fd);
		free(f);
		return rc;
	}
	if (how != LOG_OPEN_READ)
		f->direct_fd = openat(d->fd, name, O_WRONLY | O_DIRECT | O_CLOEXEC | O_NOFOLLOW);
	*out = f;
	return 0;
}

static void io_close(struct log_file *f)
{
	if (f->direct_fd >= 0)
		close(f->direct_fd);
	close(f->fd);
	free(f);
}

static int io_sync(struct log_file *f)
{
	return result(fsync(f->fd));
}

/* Where the file system cannot reserve blocks (NFS before 4.2, 9P): zeroes, in large pieces, and
 * synced, as such a file system may say only then that there is no room. posix_fallocate() would
 * write a byte to each block, one call for every 4 KiB, and not sync them. */
static int fill_with_zeroes(struct log_file *f, uint64_t bytes)
{
	static const char zeroes[ZEROES_BYTES];
	int rc = 0;

	for (uint64_t at = 0; at < bytes && !rc; at += ZEROES_BYTES) {
		const uint64_t left = bytes - at;

		rc = kernel_write(f, zeroes, left < ZEROES_BYTES ? left : ZEROES_BYTES, at);
	}
	return rc ? rc : io_sync(f);
}

static int io_preallocate(struct log_file *f, uint64_t bytes)
{
	int rc;

	do
		rc = result(fallocate(f->fd, 0, 0, (off_t)bytes));
	while (rc == -EINTR);
	return rc == -EOPNOTSUPP ? fill_with_zeroes(f, bytes) : rc;
}

static int64_t io_read(struct log_file *f, void *buf, size_t len, uint64_t offset)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(f->fd, (char *)buf + done, len - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (int64_t)done;
}

static int64_t io_size(struct log_file *f)
{
	struct stat st;

	return fstat(f->fd, &st) ? -errno : st.st_size;
}

static int io_rename(void *ctx, const char *from, const char *to)
{
	const struct kernel_dir *d = ctx;

	return result(renameat(d->fd, from, d->fd, to));
}

static int io_unlink(void *ctx, const char *name)
{
	const struct kernel_dir *d = ctx;

	return unlinkat(d->fd, name, 0) && errno != ENOENT ? -errno : 0;
}

static int io_make_dir(void *ctx, const char *name)
{
	const struct kernel_dir *d = ctx;

	return mkdirat(d->fd, name, 0700) && errno != EEXIST ? -errno : 0;
}

static int open_dir(const struct kernel_dir *d, const char *name)
{
	return openat(d->fd, *name ? name : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int io_sync_dir(void *ctx, const char *name)
{
	int fd = open_dir(ctx, name), rc;

	if (fd < 0)
		return -errno;
	rc = result(fsync(fd));
	close(fd);
	return rc;
}

static int io_list(void *ctx, const char *name, int (*each)(void *arg, const char *file), void *arg)
{
	int fd = open_dir(ctx, name), rc = 0;
	const struct dirent *e;
	DIR *dir;

	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		rc = -errno;
		close(fd);
		return rc;
	}
	for (errno = 0; rc == 0 && (e = readdir(dir)); errno = rc ? errno : 0) {
		if (e->d_type != DT_DIR) /* what is no file cannot be opened, and is told of then */
			rc = each(arg, e->d_name);
	}
	if (rc == 0 && errno)
		rc = -errno;
	closedir(dir);
	return rc;
}

/* Whose lock it is: the first line of the file. */
static long holder_of(int fd)
{
	char text[32] = "";

	return pread(fd, text, sizeof(text) - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
}

static int is_taken(struct kernel_dir *d, int fd, struct error *err)
{
	return error_set(err, -EBUSY,
			 "%s: the server with process id %ld has this directory (stop it, or give "
			 "another --data-dir)",
			 d->path, holder_of(fd));
}

/* Keep others out, and say who we are. */
static int lock(struct kernel_dir *d, struct error *err)
{
	char text[32];
	int n;

	d->lock_fd = openat(d->fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
	if (d->lock_fd < 0)
		return error_set(err, -errno,
				 "making %s/" LOCK_NAME " failed: %s (give the server's user the "
				 "right to write there)",
				 d->path, error_name(-errno));
	if (flock(d->lock_fd, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK
			       ? is_taken(d, d->lock_fd, err)
			       : error_set(err, -errno,
					   "locking %s/" LOCK_NAME " failed: %s (use a file "
					   "system that has flock())",
					   d->path, error_name(-errno));
	n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
	if (ftruncate(d->lock_fd, 0) || pwrite(d->lock_fd, text, (size_t)n, 0) != n)
		return error_set(err, -EIO, "writing %s/" LOCK_NAME " failed: %s (make room there)",
				 d->path, error_name(-errno));
	return 0;
}

/* A reader: nobody may be writing now. Without a lock file nobody ever did. */
static int look_at_lock(struct kernel_dir *d, struct error *err)
{
	int fd = openat(d->fd, LOCK_NAME, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;

	if (fd < 0)
		return 0;
	if (flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK)
		rc = is_taken(d, fd, err);
	close(fd);
	return rc;
}

static int parent_sync(const char *path)
{
	char *copy = strdup(path), *slash;
	int fd, rc = 0;

	if (!copy)
		return -ENOMEM;
	slash = strrchr(copy, '/');
	if (slash)
		slash[slash == copy] = 0;
	fd = open(slash ? copy : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd))
		rc = -errno;
	if (fd >= 0)
		close(fd);
	free(copy);
	return rc;
}

static int open_path(struct kernel_dir *d, bool make, struct error *err)
{
	int rc;

	if (make && mkdir(d->path, 0700) && errno != EEXIST)
		return error_set(
			err, -errno,
			"making the data directory %s failed: %s (make its parent, or give "
			"another --data-dir)",
			d->path, error_name(-errno));
	d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->fd < 0)
		return error_set(err, -errno, "%s: %s (give a directory that the user may read)",
				 d->path, error_name(-errno));
	/* also where it was there: whoever made it may not have synced its name */
	rc = make ? parent_sync(d->path) : 0;
	return rc && rc != -EACCES ? error_set(err, rc, "syncing the folder of %s failed: %s",
					       d->path, error_name(rc))
				   : 0;
}

static void dir_free(struct kernel_dir *d)
{
	durable_end(d);
	if (d->lock_fd >= 0)
		close(d->lock_fd);
	if (d->fd >= 0)
		close(d->fd);
	free(d->path);
	free(d);
}

int log_io_kernel(struct log_io *out, const char *path, bool writes, struct error *err)
{
	struct kernel_dir *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return error_set(err, -ENOMEM, "out of memory for the data directory %s", path);
	d->fd = d->lock_fd = -1;
	durable_begin(d);
	d->path = strdup(path);
	rc = d->path ? open_path(d, writes, err)
		     : error_set(err, -ENOMEM, "out of memory for the data directory %s", path);
	if (rc == 0)
		rc = writes ? lock(d, err) : look_at_lock(d, err);
	if (rc) {
		dir_free(d);
		return rc;
	}
	*out = (struct log_io){
		.ctx = d,
		.open = io_open,
		.close = io_close,
		.preallocate = io_preallocate,
		.write = kernel_write,
		.write_cached = kernel_write_cached,
		.sync = io_sync,
		.write_durable = kernel_write_durable,
		.read = io_read,
		.size = io_size,
		.rename = io_rename,
		.unlink = io_unlink,
		.make_dir = io_make_dir,
		.sync_dir = io_sync_dir,
		.list = io_list,
	};
	return 0;
}

void log_io_kernel_close(struct log_io *io)
{
	if (io->ctx)
		dir_free(io->ctx);
	io->ctx = NULL;
}
