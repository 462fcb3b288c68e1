/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A reader with hints: the library remembers where the blocks were that the index led to, and READs
 * them there, in later sections. Nothing keeps such a block from being replaced and reused: what
 * keeps the reader right is the block's own word (LIVE, the incarnation that the hint promises, the
 * checksum), OBSOLETE before the new block can be seen (DESIGN 3), and that the address keeps its
 * format until no session holds a hint as old (DESIGN 5.1, h).
 */
#include "common/layout/block.h"
#include "tests/stress/torture/torture.h"

#define KEYS	   4096u /* a power of two times KEYS_FIRST */
#define KEYS_FIRST 16u

static struct visitor *visitor; /* of this process, where it reads by hints */

enum block_verdict __real_block_verify(const struct block *b, uint32_t len, const void *key,
				       uint32_t key_len, uint64_t hash, uint32_t incarnation);
enum block_verdict __wrap_block_verify(const struct block *b, uint32_t len, const void *key,
				       uint32_t key_len, uint64_t hash, uint32_t incarnation);

enum block_verdict __wrap_block_verify(const struct block *b, uint32_t len, const void *key,
				       uint32_t key_len, uint64_t hash, uint32_t incarnation)
{
	enum block_verdict verdict = __real_block_verify(b, len, key, key_len, hash, incarnation);
	uint64_t state;

	if (!visitor || verdict != BLOCK_OK || !incarnation)
		return verdict;
	state = atomic_load_explicit(&b->state, memory_order_relaxed); /* a private copy */
	if (block_state_incarnation(state) != incarnation)
		model_wrong(visitor->s->model, WRONG_HINT, MODEL_NO_KEY,
			    "incarnation %u was accepted by a hint that promised %u",
			    block_state_incarnation(state), incarnation);
	return verdict;
}

/*
 * Keys are read in turn, so that in between their blocks have time to be reused: few at first, so
 * that all are met where everything is slow.
 */
void hint_visit(struct visitor *r, uint64_t end_ns)
{
	unsigned at = 0, in_use = KEYS_FIRST;
	static uint32_t key[KEYS];

	for (unsigned i = 0; i < KEYS; i++)
		key[i] = torture_pick(r->s, &r->random);
	visitor = r;
	reader_hold(r);
	while (!shared_ended(r->s) && time_now_ns() < end_ns) {
		reader_rest(r);
		visitor_get(r, key[at]);
		if (++at < in_use)
			continue;
		at = 0;
		if (in_use < KEYS)
			in_use *= 2;
	}
	visitor = NULL;
}
