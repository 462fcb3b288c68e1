/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Room for directories in DIR extents: the first gap that is large enough. There is one directory
 * in use, and those that it replaced until their grace period is over, so lists are short. What
 * stands in a gap are words of former directories, nothing else (I6); a directory names itself by
 * an incarnation that never repeats, wherever it stands.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "server/memory/memory_internal.h"

#define DIRECTORY_ALIGN 64u

static uint64_t bytes_of(unsigned depth)
{
	uint64_t bytes = sizeof(struct directory) + (sizeof(uint64_t) << depth);

	return (bytes + DIRECTORY_ALIGN - 1) / DIRECTORY_ALIGN * DIRECTORY_ALIGN;
}

void directories_add(struct memory *m, unsigned extent)
{
	struct directory_extent *x;

	pthread_mutex_lock(&m->pool_lock);
	assert(m->directories.extents < DIRECTORY_EXTENTS); /* growth_possible() */
	x = &m->directories.extent[m->directories.extents++];
	x->extent = extent;
	x->bytes = memory_extent_bytes(m, extent);
	TAILQ_INIT(&x->ranges);
	pthread_mutex_unlock(&m->pool_lock);
}

void directories_destroy(struct memory *m)
{
	for (unsigned i = 0; i < m->directories.extents; i++) {
		struct directory_list *ranges = &m->directories.extent[i].ranges;
		struct directory_range *r;

		while ((r = TAILQ_FIRST(ranges))) {
			TAILQ_REMOVE(ranges, r, link);
			free(r);
		}
	}
}

/* The first gap of @bytes in @x: its offset, and the range that follows it. */
static bool find_gap(const struct directory_extent *x, uint64_t bytes, uint64_t *offset,
		     struct directory_range **next)
{
	struct directory_range *r;

	*offset = 0;
	TAILQ_FOREACH(r, &x->ranges, link)
	{
		if (r->offset - *offset >= bytes)
			break;
		*offset = r->offset + r->bytes;
	}
	*next = r;
	return r || x->bytes - *offset >= bytes;
}

/* must hold pool_lock. Find a gap in any extent. */
static struct directory_extent *find(struct memory *m, uint64_t bytes, uint64_t *offset,
				     struct directory_range **next)
{
	for (unsigned i = 0; i < m->directories.extents; i++) {
		if (find_gap(&m->directories.extent[i], bytes, offset, next))
			return &m->directories.extent[i];
	}
	return NULL;
}

int memory_directory_alloc(struct memory *m, unsigned depth, struct memory_place *place,
			   struct directory **out)
{
	struct directory_range *r = malloc(sizeof(*r)), *next;
	uint64_t bytes = bytes_of(depth), offset;
	struct directory_extent *x;
	int rc = 0;

	if (!r)
		return -ENOMEM;
	pthread_mutex_lock(&m->pool_lock);
	x = find(m, bytes, &offset, &next);
	if (x) {
		*r = (struct directory_range){ .offset = offset, .bytes = bytes };
		if (next)
			TAILQ_INSERT_BEFORE(next, r, link);
		else
			TAILQ_INSERT_TAIL(&x->ranges, r, link);
		m->directories.bytes_used += bytes;
		place->extent = x->extent;
		place->offset = (uint32_t)offset;
		*out = memory_map_at(&m->map, x->extent, offset);
		if (depth < DEPTH_MAX && !find(m, bytes_of(depth + 1), &offset, &next))
			growth_order(m, EXTENT_DIR, bytes_of(depth + 1));
	} else {
		rc = growth_request(m, EXTENT_DIR, bytes);
	}
	pthread_mutex_unlock(&m->pool_lock);
	if (rc)
		free(r);
	return rc;
}

/* What was a directory names none any more. Nobody reads it: no order. */
static void header_clear(struct directory *d)
{
	_Atomic uint64_t *word = (_Atomic uint64_t *)d;

	for (unsigned i = 0; i < sizeof(*d) / sizeof(*word); i++)
		atomic_store_explicit(&word[i], 0, memory_order_relaxed);
}

void directory_free(struct memory *m, struct memory_place place)
{
	struct directory_range *r = NULL;

	pthread_mutex_lock(&m->pool_lock);
	for (unsigned i = 0; i < m->directories.extents && !r; i++) {
		struct directory_extent *x = &m->directories.extent[i];

		if (x->extent != place.extent)
			continue;
		TAILQ_FOREACH(r, &x->ranges, link)
		{
			if (r->offset == place.offset)
				break;
		}
		if (r)
			TAILQ_REMOVE(&x->ranges, r, link);
	}
	assert(r); /* nothing was given out there */
	header_clear(memory_map_at(&m->map, place.extent, place.offset));
	m->directories.bytes_used -= r->bytes;
	pthread_mutex_unlock(&m->pool_lock);
	free(r);
}
