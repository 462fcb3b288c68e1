/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Reading: get, view, exists, mget. Each is a batch of look-ups; what they leave open is asked. */
#include <errno.h>
#include <string.h>

#include "client/src/call/get.h"
#include "client/src/call/rpc_run.h"
#include "client/src/flight/async.h"
#include "client/src/link/memory.h"
#include "client/src/request/fill.h"

int handle_lookup(struct gkv *h, struct lookup *l, unsigned count)
{
	struct batch batch;
	uint32_t age;
	int rc;

	do {
		if (h->async)
			async_aside(h->async);
		rc = handle_ready(h);
		if (rc)
			return rc;
		batch_init(&h->reader, &batch, l, &h->reader.fetch);
		while (batch.count < count)
			batch_add(&h->reader, &batch, false);
		batch.age = age = section_open(h, SECTION_CALL);
		rc = batch_run(&h->reader, &batch);
		section_close(h, SECTION_CALL);
	} while ((rc > 0 || rc == -ECONNRESET) && time_now_ns() < handle_deadline(h));
	if (rc > 0)
		return error_set(&h->error, -ETIMEDOUT,
				 "the values could not be read within %u ms (ask for fewer at "
				 "once, or give timeout_ms more)",
				 h->session->settings.timeout_ms);
	for (unsigned i = 0; i < count && rc == 0; i++) {
		if (l[i].state == LOOKUP_ASK)
			rc = rpc_lookup(h, &l[i], age);
	}
	return rc;
}

/* One key; the sentence of a failure is written. */
static int one(struct gkv *h, struct lookup *l, const void *key, size_t key_len)
{
	int rc = handle_key(h, key, key_len);

	if (rc)
		return rc;
	l->key = key;
	l->key_len = (uint32_t)key_len;
	figure_add(&h->reader.stats.gets, 1);
	rc = handle_lookup(h, l, 1);
	if (rc)
		return rc;
	h->reader.stats.hits += l->state == LOOKUP_FOUND;
	return l->state == LOOKUP_FOUND ? 0 : -ENOENT;
}

int get_copy(struct gkv *h, struct lookup *l, const void *key, size_t key_len, void *value,
	     size_t cap)
{
	int rc;

	if (!value && cap)
		return error_set(&h->error, -EINVAL,
				 "the place for the value is NULL, of %zu bytes", cap);
	l->state = LOOKUP_START;
	l->direct = false;
	l->dest = value;
	l->cap = cap;
	rc = one(h, l, key, key_len);
	if (rc || l->value_len <= cap)
		return rc;
	return error_set(&h->error, -EMSGSIZE, "the value has %u bytes, there is room for %zu",
			 l->value_len, cap);
}

int gkv_get(struct gkv *h, const void *key, size_t key_len, void *value, size_t cap, size_t *len)
{
	struct lookup l;
	int rc = handle_begin(h);

	if (rc)
		return rc;
	rc = get_copy(h, &l, key, key_len, value, cap);
	if (len && (rc == 0 || rc == -EMSGSIZE))
		*len = l.value_len;
	return handle_end(h, rc);
}

void get_meta(struct gkv_meta *meta, const struct lookup *l)
{
	*meta = (struct gkv_meta){
		.version = l->version,
		.expiry_ms = l->expiry_ms,
		.value_len = l->value_len,
	};
}

/* Without a copy. @value: may be NULL. */
static int view(struct gkv *h, const void *key, size_t key_len, const void **value,
		struct gkv_meta *meta)
{
	struct lookup l;
	int rc;

	l.state = LOOKUP_START;
	l.direct = false;
	l.dest = NULL;
	l.cap = 0;
	rc = one(h, &l, key, key_len);
	if (rc == 0 && value)
		*value = l.value;
	if (rc == 0 && meta)
		get_meta(meta, &l);
	return rc;
}

int gkv_get_view(struct gkv *h, const void *key, size_t key_len, const void **value,
		 struct gkv_meta *meta)
{
	int rc = handle_begin(h);

	if (rc)
		return rc;
	return handle_end(h,
			  value ? view(h, key, key_len, value, meta)
				: error_set(&h->error, -EINVAL, "the place for the view is NULL"));
}

static int get_into(struct gkv *h, const void *key, size_t key_len, struct gkv_memory *memory,
		    void *value, size_t cap, struct gkv_meta *meta)
{
	struct lookup l;
	int rc = handle_key(h, key, key_len);

	if (rc)
		return rc;
	l.state = LOOKUP_START;
	l.key = key;
	l.key_len = (uint32_t)key_len;
	l.dest = value;
	l.cap = cap;
	rc = memory_aim(memory, h->session, &l, &h->error);
	if (rc)
		return rc;
	rc = one(h, &l, key, key_len);
	if (!h->link.live) /* a READ that was given up may be on its way to @value still */
		handle_disconnect(h);
	memory_done(memory);
	if (rc)
		return rc;
	if (meta)
		get_meta(meta, &l);
	if (l.value_len <= cap)
		return 0;
	return error_set(&h->error, -EMSGSIZE, "the value has %u bytes, there is room for %zu",
			 l.value_len, cap);
}

int gkv_get_into(struct gkv *h, const void *key, size_t key_len, struct gkv_memory *memory,
		 void *value, size_t cap, struct gkv_meta *meta)
{
	int rc = handle_begin(h);

	return rc ? rc : handle_end(h, get_into(h, key, key_len, memory, value, cap, meta));
}

int gkv_exists(struct gkv *h, const void *key, size_t key_len, struct gkv_meta *meta)
{
	int rc = handle_begin(h);

	return rc ? rc : handle_end(h, view(h, key, key_len, NULL, meta));
}

/* Take items into a batch, from @next on; those that cannot be asked for get their status. */
static unsigned gather(struct gkv *h, struct gkv_item *items, size_t count, size_t *next,
		       struct lookup *l, struct gkv_item **which)
{
	unsigned n = 0;
	int rc;

	while (n < READER_BATCH && *next < count) {
		struct gkv_item *item = &items[(*next)++];

		item->len = 0;
		item->meta = (struct gkv_meta){ 0 };
		rc = handle_key(h, item->key, item->key_len);
		if (rc == 0)
			rc = item_known(h, item);
		if (rc == 0 && !item->value && item->cap)
			rc = error_set(&h->error, -EINVAL,
				       "the place for a value is NULL, of %zu bytes", item->cap);
		if (rc) {
			item->status = rc; /* that of the others is set when they are settled */
			continue;
		}
		l[n].state = LOOKUP_START;
		l[n].direct = false;
		l[n].key = item->key;
		l[n].key_len = (uint32_t)item->key_len;
		l[n].dest = item->value;
		l[n].cap = item->cap;
		which[n++] = item;
	}
	return n;
}

static void settle(struct gkv *h, struct gkv_item *item, const struct lookup *l)
{
	figure_add(&h->reader.stats.gets, 1);
	if (l->state != LOOKUP_FOUND) {
		item->status = -ENOENT;
		return;
	}
	h->reader.stats.hits++;
	item->len = l->value_len;
	get_meta(&item->meta, l);
	item->status = l->value_len <= item->cap ? 0 : -EMSGSIZE;
}

static int mget(struct gkv *h, struct gkv_item *items, size_t count)
{
	struct gkv_item *which[READER_BATCH];
	struct lookup l[READER_BATCH];
	size_t next = 0;
	int rc;

	if (!items && count)
		return error_set(&h->error, -EINVAL, "the items are NULL, %zu of them", count);
	for (size_t i = 0; i < count; i++)
		items[i].status = -ECANCELED; /* should the call end early */
	while (next < count) {
		unsigned n = gather(h, items, count, &next, l, which);

		rc = n ? handle_lookup(h, l, n) : 0;
		if (rc)
			return rc;
		for (unsigned i = 0; i < n; i++)
			settle(h, which[i], &l[i]);
	}
	return 0;
}

int gkv_mget(struct gkv *h, struct gkv_item *items, size_t count)
{
	int rc = handle_begin(h);

	return rc ? rc : handle_end(h, mget(h, items, count));
}
