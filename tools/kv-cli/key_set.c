/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/key_set.h"

#include <stdlib.h>

#include "common/base/hash.h"

/* Insert a hash that is not 0 into a table with room. Returns true if it was there. */
static bool key_set_insert(uint64_t *slots, size_t cap, uint64_t hash)
{
	size_t i = hash & (cap - 1);

	while (slots[i] && slots[i] != hash)
		i = (i + 1) & (cap - 1);
	if (slots[i])
		return true;
	slots[i] = hash;
	return false;
}

static bool key_set_has(const struct key_set *s, uint64_t hash)
{
	size_t i = hash & (s->cap - 1);

	if (!s->cap)
		return false;
	while (s->slots[i] && s->slots[i] != hash)
		i = (i + 1) & (s->cap - 1);
	return s->slots[i] != 0;
}

static bool key_set_grow(struct key_set *s)
{
	size_t cap = s->cap ? 2 * s->cap : 4096;
	uint64_t *slots = calloc(cap, sizeof(*slots));

	if (!slots)
		return false;
	for (size_t i = 0; i < s->cap; i++) {
		if (s->slots[i])
			key_set_insert(slots, cap, s->slots[i]);
	}
	free(s->slots);
	s->slots = slots;
	s->cap = cap;
	return true;
}

bool key_set_add(struct key_set *s, const void *key, size_t len)
{
	uint64_t hash = hash_bytes(key, len);

	hash += hash == 0;
	if (key_set_has(s, hash))
		return true;
	if (s->used == KEY_SET_MAX || (s->used >= s->cap / 4 * 3 && !key_set_grow(s))) {
		s->full = true;
		return false;
	}
	key_set_insert(s->slots, s->cap, hash);
	s->used++;
	return false;
}

void key_set_free(struct key_set *s)
{
	free(s->slots);
	*s = (struct key_set){ 0 };
}
