/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/softrdma/shared/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/random.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct arena_hole {
	struct arena_hole *next;
	uint64_t offset, size;
};

static uint64_t arena_round(uint64_t size)
{
	return (size + SHARED_LINE - 1) & ~(uint64_t)(SHARED_LINE - 1);
}

int soft_arena_create(struct arena *arena, uint32_t slot)
{
	struct shared_arena *shared;
	int rc;

	memset(arena, 0, sizeof(*arena));
	arena->holes = calloc(1, sizeof(*arena->holes));
	if (!arena->holes)
		return -ENOMEM;
	arena->holes->offset = sizeof(*shared);
	arena->holes->size = SHARED_BYTES - sizeof(*shared);
	arena->fd = memfd_create("softrdma", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	/* Sealed: whoever cut it would take down all that have it mapped. */
	if (arena->fd < 0 || ftruncate(arena->fd, (off_t)SHARED_BYTES) < 0 ||
	    fcntl(arena->fd, F_ADD_SEALS, SEALS) < 0) {
		rc = -errno;
		goto err_fd;
	}
	shared = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, arena->fd, 0);
	if (shared == MAP_FAILED) {
		rc = -errno;
		goto err_fd;
	}
	/* A forked child has no business in it. */
	madvise(shared, SHARED_BYTES, MADV_DONTFORK);
	rc = random_fill(&shared->incarnation, sizeof(shared->incarnation), NULL);
	if (rc)
		goto err_map;
	shared->magic = SHARED_MAGIC;
	shared->version = SHARED_VERSION;
	shared->slot = slot;
	shared->size = SHARED_BYTES;
	shared->address = (uintptr_t)shared;
	arena->shared = shared;
	return 0;

err_map:
	munmap(shared, SHARED_BYTES);
err_fd:
	if (arena->fd >= 0)
		close(arena->fd);
	free(arena->holes);
	return rc;
}

void soft_arena_destroy(struct arena *arena)
{
	while (arena->holes) {
		struct arena_hole *hole = arena->holes;

		arena->holes = hole->next;
		free(hole);
	}
	munmap(arena->shared, SHARED_BYTES);
	close(arena->fd);
	arena->shared = NULL;
}

uint64_t soft_arena_alloc(struct arena *arena, uint64_t size)
{
	struct arena_hole **link, *hole;
	uint64_t offset = 0;

	size = arena_round(size);
	lock_take(&arena->lock);
	for (link = &arena->holes; (hole = *link) != NULL; link = &hole->next) {
		if (hole->size < size)
			continue;
		offset = hole->offset;
		hole->offset += size;
		hole->size -= size;
		if (hole->size == 0) {
			*link = hole->next;
			free(hole);
		}
		break;
	}
	lock_drop(&arena->lock);
	return offset;
}

void soft_arena_free(struct arena *arena, uint64_t offset, uint64_t size)
{
	struct arena_hole **link, *hole, *before = NULL;

	if (!offset)
		return;
	size = arena_round(size);
	lock_take(&arena->lock);
	for (link = &arena->holes; (hole = *link) != NULL; link = &hole->next) {
		if (hole->offset > offset)
			break;
		before = hole;
	}
	if (before && before->offset + before->size == offset) {
		before->size += size;
	} else if (hole && offset + size == hole->offset) {
		hole->offset = offset;
		hole->size += size;
		before = NULL;
	} else {
		before = calloc(1, sizeof(*before));
		if (before) { /* without memory for the note the space stays unused */
			before->offset = offset;
			before->size = size;
			before->next = hole;
			*link = before;
		}
	}
	if (before && hole && before->offset + before->size == hole->offset) {
		before->size += hole->size;
		before->next = hole->next;
		free(hole);
	}
	lock_drop(&arena->lock);
}

struct shared_arena *soft_arena_map(int fd, uint32_t slot, uint64_t incarnation)
{
	struct shared_arena *shared;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || fstat(fd, &st) < 0)
		return NULL;
	if ((uint64_t)st.st_size != SHARED_BYTES || !(seals & F_SEAL_SHRINK)) {
		errno = EPROTO;
		return NULL;
	}
	shared = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		return NULL;
	madvise(shared, SHARED_BYTES, MADV_DONTFORK);
	if (shared->magic != SHARED_MAGIC || shared->version != SHARED_VERSION ||
	    shared->size != SHARED_BYTES || shared->slot != slot ||
	    shared->incarnation != incarnation) {
		munmap(shared, SHARED_BYTES);
		errno = EPROTO;
		return NULL;
	}
	return shared;
}

void soft_arena_unmap(struct shared_arena *shared)
{
	munmap(shared, SHARED_BYTES);
}
