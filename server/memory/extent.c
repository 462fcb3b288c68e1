/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Extents and the table that lists them for clients.
 *
 * Extents are added one at a time (extent_lock). They stay until the end (I6), but for DATA extents
 * that hold nothing when the index needs their room: release.c.
 *
 * SIZES. The first of each kind has 4 MiB. DATA doubles from one to the next, up to 256 MiB; from
 * the second on it has room for the largest record. Where the store's size comes near it leaves
 * the index, which grows in the same budget, the share that the index has now beside the data
 * that there is: with small records a quarter, with large ones next to nothing. And it never takes
 * the last 1/64 of the store's size, in which what INDEX has counts: so that the index can grow a
 * little in a store that is full of large records. INDEX grows by an eighth of what it has: its
 * share of a record is small, and should not be rounded up by half. What was asked for is the least
 * in any case.
 *
 * ORDERING. Local threads: `bytes` of an extent is stored last, with release, and loaded first,
 * with acquire; all other fields are constant from then on. Clients: the four words of a table
 * entry are stored once, over zeros, the checksum last with release; a release stores zeros over
 * them, the checksum first. What a client fetches is therefore for each word either zero or final;
 * the checksum word is either zero, which is not the checksum of any entry that was made here
 * (asserted), or final, and then a missing word shows.
 * The entry stands before the first slot or directory entry that names the extent: its number is
 * handed out after that, through a lock, and the slot's own store is a release.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/memory/memory_internal.h"

static const char *const kind_names[] = { "none", "gracekv-index", "gracekv-dir", "gracekv-data" };

const char *extent_name(enum extent_kind kind)
{
	return kind_names[kind];
}

uint64_t memory_extent_most(const struct memory *m)
{
	return m->config.extent_bytes_max;
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

uint64_t extent_room(const struct memory *m, enum extent_kind kind)
{
	uint64_t used = atomic_load_explicit(&m->bytes_committed, memory_order_relaxed);
	uint64_t left = m->config.bytes_max - used, kept = 0, index;

	if (kind == EXTENT_DATA) {
		index = atomic_load_explicit(&m->kind_bytes[EXTENT_INDEX], memory_order_relaxed);
		kept = m->config.bytes_max / INDEX_RESERVE_SHARE / SLAB_BYTES * SLAB_BYTES;
		kept = kept > index ? kept - index : 0;
	}
	return left > kept ? (left - kept) / SLAB_BYTES * SLAB_BYTES : 0;
}

/* must hold extent_lock. How large the next extent of @kind would like to be, see SIZES. */
static uint64_t extent_wish(struct memory *m, enum extent_kind kind, uint64_t left)
{
	uint64_t have = atomic_load_explicit(&m->kind_bytes[kind], memory_order_relaxed);
	uint64_t want = EXTENT_BYTES_FIRST;

	if (kind == EXTENT_INDEX && have / INDEX_GROWTH_SHARE > want)
		want = have / INDEX_GROWTH_SHARE;
	if (kind == EXTENT_DATA && have) {
		uint64_t index = segments_used_bytes(m), most;

		for (unsigned i = m->kind_count[kind]; i && want < memory_extent_most(m); i--)
			want *= 2;
		if (want < EXTENT_BYTES_RUN)
			want = EXTENT_BYTES_RUN;
		most = (left >> 20) * have / (have + index) << 20;
		if (want > most)
			want = most;
		most = fill_left(m);
		if (most && want > most)
			want = most;
	}
	if (want > memory_extent_most(m))
		want = memory_extent_most(m);
	return want < HUGEPAGE_BYTES ? want : round_up(want - HUGEPAGE_BYTES + 1, HUGEPAGE_BYTES);
}

/*
 * must hold extent_lock. How large the next extent of @kind should be, and must be; makes room for
 * it where that is possible.
 */
static int extent_size(struct memory *m, enum extent_kind kind, uint64_t bytes_min, uint64_t *least,
		       uint64_t *want, struct error *err)
{
	uint64_t left;

	if (m->extents == EXTENTS_MAX)
		return error_set(
			err, -ENOSPC,
			"the extent table is full: %u extents of up to %u MiB are the most "
			"that this layout can address",
			EXTENTS_MAX, EXTENT_BYTES_MAX >> 20);
	if (bytes_min > memory_extent_most(m))
		return error_set(err, -EINVAL,
				 "an extent of %llu bytes was asked for, over the "
				 "limit of %llu",
				 (unsigned long long)bytes_min,
				 (unsigned long long)memory_extent_most(m));
	*least = round_up(bytes_min ? bytes_min : 1, SLAB_BYTES);
	*want = extent_wish(m, kind, extent_room(m, kind));
	if (*want < *least)
		*want = round_up(*least, HUGEPAGE_BYTES);
	if (kind != EXTENT_DATA)
		extents_make_room(m, kind, *least, *want);
	left = extent_room(m, kind);
	if (*least > left)
		return error_set(
			err, -ENOSPC,
			"an extent of %llu MiB does not fit: of %llu MiB %llu are left for "
			"it; raise the store's size",
			(unsigned long long)(*least >> 20),
			(unsigned long long)(m->config.bytes_max >> 20),
			(unsigned long long)(left >> 20));
	if (*want > left)
		*want = left;
	return 0;
}

/* Map as much as is wanted, or less where the system has no more, but at least @least. */
static int extent_map(struct memory *m, struct mapping *map, enum extent_kind kind, uint64_t least,
		      uint64_t want, struct error *err)
{
	int rc;

	if (fill_take(m, kind, least, map))
		return 0;
	for (;;) {
		rc = mapping_create(map, kind_names[kind], want, m, err);
		if (rc == 0 || rc == -ECANCELED || want == least)
			return rc;
		want = round_up(want / 2, SLAB_BYTES);
		if (want < least)
			want = least;
	}
}

/* What is kept of the parts of an extent outside of registered memory. */
static int extent_heads(struct extent *x, unsigned number, uint64_t bytes, struct error *err)
{
	unsigned slabs = (unsigned)(bytes / SLAB_BYTES);

	if (x->kind == EXTENT_INDEX) {
		x->head = calloc(bytes / SEGMENT_BYTES, sizeof(*x->head));
		return x->head ? 0
			       : error_set(err, -ENOMEM,
					   "no memory for the heads of %llu segments; free memory",
					   (unsigned long long)(bytes / SEGMENT_BYTES));
	}
	if (x->kind != EXTENT_DATA)
		return 0;
	x->slab = calloc(slabs, sizeof(*x->slab));
	x->slab_bits = calloc(slabs, SLAB_WORDS * sizeof(uint64_t));
	if (!x->slab || !x->slab_bits) {
		free(x->slab);
		free(x->slab_bits);
		return error_set(err, -ENOMEM, "no memory for the headers of %u slabs; free memory",
				 slabs);
	}
	for (unsigned i = 0; i < slabs; i++) {
		x->slab[i].extent = (uint16_t)number;
		x->slab[i].number = (uint16_t)i;
		x->slab[i].free = x->slab_bits + (size_t)i * SLAB_WORDS;
	}
	return 0;
}

void heads_free(struct extent *x)
{
	free(x->slab);
	free(x->slab_bits);
	free(x->head);
}

/* Enter an extent into the table that clients fetch; see ORDERING. */
static void extent_enter(struct memory *m, unsigned number, const struct extent *x, uint64_t bytes)
{
	struct extent_entry entry = {
		.addr = (uint64_t)(uintptr_t)x->base,
		.length = bytes,
		.rkey = x->region.rkey,
		.kind = x->kind,
	};
	_Atomic uint64_t *to = (_Atomic uint64_t *)&m->table[number];
	uint64_t word[sizeof(entry) / sizeof(uint64_t)];

	extent_entry_seal(&entry);
	assert(entry.checksum != 0);
	memcpy(word, &entry, sizeof(entry));
	for (unsigned i = 0; i < 3; i++)
		atomic_store_explicit(&to[i], word[i], memory_order_relaxed);
	/* pairs with the client's check: a sound checksum has all words before it */
	atomic_store_explicit(&to[3], word[3], memory_order_release);
}

/* must hold extent_lock */
static int extent_add(struct memory *m, enum extent_kind kind, uint64_t bytes_min,
		      struct error *err)
{
	const struct memory_hooks *hooks = &m->config.hooks;
	unsigned number = m->extents;
	struct extent *x = &m->extent[number];
	struct mapping map;
	uint64_t least = 0, want = 0;
	int rc;

	rc = extent_size(m, kind, bytes_min, &least, &want, err);
	if (rc)
		return rc;
	rc = extent_map(m, &map, kind, least, want, err);
	if (rc)
		return rc;
	x->base = map.base;
	x->fd = map.fd;
	x->kind = kind;
	x->hugepages = map.hugepages;
	rc = extent_heads(x, number, map.bytes, err);
	if (rc)
		goto err_map;
	fill_ahead(m, kind, map.bytes);
	rc = hooks->register_region(hooks->ctx, map.fd, map.base, map.bytes, &x->region, err);
	if (rc)
		goto err_heads;
	/* relaxed: handed on with the extent's number, through a lock */
	atomic_store_explicit(&m->map.base[number], map.base, memory_order_relaxed);
	extent_enter(m, number, x, map.bytes);
	if (hooks->elsewhere)
		x->elsewhere = hooks->elsewhere(hooks->ctx, map.base, map.bytes);
	atomic_fetch_add_explicit(&m->elsewhere_bytes, x->elsewhere, memory_order_relaxed);
	if (map.hugepages)
		atomic_fetch_add_explicit(&m->hugepage_bytes, map.bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&m->bytes_committed, map.bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&m->kind_bytes[kind], map.bytes, memory_order_relaxed);
	m->kind_count[kind]++;
	atomic_store_explicit(&m->extents, number + 1, memory_order_relaxed);
	/* pairs with extent_bytes(): the other fields before bytes */
	atomic_store_explicit(&x->bytes, map.bytes, memory_order_release);
	return 0;

err_heads:
	heads_free(x);
err_map:
	mapping_destroy(&map);
	memset(x, 0, sizeof(*x));
	return rc;
}

/* must hold extent_lock. The new extent goes to the pool of its kind. */
static void extent_give(struct memory *m, unsigned number)
{
	uint64_t bytes = memory_extent_bytes(m, number);

	switch (m->extent[number].kind) {
	case EXTENT_INDEX:
		segments_add(m, number, (unsigned)(bytes / SEGMENT_BYTES));
		break;
	case EXTENT_DIR:
		directories_add(m, number);
		break;
	default:
		pool_add(m, number, (unsigned)(bytes / SLAB_BYTES));
		break;
	}
}

int memory_extent_add(struct memory *m, enum extent_kind kind, uint64_t bytes_min, unsigned *extent,
		      struct error *err)
{
	int rc;

	assert(kind == EXTENT_INDEX || kind == EXTENT_DIR || kind == EXTENT_DATA);
	pthread_mutex_lock(&m->extent_lock);
	rc = extent_add(m, kind, bytes_min, err);
	if (rc == 0) {
		*extent = m->extents - 1;
		extent_give(m, *extent);
		fill_tell(m);
	}
	pthread_mutex_unlock(&m->extent_lock);
	return rc;
}

void extents_destroy(struct memory *m)
{
	for (unsigned i = EXTENTS_MAX; i-- > 0;) {
		struct extent *x = &m->extent[i];
		struct mapping map = { x->base, memory_extent_bytes(m, i), x->fd, x->hugepages };

		if (!map.bytes)
			continue; /* not there, or released */
		if (m->config.hooks.unregister_region(m->config.hooks.ctx, &x->region) == 0)
			mapping_destroy(&map);
		heads_free(x);
	}
	m->extents = 0;
}

uint64_t memory_extent_bytes(const struct memory *m, unsigned extent)
{
	if (extent >= EXTENTS_MAX)
		return 0;
	/* pairs with extent_add(): the other fields before bytes */
	return atomic_load_explicit(&m->extent[extent].bytes, memory_order_acquire);
}

void *memory_addr(const struct memory *m, unsigned extent, uint64_t offset, uint64_t bytes)
{
	uint64_t have = memory_extent_bytes(m, extent);

	if (have == 0 || offset > have || bytes > have - offset)
		return NULL;
	return m->extent[extent].base + offset;
}

const struct memory_map *memory_map(const struct memory *m)
{
	return &m->map;
}

const struct memory_region *memory_extent_region(const struct memory *m, unsigned extent)
{
	return memory_extent_bytes(m, extent) ? &m->extent[extent].region : NULL;
}
