/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/unit/index/table.h"

#include "tests/lib/no_device.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <string.h>

#include "common/layout/size_code.h"
#include "common/layout/slot.h"

static void free_at_once(struct table *t, struct memory_place place, uint32_t bytes)
{
	memory_free(t->memory, place);
}

void table_open(struct table *t, uint64_t memory_bytes, uint64_t slots)
{
	const struct memory_config memory = { .bytes_max = memory_bytes,
					      .hooks = { take_region, drop_region, NULL } };
	const struct index_config index = { slots, 77 };
	struct error err;
	unsigned extent;

	t->retire = free_at_once;
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

static void give_back(struct table *t, const struct index_retired *r)
{
	for (unsigned i = 0; i < r->count; i++)
		t->retire(t, r->piece[i].place, r->piece[i].bytes);
}

/* As store_put_commit() does it. */
static int lock_with_room(struct table *t, uint64_t hash, const char *key, uint32_t key_len,
			  struct index_hit *hit, bool *found)
{
	struct index_retired retired;
	int rc, why = 0;

	for (;;) {
		index_lock(t->index, hash);
		rc = index_reserve(t->index, hash, key, key_len, why != 0, hit, found);
		if (rc == 0)
			return 0;
		index_unlock(t->index, hash);
		if (rc != -EAGAIN)
			return rc;
		while ((why = index_split(t->index, hash, &retired)) == -EAGAIN) {
			give_back(t, &retired);
			memory_growth_wait(t->memory, 100);
		}
		give_back(t, &retired);
	}
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
	rc = lock_with_room(t, hash, key, key_len, &hit, &found);
	if (rc) {
		memory_free(t->memory, place);
		return rc;
	}
	b->checksum = block_checksum(b, block_body_hash(b));
	index_publish(t->index, hash, &hit, found, b,
		      slot_make(slot_fingerprint_of_hash(hash), size_code_for(bytes), place.extent,
				place.offset));
	index_unlock(t->index, hash);
	*replaced = found;
	if (found)
		*old = (struct memory_place){ slot_extent(hit.slot), slot_offset(hit.slot) };
	return 0;
}

int table_del(struct table *t, uint64_t hash, const char *key, struct memory_place *old)
{
	struct index_retired retired;
	struct index_hit hit;
	bool sparse = false;
	int rc;

	index_lock(t->index, hash);
	rc = index_lookup_locked(t->index, hash, key, (uint32_t)strlen(key), &hit);
	if (rc == 0) {
		sparse = index_remove(t->index, hash, &hit);
		*old = (struct memory_place){ slot_extent(hit.slot), slot_offset(hit.slot) };
	}
	index_unlock(t->index, hash);
	if (sparse) {
		index_shrink(t->index, hash, &retired);
		give_back(t, &retired);
	}
	return rc;
}

void table_tidy(struct table *t)
{
	struct index_retired retired;

	index_tidy(t->index, &retired);
	give_back(t, &retired);
}

int table_find(const struct table *t, uint64_t hash, const char *key, uint64_t *value)
{
	uint32_t key_len = (uint32_t)strlen(key);
	struct index_hit hit;
	int rc = index_lookup(t->index, hash, key, key_len, &hit);

	if (rc == -EAGAIN) {
		index_lock(t->index, hash);
		rc = index_lookup_locked(t->index, hash, key, key_len, &hit);
		index_unlock(t->index, hash);
	}
	if (rc == 0)
		*value = table_value(hit.block);
	return rc;
}
