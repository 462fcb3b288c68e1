/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Arenas: making our own, mapping a peer's, and space in our own for rings. */
#include <stddef.h>
#include <stdint.h>

#include "common/softrdma/shared/lock.h"
#include "common/softrdma/shared/shared.h"

struct arena_hole;

struct arena {
	struct shared_arena *shared;
	int fd;
	struct lock lock; /* protects the holes */
	struct arena_hole *holes; /* free ranges by offset, never adjacent */
};

/* soft_arena_create - a new one, empty. Returns 0 or a negative errno. */
int soft_arena_create(struct arena *arena, uint32_t slot);
void soft_arena_destroy(struct arena *arena);

/*
 * soft_arena_alloc - space with any content, aligned to a cache line. Returns its offset, or 0 when
 * the arena is full.
 */
uint64_t soft_arena_alloc(struct arena *arena, uint64_t size);

/* soft_arena_free - @size as it was asked for. 0 as @offset does nothing. */
void soft_arena_free(struct arena *arena, uint64_t offset, uint64_t size);

/* soft_arena_map - map a peer's arena and check its header. Returns NULL with errno set. */
struct shared_arena *soft_arena_map(int fd, uint32_t slot, uint64_t incarnation);
void soft_arena_unmap(struct shared_arena *shared);

/* arena_at - a range of an arena, or NULL where it does not lie inside. */
static inline void *arena_at(struct shared_arena *shared, uint64_t offset, uint64_t size)
{
	/* not shared->size, which others can change */
	if (offset < sizeof(*shared) || offset > SHARED_BYTES || size > SHARED_BYTES - offset)
		return NULL;
	return (unsigned char *)shared + offset;
}
