/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Growth: a segment becomes two, while readers go on.
 *
 * ORDER (DESIGN 3; tests/model/split.pml)
 * 1. two segments are taken and their headers written; nobody knows them;
 * 2. all stripes of the old segment are locked: its writers wait, readers go on;
 * 3. its slots are copied, each into the half that its key belongs to. Blocks do not move;
 * 4. the directory's entries name the new segments, one release store each;
 * 5. every header of the old segment, overflow too, is marked MOVED;
 * 6. the stripes are unlocked, and only now a write is applied in the new segments;
 * 7. the old segment is retired: local and remote grace period.
 *
 * WHY NO READER IS WRONG. Until 6 both segments say the same, so between 4 and 6 it does not
 * matter which one a reader meets. After 5 whoever READs a header of the old one sees MOVED and
 * looks at the directory again. A reader that has its header from before 5 and slots from
 * whenever: the old slots stay as they were at 3, so what it finds is what was true before 6, at
 * a moment inside its look-up; a slot whose record was replaced since leads to a block that is
 * OBSOLETE, or, when it is read first, was LIVE then. What it misses was absent before 6. Marking
 * at 5 and not later matters because of a second reader: one with a fresh directory may return a
 * value that was written after 6, and a look-up that begins after that must not miss it.
 *
 * Where there is no memory for a split, or the directory is as deep as it may be, the chains go on
 * with the second half of the overflow buckets.
 */
#include <assert.h>

#include "common/base/mutant.h"
#include "server/index/index_internal.h"

void stripes_lock(struct index *ix, uint64_t hash)
{
	struct index_stripe *first = index_stripe_of(ix, hash) - hash_bucket(hash);

	for (unsigned i = 0; i < SEGMENT_BUCKETS; i++)
		pthread_mutex_lock(&first[i].lock);
}

void stripes_unlock(struct index *ix, uint64_t hash)
{
	struct index_stripe *first = index_stripe_of(ix, hash) - hash_bucket(hash);

	for (unsigned i = SEGMENT_BUCKETS; i-- > 0;)
		pthread_mutex_unlock(&first[i].lock);
}

/* Two segments with the prefixes below @prefix, or none. */
static int halves_begin(struct builder half[2], struct index *ix, uint32_t prefix, unsigned depth)
{
	struct memory_segment s[2];
	int rc = memory_segment_alloc(ix->memory, false, 2, s);

	if (rc)
		return rc;
	for (unsigned i = 0; i < 2; i++) {
		half[i].s = s[i];
		builder_begin(&half[i], prefix << 1 | i, depth);
	}
	return 0;
}

/* must hold shape */
static int split(struct index *ix, uint64_t hash, struct index_retired *retired)
{
	struct index_segment old = index_segment_of(ix, hash);
	unsigned depth = directory_entry_depth(old.entry) + 1;
	struct builder half[2];
	int rc;

	if (atomic_load_explicit(&old.head->overflow_used, memory_order_relaxed) < SPLIT_OVERFLOW)
		return 0; /* somebody else was first */
	if (depth > index_directory(ix)->depth) {
		rc = directory_resize(ix, depth, retired);
		if (rc)
			return rc;
	}
	rc = halves_begin(half, ix, hash_prefix(hash, depth - 1), depth);
	if (rc)
		return rc;
	stripes_lock(ix, hash);
	rc = segment_copy(ix, &old, half, true);
	assert(rc == 0); /* no chain of a half is longer than the one that it came from */
	builder_publish(ix, &half[0]);
	builder_publish(ix, &half[1]);
	if (MUTANT(moved_late)) {
		stripes_unlock(ix, hash);
		mutant_linger(MUTANT_LINGER_US);
		segment_leave(ix, &old, retired);
	} else {
		segment_leave(ix, &old, retired);
		stripes_unlock(ix, hash);
	}
	atomic_fetch_add_explicit(&ix->splits, 1, memory_order_relaxed);
	return 0;
}

int index_split(struct index *ix, uint64_t hash, struct index_retired *retired)
{
	int rc;

	retired->count = 0;
	pthread_mutex_lock(&ix->shape);
	rc = split(ix, hash, retired);
	pthread_mutex_unlock(&ix->shape);
	return rc;
}
