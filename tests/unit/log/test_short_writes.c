/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The kernel takes a part of a write, as write(2) allows: what is left is written, too. */
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "common/layout/log_format.h"
#include "server/log/io_kernel.h"
#include "tests/lib/folder.h"

#define BYTES  (5 * LOG_BLOCK)
#define OFFSET LOG_BLOCK

static unsigned pieces;

ssize_t __real_pwrite64(int fd, const void *buf, size_t len, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *buf, size_t len, off_t offset);
ssize_t __real_pwritev64v2(int fd, const struct iovec *v, int count, off_t offset, int flags);
ssize_t __wrap_pwritev64v2(int fd, const struct iovec *v, int count, off_t offset, int flags);

/* Of a file's blocks one at most: a device takes no less. */
static size_t taken(size_t len)
{
	pieces++;
	return len < LOG_BLOCK ? len : LOG_BLOCK;
}

ssize_t __wrap_pwrite64(int fd, const void *buf, size_t len, off_t offset)
{
	return __real_pwrite64(fd, buf, taken(len), offset);
}

ssize_t __wrap_pwritev64v2(int fd, const struct iovec *v, int count, off_t offset, int flags)
{
	const struct iovec part = { v->iov_base, taken(v->iov_len) };

	assert_int_equal(count, 1);
	return __real_pwritev64v2(fd, &part, 1, offset, flags);
}

typedef int writes(struct log_file *f, const void *buf, size_t len, uint64_t offset);

static void all_is_written(const struct log_io *io, struct log_file *f, writes *write)
{
	static uint8_t out[BYTES] __attribute__((aligned(LOG_BLOCK))), in[BYTES];
	static uint8_t byte;

	memset(out, ++byte, sizeof(out));
	pieces = 0;
	assert_ok(write(f, out, BYTES, OFFSET));
	assert_int_equal(pieces, BYTES / LOG_BLOCK);
	assert_int_equal(io->read(f, in, BYTES, OFFSET), BYTES);
	assert_memory_equal(in, out, BYTES);
}

UNIT_TEST(what_is_left_is_written_too)
{
	struct kernel_dir *d;
	struct log_file *f;
	struct log_io io;
	struct error err;

	assert_ok(log_io_kernel(&io, folder, true, &err));
	assert_ok(io.open(io.ctx, "file", LOG_OPEN_NEW, &f));
	assert_ok(io.preallocate(f, OFFSET + BYTES));
	d = io.ctx;
	for (unsigned i = 0; i < 4; i++) {
		d->way = (struct durable_way){ i % 2 ? DURABLE_DSYNC : DURABLE_PLAIN, i / 2 };
		all_is_written(&io, f, io.write);
		all_is_written(&io, f, io.write_cached);
		all_is_written(&io, f, io.write_durable);
	}
	io.close(f);
	log_io_kernel_close(&io);
}

UNIT_GROUP(folder_make, folder_remove);
