/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* A block that was scattered is judged as it would be in one piece, whatever it is. */
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/layout/block.h"
#include "common/layout/limits.h"
#include "common/layout/size_code.h"

static uint64_t seed = 20;
static unsigned seen[4]; /* verdicts */

static uint32_t below(uint32_t n)
{
	return (uint32_t)(unit_random(&seed) % n);
}

static void fill(uint8_t *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		at[i] = (uint8_t)unit_random(&seed);
}

/* A sound one, with padding of anything; *@len: of its size class. */
static struct block *make_block(uint32_t key_len, uint32_t value_len, uint32_t *len)
{
	struct block *b;

	*len = size_code_bytes(size_code_for(block_bytes(key_len, value_len)));
	b = aligned_alloc(64, *len);
	assert_non_null(b);
	fill((uint8_t *)b, *len);
	b->state = block_state_make(7, BLOCK_LIVE);
	b->key_len = (uint16_t)key_len;
	b->value_len = value_len;
	b->key_hash = hash_key(1, b->data, key_len);
	b->checksum = block_checksum(b, block_body_hash(b));
	return b;
}

/* A copy of just these bytes: a sanitizer sees a read beyond them. */
static void *piece_of(const void *at, size_t len)
{
	void *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	memcpy(copy, at, len);
	return copy;
}

struct wanted {
	const uint8_t *key;
	uint32_t key_len;
	uint64_t hash;
	uint32_t incarnation;
};

/* The second piece has @middle bytes. */
static void compare_at(const struct block *b, uint32_t len, const struct wanted *w, uint32_t middle)
{
	const uint32_t first = block_bytes(w->key_len, 0);
	const uint8_t *bytes = (const uint8_t *)b;
	enum block_verdict whole, split;
	struct block_part part[2];
	struct block *head;

	if (first > len || middle > len - first)
		return;
	head = piece_of(b, first);
	part[0] = (struct block_part){ piece_of(bytes + first, middle), middle };
	part[1] = (struct block_part){ piece_of(bytes + first + middle, len - first - middle),
				       len - first - middle };
	whole = block_verify(b, len, w->key, w->key_len, w->hash, w->incarnation);
	split = block_verify_split(head, first, part, w->key, w->key_len, w->hash, w->incarnation);
	assert_int_equal(split, whole);
	seen[whole]++;
	free(head);
	free((void *)part[0].at);
	free((void *)part[1].at);
}

/* All split points of small ones; the ends and some of large ones. */
static void compare(const struct block *b, uint32_t len, const struct wanted *w)
{
	uint32_t most = len - BLOCK_HEADER_BYTES;

	if (most <= 400) {
		for (uint32_t middle = 0; middle <= most; middle++)
			compare_at(b, len, w, middle);
		return;
	}
	for (unsigned i = 0; i < 8; i++) {
		compare_at(b, len, w, below(most + 1));
		compare_at(b, len, w, below(64));
		if (most >= w->key_len + below(64))
			compare_at(b, len, w, most - w->key_len - below(64));
	}
	compare_at(b, len, w, b->value_len); /* may be more than there is */
	if (most >= w->key_len)
		compare_at(b, len, w, most - w->key_len);
}

static void corrupt(struct block *b, uint32_t used)
{
	switch (below(6)) {
	case 0:
		((uint8_t *)b)[below(BLOCK_HEADER_BYTES)] ^= (uint8_t)(1u << below(8));
		break;
	case 1:
	case 2: /* of the key, the value, or the last byte */
		if (used > BLOCK_HEADER_BYTES)
			((uint8_t *)b)[below(2) ? used - 1
						: BLOCK_HEADER_BYTES +
							  below(used - BLOCK_HEADER_BYTES)] ^= 0x10;
		break;
	case 3:
		b->value_len = below(2) ? (uint32_t)unit_random(&seed) : b->value_len + 1;
		break;
	case 4:
		b->key_len = (uint16_t)unit_random(&seed);
		break;
	case 5:
		b->state = block_state_make(7 + below(2), (enum block_state)below(3));
		break;
	}
}

static void random_block(uint32_t key_len, uint32_t value_len)
{
	struct wanted w = { .key_len = key_len, .incarnation = below(2) ? 0 : 7 };
	uint32_t len, used = block_bytes(key_len, value_len);
	struct block *b = make_block(key_len, value_len, &len);
	uint8_t other[KEY_MAX];

	w.hash = b->key_hash;
	memcpy(other, b->data, key_len);
	fill(other + key_len, KEY_MAX - key_len);
	w.key = other;
	compare(b, len, &w); /* sound */
	for (unsigned i = 0; i < 3; i++) { /* sound, and another one's */
		struct wanted x = w;

		x.key_len = 1 + below(i == 2 ? 80 : KEY_MAX);
		x.hash ^= i == 1;
		compare(b, len, &x);
	}
	other[below(key_len)] ^= 1;
	compare(b, len, &w); /* hashes collide */
	memcpy(other, b->data, key_len);
	for (unsigned i = 0; i < 4; i++) {
		struct block *bad = aligned_alloc(64, len);

		assert_non_null(bad);
		memcpy(bad, b, len);
		corrupt(bad, used);
		compare(bad, len, &w);
		free(bad);
	}
	free(b);
}

UNIT_TEST(verdicts_are_the_same)
{
	static const uint32_t sizes[] = { 0, 1, 16, 17, 128, 129, 240, 241, 1024, 4096, 100000 };

	print_message("seed %llu\n", (unsigned long long)seed);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		random_block(1, sizes[i]);
		random_block(KEY_MAX, sizes[i]);
	}
	for (unsigned i = 0; i < 400; i++)
		random_block(1 + below(i % 2 ? 40 : KEY_MAX), below(i % 4 ? 300 : 8000));
	for (unsigned i = 0; i < 4; i++) {
		print_message("verdict %u: %u times\n", i, seen[i]);
		assert_true(seen[i] > 500);
	}
}

/* Every single bit of key and value counts, in each of the pieces. */
UNIT_TEST(every_bit_counts)
{
	uint32_t len, used = block_bytes(3, 300);
	struct block *b = make_block(3, 300, &len);
	uint8_t *bytes = (uint8_t *)b;
	struct block_part part[] = { { bytes + 51, 100 }, { bytes + 151, len - 151 } };
	uint8_t key[3];

	memcpy(key, b->data, 3);
	assert_int_equal(block_verify_split(b, 51, part, key, 3, b->key_hash, 0), BLOCK_OK);
	for (uint32_t bit = BLOCK_CHECKED_START * 8; bit < used * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(block_verify_split(b, 51, part, key, 3, hash_key(1, key, 3), 0),
				 BLOCK_BAD);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	free(b);
}
