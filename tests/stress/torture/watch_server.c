/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What the server does with its memory, counted into the pipe. The linker (--wrap) leads calls from
 * one file of the server to another through here; the server knows nothing of it.
 */
#include "server/reclaim/reclaim.h"
#include "tests/stress/model.h"
#include "tests/stress/torture/pipe.h"

#define EARLY_ONE_IN 32u /* retired blocks that a lie frees at once */

int __real_memory_alloc(struct memory_cache *cache, uint32_t bytes, struct memory_place *place,
			struct block **block);
int __wrap_memory_alloc(struct memory_cache *cache, uint32_t bytes, struct memory_place *place,
			struct block **block);
int __real_memory_segment_alloc(struct memory *m, bool spare, unsigned count,
				struct memory_segment *out);
int __wrap_memory_segment_alloc(struct memory *m, bool spare, unsigned count,
				struct memory_segment *out);
void __real_memory_free(struct memory *m, struct memory_place place);
void __wrap_memory_free(struct memory *m, struct memory_place place);
void __real_reclaim_retire(struct reclaim_worker *w, struct memory_place place, uint32_t bytes);
void __wrap_reclaim_retire(struct reclaim_worker *w, struct memory_place place, uint32_t bytes);

static struct pipe *_Atomic watched; /* NULL: not yet */
static enum watch_lie lie_told;
static struct memory *_Atomic freeing; /* whose blocks have been freed already */
static _Atomic unsigned retired;

void watch_server(struct pipe *p, enum watch_lie lie)
{
	lie_told = lie;
	atomic_store(&watched, p);
}

static void begin(struct pipe_place *at, uint32_t incarnation)
{
	atomic_store(&at->life, (uint64_t)incarnation << 8 | PIPE_USED);
}

/* Whether one of the places after the first has been a block's own: of another cut. */
static bool recut(struct pipe *p, struct memory_place place, uint32_t bytes)
{
	struct pipe_place *at = pipe_at(p, place.extent, place.offset);

	for (uint32_t i = 1; i < bytes / OFFSET_UNIT; i++) {
		if (atomic_load_explicit(&at[i].life, memory_order_relaxed))
			return true;
	}
	return false;
}

int __wrap_memory_alloc(struct memory_cache *cache, uint32_t bytes, struct memory_place *place,
			struct block **block)
{
	struct pipe *p = atomic_load(&watched);
	int rc = __real_memory_alloc(cache, bytes, place, block);
	struct pipe_place *at;

	if (rc || !p)
		return rc;
	at = pipe_at(p, place->extent, place->offset);
	count(&p->blocks, 1);
	if (atomic_load(&at->freed))
		count(&p->blocks_reused, 1);
	if (recut(p, *place, bytes))
		count(&p->recut, 1);
	begin(at, block_state_incarnation(
			  atomic_load_explicit(&(*block)->state, memory_order_relaxed)));
	return 0;
}

int __wrap_memory_segment_alloc(struct memory *m, bool spare, unsigned n,
				struct memory_segment *out)
{
	struct pipe *p = atomic_load(&watched);
	int rc = __real_memory_segment_alloc(m, spare, n, out);

	for (unsigned i = 0; p && rc == 0 && i < n; i++) {
		struct pipe_place *at = pipe_at(p, out[i].place.extent, out[i].place.offset);

		count(&p->segments, 1);
		if (atomic_load(&at->freed))
			count(&p->segments_reused, 1);
		begin(at, out[i].incarnation);
	}
	return rc;
}

void __wrap_memory_free(struct memory *m, struct memory_place place)
{
	struct pipe *p = atomic_load(&watched);
	struct pipe_place *at;

	if (p) {
		at = pipe_at(p, place.extent, place.offset);
		atomic_store(&freeing, m);
		atomic_store(&at->freed, atomic_fetch_add(&p->now, 1) + 1);
		atomic_store(&at->life, (atomic_load(&at->life) & ~0xffull) | PIPE_FREED);
	}
	__real_memory_free(m, place);
}

void __wrap_reclaim_retire(struct reclaim_worker *w, struct memory_place place, uint32_t bytes)
{
	struct pipe *p = atomic_load(&watched);
	struct memory *m = atomic_load(&freeing);
	struct pipe_place *at;

	if (p) {
		at = pipe_at(p, place.extent, place.offset);
		atomic_store(&at->life, (atomic_load(&at->life) & ~0xffull) | PIPE_RETIRED);
		if (lie_told == WATCH_FREE_EARLY && m &&
		    atomic_fetch_add(&retired, 1) % EARLY_ONE_IN == 0) {
			__wrap_memory_free(m, place); /* no grace period at all */
			return;
		}
	}
	__real_reclaim_retire(w, place, bytes);
}
