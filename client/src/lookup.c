/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Looking keys up, one-sided (DESIGN section 2).
 *
 * A batch goes in rounds. A round READs in one chain the buckets that its look-ups wait for, then
 * in one chain the blocks that they led to; what must be looked at again takes part in the next
 * round. Without conflicts a batch is two round trips, and two more for each further part of blocks
 * that the arena has no room for (7).
 *
 *	START -> BUCKET -> BLOCK -> FOUND
 *	           |  ^      |
 *	           |  +------+  another match, next bucket of the chain, GONE, BAD
 *	           +-> ABSENT    no match in the whole chain
 *	           +-> ASK       READER_ATTEMPTS conflicts, or the record has expired
 *	BLOCK -> LATER -> BUCKET  no room for the block beside those of others; the next section
 *
 * Invariants
 * 1. A bucket counts only where its header fits the directory entry that led to it, with the
 *    hash's own prefix: a stale directory cannot make a false miss.
 * 2. A live key never moves between slots of a segment, and an overflow bucket stays linked
 *    while its segment lives. So a chain that was READ bucket by bucket without a match means
 *    that the key was absent at some moment inside the look-up.
 * 3. A block counts only when block_verify() accepts its copy: I7, one version's bytes.
 * 4. ABSENT is never concluded from a block that is OBSOLETE, torn or another record's: the
 *    chain is READ again, from its first bucket.
 * 5. No READ leaves the extent, the slab or the segment that it is meant for (slot_place(),
 *    segment_place()): a READ out of bounds breaks the queue pair.
 * 6. Nothing found in one call is followed in another: the section of the caller ends with it.
 * 7. A round READs no more of blocks than the arena takes, or one block that is larger, and what
 *    finds no room is put off to another call, but for the first: how long a section may be open,
 *    and memory waits for it, does not grow with the batch.
 *
 * Ordering: READs of one chain may execute in any order; a block is READ only after the poll of
 * the completion of the bucket that names it, which is ordered after the server's block-before-slot
 * release (pairs with index_publish()).
 *
 * Progress: each conflict counts, READER_ATTEMPTS of them end in ASK; a chain has at most
 * SEGMENT_OVERFLOW + 1 buckets of BUCKET_SLOTS slots. So the rounds are bounded. The first look-up
 * that has not ended finds room in each round, so each call ends one, and READs buckets only for
 * those whose blocks, as far as they are known, it can READ as well.
 */
#include "client/src/lookup.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/mutant.h"
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
	(*counter)++;
	if (++l->attempts > READER_ATTEMPTS) {
		l->state = LOOKUP_ASK;
		return 0;
	}
	if (l->attempts > CONFLICTS_BUSY)
		sched_yield();
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

/* On to the next match in the fetched bucket, or to the next bucket, or the end. */
static int next_match(struct reader *r, struct lookup *l, const struct bucket *b)
{
	unsigned overflow;
	uint64_t addr;
	uint32_t rkey;
	int rc;

	if (l->matches) {
		/* relaxed: a private copy */
		l->slot = atomic_load_explicit(&b->slot[__builtin_ctz(l->matches)],
					       memory_order_relaxed);
		l->matches &= l->matches - 1;
		rc = slot_place(r, l->slot, &addr, &rkey, &l->block_bytes);
		if (rc == -ENOENT)
			return conflict(r, l, &r->stats.retry_checksum);
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

static void found(struct reader *r, struct lookup *l, const struct block *b)
{
	l->value = b->data + b->key_len;
	l->value_len = b->value_len;
	l->version = b->version;
	l->expiry_ms = b->expiry_ms;
	if (record_expired(r, b->expiry_ms)) {
		l->state = LOOKUP_ASK;
		return;
	}
	if (l->cap)
		memcpy(l->dest, l->value, l->value_len < l->cap ? l->value_len : l->cap);
	l->state = LOOKUP_FOUND;
}

static int judge_block(struct reader *r, struct lookup *l, const struct bucket *bucket)
{
	const struct block *b = l->block;

	switch (block_verify(b, l->block_bytes, l->key, l->key_len, l->hash, 0)) {
	case BLOCK_OK:
		found(r, l, b);
		return 0;
	case BLOCK_OTHER_KEY:
		return next_match(r, l, bucket);
	case BLOCK_GONE:
		return conflict(r, l, &r->stats.retry_obsolete);
	case BLOCK_BAD:
		break;
	}
	return conflict(r, l, &r->stats.retry_checksum);
}

/* READ the buckets that are waited for, in one chain, and judge them. Returns how many, or rc. */
static int round_of_buckets(struct reader *r, struct lookup *l, unsigned count)
{
	struct read_op op[READER_BATCH];
	uint8_t which[READER_BATCH];
	unsigned n = 0;
	int rc;

	for (unsigned i = 0; i < count; i++) {
		while (l[i].state == LOOKUP_BUCKET && l[i].entry == 0) { /* leads nowhere */
			rc = stale(r, &l[i]); /* bounded by its attempts */
			if (rc)
				return rc;
		}
		if (l[i].state != LOOKUP_BUCKET)
			continue;
		op[n] = (struct read_op){
			.remote = l[i].segment + l[i].bucket * BUCKET_BYTES,
			.rkey = l[i].segment_rkey,
			.len = BUCKET_BYTES,
			.local = &r->buckets[i],
			.lkey = r->buckets_lkey,
		};
		which[n++] = (uint8_t)i;
	}
	rc = n ? reader_read(r, op, n) : 0;
	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = judge_bucket(r, &l[which[i]], &r->buckets[which[i]]);
	return rc ? rc : (int)n;
}

/* Whether @bytes more fit beside @used of the arena; the first always do. */
static bool has_room(size_t *used, uint32_t bytes)
{
	if (*used && *used + bytes > READER_ARENA_BYTES)
		return false;
	*used += bytes;
	return true;
}

/* The same for blocks. @later: some were put off. */
static int round_of_blocks(struct reader *r, struct lookup *l, unsigned count, bool *later)
{
	struct read_op op[READER_BATCH];
	uint8_t which[READER_BATCH];
	size_t used = 0, at;
	unsigned n = 0;
	int rc = 0;

	for (unsigned i = 0; i < count; i++) {
		if (l[i].state != LOOKUP_BLOCK)
			continue;
		at = used;
		if (!has_room(&used, l[i].block_bytes)) {
			l[i].state = LOOKUP_LATER;
			*later = true;
			continue;
		}
		if (l[i].block_bytes > r->arena_len) { /* the first: nothing stands there yet */
			rc = r->ops->grow(r->ctx, l[i].block_bytes);
			if (rc)
				return rc;
		}
		op[n].local = l[i].block = r->arena + at;
		op[n].lkey = r->arena_lkey;
		rc = slot_place(r, l[i].slot, &op[n].remote, &op[n].rkey, &op[n].len);
		if (rc)
			return rc == -ENOENT
				       ? error_set(r->err, -EPROTO,
						   "the server's extent table changed under a "
						   "look-up; this must not happen (report it)")
				       : rc;
		which[n++] = (uint8_t)i;
	}
	rc = n ? reader_read(r, op, n) : 0;
	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = judge_block(r, &l[which[i]], &r->buckets[which[i]]);
	return rc ? rc : (int)n;
}

int lookup_run(struct reader *r, struct lookup *l, unsigned count)
{
	int rc = reader_prepare(r), buckets, blocks;
	bool later = false;
	size_t planned = 0;

	if (rc)
		return rc;
	for (unsigned i = 0; i < count; i++) {
		if (l[i].state >= LOOKUP_ASK)
			continue;
		if (l[i].state == LOOKUP_BLOCK && MUTANT(carry_section))
			continue;
		if (l[i].state == LOOKUP_LATER && !has_room(&planned, l[i].block_bytes)) {
			later = true;
			continue;
		}
		l[i].hash = hash_key(r->world->hash_seed, l[i].key, l[i].key_len);
		if (l[i].state == LOOKUP_START)
			l[i].attempts = 0;
		rc = chain_start(r, &l[i]);
		if (rc)
			return rc;
	}
	do {
		buckets = round_of_buckets(r, l, count);
		if (buckets < 0)
			return buckets;
		blocks = round_of_blocks(r, l, count, &later);
		if (blocks < 0)
			return blocks;
	} while (buckets || blocks);
	return later;
}
