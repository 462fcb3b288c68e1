/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "client/src/know/seen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"

#define SEEN_FIRST 256u
#define SEEN_SEED  0x9e3779b97f4a7c15ull /* any: it sets the second hash apart from the first */

static struct seen_key *place_of(const struct seen *s, struct seen_key k)
{
	size_t i = (size_t)k.b & (s->size - 1);

	while ((s->table[i].a || s->table[i].b) && (s->table[i].a != k.a || s->table[i].b != k.b))
		i = (i + 1) & (s->size - 1);
	return &s->table[i];
}

static int grow(struct seen *s)
{
	struct seen larger = { .size = s->size ? s->size * 2 : SEEN_FIRST, .count = s->count };

	larger.table = calloc(larger.size, sizeof(*larger.table));
	if (!larger.table)
		return -ENOMEM;
	for (size_t i = 0; i < s->size; i++) {
		if (s->table[i].a || s->table[i].b)
			*place_of(&larger, s->table[i]) = s->table[i];
	}
	free(s->table);
	*s = larger;
	return 0;
}

int seen_add(struct seen *s, uint64_t key_hash, const void *key, size_t key_len)
{
	struct seen_key k = { key_hash, hash_bytes_seeded(key, key_len, SEEN_SEED) | 1 };
	struct seen_key *place;

	if (s->count * 2 >= s->size && grow(s))
		return -ENOMEM;
	place = place_of(s, k);
	if (place->a || place->b)
		return 0;
	*place = k;
	s->count++;
	return 1;
}

void seen_keep_above(struct seen *s, uint64_t hash)
{
	struct seen rest = { .size = s->size };

	if (!s->count)
		return;
	rest.table = calloc(rest.size, sizeof(*rest.table));
	if (!rest.table)
		return;
	for (size_t i = 0; i < s->size; i++) {
		if (!s->table[i].b || s->table[i].a <= hash)
			continue;
		*place_of(&rest, s->table[i]) = s->table[i];
		rest.count++;
	}
	free(s->table);
	*s = rest;
}

void seen_clear(struct seen *s)
{
	if (s->count)
		memset(s->table, 0, s->size * sizeof(*s->table));
	s->count = 0;
}

void seen_free(struct seen *s)
{
	free(s->table);
	memset(s, 0, sizeof(*s));
}
