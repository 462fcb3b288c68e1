/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/unit/index/table.h"

#include "tests/lib/unit.h"

#include <errno.h>
#include <string.h>

#include "common/layout/size_code.h"
#include "common/layout/slot.h"

static int take_region(void *ctx, int fd, void *addr, size_t len, struct memory_region *out,
		       struct error *err)
{
	*out = (struct memory_region){ addr, 1, 2 };
	return 0;
}

static void drop_region(void *ctx, struct memory_region *region)
{
}

void table_open(struct table *t, uint64_t memory_bytes, uint64_t slots)
{
	const struct memory_config memory = { memory_bytes, { take_region, drop_region, NULL } };
	const struct index_config index = { slots, 77 };
	struct error err;
	unsigned extent;

	assert_int_equal(memory_create(&t->memory, &memory, &err), 0);
	assert_int_equal(index_create(&t->index, t->memory, &index, &err), 0);
	assert_int_equal(memory_extent_add(t->memory, EXTENT_DATA, 1, &extent, &err), 0);
	assert_int_equal(memory_cache_create(&t->cache, t->memory), 0);
}

void table_close(struct table *t)
{
	memory_cache_destroy(t->cache);
	index_destroy(t->index);
	memory_destroy(t->memory);
}

uint64_t table_value(const struct block *b)
{
	uint64_t value;

	memcpy(&value, b->data + b->key_len, sizeof(value));
	return value;
}

int table_put(struct table *t, uint64_t hash, const char *key, uint64_t value,
	      struct memory_place *old, int *replaced)
{
	uint32_t key_len = (uint32_t)strlen(key), bytes = block_bytes(key_len, sizeof(value));
	struct memory_place place;
	struct index_hit hit;
	struct block *b;
	bool found;
	int rc;

	while ((rc = memory_alloc(t->cache, bytes, &place, &b)) == -EAGAIN)
		memory_growth_wait(t->memory, 100);
	if (rc)
		return rc;
	b->key_hash = hash;
	b->key_len = (uint16_t)key_len;
	b->value_len = sizeof(value);
	b->version = value;
	memcpy(b->data, key, key_len);
	memcpy(b->data + key_len, &value, sizeof(value));
	index_lock(t->index, hash);
	rc = index_reserve(t->index, hash, key, key_len, &hit, &found);
	if (rc == 0) {
		b->checksum = block_checksum(b, block_body_hash(b));
		index_publish(t->index, hash, &hit, found, b,
			      slot_make(slot_fingerprint_of_hash(hash), size_code_for(bytes),
					place.extent, place.offset));
	}
	index_unlock(t->index, hash);
	if (rc) {
		memory_free(t->memory, place);
		return rc;
	}
	*replaced = found;
	if (found)
		*old = (struct memory_place){ slot_extent(hit.slot), slot_offset(hit.slot) };
	return 0;
}

int table_del(struct table *t, uint64_t hash, const char *key, struct memory_place *old)
{
	struct index_hit hit;
	int rc;

	index_lock(t->index, hash);
	rc = index_lookup_locked(t->index, hash, key, (uint32_t)strlen(key), &hit);
	if (rc == 0) {
		index_remove(t->index, hash, &hit);
		*old = (struct memory_place){ slot_extent(hit.slot), slot_offset(hit.slot) };
	}
	index_unlock(t->index, hash);
	return rc;
}
