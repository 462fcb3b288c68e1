/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Keys and values: every byte of a value follows from its key, its nonce and the seed. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "tests/stress/differ/differ.h"

#define HOT		16u
#define NUMBER_MAX	20u /* bytes of a decimal number of 64 bits with its sign */
#define CANDIDATES	(1u << 17)
#define TWIN		(1u << 31) /* in the first bytes of their keys */
#define FINGERPRINT_SET ((1ull << 27) - 1) /* of a hash: fingerprint, and one set of 32 of hints */

void shape_fill(const struct differ *d, const struct shape *s, uint8_t *out)
{
	uint64_t from = model_mix(model_mix(d->o.seed ^ s->key) ^ s->nonce);
	char text[NUMBER_MAX + 1];

	if (s->is_number) {
		snprintf(text, sizeof(text), "%" PRId64, s->number);
		memcpy(out, text, s->len);
		return;
	}
	for (uint32_t i = 0; i < s->len; i += 8) {
		uint64_t word = model_mix(from + i);

		/* long ones name themselves to a reader that finds them where they do not belong */
		if (s->len >= 32 && i < 16)
			word = i ? s->key : s->nonce;
		memcpy(out + i, &word, s->len - i < 8 ? s->len - i : 8);
	}
}

bool shape_number(const struct differ *d, const struct shape *s, int64_t *out)
{
	char text[NUMBER_MAX + 1] = "", again[NUMBER_MAX + 2];

	*out = s->number;
	if (s->is_number)
		return true;
	if (s->len == 0 || s->len > NUMBER_MAX)
		return false;
	shape_fill(d, s, (uint8_t *)text); /* it may be one by chance */
	*out = strtoll(text, NULL, 10);
	snprintf(again, sizeof(again), "%" PRId64, *out);
	return strlen(again) == s->len && memcmp(again, text, s->len) == 0;
}

struct shape shape_of_number(struct differ *d, uint32_t key, int64_t number)
{
	return (struct shape){ .nonce = ++d->nonce,
			       .key = key,
			       .is_number = true,
			       .number = number,
			       .len = (uint32_t)snprintf(NULL, 0, "%" PRId64, number) };
}

struct shape shape_append(struct differ *d, uint32_t key, int64_t number, int64_t digit)
{
	return shape_of_number(
		d, key, (int64_t)((uint64_t)number * 10 + (uint64_t)(number < 0 ? -digit : digit)));
}

static uint32_t choose_len(struct differ *d)
{
	static const uint32_t edges[] = { 0, 1, 127, 128, 129, 8191, 8192, 8193, 65536, 100000 };

	switch (below(d, 16)) {
	case 0:
		return edges[below(d, sizeof(edges) / sizeof(edges[0]))];
	case 1:
		return (uint32_t)below(d, DIFFER_VALUE_MAX + 1);
	case 2:
	case 3:
		return (uint32_t)below(d, 9000);
	case 4:
	case 5:
	case 6:
	case 7:
		return (uint32_t)below(d, 1000);
	default:
		return (uint32_t)below(d, 64);
	}
}

struct shape shape_choose(struct differ *d, uint32_t key)
{
	static const int64_t edges[] = { 0, INT64_MAX, INT64_MIN, INT64_MAX - 1, INT64_MIN + 1 };
	struct shape s;

	if (below(d, 4))
		return (struct shape){ .nonce = ++d->nonce, .key = key, .len = choose_len(d) };
	s = shape_of_number(d, key, (int64_t)below(d, 2000) - 1000);
	if (below(d, 8) == 0)
		s = shape_of_number(d, key, edges[below(d, sizeof(edges) / sizeof(edges[0]))]);
	return s;
}

static uint32_t choose_key(struct differ *d)
{
	uint64_t others = d->o.keys - DIFFER_TWINS, hot = others < HOT ? others : HOT;

	switch (below(d, 4)) {
	case 0:
		if (d->twins)
			return (uint32_t)below(d, DIFFER_TWINS);
		/* fall through */
	case 1:
		return DIFFER_TWINS + (uint32_t)below(d, hot);
	default:
		return DIFFER_TWINS + (uint32_t)below(d, others);
	}
}

uint32_t key_choose(struct differ *d, enum kind kind)
{
	for (;;) { /* there are more than fly and are in doubt */
		uint32_t k = choose_key(d);
		const struct record *r = &d->record[k];

		if (!r->flying && (kind == KIND_READ || r->doubt == SURE))
			return k;
	}
}

void past_add(struct differ *d, uint32_t key, const struct shape *s)
{
	struct past *p = &d->past[key];

	p->deed[p->n % DIFFER_PAST] = d->deeds;
	p->shape[p->n++ % DIFFER_PAST] = *s;
}

/* Of 4 bytes to GKV_KEY_MAX, most of them short; the first bytes are the key's number. */
void keys_create(struct differ *d)
{
	for (uint32_t k = 0; k < d->o.keys; k++) {
		uint64_t from = model_mix(d->o.seed + k), len = 4 + from % 40;
		struct key *key = &d->keys[k];

		if (from >> 32 & 7) {
			key->len = (uint16_t)len;
		} else {
			key->len = (uint16_t)(4 + (from >> 35) % (GKV_KEY_MAX - 3));
		}
		if (k == DIFFER_TWINS)
			key->len = GKV_KEY_MAX;
		for (uint32_t i = 0; i < key->len; i++)
			key->bytes[i] = (uint8_t)(from >> (i % 8 * 8));
		memcpy(key->bytes, &k, sizeof(k));
	}
}

uint32_t key_find(const struct differ *d, const void *key, size_t len)
{
	uint32_t k = UINT32_MAX, last = 0;

	if (len < sizeof(k))
		return UINT32_MAX;
	memcpy(&k, key, sizeof(k));
	if (k & TWIN)
		k = 0, last = DIFFER_TWINS - 1;
	for (last = k > last ? k : last; k <= last && k < d->o.keys; k++)
		if (d->keys[k].len == len && memcmp(d->keys[k].bytes, key, len) == 0)
			return k;
	return UINT32_MAX;
}

struct candidate {
	uint64_t bits;
	uint32_t number;
};

static int compare(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->bits < y->bits ? -1 : x->bits > y->bits;
}

static void make_candidate(struct key *key, uint32_t number)
{
	number |= TWIN;
	memcpy(key->bytes, &number, sizeof(number));
	key->len = sizeof(number);
}

/* Pairs among many keys whose hashes agree where hints look. The index needs all of the hash. */
void keys_twin(struct differ *d, uint64_t hash_seed)
{
	struct candidate *c = calloc(CANDIDATES, sizeof(*c));
	uint32_t n = 0;
	struct key key;

	assert(c);
	for (uint32_t i = 0; i < CANDIDATES; i++) {
		make_candidate(&key, i);
		c[i].bits = hash_key(hash_seed, key.bytes, key.len) & FINGERPRINT_SET;
		c[i].number = i;
	}
	qsort(c, CANDIDATES, sizeof(*c), compare);
	for (uint32_t i = 1; i < CANDIDATES && n < DIFFER_TWINS; i++) {
		if (c[i - 1].bits != c[i].bits)
			continue;
		make_candidate(&d->keys[n++], c[i - 1].number);
		make_candidate(&d->keys[n++], c[i++].number); /* of three alike one is left over */
	}
	free(c);
	assert(n == DIFFER_TWINS); /* twice as many are to be expected */
	for (uint32_t k = 0; k < n; k++)
		assert(key_find(d, d->keys[k].bytes, d->keys[k].len) == k);
	d->twins = true;
}
