/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Private to server/index: which slots of a bucket are worth a look.
 *
 * All slots are compared, without a branch that depends on where the wanted one stands: a CPU would
 * mispredict it once a look-up, and could start neither on the block nor on the next look-up before
 * the bucket has come from memory.
 *
 * The answer is a hint, of words that were read one by one at some moment after the caller's load
 * of the header. Whoever acts on a set bit loads the slot itself (acquire) and judges again. A bit
 * that is not set is final for a reader that looks for a key which stands there all the time: its
 * slot's fingerprint stays the same while it is replaced. For the holder of the lock all is exact.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "common/layout/bucket.h"
#include "common/layout/slot.h"

#if defined(__SANITIZE_THREAD__)
#define SCAN_ATOMIC 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SCAN_ATOMIC 1
#endif
#endif

#if defined(__SSE2__) && !defined(SCAN_ATOMIC)
#define SCAN_SSE2 1
#include <emmintrin.h>
#endif

/* Bit i stands for slot[i]. */
struct bucket_scan {
	uint32_t match; /* has the fingerprint, and may be empty where that is 0 */
	uint32_t empty;
};

#ifdef SCAN_SSE2

/*
 * The upper half of a slot holds its fingerprint and its size code, and is 0 only where all of it
 * is. Aligned loads of 16 bytes: no half of 4 bytes is ever torn.
 */
static inline __m128i scan_upper_halves(const struct bucket *bucket, unsigned word)
{
	const __m128i *from = (const __m128i *)((const uint64_t *)bucket + word);
	__m128 low = _mm_castsi128_ps(_mm_load_si128(from));
	__m128 high = _mm_castsi128_ps(_mm_load_si128(from + 1));

	return _mm_castps_si128(_mm_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1)));
}

/* A bit for each of 16 words of 4 bytes that is all ones. */
static inline uint32_t scan_bits(const __m128i words[4])
{
	return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(words[0], words[1]),
							   _mm_packs_epi32(words[2], words[3])));
}

static inline struct bucket_scan bucket_scan(const struct bucket *bucket, uint32_t fingerprint)
{
	const __m128i wanted = _mm_set1_epi32((int)fingerprint), zero = _mm_setzero_si128();
	struct bucket_scan scan = { 0 };

#pragma GCC unroll 2
	for (unsigned half = 0; half < 2; half++) {
		__m128i match[4], empty[4];

#pragma GCC unroll 4
		for (unsigned i = 0; i < 4; i++) {
			__m128i upper = scan_upper_halves(bucket, half * 16 + i * 4);

			match[i] = _mm_cmpeq_epi32(_mm_srli_epi32(upper, 10), wanted);
			empty[i] = _mm_cmpeq_epi32(upper, zero);
		}
		scan.match |= scan_bits(match) << (half * 16);
		scan.empty |= scan_bits(empty) << (half * 16);
	}
	scan.match >>= 1; /* the header is no slot */
	scan.empty >>= 1;
	return scan;
}

#else

static inline struct bucket_scan bucket_scan(const struct bucket *bucket, uint32_t fingerprint)
{
	struct bucket_scan scan = { 0 };

	for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
		uint64_t slot = atomic_load_explicit(&bucket->slot[i], memory_order_relaxed);

		scan.match |= (uint32_t)(slot_fingerprint(slot) == fingerprint) << i;
		scan.empty |= (uint32_t)(slot == 0) << i;
	}
	return scan;
}

#endif
