/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Writing a batch so that it is durable, by the way that is the fastest on this disk. Which that is
 * depends on file system and device: with O_DIRECT a batch goes to the device without a copy, and
 * fdatasync() then has little to do; RWF_DSYNC can be one command (FUA) where both know it;
 * io_uring asks for both in one system call. So each is tried a few times, on blocks of its own,
 * and the least median wins: that of blocks which were written before, where it is so much less
 * that the log writes zeroes ahead (ahead.c).
 *
 * Whatever the way: 0 says that the device has the bytes, and an error ends writing for good
 * (log.c). Nothing is tried twice, but what was interrupted, and the rest of a short write.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/time.h"
#include "common/layout/log_format.h"
#include "server/log/io_kernel.h"

#define TRIES_MIN  9u
#define TRIES	   32u
#define TRIES_NS   (20 * NS_PER_MS) /* of a way; not below TRIES_MIN */
#define TRY_BYTES  LOG_BLOCK
#define TRY_NAME   "measure.tmp"
#define FILE_BYTES (1u << 20)
#define WAYS	   (2 * DURABLE_HOWS)

static_assert(WAYS * TRIES * TRY_BYTES <= FILE_BYTES, "each way has blocks of its own");

static bool aligned(const void *buf, size_t len, uint64_t offset)
{
	return ((uintptr_t)buf | len | offset) % LOG_BLOCK == 0;
}

static int fd_for(const struct log_file *f, bool direct, const void *buf, size_t len,
		  uint64_t offset)
{
	return direct && f->direct_fd >= 0 && aligned(buf, len, offset) ? f->direct_fd : f->fd;
}

/* @flags: of pwritev2(); 0: pwrite() does. */
static int write_all(int fd, const void *buf, size_t len, uint64_t offset, int flags)
{
	while (len) {
		struct iovec piece = { (void *)(uintptr_t)buf, len };
		ssize_t n = flags ? pwritev2(fd, &piece, 1, (off_t)offset, flags)
				  : pwrite(fd, buf, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		buf = (const char *)buf + n;
		len -= (size_t)n;
		offset += (size_t)n;
	}
	return 0;
}

static int sync_data(int fd)
{
	return fdatasync(fd) ? -errno : 0;
}

int kernel_write(struct log_file *f, const void *buf, size_t len, uint64_t offset)
{
	return write_all(fd_for(f, f->dir->way.direct, buf, len, offset), buf, len, offset, 0);
}

int kernel_write_cached(struct log_file *f, const void *buf, size_t len, uint64_t offset)
{
	return write_all(f->fd, buf, len, offset, 0);
}

/* What has come of the write and of the sync that is linked to it. Must hold the ring's lock. */
static int ring_results(struct io_uring *ring, int result[2])
{
	int rc = io_uring_submit_and_wait(ring, 2);

	while (rc == -EINTR)
		rc = io_uring_submit_and_wait(ring, 2);
	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < 2; i++) {
		struct io_uring_cqe *cqe;

		do
			rc = io_uring_wait_cqe(ring, &cqe);
		while (rc == -EINTR);
		if (rc)
			return rc;
		result[cqe->user_data & 1] = cqe->res;
		io_uring_cqe_seen(ring, cqe);
	}
	return 0;
}

static int write_ring(struct kernel_dir *d, int fd, const void *buf, size_t len, uint64_t offset)
{
	struct io_uring_sqe *sqe;
	int result[2], rc;

	pthread_mutex_lock(&d->ring_lock);
	sqe = io_uring_get_sqe(&d->ring);
	io_uring_prep_write(sqe, fd, buf, (unsigned)len, offset);
	sqe->flags |= IOSQE_IO_LINK;
	sqe->user_data = 0;
	sqe = io_uring_get_sqe(&d->ring);
	io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
	sqe->user_data = 1;
	rc = ring_results(&d->ring, result);
	pthread_mutex_unlock(&d->ring_lock);
	if (rc)
		return rc;
	if (result[0] == (int)len)
		return result[1];
	/* The link broke at a short write, or at an error: nothing of it was synced. */
	if (result[0] < 0 && result[0] != -EINTR && result[0] != -EAGAIN)
		return result[0];
	rc = write_all(fd, buf, len, offset, 0);
	return rc ? rc : sync_data(fd);
}

static int write_by(struct log_file *f, struct durable_way way, const void *buf, size_t len,
		    uint64_t offset)
{
	int fd = fd_for(f, way.direct, buf, len, offset), rc;

	switch (way.how) {
	case DURABLE_DSYNC:
		return write_all(fd, buf, len, offset, RWF_DSYNC);
	case DURABLE_URING:
		return write_ring(f->dir, fd, buf, len, offset);
	default:
		rc = write_all(fd, buf, len, offset, 0);
		return rc ? rc : sync_data(fd);
	}
}

int kernel_write_durable(struct log_file *f, const void *buf, size_t len, uint64_t offset)
{
	return write_by(f, f->dir->way, buf, len, offset);
}

void durable_begin(struct kernel_dir *d)
{
	pthread_mutex_init(&d->ring_lock, NULL);
	d->has_ring = io_uring_queue_init(4, &d->ring, 0) == 0; /* containers may forbid it */
}

void durable_end(struct kernel_dir *d)
{
	if (d->has_ring)
		io_uring_queue_exit(&d->ring);
	pthread_mutex_destroy(&d->ring_lock);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The median of a few tries, in ns; UINT64_MAX: it does not work here. */
static uint64_t try_blocks(struct log_file *f, struct durable_way way, const void *buf,
			   uint64_t offset)
{
	const uint64_t begun_ns = time_now_ns();
	uint64_t took[TRIES];
	unsigned n = 0;

	if ((way.how == DURABLE_URING && !f->dir->has_ring) || (way.direct && f->direct_fd < 0))
		return UINT64_MAX;
	while (n < TRIES && (n < TRIES_MIN || time_now_ns() - begun_ns < TRIES_NS)) {
		uint64_t start = time_now_ns();

		if (write_by(f, way, buf, TRY_BYTES, offset + (uint64_t)n * TRY_BYTES))
			return UINT64_MAX;
		took[n++] = time_now_ns() - start;
	}
	qsort(took, n, sizeof(took[0]), compare);
	return took[n / 2];
}

/* File systems by the numbers of statfs(2), where there is something to say of them. */
static const char *remark(int fd, const char **name)
{
	struct statfs fs;

	*name = "an unknown file system";
	if (fstatfs(fd, &fs))
		return "";
	switch ((unsigned long)fs.f_type) {
	case 0xef53:
		*name = "ext4";
		return "";
	case 0x58465342:
		*name = "XFS";
		return "";
	case 0x9123683e:
		*name = "btrfs";
		return "";
	case 0x794c7630:
		*name = "overlayfs";
		return "";
	case 0x2fc12fc1:
		*name = "ZFS";
		return "";
	case 0x01021994:
	case 0x858458f6:
		*name = "tmpfs";
		return "; that is memory: nothing in it outlives the machine's next start";
	case 0x6969:
		*name = "NFS";
		return "; what is durable there is the file server's word, and its locks are too";
	default:
		return "";
	}
}

static const char *const how_names[DURABLE_HOWS] = {
	[DURABLE_PLAIN] = "pwrite and fdatasync",
	[DURABLE_DSYNC] = "writes with RWF_DSYNC",
	[DURABLE_URING] = "io_uring, writes linked with fdatasync",
};

/*
 * The least medians of all ways, in ns: of blocks that were preallocated only, and of the same ones
 * once they are written. A way through the page cache must be faster by a third: what it costs
 * later is not seen here. Its sync also writes the zeroes that were written ahead, and the cache
 * holds a log that nobody reads.
 */
struct fastest {
	uint64_t fresh_ns, written_ns;
	struct durable_way fresh, written;
};

static void least(uint64_t ns, struct durable_way way, uint64_t *least_ns, struct durable_way *of)
{
	/* The ways with O_DIRECT have been tried before. */
	if (ns >= (way.direct || !of->direct ? *least_ns : *least_ns / 3 * 2))
		return;
	*least_ns = ns;
	*of = way;
}

static struct fastest try_all(struct log_file *f, const void *buf)
{
	struct fastest best = { .fresh_ns = UINT64_MAX, .written_ns = UINT64_MAX };

	for (unsigned i = 0; i < WAYS; i++) {
		const struct durable_way way = { (enum durable_how)(i % DURABLE_HOWS),
						 i < DURABLE_HOWS };
		const uint64_t offset = (uint64_t)i * TRIES * TRY_BYTES;

		least(try_blocks(f, way, buf, offset), way, &best.fresh_ns, &best.fresh);
		least(try_blocks(f, way, buf, offset), way, &best.written_ns, &best.written);
	}
	return best;
}

/* Zeroes ahead cost writes of their own: they must gain a tenth. */
static bool zeroes_pay(const struct fastest *best)
{
	return best->fresh_ns != UINT64_MAX && best->written_ns < best->fresh_ns / 10 * 9;
}

static void measure(struct log_io *io, struct log_file *f, const void *buf, char said[256])
{
	struct kernel_dir *d = f->dir;
	const struct fastest best = try_all(f, buf);
	const unsigned long long fresh_us = best.fresh_ns / 1000, us = best.written_ns / 1000;
	const char *fs, *more = remark(d->fd, &fs);
	char took[80] = "";

	io->zeroes_pay = zeroes_pay(&best);
	d->way = io->zeroes_pay ? best.written : best.fresh;
	if (io->zeroes_pay)
		snprintf(took, sizeof(took), ", %llu us for 4 KiB over zeroes (%llu without)", us,
			 fresh_us);
	else if (best.fresh_ns != UINT64_MAX)
		snprintf(took, sizeof(took), ", %llu us for 4 KiB", fresh_us);
	snprintf(said, 256, "%s%s%s, on %s%s", how_names[d->way.how],
		 d->way.direct ? " and O_DIRECT" : "", took, fs, more);
}

int log_io_kernel_measure(struct log_io *io, char said[256], struct error *err)
{
	struct kernel_dir *d = io->ctx;
	struct log_file *f;
	void *buf = NULL;
	int rc = io->open(d, TRY_NAME, LOG_OPEN_NEW, &f);

	if (rc)
		return error_set(err, rc,
				 "making %s/%s failed: %s (give the server's user the "
				 "right to write there)",
				 d->path, TRY_NAME, error_name(rc));
	rc = posix_memalign(&buf, LOG_BLOCK, TRY_BYTES) ? -ENOMEM : io->preallocate(f, FILE_BYTES);
	if (rc == 0) {
		memset(buf, 0, TRY_BYTES);
		measure(io, f, buf, said);
	} else {
		error_set(err, rc, "%s has no room for a file of 1 MiB: %s (make room there)",
			  d->path, error_name(rc));
	}
	free(buf);
	io->close(f);
	io->unlink(d, TRY_NAME);
	return rc;
}
