/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Look-ups of random keys among a million records of 16 B keys and 64 B values. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/time.h"
#include "common/layout/size_code.h"
#include "common/layout/slot.h"
#include "server/index/index.h"

#define RECORDS	  1000000u
#define LOOKUPS	  5000000u
#define KEY_LEN	  16u
#define VALUE_LEN 64u

static int take_region(void *ctx, int fd, void *addr, size_t len, struct memory_region *out,
		       struct error *err)
{
	*out = (struct memory_region){ addr, 1, 2 };
	return 0;
}

static void drop_region(void *ctx, struct memory_region *region)
{
}

static void key_of(uint32_t i, char key[KEY_LEN + 1])
{
	snprintf(key, KEY_LEN + 1, "key-%012u", i);
}

static void must(int rc, const char *what)
{
	if (rc) {
		fprintf(stderr, "%s: %s\n", what, error_name(rc));
		exit(1);
	}
}

static int put(struct memory *m, struct memory_cache *cache, struct index *ix, const char *key)
{
	uint64_t hash = hash_key(7, key, KEY_LEN);
	uint32_t bytes = block_bytes(KEY_LEN, VALUE_LEN);
	struct memory_place place;
	struct index_hit old;
	struct block *b;
	bool found;
	int rc;

	while ((rc = memory_alloc(cache, bytes, &place, &b)) == -EAGAIN)
		memory_growth_wait(m, 1000);
	if (rc)
		return rc;
	b->key_hash = hash;
	b->expiry_ms = 0;
	b->key_len = KEY_LEN;
	b->value_len = VALUE_LEN;
	memcpy(b->data, key, KEY_LEN);
	b->checksum = block_checksum(b, block_body_hash(b));
	index_lock(ix, hash);
	rc = index_reserve(ix, hash, key, KEY_LEN, &old, &found);
	if (rc == 0)
		index_publish(ix, hash, &old, found, b,
			      slot_make(slot_fingerprint_of_hash(hash), size_code_for(bytes),
					place.extent, place.offset));
	index_unlock(ix, hash);
	return rc;
}

int main(int argc, char **argv)
{
	double load = argc > 1 ? atof(argv[1]) : 1.25;
	const struct memory_config memory = { 2ull << 30, { take_region, drop_region, NULL } };
	const struct index_config config = { (uint64_t)(RECORDS * load), 1 };
	struct memory_stats stats;
	struct index_stats is;
	struct memory_cache *cache;
	struct memory *m;
	struct index *ix;
	struct error err;
	uint64_t begin, put_ns, get_ns, rng = 88172645463325252ull, bad = 0, none = 0, blocks = 0;
	uint64_t *hashes = malloc(RECORDS * sizeof(*hashes));
	char(*keys)[KEY_LEN + 1] = malloc((size_t)RECORDS * (KEY_LEN + 1));

	if (!keys || !hashes)
		return 1;
	must(memory_create(&m, &memory, &err), "memory");
	must(index_create(&ix, m, &config, &err), "index");
	must(memory_cache_create(&cache, m), "cache");
	for (uint32_t i = 0; i < RECORDS; i++) {
		key_of(i, keys[i]);
		hashes[i] = hash_key(7, keys[i], KEY_LEN);
	}
	begin = time_now_ns();
	for (uint32_t i = 0; i < RECORDS; i++) {
		int rc = put(m, cache, ix, keys[i]);

		if (rc && !none++)
			printf("first record without room: %u of %u: %s\n", i, RECORDS,
			       error_name(rc));
	}
	put_ns = time_now_ns() - begin;
	begin = time_now_ns();
	for (uint32_t i = 0; i < LOOKUPS; i++) {
		struct index_hit hit;
		uint32_t k;

		rng ^= rng << 13;
		rng ^= rng >> 7;
		rng ^= rng << 17;
		k = (uint32_t)(rng % RECORDS);
		bad += index_lookup(ix, hashes[k], keys[k], KEY_LEN, &hit) != 0;
	}
	get_ns = time_now_ns() - begin;
	memory_stats_get(m, &stats);
	index_stats_get(ix, &is);
	for (unsigned c = 0; c < stats.classes; c++)
		blocks += stats.class[c].slabs * SLAB_BYTES;
	printf("%llu records, %llu without room, %llu misses, hugepages %d\n",
	       (unsigned long long)is.records, (unsigned long long)none, (unsigned long long)bad,
	       stats.hugepages);
	printf("index_lookup %.1f ns, insert %.1f ns\n", (double)get_ns / LOOKUPS,
	       (double)put_ns / RECORDS);
	printf("depth %u, overflow %llu of %llu, load %.1f%% of main slots\n", is.depth,
	       (unsigned long long)is.overflow_used,
	       (unsigned long long)is.segments * SEGMENT_OVERFLOW,
	       100.0 * (double)is.records / (double)(is.buckets * BUCKET_SLOTS));
	printf("bytes a record: %.1f blocks + %.1f index = %.1f\n", (double)blocks / RECORDS,
	       (double)(stats.extent_bytes[EXTENT_INDEX] + stats.extent_bytes[EXTENT_DIR]) /
		       RECORDS,
	       (double)(blocks + stats.extent_bytes[EXTENT_INDEX] +
			stats.extent_bytes[EXTENT_DIR]) /
		       RECORDS);
	memory_cache_destroy(cache);
	index_destroy(ix);
	memory_destroy(m);
	return bad > none * 6;
}
