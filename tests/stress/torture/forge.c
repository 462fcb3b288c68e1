/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/stress/torture/forge.h"

#include <string.h>

#include "common/base/hash.h"
#include "common/layout/limits.h"

static const char mark[] = "nobody wrote it";

bool forged(const void *value, size_t len)
{
	return len == sizeof(mark) && memcmp(value, mark, len) == 0;
}

static uint32_t write_block(struct block *b, uint64_t hash_seed, uint32_t k, uint32_t incarnation)
{
	b->key_len = (uint16_t)model_key(k, (char *)b->data);
	b->value_len = sizeof(mark);
	memcpy(b->data + b->key_len, mark, sizeof(mark));
	b->key_hash = hash_key(hash_seed, b->data, b->key_len);
	atomic_store_explicit(&b->state, block_state_make(incarnation, BLOCK_LIVE),
			      memory_order_relaxed);
	b->version = 1;
	b->expiry_ms = 0;
	b->flags = 0;
	b->checksum = block_checksum(b, block_body_hash(b));
	return block_bytes(b->key_len, b->value_len);
}

unsigned forge_fill(struct pipe *p, uint64_t hash_seed, struct memory_place place,
		    const struct block *block, uint8_t *value, uint32_t len)
{
	struct pipe_place *at = pipe_at(p, place.extent, place.offset);
	const uint8_t *base = (const uint8_t *)block;
	uint32_t end = (uint32_t)(value - base) + len, done = 0;
	const uint32_t most = BLOCK_HEADER_BYTES + MODEL_KEY_MAX + sizeof(mark);
	unsigned n = 0;

	memset(value, 0, len);
	for (uint32_t i = 0; (i + 1) * OFFSET_UNIT + most <= end; i++) {
		uint32_t from = (i + 1) * OFFSET_UNIT, k = atomic_load(&at[i + 1].key);
		uint64_t life = atomic_load(&at[i + 1].life);

		if (!k || from < end - len || from < done)
			continue;
		done = from + write_block((struct block *)(value + (from - (end - len))), hash_seed,
					  k - 1, pipe_life_incarnation(life));
		n++;
	}
	return n;
}
