/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Shrinking: two buddies that hold little become one segment; a directory of which no segment needs
 * the last two levels gets half its size.
 *
 * The order is that of a split (split.c), with two old segments and one new one. Buddies have the
 * same stripes, since the directory never has less depth than STRIPE_DEPTH.
 *
 * A merge takes memory before it gives some back, and gives it back only when the last reader
 * is through. Nothing is added for that: where few segments are free they stay as they are and the
 * index is untidy; it is gone over again later (index_tidy()).
 *
 * Between the limits of a split, at 4/5 of a segment, and of a merge, at 1/4 of the result, an
 * index whose records come and go stays as it is.
 */
#include <assert.h>
#include <errno.h>

#include "server/index/index_internal.h"

/* At most so many merges in one go: each of them locks out writers for a while. */
#define MERGES_AT_ONCE 4u

/* Segments that one call of index_tidy() looks at. */
#define TIDY_SEGMENTS 1024u

/* must hold shape. Replace two buddies by one segment. Returns 0; -EAGAIN, -ENOMEM: no segment;
 * -ENOSPC: their chains do not fit into one. */
static int merge(struct index *ix, uint64_t hash, const struct index_segment buddy[2],
		 unsigned depth, struct index_retired *retired)
{
	struct builder one;
	int rc = memory_segment_alloc(ix->memory, true, 1, &one.s);

	if (rc)
		return rc;
	builder_begin(&one, hash_prefix(hash, depth - 1), depth - 1);
	stripes_lock(ix, hash);
	rc = segment_copy(ix, &buddy[0], &one, false);
	if (rc == 0)
		rc = segment_copy(ix, &buddy[1], &one, false);
	if (rc == 0 && one.overflow_used < SPLIT_OVERFLOW) {
		builder_publish(ix, &one);
		segment_leave(ix, &buddy[0], retired);
		segment_leave(ix, &buddy[1], retired);
		atomic_fetch_add_explicit(&ix->merges, 1, memory_order_relaxed);
	} else {
		rc = -ENOSPC;
	}
	stripes_unlock(ix, hash);
	if (rc)
		memory_free(ix->memory, one.s.place); /* never published */
	return rc;
}

static unsigned records_of(const struct index_segment *s)
{
	return atomic_load_explicit(&s->head->records, memory_order_relaxed);
}

/* must hold shape, or the hash's stripe, which is the buddy's as well. Their depth, or 0: they are
 * not to be merged. */
static unsigned sparse_buddies(const struct index *ix, uint64_t hash, struct index_segment buddy[2])
{
	unsigned depth;

	buddy[0] = index_segment_of(ix, hash);
	depth = directory_entry_depth(buddy[0].entry);
	if (depth <= STRIPE_DEPTH)
		return 0;
	buddy[1] = index_segment_of(ix, hash ^ 1ull << (64 - depth));
	if (directory_entry_depth(buddy[1].entry) != depth ||
	    records_of(&buddy[0]) + records_of(&buddy[1]) > MERGE_RECORDS)
		return 0;
	return depth;
}

bool shape_is_sparse(const struct index *ix, uint64_t hash)
{
	struct index_segment buddy[2];

	/* seq_cst: pairs with tidy_some(); a locked addition to the count came before */
	return !atomic_load_explicit(&ix->untidy, memory_order_seq_cst) &&
	       sparse_buddies(ix, hash, buddy);
}

/* must hold shape. Merge the segment of @hash with its buddy, if both are sparse. Returns 1: done;
 * 0: they are not; -EAGAIN, -ENOMEM: no memory. */
static int merge_if_sparse(struct index *ix, uint64_t hash, struct index_retired *retired)
{
	struct index_segment buddy[2];
	unsigned depth = sparse_buddies(ix, hash, buddy);
	int rc = depth ? merge(ix, hash, buddy, depth, retired) : -ENOSPC;

	if (depth && rc == -ENOSPC)
		ix->merges_failed++;
	return rc == -ENOSPC ? 0 : rc ? rc : 1;
}

/* must hold shape */
static void halve_if_deep(struct index *ix, struct index_retired *retired)
{
	unsigned depth = index_directory(ix)->depth;

	if (depth > STRIPE_DEPTH && !ix->at_depth[depth] && !ix->at_depth[depth - 1])
		directory_resize(ix, depth - 1, retired); /* or later */
}

/* must hold shape. As many steps as fit into @retired. Returns whether something was done. */
static bool shrink(struct index *ix, uint64_t hash, struct index_retired *retired)
{
	int rc = 0;

	for (unsigned i = 0; i < MERGES_AT_ONCE; i++) {
		rc = merge_if_sparse(ix, hash, retired);
		if (rc <= 0)
			break;
	}
	if (rc < 0 || rc == 1) /* no memory, or no end yet */
		atomic_store_explicit(&ix->untidy, true, memory_order_relaxed);
	halve_if_deep(ix, retired);
	return retired->count > 0;
}

static_assert(2 * MERGES_AT_ONCE + 1 <= INDEX_RETIRED_MAX, "two segments a merge, one directory");

void index_shrink(struct index *ix, uint64_t hash, struct index_retired *retired)
{
	retired->count = 0;
	pthread_mutex_lock(&ix->shape);
	shrink(ix, hash, retired);
	pthread_mutex_unlock(&ix->shape);
}

/* must hold shape. One call's share of a pass. Returns whether something was done. */
static bool tidy_some(struct index *ix, struct index_retired *retired)
{
	uint64_t failed = ix->merges_failed;

	/*
	 * A new pass: what it leaves undone sets the flag again. seq_cst: a delete changes the
	 * count of records, then looks at the flag; here the flag changes, then the counts are
	 * looked at: one of the two sees the other.
	 */
	if (ix->tidy_hash == 0)
		atomic_exchange_explicit(&ix->untidy, false, memory_order_seq_cst);
	for (unsigned i = 0; i < TIDY_SEGMENTS && ix->merges_failed - failed < MERGES_AT_ONCE;
	     i++) {
		uint64_t hash = ix->tidy_hash;
		bool changed = shrink(ix, hash, retired);
		unsigned depth = directory_entry_depth(index_segment_of(ix, hash).entry);

		ix->tidy_hash = (hash | UINT64_MAX >> depth) + 1;
		if (changed || ix->tidy_hash == 0)
			return changed;
	}
	return true;
}

bool index_tidy(struct index *ix, struct index_retired *retired)
{
	bool more;

	retired->count = 0;
	pthread_mutex_lock(&ix->shape);
	more = tidy_some(ix, retired);
	atomic_store_explicit(&ix->tidying, more || ix->tidy_hash, memory_order_relaxed);
	pthread_mutex_unlock(&ix->shape);
	return more;
}

bool index_untidy(const struct index *ix)
{
	return atomic_load_explicit(&ix->untidy, memory_order_relaxed) ||
	       atomic_load_explicit(&ix->tidying, memory_order_relaxed);
}
