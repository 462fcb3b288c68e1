/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * With a log: deciding writes, and finding what is decided and pending.
 *
 * THE NEWEST STATE of a key is its last pending write, or what is published where none is pending.
 * Every write is judged against it, under the lock of the key's bucket, in which it also gets its
 * version, its place in the log and the end of the pending list. So for each key the orders of
 * judgement, of versions, of positions and of the list are one order, and a write that is published
 * in it replaces just what it was judged against: what the deferred budget was taken for.
 *
 * WHERE ITS SLOT IS. While writes of a key are pending, the index has one slot of it: of the record
 * that is published, or held for the first of them. The first is then a PUT, since a DEL of what is
 * absent is refused and not logged; for the same reason a PUT comes next after a DEL, and takes
 * over its slot when the DEL is published (publish.c). So an insert takes a slot only where nothing
 * of the key is pending. What has expired stays while anything is pending, or a write that was
 * judged against it would find its slot gone.
 *
 * NOTHING FAILS AFTER THE APPEND: memory, slot and budget were taken before, the list and the hold
 * take nothing.
 *
 * The record is filled after the unlock, as a value has up to 16 MiB. Its bytes stay: a PUT's block
 * is published, or retired, by nobody but this thread; the block which has a DEL's key goes when
 * the DEL is published, by this thread too.
 */
#include <string.h>

#include "common/base/hash.h"
#include "server/store/store_internal.h"

static bool pending_has_key(const struct store_pending *p, uint64_t hash, const void *key,
			    uint32_t key_len)
{
	return p->hash == hash && p->key_len == key_len && memcmp(p->key, key, key_len) == 0;
}

struct store_pending *store_pending_last(const struct store *s, uint64_t hash, const void *key,
					 uint32_t key_len)
{
	struct store_pending *p;

	cds_list_for_each_entry_reverse(p, store_pending_list(s, hash), node)
	{
		if (pending_has_key(p, hash, key, key_len))
			return p;
	}
	return NULL;
}

bool store_newest_logged(struct store_worker *w, uint64_t hash, const void *key, uint32_t key_len,
			 struct index_hit *hit)
{
	const struct store_pending *p = store_pending_last(w->store, hash, key, key_len);

	if (w->decision) {
		w->decision->awaits = p ? p->version : 0;
		w->decision->awaits_hash = hash;
	}
	if (p)
		*hit = (struct index_hit){ .slot = p->slot, .block = p->block };
	return p;
}

/* must hold the lock, after log_append_begin(): it is decided. */
static void enter(struct store_worker *w, struct store_pending *p, uint64_t hash,
		  const struct block *named)
{
	p->hash = hash;
	p->key = named->data;
	p->key_len = named->key_len;
	p->holds = false;
	cds_list_add_tail(&p->node, store_pending_list(w->store, hash));
}

static void fill(struct store_worker *w, const struct store_pending *p, struct log_entry *e)
{
	struct store_decision *d = w->decision;

	e->version = p->version;
	memcpy(e->client, d->client, sizeof(e->client));
	e->sequence = d->sequence;
	e->number = d->number;
	e->handle = d->handle;
	e->slot = d->request_slot;
	e->key = p->key;
	e->key_len = p->key_len;
	log_append_end(w->store->log, &p->place, e);
	d->appended = true;
}

int store_append_put(struct store_worker *w, const struct store_put *put, uint64_t body,
		     const struct index_hit *old, bool found, uint64_t slot)
{
	struct store *s = w->store;
	struct block *b = put->block;
	struct store_pending *p = w->decision->pending;
	struct log_entry e = {
		.kind = LOG_PUT,
		.expiry_ms = b->expiry_ms,
		.value = b->data + b->key_len,
		.value_len = b->value_len,
		.body = body,
	};
	int rc = log_append_begin(s->log, b->key_len, b->value_len, &p->place);

	w->decision->refused = rc;
	if (rc) {
		index_unlock(s->index, put->hash);
		return rc;
	}
	b->version = p->version = store_version(s);
	b->checksum = block_checksum(b, body);
	p->block = b;
	p->slot = slot;
	enter(w, p, put->hash, b);
	if (!found && old->place) { /* nothing of the key is there, or pending */
		index_hold(s->index, put->hash, old, b, slot);
		p->holds = true;
	}
	if (found)
		reclaim_set_aside(w->reclaim, hit_bytes(old));
	index_unlock(s->index, put->hash);
	fill(w, p, &e);
	return 0;
}

int store_append_del(struct store_worker *w, uint64_t hash, const struct index_hit *old,
		     struct store_result *out)
{
	struct store *s = w->store;
	const struct block *b = old->block;
	struct store_pending *p = w->decision->pending;
	struct log_entry e = { .kind = LOG_DEL, .body = hash_bytes(b->data, b->key_len) };
	int rc = log_append_begin(s->log, b->key_len, 0, &p->place);

	w->decision->refused = rc;
	if (rc) {
		index_unlock(s->index, hash);
		return rc;
	}
	p->version = store_version(s);
	p->block = NULL;
	p->slot = 0;
	enter(w, p, hash, b);
	reclaim_set_aside(w->reclaim, hit_bytes(old));
	store_describe(old, out);
	out->version = p->version;
	out->expiry_ms = out->value_len = 0; /* as recovery remembers it */
	index_unlock(s->index, hash);
	fill(w, p, &e);
	return 0;
}
