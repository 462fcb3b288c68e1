/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Begin and end of the index, and its statistics. What it allocates belongs to server/memory. */
#include <errno.h>
#include <stdlib.h>

#include "server/index/index_internal.h"

static int config_depth(const struct index_config *config, unsigned *depth, struct error *err)
{
	uint64_t segments =
		config->slots_min / SEGMENT_SLOTS + (config->slots_min % SEGMENT_SLOTS ? 1 : 0);

	*depth = STRIPE_DEPTH;
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

/* Extents for @segments of them. */
static int segments_commit(struct memory *m, uint64_t segments, struct error *err)
{
	uint64_t bytes = segments * SEGMENT_BYTES, most = memory_extent_most(m);

	while (bytes) {
		uint64_t piece = bytes < most ? bytes : most, got;
		unsigned extent;
		int rc = memory_extent_add(m, EXTENT_INDEX, piece, &extent, err);

		if (rc) {
			error_prefix(err, "the index of %llu segments",
				     (unsigned long long)segments);
			return rc;
		}
		got = memory_extent_bytes(m, extent) / SEGMENT_BYTES * SEGMENT_BYTES;
		bytes -= got < bytes ? got : bytes;
	}
	return 0;
}

static int segments_create(struct index *ix, unsigned depth)
{
	struct builder b;

	for (uint32_t prefix = 0; prefix < 1u << depth; prefix++) {
		int rc = memory_segment_alloc(ix->memory, false, 1, &b.s);

		if (rc)
			return rc;
		builder_begin(&b, prefix, depth);
		builder_publish(ix, &b);
	}
	return 0;
}

/* Directory and segments; extents that stay after a failure go with the memory. */
static int shape_create(struct index *ix, unsigned depth, struct error *err)
{
	uint64_t bytes = sizeof(struct directory) + (sizeof(uint64_t) << depth);
	unsigned extent;
	int rc = memory_extent_add(ix->memory, EXTENT_DIR, bytes, &extent, err);

	if (rc) {
		error_prefix(err, "the directory");
		return rc;
	}
	rc = segments_commit(ix->memory, 1ull << depth, err);
	if (rc)
		return rc;
	rc = directory_first(ix, depth);
	if (rc == 0)
		rc = segments_create(ix, depth);
	return rc ? error_set(err, rc,
			      "the index could not be made in the memory that was added "
			      "for it; this must not happen (report it)")
		  : 0;
}

static void index_free(struct index *ix)
{
	free(ix->copied);
	free(ix->expiry);
	free(ix->stripe);
	free(ix);
}

int index_create(struct index **out, struct memory *m, const struct index_config *config,
		 struct error *err)
{
	struct index *ix;
	unsigned depth;
	int rc;

	rc = config_depth(config, &depth, err);
	if (rc)
		return rc;
	ix = calloc(1, sizeof(*ix));
	if (!ix)
		return error_set(err, -ENOMEM, "no memory for the index; free memory");
	ix->memory = m;
	ix->map = memory_map(m);
	ix->server_incarnation = config->server_incarnation;
	ix->stripe = aligned_alloc(sizeof(*ix->stripe), INDEX_STRIPES * sizeof(*ix->stripe));
	ix->copied = calloc(SEGMENT_ALL * BUCKET_SLOTS, sizeof(*ix->copied));
	if (!ix->stripe || !ix->copied || expiry_create(ix)) {
		rc = error_set(err, -ENOMEM, "no memory for the index's locks; free memory");
		goto err_free;
	}
	rc = shape_create(ix, depth, err);
	if (rc)
		goto err_free;
	pthread_mutex_init(&ix->shape, NULL);
	for (unsigned i = 0; i < INDEX_STRIPES; i++) {
		pthread_mutex_init(&ix->stripe[i].lock, NULL);
		atomic_init(&ix->stripe[i].records, 0);
		atomic_init(&ix->stripe[i].record_bytes, 0);
	}
	*out = ix;
	return 0;

err_free:
	index_free(ix);
	return rc;
}

void index_destroy(struct index *ix)
{
	for (unsigned i = 0; i < INDEX_STRIPES; i++)
		pthread_mutex_destroy(&ix->stripe[i].lock);
	pthread_mutex_destroy(&ix->shape);
	index_free(ix);
}

static uint64_t get(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

void index_stats_get(const struct index *ix, struct index_stats *out)
{
	*out = (struct index_stats){
		.segments = get(&ix->segments),
		.overflow_used = get(&ix->overflow_used),
		.depth = index_directory(ix)->depth,
		.splits = get(&ix->splits),
		.merges = get(&ix->merges),
		.doublings = get(&ix->doublings),
		.halvings = get(&ix->halvings),
		.locks_bytes = INDEX_STRIPES * (sizeof(*ix->stripe) + sizeof(*ix->expiry)),
		.records_expiring = expiry_records(ix),
	};
	out->buckets = out->segments * SEGMENT_BUCKETS;
	for (unsigned i = 0; i < INDEX_STRIPES; i++) {
		out->records += get(&ix->stripe[i].records);
		out->record_bytes += get(&ix->stripe[i].record_bytes);
	}
	out->slots = (out->buckets + out->overflow_used) * BUCKET_SLOTS;
}
