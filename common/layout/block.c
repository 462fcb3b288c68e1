/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/layout/block.h"

#include <string.h>

#include "common/base/hash.h"
#include "common/base/mutant.h"
#include "common/layout/limits.h"

uint64_t block_body_hash(const struct block *b)
{
	return hash_bytes(b->data, (size_t)b->key_len + b->value_len);
}

uint64_t block_checksum(const struct block *b, uint64_t body_hash)
{
	return hash_bytes_seeded((const uint8_t *)b + BLOCK_CHECKED_START,
				 BLOCK_HEADER_BYTES - BLOCK_CHECKED_START, body_hash);
}

static bool block_lengths_fit(const struct block *b, uint32_t len)
{
	return len >= BLOCK_HEADER_BYTES && b->key_len >= KEY_MIN && b->key_len <= KEY_MAX &&
	       b->value_len <= len - BLOCK_HEADER_BYTES &&
	       b->key_len <= len - BLOCK_HEADER_BYTES - b->value_len;
}

/* block_body_hash() of a block whose first @len bytes stand at @b, and the others in the parts. */
static uint64_t split_body_hash(const struct block *b, uint32_t len,
				const struct block_part part[2])
{
	struct hash_piece piece[3] = {
		{ b->data, len - BLOCK_HEADER_BYTES },
		{ part[0].at, part[0].len },
		{ part[1].at, part[1].len },
	};
	size_t left = (size_t)b->key_len + b->value_len;

	for (unsigned i = 0; i < 3; i++) {
		if (piece[i].len > left)
			piece[i].len = left;
		left -= piece[i].len;
	}
	return hash_pieces(piece, 3);
}

/*
 * Broken on purpose, for tests: no more is looked at than that the value, which a scattered block
 * has after @key_len bytes of key, lies within the @len bytes that were fetched.
 */
static bool trusted(const struct block *b, uint32_t len, uint32_t key_len)
{
	return block_lengths_fit(b, len) && key_len <= len - BLOCK_HEADER_BYTES - b->value_len;
}

/* @part: NULL: all of it stands at @b. */
static inline __attribute__((always_inline)) enum block_verdict judge(
	const struct block *b, uint32_t len, const struct block_part *part, const void *key,
	uint32_t key_len, uint64_t hash, uint32_t incarnation)
{
	const uint32_t fetched = part ? len + part[0].len + part[1].len : len;
	uint64_t state;

	if (len < BLOCK_HEADER_BYTES)
		return BLOCK_BAD;
	if (MUTANT(trust_hint) && incarnation && trusted(b, fetched, key_len))
		return BLOCK_OK;
	state = atomic_load_explicit(&b->state, memory_order_relaxed); /* private copy */
	if (block_state_of(state) != BLOCK_LIVE ||
	    (incarnation && block_state_incarnation(state) != incarnation &&
	     !MUTANT(no_incarnation)))
		return BLOCK_GONE;
	if (!block_lengths_fit(b, fetched))
		return BLOCK_BAD;
	if (!MUTANT(no_checksum) && block_checksum(b, part ? split_body_hash(b, len, part)
							   : block_body_hash(b)) != b->checksum)
		return BLOCK_BAD;
	if (b->key_hash != hash || b->key_len != key_len || memcmp(b->data, key, key_len) != 0)
		return BLOCK_OTHER_KEY;
	return BLOCK_OK;
}

enum block_verdict block_verify(const struct block *b, uint32_t len, const void *key,
				uint32_t key_len, uint64_t hash, uint32_t incarnation)
{
	return judge(b, len, NULL, key, key_len, hash, incarnation);
}

enum block_verdict block_verify_split(const struct block *b, uint32_t len,
				      const struct block_part part[2], const void *key,
				      uint32_t key_len, uint64_t hash, uint32_t incarnation)
{
	assert(len >= BLOCK_HEADER_BYTES && len - BLOCK_HEADER_BYTES >= key_len);
	return judge(b, len, part, key, key_len, hash, incarnation);
}

enum block_verdict block_verify_any(const struct block *b, uint32_t len)
{
	if (len < BLOCK_HEADER_BYTES || !block_lengths_fit(b, len))
		return BLOCK_BAD;
	return block_verify(b, len, b->data, b->key_len, b->key_hash, 0);
}

enum block_verdict block_verify_key(const struct block *b, uint32_t len, uint32_t whole,
				    uint64_t seed)
{
	/* relaxed: a private copy */
	uint64_t state = atomic_load_explicit(&b->state, memory_order_relaxed);

	if (block_state_of(state) != BLOCK_LIVE)
		return BLOCK_GONE;
	if (!block_lengths_fit(b, whole) || len < block_bytes(b->key_len, 0) ||
	    hash_key(seed, b->data, b->key_len) != b->key_hash)
		return BLOCK_BAD;
	return BLOCK_OK;
}
