/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Looking keys up, one-sided (DESIGN 2).
 *
 * A batch goes in rounds, one batch_round() each: a call that waits makes them in a row, a lane of
 * operations in flight makes one whenever its chain has come. A round READs in one chain all that
 * its look-ups wait for, blocks and buckets, and judges what came; what must be looked at again
 * takes part in the next round. Without conflicts a batch is one round trip where hints lead to all
 * of its records, two otherwise, and two more for each further part of blocks that the arena has no
 * room for (7).
 *
 *	START -> HINTED -> FOUND
 *	   |       |  the record is not there any more, or is another key's
 *	   v       v
 *	   +--> BUCKET -> BLOCK -> FOUND
 *	           |  ^      |
 *	           |  +------+  another match, next bucket of the chain, GONE, BAD
 *	           +-> ABSENT    no match in the whole chain
 *	           +-> ASK       READER_ATTEMPTS conflicts, or the record has expired
 *	HINTED, BLOCK -> LATER -> BUCKET  no room beside the blocks of others: the next section
 *
 * Invariants
 * 1. A bucket counts only where its header fits the directory entry that led to it, with the
 *    hash's own prefix: a stale directory cannot make a false miss.
 * 2. A live key never moves between slots of a segment, and an overflow bucket stays linked
 *    while its segment lives. So a chain that was READ bucket by bucket without a match means
 *    that the key was absent at some moment inside the look-up.
 * 3. A block counts only when block_verify() accepts its copy: I7, one version's bytes. Where a
 *    hint led to it, in the incarnation that the hint names; it was LIVE when it was READ, so
 *    nothing newer had been acknowledged before (a write makes OBSOLETE first): I2.
 * 4. ABSENT is never concluded from a block that is OBSOLETE, torn or another record's: the
 *    chain is READ again, from its first bucket.
 * 5. No READ leaves the extent, the slab or the segment that it is meant for (slot_place(),
 *    segment_place()): a READ out of bounds breaks the queue pair.
 * 6. Nothing found in one section is followed in another, but hints.
 * 7. A round READs no more of blocks than the arena takes, or one block that is larger, and what
 *    finds no room is put off to another section, but for the first: how long a section may be
 *    open, and memory waits for it, does not grow with the batch.
 * 8. A direct look-up READs a block with its header and key to the arena, as much after them as
 *    dest takes to dest, the rest to the arena. What came is judged in these three pieces, over
 *    the same bytes as one that came in one. Nothing is written outside of dest, and nothing to
 *    dest once its READs have ended, or their queue pair was destroyed.
 *
 * Ownership: batch, look-ups and the memory of fetch are the thread's that has the handle. From a
 * step that returned READs until they have come, or their queue pair was destroyed, the device
 * writes to that memory, and nobody looks at it.
 *
 * Ordering: READs of one chain may execute in any order; a block is READ only after the poll of
 * the completion of the bucket that names it, which is ordered after the server's block-before-slot
 * release (pairs with index_publish()). Blocks are judged before buckets, as a directory that is
 * READ again passes through the arena.
 *
 * Progress: each conflict counts, READER_ATTEMPTS of them end in ASK; a chain has at most
 * SEGMENT_OVERFLOW + 1 buckets of BUCKET_SLOTS slots; a hint is followed once. So the rounds are
 * bounded. The first look-up that has not ended finds room in each round, so each section ends one,
 * and READs buckets only for those whose blocks, as far as they are known, it can READ as well.
 */
#include "client/src/know/lookup.h"

#include <errno.h>
#include <string.h>

#include "common/base/mutant.h"
#include "common/base/time.h"
#include "common/layout/block.h"
#include "common/layout/size_code.h"
#include "common/layout/slot.h"

#define CONFLICTS_BUSY 2u /* from here on leave the core to the writer that is at work */

int slot_place(struct reader *r, uint64_t slot, uint64_t *addr, uint32_t *rkey, uint32_t *bytes)
{
	uint32_t len = size_code_bytes(slot_size_code(slot)), offset = slot_offset(slot);
	const struct extent *known = world_find_extent(r->world, slot_extent(slot));
	struct extent x;

	if (!known) {
		int rc = reader_extent(r, slot_extent(slot), &x);

		if (rc)
			return rc;
		known = &x;
	}
	if (known->kind != EXTENT_DATA || len == 0 || offset >= known->length ||
	    len > known->length - offset)
		return -ENOENT;
	if (len <= SLAB_BYTES / 4 && offset % SLAB_BYTES + len > SLAB_BYTES)
		return -ENOENT;
	*addr = known->addr + offset;
	*rkey = known->rkey;
	*bytes = len;
	return 0;
}

/* From the first bucket of the chain, by the cached directory. */
static int chain_start(struct reader *r, struct lookup *l)
{
	int rc;

	l->state = LOOKUP_BUCKET;
	l->bucket = (uint8_t)hash_bucket(l->hash);
	l->chain = 0;
	l->entry = directory_entry_of(r->dir, l->hash);
	rc = segment_place(r, l->entry, &l->segment, &l->segment_rkey);
	if (rc == -ENOENT) {
		l->entry = 0; /* leads nowhere: no header fits it */
		return 0;
	}
	return rc;
}

/* Something was not as promised: once more from the start, a bounded number of times. */
static int conflict(struct reader *r, struct lookup *l, uint64_t *counter)
{
	figure_add(counter, 1);
	if (++l->attempts > READER_ATTEMPTS) {
		l->state = LOOKUP_ASK;
		return 0;
	}
	if (l->attempts > CONFLICTS_BUSY)
		time_yield();
	return chain_start(r, l);
}

static int stale(struct reader *r, struct lookup *l)
{
	int rc = directory_refresh(r, l->hash);

	return rc ? rc : conflict(r, l, &r->stats.retry_directory);
}

static int absent(struct lookup *l)
{
	l->state = LOOKUP_ABSENT;
	return 0;
}

/* Whether a slot's block is too small to be the key's: then it is another one's. */
static bool too_small(const struct lookup *l)
{
	return l->block_bytes < block_bytes(l->key_len, 0);
}

/* On to the next match in the fetched bucket, or to the next bucket, or the end. */
static int next_match(struct reader *r, struct lookup *l, const struct bucket *b)
{
	unsigned overflow;
	int rc;

	while (l->matches) {
		/* relaxed: a private copy */
		l->slot = atomic_load_explicit(&b->slot[__builtin_ctz(l->matches)],
					       memory_order_relaxed);
		l->matches &= l->matches - 1;
		rc = slot_place(r, l->slot, &l->block_addr, &l->block_rkey, &l->block_bytes);
		if (rc == -ENOENT)
			return conflict(r, l, &r->stats.retry_checksum);
		if (rc == 0 && too_small(l))
			continue;
		l->state = LOOKUP_BLOCK;
		return rc;
	}
	overflow = bucket_header_overflow(atomic_load_explicit(&b->header, memory_order_relaxed));
	if (overflow == 0)
		return absent(l);
	if (overflow > SEGMENT_OVERFLOW || l->chain > SEGMENT_OVERFLOW)
		return conflict(r, l, &r->stats.retry_checksum);
	l->bucket = (uint8_t)(SEGMENT_BUCKETS + overflow - 1);
	l->state = LOOKUP_BUCKET;
	return 0;
}

static uint32_t matching_slots(const struct bucket *b, uint64_t hash)
{
	uint32_t fingerprint = slot_fingerprint_of_hash(hash), matches = 0;

	for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
		/* relaxed: a private copy */
		uint64_t slot = atomic_load_explicit(&b->slot[i], memory_order_relaxed);

		/* a branch that is hardly ever taken costs less than masks of all 31 */
		if (__builtin_expect(slot_fingerprint(slot) == fingerprint, 0) && slot)
			matches |= 1u << i;
	}
	return matches;
}

static int judge_bucket(struct reader *r, struct lookup *l, const struct bucket *b)
{
	uint64_t header = atomic_load_explicit(&b->header, memory_order_relaxed); /* a copy */

	if (!bucket_header_fits(header, l->entry, l->hash))
		return stale(r, l);
	l->chain++;
	l->matches = matching_slots(b, l->hash);
	return next_match(r, l, b);
}

static void found(struct reader *r, struct lookup *l, const struct block *b, uint32_t age)
{
	if (l->state == LOOKUP_HINTED) {
		hints_used(r->hints, l->hash, &l->hint);
		r->stats.hint_hits++;
	} else if (age) {
		/* relaxed: a private copy */
		uint64_t state = atomic_load_explicit(&b->state, memory_order_relaxed);

		hints_remember(r->hints, l->hash, age, l->slot, block_state_incarnation(state));
	}
	l->value = l->direct ? l->dest : b->data + b->key_len;
	l->value_len = b->value_len;
	l->version = b->version;
	l->expiry_ms = b->expiry_ms;
	if (record_expired(r, b->expiry_ms)) {
		l->state = LOOKUP_ASK;
		return;
	}
	if (l->cap && !l->direct)
		memcpy(l->dest, l->value, l->value_len < l->cap ? l->value_len : l->cap);
	l->state = LOOKUP_FOUND;
}

/* It did not lead to the record: by the index then, which says where that is now. */
static int unhinted(struct reader *r, struct lookup *l, enum block_verdict verdict)
{
	r->stats.hint_stale++;
	if (verdict != BLOCK_OTHER_KEY) /* another key's is as good as ever */
		hints_forget(r->hints, l->hash, &l->hint);
	return chain_start(r, l);
}

static enum block_verdict verify_direct(const struct lookup *l, uint32_t incarnation)
{
	const struct block_part part[] = {
		{ l->piece[0].local, l->piece[0].len },
		{ l->piece[1].local, l->piece[1].len },
	};

	return block_verify_split(l->block, block_bytes(l->key_len, 0), part, l->key, l->key_len,
				  l->hash, incarnation);
}

static int judge_block(struct reader *r, struct batch *batch, unsigned i)
{
	struct lookup *l = &batch->lookup[i];
	const bool hinted = l->state == LOOKUP_HINTED;
	const struct block *b = l->block;
	const uint32_t incarnation = hinted ? l->hint.incarnation : 0;
	enum block_verdict verdict = l->direct ? verify_direct(l, incarnation)
					       : block_verify(b, l->block_bytes, l->key, l->key_len,
							      l->hash, incarnation);

	if (verdict == BLOCK_OK) {
		found(r, l, b, batch->age);
		return 0;
	}
	if (hinted)
		return unhinted(r, l, verdict);
	if (verdict == BLOCK_OTHER_KEY)
		return next_match(r, l, &batch->fetch->buckets[i]);
	if (MUTANT(obsolete_absent) && verdict == BLOCK_GONE)
		return absent(l);
	return conflict(
		r, l, verdict == BLOCK_GONE ? &r->stats.retry_obsolete : &r->stats.retry_checksum);
}

/* Whether @bytes more fit beside @used of the arena; the first always do. */
static bool has_room(const struct batch *b, size_t *used, uint32_t bytes)
{
	if (*used && *used + bytes > b->fetch->batch_bytes)
		return false;
	*used += bytes;
	return true;
}

/* How much of its block goes to dest. */
static uint32_t bytes_direct(const struct lookup *l)
{
	uint32_t behind_key = l->block_bytes - block_bytes(l->key_len, 0);

	return !l->direct ? 0 : l->cap < behind_key ? (uint32_t)l->cap : behind_key;
}

/* Scatter its READ (8). */
static const struct read_piece *scatter(struct lookup *l, uint32_t lkey)
{
	uint32_t first = block_bytes(l->key_len, 0), direct = bytes_direct(l);

	l->piece[0] = (struct read_piece){ l->dest, direct, l->dest_lkey };
	l->piece[1] = (struct read_piece){ (uint8_t *)l->block + first,
					   l->block_bytes - first - direct, lkey };
	return l->piece;
}

/* The place of a block in the arena, after @used. Returns 0; 1: none, it was put off; -ENOMEM. */
static int gather_block(struct reader *r, struct batch *b, struct lookup *l, size_t *used,
			struct read_op *op)
{
	uint32_t bytes = l->block_bytes - bytes_direct(l);
	size_t at = *used;
	int rc;

	if (!has_room(b, used, l->block_bytes)) {
		l->state = LOOKUP_LATER;
		b->later = true;
		return 1;
	}
	if (bytes > b->fetch->arena_len) { /* the first: nothing stands there yet */
		rc = fetch_grow(b->fetch, bytes);
		if (rc)
			return rc;
	}
	op->local = l->block = b->fetch->arena + at;
	op->lkey = b->fetch->arena_lkey;
	op->more = l->direct ? scatter(l, op->lkey) : NULL;
	op->remote = l->block_addr;
	op->rkey = l->block_rkey;
	op->len = l->block_bytes;
	return 0;
}

/* Returns 0; 1: it has ended, the server is to be asked; or why not. */
static int gather_bucket(struct reader *r, const struct batch *b, unsigned i, struct read_op *op)
{
	struct lookup *l = &b->lookup[i];

	while (l->state == LOOKUP_BUCKET && l->entry == 0) { /* leads nowhere */
		int rc = stale(r, l); /* bounded by its attempts */

		if (rc)
			return rc;
	}
	if (l->state != LOOKUP_BUCKET)
		return 1;
	*op = (struct read_op){
		.remote = l->segment + l->bucket * BUCKET_BYTES,
		.rkey = l->segment_rkey,
		.len = BUCKET_BYTES,
		.local = &b->fetch->buckets[i],
		.lkey = b->fetch->buckets_lkey,
	};
	return 0;
}

static int gather(struct reader *r, struct batch *b, struct read_op *op)
{
	size_t used = 0;
	int rc;

	b->posted = 0;
	for (unsigned i = 0; i < b->count; i++) {
		struct lookup *l = &b->lookup[i];

		if (l->state == LOOKUP_BUCKET)
			rc = gather_bucket(r, b, i, &op[b->posted]);
		else if (l->state == LOOKUP_HINTED || l->state == LOOKUP_BLOCK)
			rc = gather_block(r, b, l, &used, &op[b->posted]);
		else
			continue;
		if (rc < 0)
			return rc;
		if (rc == 0)
			b->which[b->posted++] = (uint8_t)i;
	}
	return (int)b->posted;
}

static int judge(struct reader *r, struct batch *b)
{
	uint8_t bucket[READER_BATCH]; /* look-ups whose bucket came */
	unsigned buckets = 0;
	int rc = 0;

	for (unsigned i = 0; i < b->posted && rc == 0; i++) {
		const uint8_t n = b->which[i];
		const enum lookup_state state = b->lookup[n].state;

		if (state == LOOKUP_BUCKET)
			bucket[buckets++] = n;
		else if (state < LOOKUP_ASK)
			rc = judge_block(r, b, n);
	}
	for (unsigned i = 0; i < buckets && rc == 0; i++)
		rc = judge_bucket(r, &b->lookup[bucket[i]], &b->fetch->buckets[bucket[i]]);
	return rc;
}

/* By a hint, if there is one; by the index. */
static int start(struct reader *r, const struct batch *b, struct lookup *l)
{
	l->attempts = 0;
	if (b->age && hints_find(r->hints, l->hash, b->age, &l->hint)) {
		int rc = slot_place(r, l->hint.slot, &l->block_addr, &l->block_rkey,
				    &l->block_bytes);

		if (rc && rc != -ENOENT)
			return rc;
		l->slot = l->hint.slot;
		l->state = LOOKUP_HINTED;
		if (rc == 0 && too_small(l))
			return unhinted(r, l, BLOCK_OTHER_KEY);
		return rc == -ENOENT ? unhinted(r, l, BLOCK_GONE) : 0;
	}
	return chain_start(r, l);
}

void batch_init(struct reader *r, struct batch *b, struct lookup *l, struct fetch *fetch)
{
	b->lookup = l;
	b->count = 0;
	b->fetch = fetch;
	b->age = 0;
	b->posted = 0;
	b->hashed = r->world && world_has_root(r->world);
}

static void hash_all(struct reader *r, struct batch *b)
{
	for (unsigned i = 0; i < b->count; i++)
		lookup_hash(r, &b->lookup[i]);
	b->hashed = true;
}

static int begin(struct reader *r, struct batch *b)
{
	int rc = reader_prepare(r);
	size_t planned = 0;

	if (rc)
		return rc;
	b->later = false;
	if (!b->hashed)
		hash_all(r, b);
	for (unsigned i = 0; i < b->count; i++) {
		struct lookup *l = &b->lookup[i];

		if (l->state >= LOOKUP_ASK)
			continue;
		if (l->state == LOOKUP_BLOCK && MUTANT(carry_section))
			continue;
		if (l->state == LOOKUP_LATER && !has_room(b, &planned, l->block_bytes)) {
			b->later = true;
			continue;
		}
		rc = l->state == LOOKUP_START ? start(r, b, l) : chain_start(r, l);
		if (rc)
			return rc;
	}
	return 0;
}

/* What a server READ that may have been deposed by then is no answer: the server is asked, and says
 * nothing if it was. */
static void doubt(struct reader *r, struct batch *b)
{
	if (world_is_fresh(r->world) || MUTANT(read_deposed))
		return;
	for (unsigned i = 0; i < b->count; i++)
		if (b->lookup[i].state > LOOKUP_ASK)
			b->lookup[i].state = LOOKUP_ASK;
}

int batch_round(struct reader *r, struct batch *b, struct read_op *op)
{
	int rc = b->posted ? judge(r, b) : begin(r, b);

	if (rc == 0)
		rc = gather(r, b, op);
	if (rc == 0)
		doubt(r, b);
	return rc;
}

int batch_run(struct reader *r, struct batch *b)
{
	struct read_op op[READER_BATCH];
	int rc;

	while ((rc = batch_round(r, b, op)) > 0) {
		rc = reader_read(r, op, (unsigned)rc);
		if (rc)
			return rc;
	}
	return rc ? rc : b->later;
}
