/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Bit layouts of slots, headers and codes; verification of blocks against every single-bit
 * error. */
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/layout/block.h"
#include "common/layout/bucket.h"
#include "common/layout/root.h"
#include "common/layout/size_code.h"
#include "common/layout/slot.h"

UNIT_TEST(size_codes)
{
	for (unsigned code = 1; code < SIZE_CODE_MAX; code++)
		assert_true(size_code_bytes(code) < size_code_bytes(code + 1));
	assert_true(size_code_bytes(SIZE_CODE_MAX) >= block_bytes(KEY_MAX, VALUE_MAX));
	for (uint32_t bytes = 1; bytes <= block_bytes(KEY_MAX, VALUE_MAX);
	     bytes += bytes < 70000 ? 1 : 997) {
		unsigned code = size_code_for(bytes);

		assert_true(code > 0);
		assert_true(size_code_bytes(code) >= bytes);
		assert_true(code == 1 || size_code_bytes(code - 1) < bytes);
	}
	assert_int_equal(size_code_for(0), 0);
	assert_int_equal(size_code_for(size_code_bytes(SIZE_CODE_MAX) + 1), 0);
}

UNIT_TEST(slots)
{
	uint64_t seed = 11;

	for (unsigned i = 0; i < 100000; i++) {
		uint64_t r = unit_random(&seed);
		uint32_t fp = (uint32_t)r & FINGERPRINT_MASK;
		unsigned code = (unsigned)(r >> 22) & 255, extent = (unsigned)(r >> 30) & 4095;
		uint32_t offset = ((uint32_t)(r >> 42) & 0x3fffff) * OFFSET_UNIT;
		uint64_t slot = slot_make(fp, code, extent, offset);

		assert_int_equal(slot_fingerprint(slot), fp);
		assert_int_equal(slot_size_code(slot), code);
		assert_int_equal(slot_extent(slot), extent);
		assert_int_equal(slot_offset(slot), offset);
	}
}

UNIT_TEST(headers)
{
	uint64_t h = bucket_header_make(0xabcdef, 0x123456, 17, false, 513);
	uint64_t e = directory_entry_make(0xabcdef, 17, 4095, 65535);
	uint64_t hash = (uint64_t)0x2468 << 48 | 0x5aull << 40; /* top 17 bits: 0x048d0 */
	uint64_t good = bucket_header_make(0xabcdef, hash_prefix(hash, 17), 17, false, 0);

	assert_int_equal(bucket_header_incarnation(h), 0xabcdef);
	assert_int_equal(bucket_header_prefix(h), 0x123456);
	assert_int_equal(bucket_header_depth(h), 17);
	assert_false(bucket_header_moved(h));
	assert_int_equal(bucket_header_overflow(h), 513);
	assert_int_equal(directory_entry_incarnation(e), 0xabcdef);
	assert_int_equal(directory_entry_depth(e), 17);
	assert_int_equal(directory_entry_extent(e), 4095);
	assert_int_equal(directory_entry_segment(e), 65535);
	assert_true(bucket_header_fits(good, e, hash));
	assert_false(bucket_header_fits(0, e, hash));
	assert_false(bucket_header_fits(good | 1ull << 53, e, hash)); /* MOVED */
	assert_false(bucket_header_fits(good ^ 1, e, hash)); /* incarnation */
	assert_false(bucket_header_fits(good ^ 1ull << 24, e, hash)); /* prefix */
	assert_false(bucket_header_fits(good ^ 1ull << 48, e, hash)); /* depth */
	assert_int_equal(hash_prefix(hash, 0), 0);
	assert_int_equal(hash_prefix(UINT64_MAX, DEPTH_MAX), (1u << DEPTH_MAX) - 1);
}

static struct block *make_block(const char *key, const char *value, uint32_t *len)
{
	uint32_t key_len = (uint32_t)strlen(key), value_len = (uint32_t)strlen(value);
	struct block *b;

	*len = (block_bytes(key_len, value_len) + 63) & ~63u;
	b = calloc(1, *len);
	atomic_init(&b->state, block_state_make(7, BLOCK_LIVE));
	b->version = 42;
	b->key_hash = hash_key(1, key, key_len);
	b->key_len = (uint16_t)key_len;
	b->value_len = value_len;
	memcpy(b->data, key, key_len);
	memcpy(b->data + key_len, value, value_len);
	b->checksum = block_checksum(b, block_body_hash(b));
	return b;
}

/* Any flipped bit of what a block says must be seen: I7. */
UNIT_TEST(every_bit_counts)
{
	uint32_t len, used = block_bytes(3, 20);
	struct block *b = make_block("key", "a value of 20 bytes.", &len);
	uint64_t hash = b->key_hash;

	assert_int_equal(block_verify(b, len, "key", 3, hash, 0), BLOCK_OK);
	assert_int_equal(block_verify(b, len, "key", 3, hash, 7), BLOCK_OK);
	assert_int_equal(block_verify_any(b, len), BLOCK_OK);
	assert_int_equal(block_verify_key(b, 51, len, 1), BLOCK_OK);
	assert_int_equal(block_verify_key(b, 50, len, 1), BLOCK_BAD);
	assert_int_equal(block_verify_key(b, len, used - 1, 1), BLOCK_BAD);
	assert_int_equal(block_verify_key(b, len, len, 2), BLOCK_BAD);
	for (uint32_t bit = 0; bit < used * 8; bit++) {
		((uint8_t *)b)[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_not_equal(block_verify(b, len, "key", 3, hash, 0), BLOCK_OK);
		if (bit / 64 == 3 || bit / 16 == 22 || bit / 8 == 48) /* hash, key_len, key */
			assert_int_equal(block_verify_key(b, 64, len, 1), BLOCK_BAD);
		((uint8_t *)b)[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(block_verify(b, len, "key", 3, hash, 8), BLOCK_GONE);
	assert_int_equal(block_verify(b, len, "kez", 3, hash, 0), BLOCK_OTHER_KEY);
	assert_int_equal(block_verify(b, len, "ke", 2, hash, 0), BLOCK_OTHER_KEY);
	assert_int_equal(block_verify(b, 47, "key", 3, hash, 0), BLOCK_BAD);
	assert_int_equal(block_verify(b, used - 1, "key", 3, hash, 0), BLOCK_BAD);
	free(b);
}

UNIT_TEST(lying_lengths)
{
	uint32_t len;
	struct block *b = make_block("key", "value", &len);

	b->value_len = UINT32_MAX;
	assert_int_equal(block_verify(b, len, "key", 3, b->key_hash, 0), BLOCK_BAD);
	b->value_len = len - BLOCK_HEADER_BYTES - 2;
	assert_int_equal(block_verify(b, len, "key", 3, b->key_hash, 0), BLOCK_BAD);
	b->value_len = 5;
	b->key_len = 0;
	assert_int_equal(block_verify(b, len, "", 0, b->key_hash, 0), BLOCK_BAD);
	b->key_len = KEY_MAX + 1;
	assert_int_equal(block_verify_any(b, len), BLOCK_BAD);
	free(b);
}

UNIT_TEST(states)
{
	uint32_t len;
	struct block *b = make_block("key", "value", &len);

	for (unsigned s = 0; s < 5; s++) {
		atomic_store(&b->state, (uint64_t)7 << 32 | s);
		assert_int_equal(block_verify(b, len, "key", 3, b->key_hash, 0),
				 s == BLOCK_LIVE ? BLOCK_OK : BLOCK_GONE);
		assert_int_equal(block_verify_key(b, len, len, 1),
				 s == BLOCK_LIVE ? BLOCK_OK : BLOCK_GONE);
	}
	free(b);
}

UNIT_TEST(seals)
{
	struct extent_entry e = { .addr = 1, .length = 2, .rkey = 3, .kind = EXTENT_DATA };
	struct root_directory d = { .extent = 1, .depth = 2, .offset = 3, .incarnation = 4 };
	struct root_extents x = { .addr = 1, .rkey = 2, .entries = 3 };

	extent_entry_seal(&e);
	root_directory_seal(&d);
	root_extents_seal(&x);
	assert_true(extent_entry_sound(&e) && root_directory_sound(&d) && root_extents_sound(&x));
	e.rkey++;
	d.depth++;
	x.rkey++;
	assert_false(extent_entry_sound(&e) || root_directory_sound(&d) || root_extents_sound(&x));
	memset(&e, 0, sizeof(e));
	assert_false(extent_entry_sound(&e)); /* an empty table does not verify */
	assert_int_equal(layout_hash(), layout_hash());
	assert_int_not_equal(layout_hash(), 0);
}
