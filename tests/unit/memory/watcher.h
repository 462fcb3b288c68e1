/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Hooks that know what is registered, and check that all else of an extent has gone before it is
 * unregistered; and a store that is filled with blocks, emptied, and asked for segments.
 */
#include <fcntl.h>
#include <stdatomic.h>

#include "server/memory/memory_test.h"
#include "server/memory/size_class.h"
#include "tests/unit/memory/recorder.h"

#define HELD_MAX (1u << 14)

/* What is registered, and that all else has gone before it is unregistered. */
struct watcher {
	struct recorder recorder;
	struct memory *m;
	struct registered {
		uint8_t *addr; /* NULL: unregistered */
		size_t len;
		int fd; /* a peer's */
	} region[EXTENTS_MAX + 1]; /* by rkey - 1001; the first is the table */
	unsigned last; /* extent that was unregistered last */
	bool ending;
	struct memory_cache *claimed; /* gets nothing while extents are released */
};

struct held {
	struct memory_place place[HELD_MAX];
	unsigned count;
};

static struct watcher watcher;

static inline int watch_register(void *ctx, int fd, void *addr, size_t len,
				 struct memory_region *out, struct error *err)
{
	struct watcher *w = ctx;
	int rc = recorder_register(&w->recorder, fd, addr, len, out, err);

	if (rc == 0) {
		check(out->rkey - 1001 <= EXTENTS_MAX && !w->region[out->rkey - 1001].addr);
		w->region[out->rkey - 1001] = (struct registered){ addr, len, dup(fd) };
	}
	return rc;
}

static inline const _Atomic uint64_t *entry_words(const struct memory *m, unsigned extent)
{
	return (const _Atomic uint64_t *)memory_extent_table(m) + (size_t)extent * 4;
}

/* A region's place in the order of registration is its extent's number, but for the table's. */
static inline int watch_unregister(void *ctx, struct memory_region *region)
{
	struct watcher *w = ctx;
	struct registered *r = &w->region[region->rkey - 1001];
	unsigned extent = region->rkey - 1002;
	unsigned char sum = 0;

	check(r->addr); /* registered, and not unregistered before */
	if (w->claimed) {
		struct memory_place place;
		struct block *b;

		check(memory_alloc(w->claimed, MIB, &place, &b) == -EAGAIN);
	}
	if (!w->ending) {
		check(memory_extent_bytes(w->m, extent) == 0);
		check(!memory_addr(w->m, extent, 0, 1));
		check(!memory_extent_region(w->m, extent));
		check(!atomic_load(&memory_map(w->m)->base[extent]));
		for (unsigned i = 0; i < 4; i++)
			check(atomic_load(&entry_words(w->m, extent)[i]) == 0);
		w->last = extent;
	}
	/* still mapped, and without a byte of a record (but for state words) */
	for (size_t i = 64 + offsetof(struct block, version); !w->ending && i < r->len; i += 64)
		sum |= r->addr[i];
	check(sum == 0);
	r->addr = NULL;
	return recorder_unregister(&w->recorder, region);
}

static inline struct memory *watch_begin(uint64_t bytes_max)
{
	const struct memory_config config = {
		.bytes_max = bytes_max,
		.hooks = { watch_register, watch_unregister, &watcher },
	};
	struct error err = { 0 };
	unsigned x;

	memset(&watcher, 0, sizeof(watcher));
	if (memory_create(&watcher.m, &config, &err))
		fail_msg("%s", err.text);
	/* as a store begins */
	assert_int_equal(memory_extent_add(watcher.m, EXTENT_INDEX, 1, &x, &err), 0);
	return watcher.m;
}

/* Have the pages of a released extent gone, although a peer has its file? Not if in hugepages. */
static inline bool pages_have_gone(unsigned extent)
{
	struct stat st;

	check(fstat(watcher.region[extent + 1].fd, &st) == 0);
	return st.st_blocks == 0;
}

static inline void watch_end(void)
{
	struct recorder *r = &watcher.recorder;

	watcher.ending = true;
	memory_destroy(watcher.m);
	assert_int_equal(r->registered, r->unregistered);
	for (unsigned i = 0; i <= EXTENTS_MAX; i++) {
		if (watcher.region[i].len)
			close(watcher.region[i].fd);
	}
}

static inline uint64_t budget_used(const struct memory_stats *s)
{
	return s->extent_bytes[EXTENT_INDEX] + s->extent_bytes[EXTENT_DIR] +
	       s->extent_bytes[EXTENT_DATA];
}

/* What must hold whenever nothing happens: the sums fit each other, the table fits the extents. */
static inline struct memory_stats consistent(void)
{
	struct memory *m = watcher.m;
	uint64_t bytes = 0, data = 0;
	struct memory_stats s;

	memory_stats_get(m, &s);
	for (unsigned i = 0; i < EXTENTS_MAX; i++) {
		struct extent_entry e;

		memcpy(&e, (const struct extent_entry *)memory_extent_table(m) + i, sizeof(e));
		assert_int_equal(extent_entry_sound(&e), memory_extent_bytes(m, i) != 0);
		assert_int_equal(e.length, memory_extent_bytes(m, i));
		assert_true(watcher.region[i + 1].addr ==
			    (memory_extent_bytes(m, i) ? memory_addr(m, i, 0, 1) : NULL));
		bytes += e.length;
		if (e.kind == EXTENT_DATA)
			data += e.length;
	}
	assert_int_equal(bytes, budget_used(&s));
	assert_int_equal(data, s.extent_bytes[EXTENT_DATA]);
	assert_true(bytes <= s.bytes_max);
	assert_int_equal((s.slabs_used + s.slabs_free + s.slabs_dead) * SLAB_BYTES, data);
	assert_int_equal(s.extents_released, watcher.recorder.unregistered);
	return s;
}

static inline int hold(struct memory_cache *cache, struct held *h, uint32_t bytes)
{
	struct block *b;
	int rc = alloc_wait(watcher.m, cache, bytes, &h->place[h->count], &b);

	assert_true(h->count + 1 < HELD_MAX);
	if (rc == 0) {
		memset(b->data, 'x', bytes < 8192 ? bytes - BLOCK_HEADER_BYTES : 8192);
		h->count++;
	}
	return rc;
}

/* Fill the store with records of @bytes. */
static inline void hold_all(struct memory_cache *cache, struct held *h, uint32_t bytes)
{
	int rc;

	while ((rc = hold(cache, h, bytes)) == 0)
		;
	assert_int_equal(rc, -ENOMEM);
}

static inline void drop_all(struct held *h)
{
	while (h->count)
		memory_free(watcher.m, h->place[--h->count]);
}

/* Take a segment, waiting for growth. */
static inline int take_segment(void)
{
	struct memory_segment segment;
	int rc = -EAGAIN;

	for (unsigned i = 0; i < 100 && rc == -EAGAIN; i++) {
		rc = memory_segment_alloc(watcher.m, false, 1, &segment);
		if (rc == -EAGAIN)
			memory_growth_wait(watcher.m, 1000);
	}
	return rc;
}

/* Take @bytes of segments; returns how many could be had. */
static inline uint64_t take_segments(uint64_t bytes)
{
	uint64_t taken = 0;

	while (taken < bytes && take_segment() == 0)
		taken += SEGMENT_BYTES;
	memory_growth_wait(watcher.m, 5000); /* of what was ordered ahead */
	return taken;
}
