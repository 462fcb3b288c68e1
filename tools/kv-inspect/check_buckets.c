/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What is judged of a segment when its passes are over: headers, chains, keys met twice. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/layout/slot.h"
#include "tools/kv-inspect/decode.h"
#include "tools/kv-inspect/segment_walk.h"

static uint64_t bucket_place(const struct segment_walk *w, unsigned bucket)
{
	return w->s.addr + (uint64_t)bucket * BUCKET_BYTES;
}

static struct finding finding_of(const struct segment_walk *w, enum finding_kind kind,
				 uint64_t place, uint64_t word)
{
	return (struct finding){ .kind = kind,
				 .place = place,
				 .word = word,
				 .first = w->s.hash,
				 .last = w->last,
				 .ranged = true };
}

#define WHERE_MAX 96u

static const char *where(const struct segment_walk *w, char out[WHERE_MAX], unsigned bucket)
{
	unsigned depth = directory_entry_depth(w->s.entry);
	char bits[DECODE_PREFIX];

	decode_prefix(bits, depth <= DEPTH_MAX ? hash_prefix(w->s.hash, depth) : 0, depth);
	snprintf(out, WHERE_MAX, "segment %s, bucket %u (0x%" PRIx64 ")", bits, bucket,
		 bucket_place(w, bucket));
	return out;
}

void walk_found_slot(struct segment_walk *w, enum finding_kind kind, unsigned position,
		     bool certain, const char *what)
{
	unsigned bucket = position / BUCKET_SLOTS, slot = position % BUCKET_SLOTS;
	uint64_t word = walk_slot(w, position);
	struct finding f = finding_of(w, kind, bucket_place(w, bucket) + 8 + 8ull * slot, word);
	char text[WHERE_MAX];

	f.certain = certain;
	check_found(w->c, &f, "%s, slot %u (%u:0x%x): %s", where(w, text, bucket), slot,
		    slot_extent(word), slot_offset(word), what);
}

/* A link that leads out of the segment, or to a bucket of another chain, or back. */
static void check_link(struct segment_walk *w, unsigned bucket)
{
	unsigned next = bucket_header_overflow(walk_header(w, bucket));
	struct finding f =
		finding_of(w, FINDING_LINK, bucket_place(w, bucket), walk_header(w, bucket));
	char text[WHERE_MAX];

	if (next > SEGMENT_OVERFLOW)
		check_found(w->c, &f, "%s: it links to overflow bucket %u, of %u",
			    where(w, text, bucket), next, SEGMENT_OVERFLOW);
	else if (next && w->chain[SEGMENT_BUCKETS + next - 1] != w->chain[bucket])
		check_found(w->c, &f, "%s: it links to overflow bucket %u, which another chain has",
			    where(w, text, bucket), next);
}

static void check_bucket(struct segment_walk *w, unsigned bucket)
{
	uint64_t header = walk_header(w, bucket);
	char text[WHERE_MAX], words[JUDGE_TEXT];
	struct finding f = finding_of(w, FINDING_BUCKET, bucket_place(w, bucket), header);
	unsigned used = reads_used(&w->s.bucket[bucket]);

	if (w->chain[bucket] == NO_CHAIN) {
		f.kind = FINDING_ORPHAN;
		if (header || used)
			check_found(w->c, &f,
				    "%s: no chain leads to it, and %u of its slots are used",
				    where(w, text, bucket), used);
		return;
	}
	if (!walk_fits(w, bucket))
		check_found(w->c, &f, "%s: %s; %u of its slots are used", where(w, text, bucket),
			    judge_header(header, w->s.entry, w->s.hash, words), used);
	else
		check_link(w, bucket);
}

/* A chain that links to itself shows by its length: no bucket is met twice. */
static unsigned check_chain(struct segment_walk *w, unsigned bucket)
{
	unsigned at = bucket, buckets = 0, seen = 0;
	char text[WHERE_MAX];

	while (walk_fits(w, at)) {
		unsigned next = bucket_header_overflow(walk_header(w, at));
		struct finding f =
			finding_of(w, FINDING_LINK, bucket_place(w, at), walk_header(w, at));

		buckets++;
		if (!next || next > SEGMENT_OVERFLOW)
			break;
		if (seen >> next & 1) {
			check_found(w->c, &f,
				    "%s: it links back to overflow bucket %u of its chain",
				    where(w, text, at), next);
			break;
		}
		seen |= 1u << next;
		at = SEGMENT_BUCKETS + next - 1;
		if (w->chain[at] != w->chain[bucket])
			break;
	}
	return buckets;
}

static int by_hash(const void *a, const void *b)
{
	const struct met *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	if (x->other != y->other)
		return x->other < y->other ? -1 : 1;
	return x->position < y->position ? -1 : x->position > y->position;
}

static void check_twice(struct segment_walk *w)
{
	char text[WHERE_MAX];

	qsort(w->met, w->keys, sizeof(w->met[0]), by_hash);
	for (unsigned i = 1; i < w->keys; i++) {
		const struct met *a = &w->met[i - 1], *b = &w->met[i];

		if (a->hash != b->hash || a->other != b->other)
			continue;
		snprintf(text, sizeof(text), "its key stands in bucket %u, slot %u as well",
			 a->position / BUCKET_SLOTS, a->position % BUCKET_SLOTS);
		walk_found_slot(w, FINDING_TWICE, b->position, false, text);
	}
}

/* Nothing in it is of the entry: that is one finding, not one for each bucket. */
static bool check_entry(struct segment_walk *w)
{
	struct finding f = finding_of(w, FINDING_ENTRY, w->s.hash, w->s.entry);
	char text[WHERE_MAX], words[JUDGE_TEXT];
	bool any = false;

	for (unsigned i = 0; i < SEGMENT_BUCKETS && w->s.placed; i++)
		any |= walk_fits(w, i);
	if (any)
		return true;
	if (w->s.placed)
		check_found(w->c, &f, "%s, and all of the segment's: %s", where(w, text, 0),
			    judge_header(walk_header(w, 0), w->s.entry, w->s.hash, words));
	else
		check_found(w->c, &f,
			    "directory, entry of hash 0x%016" PRIx64 " (0x%016" PRIx64
			    "): it leads to no place that a segment can have",
			    w->s.hash, w->s.entry);
	return false;
}

static void count_segment(struct segment_walk *w, unsigned longest)
{
	unsigned depth = directory_entry_depth(w->s.entry);
	struct check_totals *t = &w->c->totals;
	struct check_depth *d = &t->by_depth[depth <= DEPTH_MAX ? depth : DEPTH_MAX];

	d->records += w->records.records;
	t->all.records += w->records.records;
	t->all.bytes += w->records.bytes;
	t->all.expiring += w->records.expiring;
	t->all.expired += w->records.expired;
	t->all.block_bytes += w->records.block_bytes;
	if (longest > t->longest_chain)
		t->longest_chain = longest;
	/* once, where its hashes are walked over in parts */
	if (depth > DEPTH_MAX || (depth && w->s.hash << depth))
		return;
	d->segments++;
	d->slots += (uint64_t)SEGMENT_BUCKETS * BUCKET_SLOTS;
	for (unsigned i = 0; i < SEGMENT_ALL; i++) {
		if (w->chain[i] == NO_CHAIN)
			continue;
		d->overflow += i >= SEGMENT_BUCKETS;
		d->used += reads_used(&w->s.bucket[i]);
	}
}

/* What the passes have brought. */
void walk_judge(struct segment_walk *w)
{
	unsigned longest = 0;

	if (!check_entry(w))
		return;
	for (unsigned i = 0; i < SEGMENT_ALL; i++)
		check_bucket(w, i);
	for (unsigned i = 0; i < SEGMENT_BUCKETS; i++) {
		unsigned buckets = check_chain(w, i);

		longest = buckets > longest ? buckets : longest;
	}
	check_twice(w);
	if (w->counting)
		count_segment(w, longest);
}
