/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The directory: for each prefix of hashes the segment that holds them, in registered memory, for
 * local and remote readers alike.
 *
 * ENTRIES. One aligned word each, stored with release after the segment's own words. A segment
 * whose depth is less than the directory's stands in several; while they are changed one by one a
 * reader may meet the old segment or the new one. Both are good: the writers of the segment wait
 * until the old one is MOVED (split.c).
 *
 * REPLACEMENT. A directory never changes its size: it is copied into one of twice or half the
 * size. Nothing but the shape's lock is needed, since entries change under it only. The old one
 * is retired like a block; until its memory is reused it keeps the entries of that day. They may
 * lead to segments that are MOVED by now, whose headers say so. A reader that finds one of those
 * looks at root, which names the new directory since before the next segment could be marked
 * (directory_publish() under the same hold of the lock).
 *
 * REUSE. The memory of a directory holds parts of others later, at any offset. Its header is zeroed
 * first, before an entry of the new one is written, and its own header is written last:
 * a header that is sound stands over its own entries. Incarnations of directories are never
 * given out twice. An entry that a reader took from memory that was reused under its READ is
 * some directory's word all the same, and counts only if it leads to a bucket whose header has
 * the hash's own prefix and is not MOVED, which is then the right one.
 *
 * ROOT. The descriptor is written word by word, the checksum last: a mixture does not verify, and
 * the client reads it again.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/hash.h"
#include "server/index/index_internal.h"

/* Towards a NIC, or a reader with a stray address: header gone before other words change. */
static void fence_header_before_entries(void)
{
#ifndef __SANITIZE_THREAD__ /* does not know fences; no local reader depends on this one */
	atomic_thread_fence(memory_order_release);
#endif
}

static void word_store(void *to, uint64_t word)
{
	/* relaxed: ordered by the checksum's or the pointer's release */
	atomic_store_explicit((_Atomic uint64_t *)to, word, memory_order_relaxed);
}

/* must hold shape */
static void describe(const struct index *ix, struct root_directory *out)
{
	const struct directory *d = index_directory(ix);

	*out = (struct root_directory){
		.extent = ix->directory_place.extent,
		.depth = d->depth,
		.offset = ix->directory_place.offset,
		.incarnation = d->incarnation,
	};
	root_directory_seal(out);
}

/* must hold shape. The descriptor of the newest directory, into root. */
static void describe_in_root(struct index *ix)
{
	struct root_directory fresh;
	uint64_t word[4];

	if (!ix->root)
		return;
	describe(ix, &fresh);
	memcpy(word, &fresh, sizeof(word));
	static_assert(offsetof(struct root_directory, checksum) == 3 * sizeof(uint64_t), "last");
	for (unsigned i = 0; i < 3; i++)
		word_store((uint64_t *)ix->root + i, word[i]);
	/* pairs with the client's check: a sound checksum has all words before it */
	atomic_store_explicit((_Atomic uint64_t *)&ix->root->checksum, word[3],
			      memory_order_release);
}

/* Room for a directory, its header gone: nothing of its former lives verifies from now on. */
static int directory_take(struct index *ix, unsigned depth, struct memory_place *place,
			  struct directory **out)
{
	struct directory *d;
	int rc = memory_directory_alloc(ix->memory, depth, place, &d);

	if (rc)
		return rc;
	for (unsigned i = 0; i < sizeof(*d) / sizeof(uint64_t); i++)
		word_store((uint64_t *)d + i, 0);
	fence_header_before_entries();
	*out = d;
	return 0;
}

/* Write the header; everyone follows @d from now on. */
static void directory_publish(struct index *ix, struct directory *d, unsigned depth,
			      struct memory_place place)
{
	struct directory header = {
		.magic = DIRECTORY_MAGIC,
		.depth = depth,
		.incarnation = ++ix->directory_incarnation,
		.server_incarnation = ix->server_incarnation,
	};

	header.checksum = hash_bytes(&header, offsetof(struct directory, checksum));
	d->depth = depth;
	d->incarnation = header.incarnation;
	d->server_incarnation = header.server_incarnation;
	d->checksum = header.checksum;
	/* pairs with the client's check of the header that it READs after the entries */
	atomic_store_explicit((_Atomic uint64_t *)&d->magic, header.magic, memory_order_release);
	ix->directory_place = place;
	/* pairs with index_directory(): the directory's words before the pointer to it */
	atomic_store_explicit(&ix->directory, d, memory_order_release);
	describe_in_root(ix);
}

int directory_first(struct index *ix, unsigned depth)
{
	struct memory_place place;
	struct directory *d;
	int rc = directory_take(ix, depth, &place, &d);

	if (rc == 0)
		directory_publish(ix, d, depth, place);
	return rc;
}

/* The smallest depth that holds so many segments. */
static unsigned depth_for(uint64_t segments)
{
	unsigned depth = 0;

	while (1ull << depth < segments)
		depth++;
	return depth;
}

int directory_resize(struct index *ix, unsigned depth, struct index_retired *retired)
{
	struct directory *old = index_directory(ix), *d;
	uint64_t segments = atomic_load_explicit(&ix->segments, memory_order_relaxed);
	bool larger = depth > old->depth;
	struct memory_place place;
	uint64_t bytes = sizeof(*d) + (sizeof(uint64_t) << old->depth);
	int rc;

	if (depth > DEPTH_MAX || (larger && depth > depth_for(segments) + DEPTH_SLACK))
		return -ENOSPC;
	rc = directory_take(ix, depth, &place, &d);
	if (rc)
		return rc;
	for (uint64_t i = 0; i < 1ull << depth; i++) {
		const _Atomic uint64_t *from = &old->entry[larger ? i >> 1 : i << 1];

		/* relaxed: written under shape; published by the header and the pointer */
		atomic_store_explicit(&d->entry[i],
				      atomic_load_explicit(from, memory_order_relaxed),
				      memory_order_relaxed);
	}
	shape_retire(retired, ix->directory_place, bytes);
	directory_publish(ix, d, depth, place);
	atomic_fetch_add_explicit(larger ? &ix->doublings : &ix->halvings, 1, memory_order_relaxed);
	return 0;
}

void directory_enter(struct index *ix, uint32_t prefix, unsigned depth,
		     const struct memory_segment *s)
{
	struct directory *d = index_directory(ix);
	unsigned below = d->depth - depth;
	uint64_t entry = directory_entry_make(s->incarnation, depth, s->place.extent,
					      s->place.offset / SEGMENT_BYTES);

	for (uint64_t i = 0; i < 1ull << below; i++)
		/* pairs with index_entry() and the client's fetch: segment before entry */
		atomic_store_explicit(&d->entry[((uint64_t)prefix << below) + i], entry,
				      memory_order_release);
}

void index_describe(struct index *ix, struct root_directory *out)
{
	pthread_mutex_lock(&ix->shape);
	describe(ix, out);
	pthread_mutex_unlock(&ix->shape);
}

void index_set_root(struct index *ix, struct root_directory *root)
{
	pthread_mutex_lock(&ix->shape);
	ix->root = root;
	describe_in_root(ix);
	pthread_mutex_unlock(&ix->shape);
}
