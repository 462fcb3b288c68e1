/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/verify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "tools/kv-cli/text.h"

struct verify_entry {
	char *key; /* owned; NULL: the slot is free */
	size_t key_len;
	bool open; /* differs still */
	bool missing;
	uint64_t line;
	size_t want_len, found_len, first; /* first: offset of the first byte that differs */
};

/* The slot of the key, or the free one where it belongs. The table has free slots. */
static struct verify_entry *verify_slot(struct verify_entry *entries, size_t cap, const void *key,
					size_t len)
{
	size_t i = hash_bytes(key, len) & (cap - 1);

	while (entries[i].key &&
	       (entries[i].key_len != len || memcmp(entries[i].key, key, len) != 0))
		i = (i + 1) & (cap - 1);
	return &entries[i];
}

static int verify_grow(struct verify *v)
{
	size_t cap = v->cap ? 2 * v->cap : 64;
	struct verify_entry *entries = calloc(cap, sizeof(*entries));

	if (!entries)
		return -ENOMEM;
	for (size_t i = 0; i < v->cap; i++) {
		struct verify_entry *e = &v->entries[i];

		if (e->key)
			*verify_slot(entries, cap, e->key, e->key_len) = *e;
	}
	free(v->entries);
	v->entries = entries;
	v->cap = cap;
	return 0;
}

/* The entry of the record's key, made where there is none. */
static int verify_entry(struct verify *v, const struct record *record, struct verify_entry **out)
{
	struct verify_entry *e;
	int rc = v->used >= v->cap / 4 * 3 ? verify_grow(v) : 0;

	if (rc)
		return rc;
	e = verify_slot(v->entries, v->cap, record->key, record->key_len);
	if (!e->key) {
		if (v->used == VERIFY_OPEN_MAX)
			return -E2BIG;
		e->key = malloc(record->key_len);
		if (!e->key)
			return -ENOMEM;
		memcpy(e->key, record->key, record->key_len);
		e->key_len = record->key_len;
		v->used++;
	}
	*out = e;
	return 0;
}

int verify_record(struct verify *v, const struct record *record, const void *found,
		  size_t found_len)
{
	const char *want = record->value, *have = found;
	bool equal = found && found_len == record->value_len &&
		     (found_len == 0 || memcmp(want, have, found_len) == 0);
	struct verify_entry *e = NULL;
	size_t first = 0;
	int rc;

	if (equal) {
		if (v->used)
			e = verify_slot(v->entries, v->cap, record->key, record->key_len);
		if (e && e->key && e->open) {
			e->open = false;
			v->open--;
		}
		return 0;
	}
	rc = verify_entry(v, record, &e);
	if (rc)
		return rc;
	while (found && first < found_len && first < record->value_len &&
	       want[first] == have[first])
		first++;
	v->open += !e->open;
	e->open = true;
	e->missing = !found;
	e->line = record->line;
	e->want_len = record->value_len;
	e->found_len = found ? found_len : 0;
	e->first = first;
	return 0;
}

static int verify_by_line(const void *a, const void *b)
{
	const struct verify_entry *x = a, *y = b;

	if (x->open != y->open)
		return x->open ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

size_t verify_report(struct verify *v, size_t max, void (*print)(const char *sentence))
{
	char sentence[2 * TEXT_KEY_MAX + 160], key[TEXT_KEY_MAX];

	if (v->cap)
		qsort(v->entries, v->cap, sizeof(*v->entries), verify_by_line);
	for (size_t i = 0; i < v->open && i < max; i++) {
		const struct verify_entry *e = &v->entries[i];

		text_key(key, e->key, e->key_len);
		if (e->missing)
			snprintf(sentence, sizeof(sentence), "line %" PRIu64 ": %s: not found",
				 e->line, key);
		else
			snprintf(sentence, sizeof(sentence),
				 "line %" PRIu64 ": %s: differs from byte %zu on (%zu bytes in the "
				 "file, %zu read)",
				 e->line, key, e->first, e->want_len, e->found_len);
		print(sentence);
	}
	return v->open;
}

void verify_free(struct verify *v)
{
	for (size_t i = 0; i < v->cap; i++)
		free(v->entries[i].key);
	free(v->entries);
	*v = (struct verify){ 0 };
}
