/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Look-ups: a batch of keys, READ one-sided. The essay is in lookup.c. */
#include <stddef.h>
#include <stdint.h>

#include "client/src/know/reader.h"
#include "common/base/hash.h"

enum lookup_state {
	LOOKUP_START, /* zero: set key, key_len, dest, cap, direct */
	LOOKUP_HINTED, /* the block that a hint names is to be READ */
	LOOKUP_BUCKET, /* its bucket is to be READ */
	LOOKUP_BLOCK, /* a block is to be READ */
	LOOKUP_LATER, /* its block found no room: from its bucket, in another section */
	LOOKUP_ASK, /* ended one-sided without an answer: the server is to be asked */
	LOOKUP_FOUND,
	LOOKUP_ABSENT,
};

struct lookup {
	const void *key;
	void *dest; /* receives the value, at most cap bytes */
	size_t cap;
	uint32_t key_len;
	uint32_t value_len;
	uint64_t version;
	uint64_t expiry_ms;
	/* In the arena; valid until the arena is used again. A direct one's is dest. */
	const void *value;

	uint64_t hash;
	uint64_t segment; /* remote address */
	uint64_t entry; /* of the directory, that the bucket must fit */
	uint64_t slot; /* that led to the block */
	struct hint hint; /* the same, where a hint did */
	void *block;
	struct read_piece piece[READ_PIECES - 1]; /* of its READ, where direct */
	uint32_t dest_lkey; /* where direct: of this device, */
	const void *dest_device; /* by its address alone */
	uint64_t block_addr; /* remote */
	uint32_t block_rkey;
	uint32_t segment_rkey;
	uint32_t matches; /* slots of the fetched bucket still to be looked at, a bit each */
	uint32_t block_bytes;
	uint8_t state; /* enum lookup_state */
	uint8_t bucket; /* number in the segment */
	uint8_t chain; /* buckets of the chain seen */
	uint8_t attempts;
	bool direct; /* the value is READ to dest; the key does not lie there */
};

/* A batch under way: one chain of READs at a time. */
struct batch {
	struct lookup *lookup;
	unsigned count; /* at most READER_BATCH */
	struct fetch *fetch; /* where its READs go; no other batch's */
	uint32_t age; /* of the hints that it may use and remember; 0: none */
	bool later; /* some were put off */
	bool hashed; /* its look-ups are as they are added: the world's seed was known */
	unsigned posted; /* READs of the chain */
	uint8_t which[READER_BATCH]; /* look-up of each */
};

/*
 * batch_init - of no look-up yet; batch_add() takes those at @l, one after the other, whose READs
 * go to @fetch. To be called before the section is opened that gives it its age, and again after
 * the connection was lost.
 */
void batch_init(struct reader *r, struct batch *b, struct lookup *l, struct fetch *fetch);

/* lookup_key - its hash, by the world's seed; its hint is on its way into the cache then. */
static inline uint64_t lookup_key(const struct reader *r, const void *key, size_t key_len)
{
	const uint64_t hash = hash_key(r->world->hash_seed, key, key_len);

	if (r->hints)
		hints_prefetch(r->hints, hash);
	return hash;
}

/* lookup_hash - hash its key, unless it has ended. */
static inline void lookup_hash(const struct reader *r, struct lookup *l)
{
	if (l->state < LOOKUP_ASK)
		l->hash = lookup_key(r, l->key, l->key_len);
}

/*
 * batch_add - the next look-up, whose key and state are set; at most READER_BATCH. @hashed: its
 * hash as well, by the present world's seed, where that is known.
 */
static inline void batch_add(struct reader *r, struct batch *b, bool hashed)
{
	struct lookup *l = &b->lookup[b->count++];

	if (l->direct && l->dest_device != r->device) /* the reader has another one since */
		l->direct = false;
	if (b->hashed && !hashed)
		lookup_hash(r, l);
}

/*
 * batch_round - the next chain of READs, into @op, READER_BATCH of them: the first one after
 * batch_add(), with its age; then when those of the last one have come (acquire, by the poll of the
 * completion), which it judges first. The caller has a section open until the batch has ended.
 * No allocation but through fetch_grow(). The READs of metadata that may be needed are waited for.
 * Returns how many; 0: the batch has ended: each look-up is FOUND, ABSENT or ASK, or was put off
 * (b->later): those want another section, as many times as there are look-ups at most.
 * -ECONNRESET, -ETIMEDOUT, -ENOMEM; -EPROTO: the server's structures are unsound. In another batch
 * what has ended is left alone, and what has not goes on from its beginning.
 */
int batch_round(struct reader *r, struct batch *b, struct read_op *op);

/*
 * batch_run - all of its rounds, waiting for its READs. Returns 0; 1: some were put off, to another
 * section; or why not.
 */
int batch_run(struct reader *r, struct batch *b);

/*
 * slot_place - where the block of a slot is. Never lets a READ leave its extent, or a block of a
 * size class its slab.
 * Returns 0; -ENOENT: the slot names no block that can be; -ECONNRESET, -ETIMEDOUT.
 */
int slot_place(struct reader *r, uint64_t slot, uint64_t *addr, uint32_t *rkey, uint32_t *bytes);

/* record_expired - by the estimate of the server's clock; where that is unknown, it may have. */
static inline bool record_expired(struct reader *r, uint64_t expiry_ms)
{
	uint64_t now_ms = expiry_ms ? r->ops->clock_ms(r->ctx) : 0;

	return expiry_ms && (!now_ms || expiry_ms <= now_ms);
}
