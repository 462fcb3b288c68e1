/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Writes that depend on what is there. The writer looks the record up, makes a new one from it, and
 * publishes that on the condition that nothing was written in between; otherwise it starts over.
 *
 * PROGRESS. A writer starts over only because another write went through. After UPDATE_TRIES lost
 * races it makes the record under the bucket's lock, so it cannot lose for ever. The other writers
 * of the bucket wait meanwhile: for a value of 16 MiB, some milliseconds. Its block comes from
 * memory's lists, whose locks follow the bucket's; it waits for no growth there.
 *
 * With a log, what is there is the key's newest state, published or pending. The bytes of a pending
 * record are final, and stay for this read-side section as those of a published one do.
 */
#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "server/store/store_internal.h"

#define UPDATE_TRIES 8u
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
		rc = store_look_up_newest(w, hash, key, key_len, hit);
		if (rc || !block_expired(hit->block, t->now_ms))
			return rc;
		if (!hit->place) /* it is pending, and stays until what is pending is published */
			return -ENOENT;
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

/* A write that depends on what is there. */
struct change {
	/* Make @put's block out of @there, NULL: there is none. Returns 0 or a negative errno. */
	int (*make)(struct store_worker *w, struct change *c, const struct block *there);
	struct store_terms terms;
	const void *key;
	uint32_t key_len;
	uint64_t expiry_ms; /* of the new record, */
	bool keep; /* unless it keeps the one that is there */
	int64_t delta, sum; /* INCR */
	struct store_put *put; /* put->block: NULL at first, or with the key */
};

/* Another block, for a value of @len bytes, where the one in hand has another length. */
static int fit(struct store_worker *w, struct change *c, uint32_t len)
{
	struct store_put other;
	int rc;

	if (c->put->block && c->put->block->value_len == len)
		return 0;
	rc = store_put_begin(w, c->key, c->key_len, len, c->expiry_ms, &other);
	if (rc)
		return rc;
	if (c->put->block)
		store_put_abort(w, c->put);
	*c->put = other;
	c->key = other.block->data;
	return 0;
}

/* The last way: nobody writes it meanwhile. */
static int change_locked(struct store_worker *w, struct change *c, struct store_result *out)
{
	const struct store_terms t = { .now_ms = c->terms.now_ms, .keep = c->keep };
	struct index_hit old;
	bool found;
	int rc = store_put_lock(w, c->put, &c->terms, &old, &found, out);

	if (rc)
		return rc;
	rc = c->make(w, c, found && !block_expired(old.block, t.now_ms) ? old.block : NULL);
	if (rc) {
		index_unlock(w->store->index, c->put->hash);
		return rc;
	}
	return store_put_finish(w, c->put, block_body_hash(c->put->block), &t, &old, found, out);
}

static int change_tried(struct store_worker *w, struct change *c, struct store_result *out)
{
	uint64_t hash = hash_key(w->store->hash_seed, c->key, c->key_len);

	for (unsigned i = 0; i < UPDATE_TRIES; i++) {
		struct index_hit hit;
		struct store_terms t;
		int rc = find_base(w, hash, c->key, c->key_len, &c->terms, &hit, out);

		if (rc == 0)
			rc = c->make(w, c, hit.block);
		if (rc)
			return rc;
		t = over(&hit, &c->terms, c->keep);
		rc = store_put_publish(w, c->put, &t, out);
		if (rc != -EEXIST && rc != -ENOENT) /* another write was first */
			return rc;
	}
	return change_locked(w, c, out);
}

/* Unless it returns 0 the block in hand, if any, is still the caller's. */
static int change(struct store_worker *w, struct change *c, struct store_result *out)
{
	return store_outcome(w, change_tried(w, c, out));
}

/* The same, and no block is left with the caller. */
static int change_whole(struct store_worker *w, struct change *c, struct store_result *out)
{
	struct store_put put = { 0 };
	int rc;

	c->put = &put;
	rc = change(w, c, out);
	if (rc && put.block)
		store_put_abort(w, &put);
	return rc;
}

static int make_sum(struct store_worker *w, struct change *c, const struct block *there)
{
	char text[NUMBER_MAX + 1];
	int64_t number = 0, total;
	int rc = 0, len;

	if (there)
		rc = parse_number(there->data + c->key_len, there->value_len, &number);
	if (rc == 0 && __builtin_add_overflow(number, c->delta, &total))
		rc = -ERANGE;
	if (rc)
		return rc;
	len = snprintf(text, sizeof(text), "%lld", (long long)total);
	rc = fit(w, c, (uint32_t)len);
	if (rc == 0)
		memcpy(c->put->block->data + c->key_len, text, (size_t)len);
	c->sum = total;
	if (w->decision)
		w->decision->number = total;
	return rc;
}

int store_incr(struct store_worker *w, const void *key, uint32_t key_len, int64_t delta,
	       uint64_t expiry_ms, const struct store_terms *terms, int64_t *sum,
	       struct store_result *out)
{
	struct change c = {
		.make = make_sum,
		.terms = *terms,
		.key = key,
		.key_len = key_len,
		.expiry_ms = expiry_ms,
		.keep = true,
		.delta = delta,
	};
	int rc = change_whole(w, &c, out);

	if (rc == 0)
		*sum = c.sum;
	return rc;
}

static int make_copy(struct store_worker *w, struct change *c, const struct block *there)
{
	int rc = fit(w, c, there->value_len);

	if (rc == 0)
		memcpy(c->put->block->data + c->key_len, there->data + c->key_len,
		       there->value_len);
	return rc;
}

int store_touch(struct store_worker *w, const void *key, uint32_t key_len, uint64_t expiry_ms,
		const struct store_terms *terms, struct store_result *out)
{
	struct change c = {
		.make = make_copy,
		.terms = *terms,
		.key = key,
		.key_len = key_len,
		.expiry_ms = expiry_ms,
	};

	c.terms.condition = STORE_IF_PRESENT;
	return change_whole(w, &c, out);
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
	bool there = store_look_up_newest(w, hash, key, key_len, &hit) == 0 &&
		     !block_expired(hit.block, now_ms);
	uint32_t base = there ? hit.block->value_len : 0;

	/* Too long by a write that is pending, perhaps: store_append_commit() judges that. */
	if (w->store->log && value_len <= VALUE_MAX && base > VALUE_MAX - value_len)
		base = 0;
	return append_take(w, key, key_len, base, value_len, expiry_ms, put);
}

/* The value to be appended stands in a block; it has to stand behind what is there. */
static int make_longer(struct store_worker *w, struct change *c, const struct block *there)
{
	const uint32_t base = there ? there->value_len : 0;
	struct store_put *put = c->put;
	const struct block *b = put->block;
	const uint32_t len = b->value_len - put->base;
	struct store_put other;
	int rc;

	if (put->sealed && put->base_version == (there ? there->version : 0))
		return 0;
	put->sealed = false;
	if (base != put->base) {
		rc = append_take(w, b->data, b->key_len, base, len, b->expiry_ms, &other);
		if (rc)
			return rc;
		memcpy(other.block->data + b->key_len + base, b->data + b->key_len + put->base,
		       len);
		store_put_abort(w, put);
		*put = other;
		c->key = other.block->data;
	}
	if (there)
		memcpy(put->block->data + c->key_len, there->data + c->key_len, base);
	return 0;
}

void store_append_seal(struct store_worker *w, struct store_put *put, uint64_t now_ms)
{
	struct block *b = put->block;
	struct index_hit hit;
	bool there = store_look_up_newest(w, put->hash, b->data, b->key_len, &hit) == 0 &&
		     !block_expired(hit.block, now_ms);

	if (put->base != (there ? hit.block->value_len : 0))
		return;
	if (there)
		memcpy(b->data + b->key_len, hit.block->data + b->key_len, put->base);
	put->base_version = there ? hit.block->version : 0;
	store_put_seal(put);
}

int store_append_commit(struct store_worker *w, struct store_put *put,
			const struct store_terms *terms, struct store_result *out)
{
	struct change c = {
		.make = make_longer,
		.terms = *terms,
		.key = put->block->data,
		.key_len = put->block->key_len,
		.keep = true,
		.put = put,
	};

	return change(w, &c, out);
}
