/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/softrdma/process/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/softrdma/process/peer.h"
#include "common/softrdma/process/process.h"

#define NEAR 16 /* descriptors that are looked at first */

struct soft_file {
	uint64_t id; /* 0: free */
	dev_t device;
	ino_t inode;
	int fd; /* our own copy: it keeps the inode number from being used again */
	unsigned refs;
};

static struct {
	struct lock lock; /* protects the rest */
	struct soft_file table[SHARED_MAPS];
	uint32_t end; /* one past the largest index in use so far */
} files;

/* One line of /proc/self/maps. */
struct vma {
	uint64_t start, end, offset;
	char perms[5];
	dev_t device;
	uint64_t inode;
};

static bool vma_parse(const char *line, struct vma *vma)
{
	unsigned major, minor;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &vma->start,
		   &vma->end, vma->perms, &vma->offset, &major, &minor, &vma->inode) != 7)
		return false;
	vma->device = makedev(major, minor);
	return true;
}

/*
 * Walk over the mappings of [addr, addr + length). *@found: the file of all of it, with
 * found->start as the address that found->offset belongs to; inode 0: no single shared file.
 */
static int vma_walk(FILE *maps, uint64_t addr, uint64_t length, bool write, struct vma *found)
{
	uint64_t cursor = addr, end = addr + length;
	char *line = NULL;
	size_t size = 0;

	while (cursor < end && getline(&line, &size, maps) > 0) {
		struct vma vma;

		if (!vma_parse(line, &vma) || vma.end <= cursor)
			continue;
		if (vma.start > cursor || vma.perms[0] != 'r' || (write && vma.perms[1] != 'w'))
			break;
		if (cursor == addr) {
			*found = vma;
			if (vma.perms[3] != 's')
				found->inode = 0;
		} else if (vma.device != found->device || vma.inode != found->inode ||
			   vma.perms[3] != 's' ||
			   vma.offset - found->offset != vma.start - found->start) {
			found->inode = 0;
		}
		cursor = vma.end;
	}
	free(line);
	return cursor < end ? -EFAULT : 0;
}

/* A duplicate of the descriptor that has this name in @dir, if it is one of the file; else -1. */
static int file_try(DIR *dir, const char *name, dev_t device, ino_t inode)
{
	const int candidate = atoi(name);
	struct stat st;
	int fd;

	/* by name: the descriptor may be somebody else's, who closes it now */
	if (fstatat(dirfd(dir), name, &st, 0) < 0 || st.st_dev != device || st.st_ino != inode ||
	    !S_ISREG(st.st_mode) || (fcntl(candidate, F_GETFL) & O_ACCMODE) != O_RDWR)
		return -1;
	fd = fcntl(candidate, F_DUPFD_CLOEXEC, 0);
	/* It may have been closed and another opened since fstat(). */
	if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_dev != device || st.st_ino != inode)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/*
 * Find a descriptor of the file among our own; a peer maps it for reading and writing. A file is
 * registered soon after it was made, as a rule: then its descriptor is one of those just below the
 * one that is opened now. All others are looked at after these, of which there may be thousands.
 */
static int file_open(dev_t device, ino_t inode)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int fd = -1;

	for (int n = 1; dir && fd < 0 && n <= NEAR && n < dirfd(dir); n++) {
		char name[16];

		snprintf(name, sizeof(name), "%d", dirfd(dir) - n);
		fd = file_try(dir, name, device, inode);
	}
	while (dir && fd < 0 && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] != '.')
			fd = file_try(dir, entry->d_name, device, inode);
	}
	if (dir)
		closedir(dir);
	return fd;
}

/* Enter a file, or count one more user of it. Under the lock. */
static void file_enter(const struct vma *found, struct soft_file_ref *ref)
{
	struct soft_file *file, *empty = NULL;

	for (uint32_t i = 0; i < SHARED_MAPS; i++) {
		file = &files.table[i];
		if (i == files.end || !file->id) {
			if (!empty)
				empty = file;
			if (i == files.end)
				break;
			continue;
		}
		if (file->device == found->device && file->inode == found->inode)
			goto found;
	}
	file = empty;
	if (!file)
		return;
	file->fd = file_open(found->device, found->inode);
	if (file->fd < 0)
		return;
	file->id = process_new_id();
	file->device = found->device;
	file->inode = found->inode;
	file->refs = 0;
	if (file == &files.table[files.end])
		files.end++;
	atomic_store(&own_arena()->map_id[file - files.table], file->id);
found:
	file->refs++;
	ref->id = file->id;
	ref->index = (uint32_t)(file - files.table);
}

int soft_file_find(uint64_t addr, uint64_t length, bool write, struct soft_file_ref *ref)
{
	struct vma found = { .inode = 0 };
	FILE *maps = fopen("/proc/self/maps", "re");
	int rc;

	memset(ref, 0, sizeof(*ref));
	if (!maps)
		return -errno;
	rc = vma_walk(maps, addr, length, write, &found);
	fclose(maps);
	if (rc < 0 || !found.inode)
		return rc;
	lock_take(&files.lock);
	file_enter(&found, ref);
	lock_drop(&files.lock);
	ref->offset = found.offset + (addr - found.start);
	return 0;
}

void soft_file_put(const struct soft_file_ref *ref)
{
	struct soft_file *file = &files.table[ref->index];
	bool last;

	if (!ref->id)
		return;
	lock_take(&files.lock);
	last = --file->refs == 0;
	if (last) {
		atomic_store(&own_arena()->map_id[ref->index], 0);
		atomic_fetch_add(&own_arena()->files_gone, 1);
		file->id = 0;
		close(file->fd);
	}
	lock_drop(&files.lock);
	if (last)
		soft_peer_kick_all(); /* they may have it mapped */
}

int soft_file_dup(uint64_t id)
{
	int fd = -1;

	lock_take(&files.lock);
	for (uint32_t i = 0; i < files.end; i++) {
		if (id && files.table[i].id == id)
			fd = fcntl(files.table[i].fd, F_DUPFD_CLOEXEC, 0);
	}
	lock_drop(&files.lock);
	return fd;
}

void soft_files_fork_child(void)
{
	for (uint32_t i = 0; i < files.end; i++) {
		if (files.table[i].id)
			close(files.table[i].fd);
	}
	memset(&files, 0, sizeof(files));
}
