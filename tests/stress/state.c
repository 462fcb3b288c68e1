/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/stress/state.h"

#include <inttypes.h>
#include <time.h>

#include "common/base/time.h"
#include "server/memory/memory_test.h"

#define RELEASE_S	     20u
#define SEGMENT_INCARNATIONS 0xffffffu /* 24 bits */

void state_use_up(struct store *store, struct used_up *u, uint64_t left)
{
	struct memory *memory = store->memory;
	struct memory_stats m;
	unsigned slabs, segments;

	memory_stats_get(memory, &m);
	slabs = (unsigned)(m.bytes_max / SLAB_BYTES / 8);
	segments = (unsigned)(m.bytes_max / SEGMENT_BYTES / 64);
	u->slabs += memory_test_incarnation(memory, UINT32_MAX - (uint32_t)left, slabs - u->slabs);
	u->segments += memory_test_segment_incarnation(memory, SEGMENT_INCARNATIONS - 1,
						       segments - u->segments);
}

bool state_released(struct model *m, struct store *store)
{
	const struct timespec pause = { 0, 10 * NS_PER_MS };
	uint64_t end = time_now_ns() + RELEASE_S * NS_PER_S;
	struct reclaim_stats r;
	struct memory_stats memory;
	struct index_stats ix;

	for (;;) {
		reclaim_stats_get(store->reclaim, &r);
		if (!r.deferred_blocks || time_now_ns() >= end)
			break;
		nanosleep(&pause, NULL);
	}
	memory_stats_get(store->memory, &memory);
	index_stats_get(store->index, &ix);
	if (r.deferred_blocks || r.lost)
		model_wrong(m, WRONG_STATE, MODEL_NO_KEY,
			    "%" PRIu64 " retired blocks are still held, %" PRIu64 " were lost",
			    r.deferred_blocks, r.lost);
	else if (memory.segments_used != ix.segments)
		model_wrong(m, WRONG_STATE, MODEL_NO_KEY,
			    "%" PRIu64 " segments are in use, the index has %" PRIu64,
			    memory.segments_used, ix.segments);
	else
		return true;
	return false;
}
