/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Blocks: incarnations of an address grow, so the newest one that was published is all that has to
 * be kept: a word for each 64 B of each extent, in memory that is only there where it is touched.
 *
 * Segments: of each place the newest incarnation with the prefix and depth that it had. The same
 * incarnation under another prefix or depth is a second life, and so is a lower one. A look at the
 * directory that changes meanwhile is no harm: its entries are words, each right when it was read.
 */
#include "tests/stress/growth/watch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/layout/bucket.h"
#include "common/layout/root.h"
#include "server/reclaim/qsbr.h"

#define EXTENTS	      256u /* more than a run's memory has */
#define EXTENT_UNITS  (EXTENT_BYTES_MAX / OFFSET_UNIT)
#define EXTENT_PLACES (EXTENT_BYTES_MAX / SEGMENT_BYTES)

struct place {
	uint32_t incarnation;
	uint32_t home; /* prefix and depth, not 0 */
};

struct watch {
	struct model *model;
	_Atomic uint32_t *block; /* EXTENTS x EXTENT_UNITS */
	struct place *segment; /* EXTENTS x EXTENT_PLACES */
	_Atomic uint64_t blocks, blocks_reused;
	_Atomic uint32_t block_incarnation;
	struct watch_counts counts; /* of segments */
};

static void *sparse(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

#define BLOCK_BYTES   ((size_t)EXTENTS * EXTENT_UNITS * sizeof(uint32_t))
#define SEGMENT_PLACE ((size_t)EXTENTS * EXTENT_PLACES * sizeof(struct place))

struct watch *watch_create(struct model *m)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->model = m;
	w->block = sparse(BLOCK_BYTES);
	w->segment = sparse(SEGMENT_PLACE);
	if (w->block && w->segment)
		return w;
	watch_destroy(w);
	return NULL;
}

void watch_destroy(struct watch *w)
{
	if (!w)
		return;
	if (w->block)
		munmap(w->block, BLOCK_BYTES);
	if (w->segment)
		munmap(w->segment, SEGMENT_PLACE);
	free(w);
}

void watch_block(struct watch *w, struct memory_place place, uint32_t incarnation)
{
	uint32_t before, top;

	if (place.extent >= EXTENTS) {
		model_wrong(w->model, WRONG_STATE, MODEL_NO_KEY, "extent %u is not watched",
			    place.extent);
		return;
	}
	before = atomic_exchange(
		&w->block[(size_t)place.extent * EXTENT_UNITS + place.offset / OFFSET_UNIT],
		incarnation);
	if (before >= incarnation)
		model_wrong(w->model, WRONG_REUSED, MODEL_NO_KEY,
			    "the block at %u:%u was published with incarnation %u, after %u",
			    place.extent, place.offset, incarnation, before);
	atomic_fetch_add_explicit(before ? &w->blocks_reused : &w->blocks, 1, memory_order_relaxed);
	top = atomic_load_explicit(&w->block_incarnation, memory_order_relaxed);
	while (top < incarnation &&
	       !atomic_compare_exchange_weak(&w->block_incarnation, &top, incarnation))
		;
}

static void look(struct watch *w, uint64_t entry, uint32_t prefix)
{
	unsigned extent = directory_entry_extent(entry), number = directory_entry_segment(entry);
	uint32_t incarnation = directory_entry_incarnation(entry);
	uint32_t home = prefix << 5 | directory_entry_depth(entry);
	struct place *p;

	if (extent >= EXTENTS || number >= EXTENT_PLACES || !incarnation) {
		model_wrong(w->model, WRONG_STATE, MODEL_NO_KEY,
			    "directory entry %016llx names no segment", (unsigned long long)entry);
		return;
	}
	p = &w->segment[(size_t)extent * EXTENT_PLACES + number];
	if (p->incarnation == incarnation && p->home == home)
		return;
	if (p->incarnation >= incarnation)
		model_wrong(w->model, WRONG_REUSED, MODEL_NO_KEY,
			    "the segment %u:%u has incarnation %u and home %x, after %u and %x",
			    extent, number, incarnation, home, p->incarnation, p->home);
	w->counts.segments += p->incarnation == 0;
	w->counts.segments_reused += p->incarnation != 0;
	if (incarnation > w->counts.segment_incarnation)
		w->counts.segment_incarnation = incarnation;
	*p = (struct place){ incarnation, home };
}

void watch_segments(struct watch *w, struct server *s)
{
	struct root_directory at;
	const struct directory *d;

	qsbr_register(); /* a directory that was replaced stays until we are through */
	index_describe(s->store.index, &at);
	d = memory_addr(s->store.memory, at.extent, at.offset,
			sizeof(*d) + (sizeof(uint64_t) << at.depth));
	if (!d)
		model_wrong(w->model, WRONG_STATE, MODEL_NO_KEY,
			    "the directory of depth %u is not in memory", at.depth);
	for (uint32_t i = 0; d && i < 1u << at.depth; i++) {
		/* pairs with the entry's release store: segment before entry */
		uint64_t entry = atomic_load_explicit(&d->entry[i], memory_order_acquire);

		look(w, entry, i >> (at.depth - directory_entry_depth(entry)));
	}
	qsbr_unregister();
}

void watch_counts_get(const struct watch *w, struct watch_counts *out)
{
	*out = w->counts;
	out->blocks = atomic_load(&w->blocks);
	out->blocks_reused = atomic_load(&w->blocks_reused);
	out->block_incarnation = atomic_load(&w->block_incarnation);
}
