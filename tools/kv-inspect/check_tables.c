/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What a check looks at before it comes to segments: root, extent table, directory. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "tools/kv-inspect/check.h"
#include "tools/kv-inspect/decode.h"

static int look_at_root(struct inspect *in, void *arg)
{
	struct check *c = arg;
	int rc = reads_root(in, &c->root);

	if (rc)
		return rc;
	return root_extents_sound(&c->root.extents) ? 0 : INSPECT_AGAIN;
}

/* The words that change. */
static void root_words(struct check *c)
{
	/* relaxed: a private copy */
	uint64_t epoch = atomic_load_explicit(&c->root.epoch, memory_order_relaxed);
	uint64_t floor = atomic_load_explicit(&c->root.hint_floor, memory_order_relaxed);
	struct finding f = { .kind = FINDING_EPOCH, .word = epoch, .certain = true };

	f.place = c->in->r->world->root_addr + offsetof(struct root, epoch);
	c->clock_ms = atomic_load_explicit(&c->root.clock_ms, memory_order_relaxed);
	if (!c->epoch_first)
		c->epoch_first = epoch;
	if (epoch < c->epoch_last)
		check_found(c, &f, "root: the epoch was %" PRIu64 " and is %" PRIu64, c->epoch_last,
			    epoch);
	c->epoch_last = epoch;
	if (floor > epoch) { /* the words of one READ may be of different moments */
		f = (struct finding){ .kind = FINDING_ROOT, .place = f.place, .word = floor };
		check_found(c, &f, "root: the hint floor %" PRIu64 " is above the epoch %" PRIu64,
			    floor, epoch);
	}
}

int check_root(struct check *c)
{
	int rc = inspect_settle(c->in, look_at_root, c);
	struct finding f = { .kind = FINDING_ROOT };
	const char *page, *table;
	char text[JUDGE_TEXT];

	if (rc < 0)
		return rc;
	f.place = c->in->r->world->root_addr;
	f.word = c->root.magic;
	page = judge_root(&c->root, c->in->incarnation, text);
	if (page)
		check_found(c, &f, "root: %s", page);
	table = judge_root_extents(&c->root.extents, text);
	f.place += offsetof(struct root, extents);
	f.word = c->root.extents.checksum;
	if (table)
		check_found(c, &f, "root, place of the extent table: %s", table);
	root_words(c);
	c->usable = !page && !table;
	if (c->usable)
		world_set_root(c->in->r->world, &c->root);
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct extent_entry *const *x = a, *const *y = b;

	return (*x)->addr < (*y)->addr ? -1 : (*x)->addr > (*y)->addr;
}

static uint64_t entry_place(const struct check *c, const struct table_look *l,
			    const struct extent_entry *e)
{
	return c->in->r->world->table_addr + (uint64_t)(e - l->entry) * sizeof(*e);
}

/* @sorted: sound ones, by address. */
static void check_overlaps(struct check *c, const struct table_look *l,
			   const struct extent_entry *const *sorted, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++) {
		const struct extent_entry *a = sorted[i - 1], *b = sorted[i];
		struct finding f = { .kind = FINDING_EXTENT,
				     .place = entry_place(c, l, b),
				     .word = b->checksum };

		if (a->addr + a->length > b->addr)
			check_found(c, &f,
				    "extent %zu at 0x%" PRIx64 " overlaps extent %zu at 0x%" PRIx64,
				    (size_t)(b - l->entry), b->addr, (size_t)(a - l->entry),
				    a->addr);
	}
}

int check_extents(struct check *c)
{
	autofree struct table_look *l = malloc(sizeof(*l));
	autofree const struct extent_entry **sorted = calloc(EXTENTS_MAX, sizeof(*sorted));
	char text[JUDGE_TEXT];
	uint32_t count = 0;
	int rc;

	if (!l || !sorted)
		return inspect_failed(c->in, -ENOMEM, "out of memory for the extent table");
	rc = inspect_section(c->in, reads_table, l);
	memset(c->totals.extents, 0, sizeof(c->totals.extents));
	memset(c->totals.extent_bytes, 0, sizeof(c->totals.extent_bytes));
	for (uint32_t i = 0; i < l->count && rc == 0; i++) {
		const struct extent_entry *e = &l->entry[i];
		struct finding f = { .kind = FINDING_EXTENT,
				     .place = entry_place(c, l, e),
				     .word = e->checksum };
		const char *fault = judge_extent(e, text);

		if (fault) {
			check_found(c, &f, "extent table, entry %u: %s", i, fault);
			continue;
		}
		if (!e->kind)
			continue;
		sorted[count++] = e;
		c->totals.extents[e->kind]++;
		c->totals.extent_bytes[e->kind] += e->length;
	}
	if (rc)
		return rc;
	qsort(sorted, count, sizeof(*sorted), by_address);
	check_overlaps(c, l, sorted, count);
	return 0;
}

static int by_word(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* A segment's place, and below it where in the directory: of each run that names one. */
static uint64_t segment_key(uint64_t entry, uint64_t first)
{
	return ((uint64_t)directory_entry_extent(entry) << 16 | directory_entry_segment(entry))
		       << DEPTH_MAX |
	       first;
}

static void check_shared(struct check *c, uint64_t *keys, size_t count)
{
	const struct dir_cache *d = c->directory.entries;
	const uint64_t mask = (1ull << DEPTH_MAX) - 1;

	qsort(keys, count, sizeof(*keys), by_word);
	for (size_t i = 1; i < count; i++) {
		uint64_t first = keys[i] & mask;
		struct finding f = { .kind = FINDING_ENTRY,
				     .place = d->addr + sizeof(struct directory) + 8 * first,
				     .word = judge_entry_at(d, first) };

		if (keys[i] >> DEPTH_MAX == keys[i - 1] >> DEPTH_MAX)
			check_found(c, &f,
				    "directory, entry %" PRIu64 ": its segment %u of extent %u is "
				    "that of entry %" PRIu64 " as well",
				    first, directory_entry_segment(f.word),
				    directory_entry_extent(f.word), keys[i - 1] & mask);
	}
}

struct entries_look {
	struct check *c;
	size_t base; /* findings before it */
	uint64_t *keys; /* room for as many as there are entries */
	size_t count;
};

static int look_at_entries(struct inspect *in, void *arg)
{
	struct entries_look *l = arg;
	const struct dir_cache *d = l->c->directory.entries;
	uint64_t all = 1ull << d->depth, count;
	char text[JUDGE_TEXT], bits[DECODE_PREFIX];
	const struct extent *x;
	struct extent room;

	findings_cut(&l->c->open, l->base);
	l->count = 0;
	for (uint64_t i = 0; i < all; i += count) {
		uint64_t entry = judge_entry_at(d, i);
		struct finding f = { .kind = FINDING_ENTRY,
				     .place = d->addr + sizeof(struct directory) + 8 * i,
				     .word = entry };
		const char *fault;
		int rc = reads_known(in, directory_entry_extent(entry), &room, &x);

		if (rc)
			return rc;
		count = judge_run_length(d, i);
		fault = judge_run(d, i, count, x, text);
		if (fault)
			check_found(l->c, &f,
				    "directory, entry %" PRIu64 " (bits %s, 0x%016" PRIx64 "): %s",
				    i, decode_prefix(bits, (uint32_t)i, d->depth), entry, fault);
		else
			l->keys[l->count++] = segment_key(entry, i);
	}
	return 0;
}

static int check_entries(struct check *c)
{
	struct entries_look l = { .c = c, .base = c->open.count };
	int rc;

	l.keys = malloc(sizeof(*l.keys) << c->directory.entries->depth);
	if (!l.keys)
		return inspect_failed(c->in, -ENOMEM, "out of memory for a directory of depth %u",
				      c->directory.entries->depth);
	rc = inspect_section(c->in, look_at_entries, &l);
	if (rc == 0)
		check_shared(c, l.keys, l.count);
	free(l.keys);
	return rc;
}

int check_directory(struct check *c)
{
	struct directory_look *d = &c->directory;
	struct finding f = { .kind = FINDING_DIRECTORY };
	int rc = inspect_settle(c->in, reads_directory, d);

	if (rc < 0)
		return rc;
	f.place = d->addr ? d->addr : c->in->r->world->root_addr + offsetof(struct root, directory);
	f.word = d->addr ? d->header.checksum : d->at.checksum;
	if (rc) {
		check_found(c, &f, "%s: %s", d->addr ? "directory" : "root, place of the directory",
			    d->fault);
		return 0;
	}
	reads_use(c->in, d);
	c->totals.depth = d->entries->depth;
	c->totals.entries = 1ull << d->entries->depth;
	return check_entries(c);
}
