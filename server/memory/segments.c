/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The pool of segments: a list of free ones over all INDEX extents, each extent an array of
 * segments at multiples of SEGMENT_BYTES (I6: the format of an address never changes).
 *
 * INCARNATIONS. The head of a segment, outside of registered memory, counts how often its address
 * was given out. A directory entry that a client has cached names address and incarnation, so the
 * pair must never come twice: an address that has used up all 2^24 - 1 of them is dropped when it
 * comes back.
 */
#include <assert.h>
#include <errno.h>

#include "server/memory/memory_internal.h"
#include "server/memory/memory_test.h"

/* A segment in one word that is never 0. */
static uint32_t segment_name(unsigned extent, unsigned number)
{
	return (uint32_t)extent << 16 | (number + 1);
}

static struct segment_head *head_of(const struct memory *m, uint32_t name)
{
	return &m->extent[name >> 16].head[(name & 0xffff) - 1];
}

static_assert(EXTENT_BYTES_MAX / SEGMENT_BYTES < 0xffff, "a segment's number has 16 bits");

struct segment_head *memory_segment_head(const struct memory *m, unsigned extent, unsigned number)
{
	return &m->extent[extent].head[number];
}

/* must hold pool_lock */
static void put_free(struct memory *m, uint32_t name)
{
	struct segment_pool *pool = &m->segments;

	head_of(m, name)->next = pool->first;
	pool->first = name;
	pool->free++;
}

void segments_add(struct memory *m, unsigned extent, unsigned segments)
{
	pthread_mutex_lock(&m->pool_lock);
	for (unsigned i = segments; i-- > 0;) /* the first one is taken first */
		put_free(m, segment_name(extent, i));
	m->segments.total += segments;
	m->segments.heads_bytes += segments * sizeof(struct segment_head);
	pthread_mutex_unlock(&m->pool_lock);
}

uint64_t segments_used_bytes(struct memory *m)
{
	uint64_t used;

	pthread_mutex_lock(&m->pool_lock);
	used = m->segments.total - m->segments.free;
	pthread_mutex_unlock(&m->pool_lock);
	return used * SEGMENT_BYTES;
}

/* must hold pool_lock. When so few are free, more are ordered. */
static uint64_t low_water(const struct memory *m)
{
	uint64_t low = m->segments.total / SEGMENTS_LOW_SHARE;

	return low < SEGMENTS_LOW_MIN ? SEGMENTS_LOW_MIN : low;
}

/* must hold pool_lock. Take the first free one. */
static void take(struct memory *m, struct memory_segment *out)
{
	uint32_t name = m->segments.first;
	struct segment_head *head = head_of(m, name);

	m->segments.first = head->next;
	m->segments.free--;
	head->incarnation++;
	out->head = head;
	out->incarnation = head->incarnation;
	out->place.extent = name >> 16;
	out->place.offset = ((name & 0xffff) - 1) * SEGMENT_BYTES;
	out->segment = memory_map_at(&m->map, out->place.extent, out->place.offset);
}

int memory_segment_alloc(struct memory *m, bool spare, unsigned count, struct memory_segment *out)
{
	int rc = 0;

	pthread_mutex_lock(&m->pool_lock);
	if (spare && m->segments.free < low_water(m) / 2 + count) {
		rc = -ENOMEM;
	} else if (m->segments.free >= count) {
		for (unsigned i = 0; i < count; i++)
			take(m, &out[i]);
	} else {
		rc = growth_request(m, EXTENT_INDEX, (uint64_t)count * SEGMENT_BYTES);
	}
	if (!spare && m->segments.free <= low_water(m))
		growth_order(m, EXTENT_INDEX, SEGMENT_BYTES);
	pthread_mutex_unlock(&m->pool_lock);
	return rc;
}

void segment_free(struct memory *m, struct memory_place place)
{
	uint32_t name = segment_name(place.extent, place.offset / SEGMENT_BYTES);

	assert(place.offset % SEGMENT_BYTES == 0);
	pthread_mutex_lock(&m->pool_lock);
	if (head_of(m, name)->incarnation < SEGMENT_INCARNATION_MAX) {
		put_free(m, name);
	} else {
		m->segments.exhausted++;
		m->segments.total--;
	}
	pthread_mutex_unlock(&m->pool_lock);
}

unsigned memory_test_segment_incarnation(struct memory *m, uint32_t used, unsigned max)
{
	unsigned n = 0;

	pthread_mutex_lock(&m->pool_lock);
	for (uint32_t name = m->segments.first; name && n < max; name = head_of(m, name)->next) {
		if (head_of(m, name)->incarnation >= used)
			continue;
		head_of(m, name)->incarnation = used;
		n++;
	}
	pthread_mutex_unlock(&m->pool_lock);
	return n;
}
