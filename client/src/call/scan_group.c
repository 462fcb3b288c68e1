/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* One pass over a group of buckets of a segment: what stands in them, then the blocks. */
#include <errno.h>
#include <string.h>

#include "client/src/know/lookup.h"
#include "client/src/call/scan.h"
#include "common/layout/block.h"

/* The buckets of one chain of READs, and those that they lead to. */
struct wanted {
	unsigned count;
	uint8_t bucket[READER_BATCH];
	uint32_t overflow_seen; /* a bit each; a chain that comes back is unsound */
};

static int place_segment(struct scan *s, uint64_t *addr, uint32_t *rkey)
{
	struct reader *r = s->r;
	uint64_t entry = directory_entry_of(r->dir, s->at);
	unsigned depth = directory_entry_depth(entry);
	int rc = segment_place(r, entry, addr, rkey);

	if (rc)
		return rc;
	if (entry != s->entry) { /* other slots: what was done in the old ones says nothing */
		scan_unmark(s);
		s->entry = entry;
	}
	s->last = s->at | (depth ? UINT64_MAX >> depth : UINT64_MAX);
	return 0;
}

/* Take what the fetched buckets hold. Returns 0, or SCAN_AGAIN: one is not of this segment. */
static int take_buckets(struct scan *s, struct wanted *w)
{
	struct wanted next = { .overflow_seen = w->overflow_seen };

	for (unsigned i = 0; i < w->count; i++) {
		const struct bucket *b = &s->r->fetch.buckets[i];
		/* relaxed: private copies */
		uint64_t header = atomic_load_explicit(&b->header, memory_order_relaxed);
		unsigned overflow = bucket_header_overflow(header);

		if (!bucket_header_fits(header, s->entry, s->at) || overflow > SEGMENT_OVERFLOW)
			return SCAN_AGAIN;
		for (unsigned j = 0; j < BUCKET_SLOTS; j++) {
			uint64_t slot = atomic_load_explicit(&b->slot[j], memory_order_relaxed);

			if (!slot)
				continue;
			s->found[s->found_count++] =
				(struct scan_slot){ slot, w->bucket[i] * BUCKET_SLOTS + j };
		}
		if (!overflow)
			continue;
		if (next.overflow_seen >> overflow & 1)
			return SCAN_AGAIN;
		next.overflow_seen |= 1u << overflow;
		next.bucket[next.count++] = (uint8_t)(SEGMENT_BUCKETS + overflow - 1);
	}
	*w = next;
	return 0;
}

static int fetch_buckets(struct scan *s)
{
	struct read_op op[READER_BATCH];
	struct reader *r = s->r;
	struct wanted w = { 0 };
	uint64_t addr;
	uint32_t rkey;
	int rc = place_segment(s, &addr, &rkey);

	if (rc)
		return rc == -ENOENT ? SCAN_AGAIN : rc;
	for (unsigned i = 0; i < s->width; i++)
		w.bucket[w.count++] = (uint8_t)(s->bucket + i);
	while (w.count) {
		for (unsigned i = 0; i < w.count; i++)
			op[i] = (struct read_op){
				.remote = addr + w.bucket[i] * BUCKET_BYTES,
				.rkey = rkey,
				.len = BUCKET_BYTES,
				.local = &r->fetch.buckets[i],
				.lkey = r->fetch.buckets_lkey,
			};
		rc = r->ops->read(r->ctx, op, w.count); /* not a get's: not counted */
		if (rc == 0)
			rc = take_buckets(s, &w);
		if (rc)
			return rc;
	}
	return 0;
}

/* How much is READ of a block that takes @whole bytes: all, or its head, which may do. */
static uint32_t bytes_wanted(const struct scan *s, uint32_t whole, unsigned position)
{
	if (!s->head || whole < s->head + s->spared || s->whole[position / 64] >> position % 64 & 1)
		return whole;
	return s->head;
}

static int fetch_blocks(struct scan *s)
{
	struct read_op op[READER_BATCH];
	struct reader *r = s->r;
	size_t used = 0;
	int rc;

	for (unsigned i = 0; i < s->found_count; i++) {
		const struct scan_slot *f = &s->found[i];
		struct read_op o = { 0 };
		uint32_t whole;

		if (scan_marked(s, f->position))
			continue;
		rc = slot_place(r, f->slot, &o.remote, &o.rkey, &whole);
		if (rc == -ENOENT) {
			s->bad++;
			continue;
		}
		if (rc)
			return rc;
		o.len = bytes_wanted(s, whole, f->position);
		if (s->count == READER_BATCH || (s->count && used + o.len > READER_ARENA_BYTES)) {
			s->left = true;
			break;
		}
		if (o.len > r->fetch.arena_len) { /* the first: nothing stands there yet */
			rc = fetch_grow(&r->fetch, o.len);
			if (rc)
				return rc;
		}
		o.local = r->fetch.arena + used;
		o.lkey = r->fetch.arena_lkey;
		used += o.len;
		op[s->count] = o;
		s->fetched[s->count++] = (struct scan_block){ o.local, o.len, whole, f->position };
	}
	return s->count ? r->ops->read(r->ctx, op, s->count) : 0;
}

int scan_fetch(struct scan *s)
{
	int rc;

	s->count = s->bad = s->found_count = 0;
	s->left = false;
	rc = fetch_buckets(s);
	if (rc == SCAN_AGAIN) {
		rc = directory_refresh(s->r, s->at);
		return rc ? rc : SCAN_AGAIN;
	}
	return rc ? rc : fetch_blocks(s);
}
