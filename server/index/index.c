/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Making of the index: as many segments as the slots asked for need, one for each directory entry,
 * all headers written before the first client comes. What it allocates belongs to server/memory.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/base/hash.h"
#include "server/index/index_internal.h"

#define SEGMENT_SLOTS (SEGMENT_BUCKETS * BUCKET_SLOTS)

/* Segments and directories of this life of the server: nothing is replaced yet. */
#define FIRST_INCARNATION 1u

static void segment_init(struct segment *s, uint32_t prefix, unsigned depth)
{
	/* Nobody reads yet: the extent's directory entry comes later. Slots and overflow are
	 * zero. */
	for (unsigned i = 0; i < SEGMENT_BUCKETS; i++)
		atomic_store_explicit(
			&s->bucket[i].header,
			bucket_header_make(FIRST_INCARNATION, prefix, depth, false, 0),
			memory_order_relaxed);
}

static struct directory *directory_create(struct index *ix, const struct index_config *config,
					  struct error *err)
{
	uint64_t bytes = sizeof(struct directory) + (sizeof(uint64_t) << ix->depth);
	struct directory *d;
	unsigned extent;

	if (memory_extent_add(ix->memory, EXTENT_DIR, bytes, &extent, err)) {
		error_prefix(err, "the directory");
		return NULL;
	}
	d = memory_addr(ix->memory, extent, 0, bytes);
	assert(d);
	d->magic = DIRECTORY_MAGIC;
	d->depth = ix->depth;
	d->incarnation = FIRST_INCARNATION;
	d->server_incarnation = config->server_incarnation;
	d->checksum = hash_bytes(d, offsetof(struct directory, checksum));
	ix->described = (struct root_directory){
		.extent = extent,
		.depth = ix->depth,
		.offset = 0,
		.incarnation = FIRST_INCARNATION,
	};
	return d;
}

/* All segments, in as few INDEX extents as will do. */
static int segments_create(struct index *ix, struct directory *d, struct error *err)
{
	uint64_t segments = 1ull << ix->depth, made = 0;

	while (made < segments) {
		uint64_t bytes = (segments - made) * SEGMENT_BYTES;
		uint64_t room;
		unsigned extent;
		int rc;

		if (bytes > EXTENT_BYTES_MAX)
			bytes = EXTENT_BYTES_MAX;
		rc = memory_extent_add(ix->memory, EXTENT_INDEX, bytes, &extent, err);
		if (rc) {
			error_prefix(err, "the index of %llu segments",
				     (unsigned long long)segments);
			return rc;
		}
		room = memory_extent_bytes(ix->memory, extent) / SEGMENT_BYTES;
		for (uint64_t i = 0; i < room && made < segments; i++, made++) {
			struct segment *s =
				memory_addr(ix->memory, extent, i * SEGMENT_BYTES, SEGMENT_BYTES);

			assert(s);
			segment_init(s, (uint32_t)made, ix->depth);
			ix->segment[made].segment = s;
			/* pairs with the client's fetch of the entry: segment before entry */
			atomic_store_explicit(&d->entry[made],
					      directory_entry_make(FIRST_INCARNATION, ix->depth,
								   extent, (unsigned)i),
					      memory_order_release);
		}
	}
	return 0;
}

static int config_depth(const struct index_config *config, unsigned *depth, struct error *err)
{
	uint64_t segments =
		config->slots_min / SEGMENT_SLOTS + (config->slots_min % SEGMENT_SLOTS ? 1 : 0);

	*depth = 0;
	while ((1ull << *depth) < segments && *depth < DEPTH_MAX)
		(*depth)++;
	if ((1ull << *depth) < segments)
		return error_set(err, -EINVAL,
				 "an index of %llu slots is beyond the %llu that a directory of "
				 "depth %u has; set fewer",
				 (unsigned long long)config->slots_min,
				 (unsigned long long)SEGMENT_SLOTS << DEPTH_MAX, DEPTH_MAX);
	return 0;
}

int index_create(struct index **out, struct memory *m, const struct index_config *config,
		 struct error *err)
{
	struct index *ix;
	struct directory *d;
	unsigned depth;
	int rc;

	rc = config_depth(config, &depth, err);
	if (rc)
		return rc;
	ix = calloc(1, sizeof(*ix));
	if (!ix)
		return error_set(err, -ENOMEM, "no memory for the index; free memory");
	ix->memory = m;
	ix->depth = depth;
	ix->segment = calloc((size_t)1 << depth, sizeof(*ix->segment));
	ix->stripe = aligned_alloc(sizeof(*ix->stripe), INDEX_STRIPES * sizeof(*ix->stripe));
	if (!ix->segment || !ix->stripe) {
		rc = error_set(err, -ENOMEM, "no memory for the index's locks; free memory");
		goto err_free;
	}
	d = directory_create(ix, config, err);
	rc = d ? segments_create(ix, d, err) : err ? err->code : -ENOMEM;
	if (rc)
		goto err_free;
	for (unsigned i = 0; i < INDEX_STRIPES; i++) {
		pthread_mutex_init(&ix->stripe[i].lock, NULL);
		atomic_init(&ix->stripe[i].records, 0);
	}
	*out = ix;
	return 0;

err_free:
	free(ix->stripe);
	free(ix->segment);
	free(ix);
	return rc;
}

void index_destroy(struct index *ix)
{
	for (unsigned i = 0; i < INDEX_STRIPES; i++)
		pthread_mutex_destroy(&ix->stripe[i].lock);
	free(ix->stripe);
	free(ix->segment);
	free(ix);
}

void index_describe(const struct index *ix, struct root_directory *out)
{
	*out = ix->described;
	root_directory_seal(out);
}

void index_stats_get(const struct index *ix, struct index_stats *out)
{
	*out = (struct index_stats){
		.segments = 1ull << ix->depth,
		.buckets = (uint64_t)SEGMENT_BUCKETS << ix->depth,
		.depth = ix->depth,
	};
	for (unsigned i = 0; i < INDEX_STRIPES; i++)
		out->records += atomic_load_explicit(&ix->stripe[i].records, memory_order_relaxed);
	out->overflow_used = atomic_load_explicit(&ix->overflow_used, memory_order_relaxed);
	out->slots = (out->buckets + out->overflow_used) * BUCKET_SLOTS;
}
