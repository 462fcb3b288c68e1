/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The search of a bucket and the comparison of keys, against what they stand for. */
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

#include "server/index/keys.h"
#include "server/index/scan.h"

#define BUCKETS 20000u
#define KEYS_TO 80u

#define SEED 20240611u

static uint64_t seed = SEED;

static struct bucket bucket __attribute__((aligned(BUCKET_BYTES)));

/* A slot of one of few fingerprints, 0 among them, so that they meet; or an empty one. */
static uint64_t some_slot(void)
{
	static const uint32_t fingerprints[] = { 0, 1, FINGERPRINT_MASK, 0x155555, 0x200000 };
	uint64_t r = unit_random(&seed);

	if (r % 3 == 0)
		return 0;
	return slot_make(fingerprints[r % 5], 1 + r % 255, (r >> 10) % EXTENTS_MAX,
			 (uint32_t)(r >> 40 & 0x3fffff) * OFFSET_UNIT);
}

static void check(uint32_t fingerprint)
{
	struct bucket_scan scan = bucket_scan(&bucket, fingerprint);

	assert_int_equal(scan.match >> BUCKET_SLOTS, 0);
	assert_int_equal(scan.empty >> BUCKET_SLOTS, 0);
	for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
		uint64_t slot = atomic_load_explicit(&bucket.slot[i], memory_order_relaxed);

		assert_int_equal(scan.empty >> i & 1, slot == 0);
		assert_int_equal(scan.match >> i & 1, slot_fingerprint(slot) == fingerprint);
	}
}

UNIT_TEST(scans_find_every_slot)
{
	for (unsigned n = 0; n < BUCKETS; n++) {
		uint32_t fingerprint = (uint32_t)unit_random(&seed) & FINGERPRINT_MASK;
		unsigned at = (unsigned)unit_random(&seed) % BUCKET_SLOTS;

		/* The header is no slot, whatever it looks like. */
		atomic_store_explicit(&bucket.header, n % 2 ? 0 : some_slot(),
				      memory_order_relaxed);
		for (unsigned i = 0; i < BUCKET_SLOTS; i++)
			atomic_store_explicit(&bucket.slot[i], some_slot(), memory_order_relaxed);
		check(0);
		check(FINGERPRINT_MASK);
		check(fingerprint);
		atomic_store_explicit(&bucket.slot[at], slot_make(fingerprint, 1, 0, 0),
				      memory_order_relaxed);
		check(fingerprint);
	}
}

UNIT_TEST(keys_differ_in_any_byte)
{
	for (uint32_t len = 1; len <= KEYS_TO; len++) {
		/* Of their very length: a sanitizer sees what is read after them. */
		uint8_t *a = malloc(len), *b = malloc(len);

		assert_non_null(a);
		assert_non_null(b);
		for (uint32_t i = 0; i < len; i++)
			a[i] = (uint8_t)unit_random(&seed);
		memcpy(b, a, len);
		assert_true(keys_equal(a, b, len));
		for (uint32_t i = 0; i < len * 8; i++) {
			b[i / 8] ^= (uint8_t)(1u << i % 8);
			assert_false(keys_equal(a, b, len));
			b[i / 8] = a[i / 8];
		}
		free(a);
		free(b);
	}
}

int main(void)
{
	print_message("seed %u\n", SEED);
	return unit_run(NULL, NULL);
}
