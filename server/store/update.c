/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Writes that depend on what is there. The writer looks the record up, makes a new one from it, and
 * publishes that on the condition that nothing was written in between; otherwise it starts over. A
 * writer starts over only because another write went through, so some write always makes progress.
 * After UPDATE_TRIES lost races the client asks again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "server/store/store_internal.h"

#define UPDATE_TRIES 64u
#define NUMBER_MAX   20u /* bytes of a decimal number of 64 bits with its sign */

/* Decimal, as printf writes it: no other zeros, signs or spaces. Returns 0, -EDOM or -ERANGE. */
static int parse_number(const uint8_t *text, uint32_t len, int64_t *out)
{
	bool negative = len && text[0] == '-';
	uint64_t limit = (uint64_t)INT64_MAX + negative, n = 0;
	uint32_t first = negative, i;

	if (len == first || (text[first] == '0' && len > 1))
		return -EDOM;
	for (i = first; i < len; i++) {
		unsigned digit = (unsigned)text[i] - '0';

		if (digit > 9)
			return -EDOM;
		if (n > (limit - digit) / 10)
			return -EDOM; /* not a number of ours */
		n = n * 10 + digit;
	}
	*out = negative ? (int64_t)(0 - n) : (int64_t)n;
	return 0;
}

/* The key's record, unless it has expired. Returns 0, -ENOENT, -EBUSY. */
static int find(struct store_worker *w, uint64_t hash, const void *key, uint32_t key_len,
		const struct store_terms *t, struct index_hit *hit)
{
	struct store_result ignored;
	int rc;

	do {
		rc = store_look_up(w->store, hash, key, key_len, hit);
		if (rc || !block_expired(hit->block, t->now_ms))
			return rc;
		rc = store_delete_expired(w, hash, key, key_len, t, &ignored);
	} while (rc > 0);
	return rc ? rc : -ENOENT;
}

/*
 * What is written may depend on the key's record, or on that there is none, if @terms hold for it:
 * *hit, its block NULL where there is none. Returns 0, -EEXIST, -ENOENT, -EBUSY.
 */
static int find_base(struct store_worker *w, uint64_t hash, const void *key, uint32_t key_len,
		     const struct store_terms *terms, struct index_hit *hit,
		     struct store_result *out)
{
	int rc = find(w, hash, key, key_len, terms, hit);

	if (rc == -ENOENT)
		hit->block = NULL;
	return rc && rc != -ENOENT ? rc : store_check_terms(terms, hit->block, out);
}

/* A write of @t, that it goes over the record at @hit, or creates one. */
static struct store_terms over(const struct index_hit *hit, const struct store_terms *t, bool keep)
{
	return (struct store_terms){
		.condition = hit->block ? STORE_IF_VERSION : STORE_IF_ABSENT,
		.version = hit->block ? hit->block->version : 0,
		.now_ms = t->now_ms,
		.force = t->force,
		.keep = keep,
	};
}

/* Put @value on @terms; nothing is left with the caller. */
static int put_over(struct store_worker *w, const void *key, uint32_t key_len, const void *value,
		    uint32_t value_len, uint64_t expiry_ms, const struct store_terms terms,
		    struct store_result *out)
{
	struct store_put put;
	int rc = store_put_begin(w, key, key_len, value_len, expiry_ms, &put);

	if (rc)
		return rc;
	memcpy(put.block->data + key_len, value, value_len);
	rc = store_put_publish(w, &put, &terms, out);
	if (rc)
		store_put_abort(w, &put);
	return rc;
}

/* Whether a write was overtaken by another one. */
static bool overtaken(int rc)
{
	return rc == -EEXIST || rc == -ENOENT;
}

int store_incr(struct store_worker *w, const void *key, uint32_t key_len, int64_t delta,
	       uint64_t expiry_ms, const struct store_terms *terms, int64_t *sum,
	       struct store_result *out)
{
	uint64_t hash = hash_key(w->store->hash_seed, key, key_len);
	char text[NUMBER_MAX + 1];
	struct index_hit hit;
	int rc = 0, len;

	for (unsigned i = 0; i < UPDATE_TRIES; i++) {
		int64_t number = 0, total;

		rc = find_base(w, hash, key, key_len, terms, &hit, out);
		if (rc == 0 && hit.block)
			rc = parse_number(hit.block->data + key_len, hit.block->value_len, &number);
		if (rc == 0 && __builtin_add_overflow(number, delta, &total))
			rc = -ERANGE;
		if (rc)
			return rc;
		len = snprintf(text, sizeof(text), "%lld", (long long)total);
		rc = put_over(w, key, key_len, text, (uint32_t)len, expiry_ms,
			      over(&hit, terms, true), out);
		if (rc == 0)
			*sum = total;
		if (!overtaken(rc))
			return rc;
	}
	return -EBUSY;
}

int store_touch(struct store_worker *w, const void *key, uint32_t key_len, uint64_t expiry_ms,
		const struct store_terms *terms, struct store_result *out)
{
	uint64_t hash = hash_key(w->store->hash_seed, key, key_len);
	struct index_hit hit;
	int rc;

	for (unsigned i = 0; i < UPDATE_TRIES; i++) {
		rc = find(w, hash, key, key_len, terms, &hit);
		if (rc)
			return rc;
		rc = put_over(w, key, key_len, hit.block->data + key_len, hit.block->value_len,
			      expiry_ms, over(&hit, terms, false), out);
		if (!overtaken(rc))
			return rc;
	}
	return -EBUSY;
}

/* A block for @value_len bytes behind a value of @base bytes. */
static int append_take(struct store_worker *w, const void *key, uint32_t key_len, uint32_t base,
		       uint32_t value_len, uint64_t expiry_ms, struct store_put *put)
{
	int rc = value_len > VALUE_MAX - base
			 ? -EFBIG
			 : store_put_begin(w, key, key_len, base + value_len, expiry_ms, put);

	if (rc == 0)
		put->base = base;
	return rc;
}

int store_append_begin(struct store_worker *w, const void *key, uint32_t key_len,
		       uint32_t value_len, uint64_t expiry_ms, uint64_t now_ms,
		       struct store_put *put)
{
	uint64_t hash = hash_key(w->store->hash_seed, key, key_len);
	struct index_hit hit;
	bool there = store_look_up(w->store, hash, key, key_len, &hit) == 0 &&
		     !block_expired(hit.block, now_ms);

	return append_take(w, key, key_len, there ? hit.block->value_len : 0, value_len, expiry_ms,
			   put);
}

/* The value to be appended stands in a block; it has to stand behind @base bytes. */
static int append_move(struct store_worker *w, struct store_put *put, uint32_t base)
{
	const struct block *b = put->block;
	const uint32_t len = b->value_len - put->base;
	struct store_put other;
	int rc;

	if (base == put->base)
		return 0;
	rc = append_take(w, b->data, b->key_len, base, len, b->expiry_ms, &other);
	if (rc)
		return rc;
	memcpy(other.block->data + b->key_len + base, b->data + b->key_len + put->base, len);
	store_put_abort(w, put);
	*put = other;
	return 0;
}

int store_append_commit(struct store_worker *w, struct store_put *put,
			const struct store_terms *terms, struct store_result *out)
{
	struct index_hit hit;
	int rc;

	for (unsigned i = 0; i < UPDATE_TRIES; i++) {
		const uint8_t *key = put->block->data;
		const uint32_t key_len = put->block->key_len;
		struct store_terms t;

		rc = find_base(w, put->hash, key, key_len, terms, &hit, out);
		if (rc == 0)
			rc = append_move(w, put, hit.block ? hit.block->value_len : 0);
		if (rc)
			return rc;
		if (hit.block)
			memcpy(put->block->data + key_len, hit.block->data + key_len, put->base);
		t = over(&hit, terms, true);
		rc = store_put_publish(w, put, &t, out);
		if (!overtaken(rc))
			return rc;
	}
	return -EBUSY;
}
