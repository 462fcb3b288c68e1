/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The walk over all segments, and what is looked at in one.
 *
 * It goes over the space of hashes, as a scan does, since the directory may change: a step looks at
 * the segment of a hash, and goes on after the last hash of which the directory has the same
 * entry.
 *
 * A segment is looked at in passes, a section each: all of its buckets, then blocks of slots that
 * were not dealt with, SECTION_BYTES at most. Where the segment was replaced between two passes it
 * is started over. Chains are judged by the buckets of the last pass.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "tools/kv-inspect/segment_walk.h"

#define SECTION_BYTES (4u << 20)
#define BEGUN_MAX     64u /* times that a segment is started over */

/* A sound block: is it where it belongs, and what does it add up to? */
static void take_record(struct segment_walk *w, const struct block *b, unsigned position,
			uint32_t bytes)
{
	uint64_t slot = walk_slot(w, position), now_ms = w->c->clock_ms;
	unsigned bucket = position / BUCKET_SLOTS;
	struct check_records *n = &w->records;
	char text[JUDGE_TEXT];
	const char *fault = judge_record(b, slot, walk_header(w, bucket), w->chain[bucket], text);

	if (fault) {
		walk_found_slot(w, FINDING_RECORD, position, true, fault);
		return;
	}
	w->met[w->keys++] =
		(struct met){ b->key_hash, hash_bytes_seeded(b->data, b->key_len, ~b->key_hash),
			      position };
	if (b->key_hash < w->s.hash || b->key_hash > w->last) /* walked over, or to be */
		return;
	n->records++;
	n->bytes += bytes;
	n->expiring += b->expiry_ms != 0;
	n->expired += b->expiry_ms && b->expiry_ms <= now_ms;
}

static void judge_fetched(struct segment_walk *w, const struct block *b, uint32_t len,
			  unsigned position)
{
	struct judged j = judge_block(b, len, w->c->in->r->world->hash_seed);
	bool obsolete = j.state == BLOCK_OBSOLETE && j.checksum_good && j.hash_good;

	w->done[position / 64] |= 1ull << position % 64;
	w->records.block_bytes += len;
	if (j.fault)
		walk_found_slot(w, obsolete ? FINDING_STATE : FINDING_BLOCK, position, !obsolete,
				j.fault);
	else
		take_record(w, b, position, j.bytes);
}

/* READ what was gathered, and judge it. */
static int fetch(struct segment_walk *w)
{
	int rc = w->count ? reader_read(w->c->in->r, w->op, w->count) : 0;

	for (unsigned i = 0; i < w->count && rc == 0; i++)
		judge_fetched(w, w->op[i].local, w->op[i].len, w->position[i]);
	w->count = 0;
	w->used = 0;
	return rc;
}

/* One block into the chain of READs; @budget: bytes that the section may still READ. */
static int gather(struct segment_walk *w, unsigned position, uint64_t *budget)
{
	struct reader *r = w->c->in->r;
	struct placed p;
	int rc = reads_place(w->c->in, walk_slot(w, position), &p);

	if (rc)
		return rc;
	if (p.fault) {
		w->done[position / 64] |= 1ull << position % 64;
		walk_found_slot(w, FINDING_SLOT, position, false, p.fault);
		return 0;
	}
	if (*budget < p.bytes && *budget < SECTION_BYTES) {
		w->left = true;
		return 0;
	}
	if (w->count == READER_BATCH || (w->count && w->used + p.bytes > r->fetch.arena_len)) {
		rc = fetch(w);
		if (rc)
			return rc;
	}
	if (p.bytes > r->fetch.arena_len) { /* the first: nothing stands there yet */
		rc = fetch_grow(&r->fetch, p.bytes);
		if (rc)
			return rc;
	}
	w->op[w->count] = (struct read_op){ .remote = p.addr,
					    .rkey = p.rkey,
					    .len = p.bytes,
					    .local = r->fetch.arena + w->used,
					    .lkey = r->fetch.arena_lkey };
	w->position[w->count++] = position;
	w->used += p.bytes;
	*budget -= *budget < p.bytes ? *budget : p.bytes;
	return 0;
}

/* Which chain each bucket is of; none is of two. */
static void find_chains(struct segment_walk *w)
{
	memset(w->chain, NO_CHAIN, sizeof(w->chain));
	for (unsigned i = 0; i < SEGMENT_BUCKETS; i++) {
		unsigned at = i, next;

		w->chain[i] = (uint8_t)i;
		while (walk_fits(w, at)) {
			next = bucket_header_overflow(walk_header(w, at));
			at = SEGMENT_BUCKETS + next - 1;
			if (!next || next > SEGMENT_OVERFLOW || w->chain[at] != NO_CHAIN)
				break;
			w->chain[at] = (uint8_t)i;
		}
	}
}

/* The last hash after @hash with the same entry. */
static uint64_t same_entry(const struct dir_cache *d, uint64_t hash)
{
	uint64_t first = hash_prefix(hash, d->depth);
	uint64_t end = first + judge_run_length(d, first);

	return end == 1ull << d->depth ? UINT64_MAX : (end << (64 - d->depth)) - 1;
}

static void begin_anew(struct segment_walk *w)
{
	w->begun++;
	w->entry = w->s.entry;
	w->keys = 0;
	memset(w->done, 0, sizeof(w->done));
	findings_cut(&w->c->open, w->base);
	w->records = (struct check_records){ 0 };
}

static int pass(struct inspect *in, void *arg)
{
	struct segment_walk *w = arg;
	uint64_t budget = SECTION_BYTES;
	int rc = reads_segment(in, &w->s);

	w->left = false;
	w->count = 0;
	w->used = 0;
	if (rc < 0 || (rc && !w->unfit))
		return rc;
	w->last = same_entry(in->r->dir, w->s.hash);
	if (!w->s.placed)
		return 0;
	if (w->s.entry != w->entry || !w->begun)
		begin_anew(w);
	find_chains(w);
	rc = 0;
	for (unsigned i = 0; i < POSITIONS && rc == 0 && !w->left; i++) {
		unsigned bucket = i / BUCKET_SLOTS;

		if (w->chain[bucket] != NO_CHAIN && walk_fits(w, bucket) && walk_slot(w, i) &&
		    !(w->done[i / 64] >> i % 64 & 1))
			rc = gather(w, i, &budget);
	}
	return rc ? rc : fetch(w);
}

/* The segment of @hash. Its last hash stands in w->last. */
static int check_segment(struct segment_walk *w, uint64_t hash)
{
	int rc;

	w->s.hash = hash;
	w->s.placed = false;
	w->unfit = w->left = false;
	w->begun = 0;
	w->keys = 0;
	w->records = (struct check_records){ 0 };
	w->base = w->c->open.count;
	do {
		rc = inspect_settle(w->c->in, pass, w);
		if (rc == INSPECT_AGAIN) {
			w->unfit = true;
			rc = inspect_section(w->c->in, pass, w);
		}
	} while (rc == 0 && w->left && w->begun <= BEGUN_MAX);
	if (rc == 0)
		walk_judge(w);
	return rc;
}

/* The directory can not be read any more: that is a finding, and an end. */
static void found_no_directory(struct segment_walk *w, uint64_t at)
{
	struct finding f = { .kind = FINDING_DIRECTORY,
			     .place = w->c->in->r->world->root_addr +
				      offsetof(struct root, directory) };

	check_found(w->c, &f, "hashes from 0x%016" PRIx64 " on could not be looked at: %s", at,
		    w->c->in->r->err->text);
}

/* The step is made. */
static void walked(struct segment_walk *w)
{
	struct check *c = w->c;

	if (!w->counting)
		return;
	c->walked_all = w->last == UINT64_MAX;
	c->walked_to = w->last + 1;
	if (c->progress)
		c->progress(w->last >> 32, UINT32_MAX);
}

int check_segments(struct check *c, uint64_t first, uint64_t last)
{
	struct segment_walk *w = c->walk;
	int rc;

	if (!w)
		c->walk = w = calloc(1, sizeof(*w));
	if (!w)
		return inspect_failed(c->in, -ENOMEM, "out of memory for a check");
	w->c = c;
	for (uint64_t at = first;; at = w->last + 1) {
		if (c->in->ops->stopped(c->in->ctx)) {
			c->interrupted = true;
			return 0;
		}
		w->counting = !c->walked_all && at >= c->walked_to;
		rc = check_segment(w, at);
		if (rc == -EPROTO) {
			found_no_directory(w, at);
			return 0;
		}
		if (rc)
			return rc;
		walked(w);
		if (w->last >= last)
			return 0;
	}
}
