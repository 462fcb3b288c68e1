/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "changing_store.h"

#include <stdio.h>

#include "common/layout/slot.h"
#include "tests/lib/unit.h"

#define SEGMENTS   190u /* the fake has room for 204 */
#define DEPTH_MOST 4u

uint64_t next_random(struct world_of_scan *w)
{
	w->seed = w->seed * 6364136223846793005ull + 1442695040888963407ull;
	return w->seed >> 33;
}

char *key_text(unsigned i)
{
	static char text[32];

	snprintf(text, sizeof(text), "%s %u", i < STAY ? "stay" : "other", i);
	return text;
}

const char *padded(const struct world_of_scan *w, const char *word)
{
	static char text[2048];

	snprintf(text, sizeof(text), "%s%*s", word, (int)w->padding, "");
	return text;
}

void fill(struct world_of_scan *w, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		fake_put(w->f, key_text(i), padded(w, "value"));
}

static void set_directory(struct fake *f, unsigned depth, const uint64_t *entry)
{
	fake_directory(f, depth, f->dir->incarnation + 1);
	for (unsigned i = 0; i < 1u << depth; i++)
		f->dir->entry[i] = entry[i];
}

static void leave_segment(struct fake *f, uint64_t entry)
{
	struct bucket *b = (void *)fake_segment_of(f, entry);

	for (unsigned i = 0; i < SEGMENT_BUCKETS + SEGMENT_OVERFLOW; i++)
		b[i].header |= 1ull << 53; /* MOVED */
}

static uint64_t hash_of_slot(struct fake *f, uint64_t slot)
{
	return ((const struct block *)(f->extent[FAKE_DATA] + slot_offset(slot)))->key_hash;
}

static void move_slots(struct fake *f, uint64_t from, const uint64_t *to, unsigned depth)
{
	const struct segment *old = fake_segment_of(f, from);

	for (unsigned i = 0; i < SEGMENT_BUCKETS * BUCKET_SLOTS; i++) {
		uint64_t slot = old->bucket[i / BUCKET_SLOTS].slot[i % BUCKET_SLOTS];
		struct bucket *b;
		unsigned at = i % BUCKET_SLOTS;

		if (!slot)
			continue;
		b = &fake_segment_of(f, to[hash_prefix(hash_of_slot(f, slot), depth)])
			     ->bucket[i / BUCKET_SLOTS];
		while (b->slot[at])
			at = (at + 1) % BUCKET_SLOTS;
		b->slot[at] = slot;
	}
}

/* Every entry of the directory becomes two, or two become one. */
static bool change_depth(struct fake *f, unsigned depth)
{
	uint64_t fresh[1u << DEPTH_MOST], old[1u << DEPTH_MOST];
	unsigned count = 1u << f->dir->depth;

	if (f->segments_used + (1u << depth) > SEGMENTS)
		return false;
	for (unsigned i = 0; i < count; i++)
		old[i] = f->dir->entry[i];
	for (unsigned i = 0; i < 1u << depth; i++)
		fresh[i] = fake_segment(f, i, depth);
	for (unsigned i = 0; i < count; i++) {
		if (i && old[i] == old[i - 1])
			continue; /* one segment */
		move_slots(f, old[i], fresh, depth);
		leave_segment(f, old[i]);
	}
	set_directory(f, depth, fresh);
	return true;
}

/* One segment alone: the directory has entries that are less deep than itself. */
static void split_one(struct fake *f, unsigned number)
{
	unsigned depth = f->dir->depth + 1, count = 1u << f->dir->depth;
	uint64_t entry[1u << DEPTH_MOST], old = f->dir->entry[number];

	if (depth > DEPTH_MOST || f->segments_used + 2 > SEGMENTS ||
	    directory_entry_depth(old) != f->dir->depth)
		return;
	for (unsigned i = 0; i < count; i++)
		entry[2 * i] = entry[2 * i + 1] = f->dir->entry[i];
	entry[2 * number] = fake_segment(f, 2 * number, depth);
	entry[2 * number + 1] = fake_segment(f, 2 * number + 1, depth);
	move_slots(f, old, entry, depth);
	leave_segment(f, old);
	set_directory(f, depth, entry);
}

_Atomic uint64_t *find_slot(struct fake *f, const char *key)
{
	struct bucket *b = fake_bucket(f, key);

	for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
		if (b->slot[i] && hash_of_slot(f, b->slot[i]) == fake_hash(f, key))
			return &b->slot[i];
	}
	return NULL;
}

void make_obsolete(struct fake *f, uint64_t slot)
{
	struct block *b = (void *)(f->extent[FAKE_DATA] + slot_offset(slot));

	b->state = block_state_make(9, BLOCK_OBSOLETE);
}

static void write_or_delete(struct world_of_scan *w)
{
	unsigned i = (unsigned)(next_random(w) % (STAY + OTHERS));
	_Atomic uint64_t *slot = find_slot(w->f, key_text(i));

	if (w->f->data_used + SLAB_BYTES > FAKE_EXTENT_BYTES)
		return;
	if (!slot) {
		fake_put(w->f, key_text(i), padded(w, "value"));
		return;
	}
	make_obsolete(w->f, *slot);
	if (i < STAY)
		*slot = fake_block(w->f, key_text(i), padded(w, "newer"), key_text(i), NULL);
	else
		*slot = 0;
}

void change(struct world_of_scan *w)
{
	struct fake *f = w->f;
	uint64_t what = next_random(w) % 12;

	if (what == 0 && f->dir->depth < DEPTH_MOST)
		w->splits += change_depth(f, f->dir->depth + 1);
	else if (what == 1 && f->dir->depth > DEPTH_LEAST)
		w->merges += change_depth(f, f->dir->depth - 1);
	else if (what == 2)
		split_one(f, (unsigned)(next_random(w) % (1u << f->dir->depth)));
	else if (what == 3)
		f->fail_at_chain = (int)f->chains + (int)(next_random(w) % 4);
	else
		for (unsigned i = 0; i < 4; i++)
			write_or_delete(w);
}

void before_chain(struct fake *f, const struct read_op *ops, unsigned count)
{
	struct world_of_scan *w = f->arg;

	if (w->every && next_random(w) % w->every == 0)
		change(w);
}

int set_up(void **state)
{
	struct world_of_scan *w = calloc(1, sizeof(*w));

	w->f = fake_create(DEPTH_LEAST);
	w->f->arg = w;
	w->f->before = before_chain;
	fake_handle_begin(&w->h, w->f);
	*state = w;
	return 0;
}

int tear_down(void **state)
{
	struct world_of_scan *w = *state;

	fake_handle_end(&w->h, w->f);
	fake_destroy(w->f);
	free(w);
	return 0;
}

void note(struct world_of_scan *w, const struct gkv_record *rec)
{
	const struct gkv_scan_options *o = &w->options;
	char text[32] = "";
	unsigned i;

	assert_in_range(rec->key_len, 1, 31);
	memcpy(text, rec->key, rec->key_len);
	assert_int_equal(sscanf(text, "%*s %u", &i), 1);
	assert_string_equal(text, key_text(i));
	assert_true(o->prefix_len == 0 || memcmp(text, o->prefix, o->prefix_len) == 0);
	assert_int_equal(rec->meta.value_len, 5 + w->padding);
	if (o->flags & GKV_SCAN_KEYS)
		assert_null(rec->value);
	else if (memcmp(rec->value, padded(w, "value"), rec->meta.value_len) != 0)
		assert_memory_equal(rec->value, padded(w, "newer"), rec->meta.value_len);
	assert_true(rec->meta.version > 0);
	w->visits[i]++;
}

unsigned scan_in_chunks(struct world_of_scan *w, size_t max)
{
	struct gkv_record *rec = calloc(max, sizeof(*rec));
	struct gkv_cursor *s = NULL;
	unsigned total = 0;
	int n;

	memset(w->visits, 0, sizeof(w->visits));
	assert_int_equal(gkv_scan_open(&w->h, &w->options, &s), 0);
	while ((n = gkv_scan_next(s, rec, max)) > 0) {
		assert_true((size_t)n <= max);
		for (int i = 0; i < n; i++)
			note(w, &rec[i]);
		total += (unsigned)n;
		if (w->every && next_random(w) % 4 == 0)
			change(w);
	}
	assert_int_equal(n, 0);
	assert_int_equal(gkv_scan_next(s, rec, max), 0); /* and so on */
	gkv_scan_close(s);
	free(rec);
	return total;
}
