/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * check: one bit that is wrong, anywhere in what it promises to look at, is found. Many that are
 * wrong, anywhere at all: it ends, and no READ leaves what is registered.
 */
#include "tests/unit/kv-inspect/inspected.h"

#include <unistd.h>

#define FLIPS 400u
#define WILD  150u

/* The least that a record of the store has: key of 5 bytes, value of 21. */
#define BLOCK_BYTES (BLOCK_HEADER_BYTES + 5u + 21u)

static struct block *block[INSPECTED_RECORDS]; /* of a store that is sound still */

static void set_up(void **state)
{
	inspected_set_up(state);
	for (unsigned n = 0; n < INSPECTED_RECORDS; n++)
		block[n] = inspected_block(*state, inspected_key(n));
}

/* A byte in the memory of the server, of a kind by @dice. */
static uint8_t *somewhere(struct inspected *i, uint64_t *seed, const char **what)
{
	struct fake *f = i->f;
	struct block *b = block[unit_random(seed) % INSPECTED_RECORDS];
	struct segment *s = (struct segment *)f->extent[FAKE_INDEX] + unit_random(seed) % 4;
	uint64_t n = unit_random(seed);

	switch (unit_random(seed) % 9) {
	case 0:
		*what = "root, its constant fields";
		return (uint8_t *)f->root + n % 40;
	case 1:
		*what = "root, place of the directory";
		return (uint8_t *)&f->root->directory + n % 32;
	case 2:
		*what = "root, place of the extent table";
		return (uint8_t *)&f->root->extents + n % 24;
	case 3:
		*what = "an entry of the extent table";
		return (uint8_t *)&f->table[FAKE_INDEX + n % 3] + (n >> 8) % 32;
	case 4:
		*what = "header of the directory";
		return (uint8_t *)f->dir + n % 32;
	case 5:
		*what = "entries of the directory";
		return (uint8_t *)f->dir->entry + n % 32;
	case 6:
		*what = "a header";
		return (uint8_t *)s + n % SEGMENT_ALL * BUCKET_BYTES + (n >> 8) % 8;
	case 7:
		*what = "a bucket";
		return (uint8_t *)s + n % SEGMENT_ALL * BUCKET_BYTES + (n >> 8) % BUCKET_BYTES;
	}
	*what = "a block";
	return (uint8_t *)b + n % BLOCK_BYTES;
}

UNIT_TEST(test_each_bit_counts)
{
	uint64_t seed = (uint64_t)getpid(), begin = seed;

	print_message("seed %llu\n", (unsigned long long)begin);
	for (unsigned n = 0; n < FLIPS; n++) {
		uint64_t bit = unit_random(&seed) % 8;
		struct inspected *i;
		const char *what;
		uint8_t *at;

		if (n % 20 == 0) { /* a store for some of them */
			if (n)
				inspected_tear_down(state);
			set_up(state);
		}
		i = *state;
		at = somewhere(i, &seed, &what);
		*at ^= (uint8_t)(1u << bit);
		if (inspected_run(i) == 0 || i->rc)
			fail_msg("bit %u of %s is not found: seed %llu, flip %u (returned %d)",
				 (unsigned)bit, what, (unsigned long long)begin, n, i->rc);
		*at ^= (uint8_t)(1u << bit);
		inspected_clean(i);
	}
	inspected_tear_down(state);
}

UNIT_TEST(test_wild_memory)
{
	uint64_t seed = (uint64_t)getpid(), begin = seed;

	for (unsigned n = 0; n < WILD; n++) {
		unsigned flips = 1 + (unsigned)(unit_random(&seed) % 200);
		struct inspected *i;
		const char *what;

		set_up(state);
		i = *state;
		if (n % 10 == 0)
			print_message("wild memory %u, seed %llu\n", n, (unsigned long long)begin);
		for (unsigned k = 0; k < flips; k++) {
			uint8_t *at = somewhere(i, &seed, &what);

			*at = (uint8_t)unit_random(&seed);
		}
		inspected_run(i);
		inspected_tear_down(state);
	}
}
