/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The table of functions of a disk in memory, and its faults. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "tests/lib/sim_disk_state.h"

struct log_file {
	struct sim_disk *d;
	unsigned inode;
};

/* Counts a call; returns with the lock. The error that is due, or 0. */
static int enter(struct sim_disk *d, enum sim_call call)
{
	struct sim_fault *f = &d->fault[call];
	uint64_t delay;

	pthread_mutex_lock(&d->lock);
	delay = f->delay_ns;
	if (delay) {
		pthread_mutex_unlock(&d->lock);
		time_sleep(delay);
		pthread_mutex_lock(&d->lock);
	}
	return ++f->calls == f->fail_at ? f->error : 0;
}

static int leave(struct sim_disk *d, int rc)
{
	pthread_mutex_unlock(&d->lock);
	return rc;
}

static struct sim_change change(const char *set, const char *clear, unsigned inode)
{
	struct sim_change c = { .inode = inode };

	assert(strlen(set) < SIM_NAME && strlen(clear) < SIM_NAME);
	memcpy(c.set, set, strlen(set));
	memcpy(c.clear, clear, strlen(clear));
	return c;
}

static bool folder_is(const struct sim_disk *d, const char *name)
{
	int inode = sim_find(&d->now, name);

	return !*name || (inode >= 0 && d->inode[inode]->folder);
}

/* Whether there is the folder that @name stands in. */
static bool has_folder(const struct sim_disk *d, const char *name)
{
	char folder[SIM_NAME] = "";
	const char *slash = strrchr(name, '/');

	if (slash)
		memcpy(folder, name, (size_t)(slash - name));
	return folder_is(d, folder);
}

static unsigned make_inode(struct sim_disk *d, const char *name, bool folder)
{
	unsigned inode = d->inodes;

	sim_do(d, &(struct sim_op){ .kind = OP_INODE, .inode = inode, .offset = folder });
	sim_do(d, &(struct sim_op){ .kind = OP_CHANGE, .change = change(name, "", inode) });
	return inode;
}

/* A file that is emptied counts as another one of its name: after a crash it may be the old one. */
static int disk_open(void *ctx, const char *name, enum log_open how, struct log_file **out)
{
	struct sim_disk *d = ctx;
	int rc = enter(d, SIM_OPEN);
	int inode = sim_find(&d->now, name);

	if (rc)
		return leave(d, rc);
	if (how != LOG_OPEN_NEW && inode < 0)
		return leave(d, -ENOENT);
	if (how == LOG_OPEN_NEW && !has_folder(d, name))
		return leave(d, -ENOENT);
	if (inode >= 0 && d->inode[inode]->folder)
		return leave(d, -EISDIR);
	if (how == LOG_OPEN_NEW)
		inode = (int)make_inode(d, name, false);
	*out = sim_alloc(NULL, sizeof(**out));
	**out = (struct log_file){ d, (unsigned)inode };
	return leave(d, 0);
}

static void disk_close(struct log_file *f)
{
	free(f);
}

/* Bytes of all files that have a name, without that inode. */
static uint64_t used(const struct sim_disk *d, unsigned without)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < d->now.count; i++) {
		if (d->now.of[i].inode != without)
			sum += d->inode[d->now.of[i].inode]->size;
	}
	return sum;
}

static int disk_preallocate(struct log_file *f, uint64_t bytes)
{
	struct sim_disk *d = f->d;
	int rc = enter(d, SIM_PREALLOCATE);

	if (rc)
		return leave(d, rc);
	bytes = bytes < d->short_files ? bytes : d->short_files;
	if (bytes > d->capacity || used(d, f->inode) > d->capacity - bytes)
		return leave(d, -ENOSPC);
	if (bytes > d->inode[f->inode]->size)
		sim_do(d, &(struct sim_op){ .kind = OP_SIZE, .inode = f->inode, .offset = bytes });
	return leave(d, 0);
}

/* With the lock. */
static void put(struct log_file *f, const void *buf, size_t len, uint64_t offset)
{
	struct sim_op op = { .kind = OP_WRITE, .inode = f->inode, .offset = offset, .len = len };
	void *copy = sim_alloc(NULL, len);

	memcpy(copy, buf, len);
	op.data = copy;
	if (len)
		sim_do(f->d, &op);
	free(copy);
}

static int disk_write(struct log_file *f, const void *buf, size_t len, uint64_t offset)
{
	int rc = enter(f->d, SIM_WRITE);

	put(f, buf, rc ? len / 2 : len, offset);
	return leave(f->d, rc);
}

static int disk_sync(struct log_file *f)
{
	int rc = enter(f->d, SIM_SYNC);

	sim_do(f->d, &(struct sim_op){ .kind = rc ? OP_SYNC_FAILED : OP_SYNC, .inode = f->inode });
	return leave(f->d, rc);
}

static int disk_write_durable(struct log_file *f, const void *buf, size_t len, uint64_t offset)
{
	int rc = disk_write(f, buf, len, offset);

	return rc ? rc : disk_sync(f);
}

static int64_t disk_read(struct log_file *f, void *buf, size_t len, uint64_t offset)
{
	struct sim_disk *d = f->d;
	int rc = enter(d, SIM_READ);
	int64_t got;

	if (rc)
		return leave(d, rc);
	if (d->fault[SIM_READ].calls == d->short_read_at)
		len = (len + 1) / 2;
	got = (int64_t)sim_read(d->inode[f->inode], buf, len, offset);
	leave(d, 0);
	return got;
}

static int64_t disk_size(struct log_file *f)
{
	int64_t size;

	pthread_mutex_lock(&f->d->lock);
	size = (int64_t)f->d->inode[f->inode]->size;
	pthread_mutex_unlock(&f->d->lock);
	return size;
}

static int disk_rename(void *ctx, const char *from, const char *to)
{
	struct sim_disk *d = ctx;
	int rc = enter(d, SIM_RENAME);
	int inode = sim_find(&d->now, from);

	if (rc)
		return leave(d, rc);
	if (inode < 0 || !has_folder(d, to))
		return leave(d, -ENOENT);
	sim_do(d,
	       &(struct sim_op){ .kind = OP_CHANGE, .change = change(to, from, (unsigned)inode) });
	return leave(d, 0);
}

static int disk_unlink(void *ctx, const char *name)
{
	struct sim_disk *d = ctx;
	int rc = enter(d, SIM_UNLINK);

	if (rc)
		return leave(d, rc);
	if (sim_find(&d->now, name) >= 0)
		sim_do(d, &(struct sim_op){ .kind = OP_CHANGE, .change = change("", name, 0) });
	return leave(d, 0);
}

static int disk_make_dir(void *ctx, const char *name)
{
	struct sim_disk *d = ctx;

	pthread_mutex_lock(&d->lock);
	if (sim_find(&d->now, name) < 0)
		make_inode(d, name, true);
	return leave(d, 0);
}

static int disk_sync_dir(void *ctx, const char *name)
{
	struct sim_disk *d = ctx;
	int rc = enter(d, SIM_SYNC_DIR);

	if (rc)
		return leave(d, rc);
	if (!folder_is(d, name))
		return leave(d, -ENOENT);
	sim_do(d, &(struct sim_op){ .kind = OP_SYNC_DIR, .change = change(name, "", 0) });
	return leave(d, 0);
}

/* Without the lock while @each runs, which may open what it is told of. */
static int disk_list(void *ctx, const char *name, int (*each)(void *arg, const char *file),
		     void *arg)
{
	struct sim_disk *d = ctx;
	struct sim_name *copy;
	unsigned count;
	int rc = 0;

	pthread_mutex_lock(&d->lock);
	if (!folder_is(d, name))
		return leave(d, -ENOENT);
	count = d->now.count;
	copy = sim_alloc(NULL, count * sizeof(*copy));
	memcpy(copy, d->now.of, count * sizeof(*copy));
	pthread_mutex_unlock(&d->lock);
	for (unsigned i = 0; i < count && !rc; i++) {
		if (sim_in_folder(copy[i].name, name) && !folder_is(d, copy[i].name))
			rc = each(arg, copy[i].name + (*name ? strlen(name) + 1 : 0));
	}
	free(copy);
	return rc;
}

void sim_disk_io_init(struct sim_disk *d)
{
	d->io = (struct log_io){
		.ctx = d,
		.open = disk_open,
		.close = disk_close,
		.preallocate = disk_preallocate,
		.write = disk_write,
		.write_cached = disk_write,
		.sync = disk_sync,
		.write_durable = disk_write_durable,
		.read = disk_read,
		.size = disk_size,
		.rename = disk_rename,
		.unlink = disk_unlink,
		.make_dir = disk_make_dir,
		.sync_dir = disk_sync_dir,
		.list = disk_list,
	};
}

const struct log_io *sim_disk_io(struct sim_disk *d)
{
	return &d->io;
}

void sim_disk_note(struct sim_disk *d, uint64_t value)
{
	pthread_mutex_lock(&d->lock);
	sim_do(d, &(struct sim_op){ .kind = OP_NOTE, .inode = UINT32_MAX, .offset = value });
	pthread_mutex_unlock(&d->lock);
}

void sim_disk_fail(struct sim_disk *d, enum sim_call call, unsigned after, int error)
{
	pthread_mutex_lock(&d->lock);
	d->fault[call].fail_at = d->fault[call].calls + after + 1;
	d->fault[call].error = error;
	pthread_mutex_unlock(&d->lock);
}

void sim_disk_short_read(struct sim_disk *d, unsigned after)
{
	pthread_mutex_lock(&d->lock);
	d->short_read_at = d->fault[SIM_READ].calls + after + 1;
	pthread_mutex_unlock(&d->lock);
}

void sim_disk_capacity(struct sim_disk *d, uint64_t bytes)
{
	pthread_mutex_lock(&d->lock);
	d->capacity = bytes;
	pthread_mutex_unlock(&d->lock);
}

void sim_disk_short_files(struct sim_disk *d, uint64_t bytes)
{
	pthread_mutex_lock(&d->lock);
	d->short_files = bytes;
	pthread_mutex_unlock(&d->lock);
}

void sim_disk_delay(struct sim_disk *d, enum sim_call call, uint64_t ns)
{
	pthread_mutex_lock(&d->lock);
	d->fault[call].delay_ns = ns;
	pthread_mutex_unlock(&d->lock);
}

unsigned sim_disk_calls(struct sim_disk *d, enum sim_call call)
{
	unsigned calls;

	pthread_mutex_lock(&d->lock);
	calls = d->fault[call].calls;
	pthread_mutex_unlock(&d->lock);
	return calls;
}

int64_t sim_disk_size(const struct sim_disk *d, const char *name)
{
	int inode = sim_find(&d->now, name);

	return inode < 0 ? -ENOENT : (int64_t)d->inode[inode]->size;
}

void sim_disk_get(const struct sim_disk *d, const char *name, void *out, size_t len,
		  uint64_t offset)
{
	int inode = sim_find(&d->now, name);

	assert(inode >= 0);
	memset(out, 0, len);
	sim_read(d->inode[inode], out, len, offset);
}

void sim_disk_set(struct sim_disk *d, const char *name, const void *bytes, size_t len,
		  uint64_t offset)
{
	int inode = sim_find(&d->now, name);
	struct log_file f = { d, (unsigned)inode };

	assert(inode >= 0);
	put(&f, bytes, len, offset);
	sim_do(d, &(struct sim_op){ .kind = OP_SYNC, .inode = (unsigned)inode });
}

void sim_disk_make(struct sim_disk *d, const char *name)
{
	make_inode(d, name, false);
	sim_disk_settle_names(d);
}
