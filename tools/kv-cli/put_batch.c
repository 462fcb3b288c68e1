/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/put_batch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLEEP_MS 1000 /* at most; lanes wake it */

struct put_batch *put_batch_new(struct gkv_session *session, struct gkv *handle)
{
	struct put_batch *b = malloc(sizeof(*b));

	if (!b)
		return NULL;
	b->session = session;
	b->handle = handle;
	b->lanes = 0;
	b->opened = false;
	put_batch_clear(b);
	return b;
}

void put_batch_free(struct put_batch *b)
{
	if (!b)
		return;
	for (unsigned i = 0; i < b->lanes; i++)
		gkv_close(b->lane[i]); /* first: the bytes may be its, after a failure */
	free(b);
}

void put_batch_clear(struct put_batch *b)
{
	b->count = b->used = 0;
}

bool put_batch_takes(const struct put_batch *b, const void *key, size_t key_len, size_t value_len)
{
	if (!b->count)
		return true;
	if (b->count == PUT_BATCH_MAX || key_len + value_len > PUT_BATCH_BYTES - b->used)
		return false;
	for (size_t i = 0; i < b->count; i++) {
		const struct gkv_item *item = &b->item[i];

		if (item->key_len == key_len && memcmp(item->key, key, key_len) == 0)
			return false;
	}
	return true;
}

static const void *put_batch_copy(struct put_batch *b, const void *data, size_t len)
{
	char *to = b->bytes + b->used;

	if (len)
		memcpy(to, data, len);
	b->used += len;
	return to;
}

bool put_batch_add(struct put_batch *b, const void *key, size_t key_len, const void *value,
		   size_t value_len, uint64_t ttl_ms, uint64_t line)
{
	const bool large = key_len + value_len > PUT_BATCH_BYTES;
	struct gkv_item *item = &b->item[b->count];

	if (!large) {
		key = put_batch_copy(b, key, key_len);
		value = put_batch_copy(b, value, value_len);
	}
	*item = (struct gkv_item){
		.key = key,
		.key_len = key_len,
		.value = (void *)(uintptr_t)value, /* only read */
		.len = value_len,
		.options = { .condition = GKV_ALWAYS, .ttl_ms = ttl_ms },
		.status = -ECANCELED, /* until it was put */
	};
	b->line[b->count++] = line;
	return large || b->count == PUT_BATCH_MAX;
}

/* What a handle says of an item. The first one that was not put counts. */
static void put_batch_end(struct put_batch *b, struct gkv *handle, size_t at, int status)
{
	b->item[at].status = status;
	b->done++;
	if (!status || at >= b->failed)
		return;
	b->failed = at;
	snprintf(b->why, sizeof(b->why), "%s", gkv_error(handle));
}

/* Over the caller's handle. */
static void put_batch_simply(struct put_batch *b)
{
	int rc = gkv_mput(b->handle, b->item, b->count);

	for (size_t i = 0; i < b->count; i++) {
		const int status = b->item[i].status;

		put_batch_end(b, b->handle, i, rc && status == -ECANCELED ? rc : status);
	}
}

static void put_batch_open(struct put_batch *b)
{
	b->opened = true;
	while (b->lanes < PUT_LANES && gkv_open(b->session, NULL, &b->lane[b->lanes], NULL, 0) == 0)
		b->lanes++;
}

/* Fill a lane, unless one failed. Returns 0 or a negative errno. */
static int put_lane_fill(struct put_batch *b, struct gkv *lane)
{
	const size_t end = b->failed < b->count ? b->next : b->count;
	int rc = 1;

	while (rc == 1 && b->next < end && gkv_pending(lane) < PUT_LANE_DEPTH) {
		struct gkv_item *item = &b->item[b->next];
		struct gkv_request q;

		gkv_request_put(&q, item->key, item->key_len, item->value, item->len, item);
		q.options = item->options;
		rc = gkv_submit(lane, &q, 1);
		b->next += rc == 1;
	}
	return rc < 0 && rc != -EAGAIN ? rc : 0;
}

/* Send and receive what can be now. Returns how many were answered, or a negative errno. */
static int put_lane_step(struct put_batch *b, struct gkv *lane)
{
	struct gkv_completion out[PUT_LANE_DEPTH];
	int rc = put_lane_fill(b, lane), got;

	if (rc)
		return rc;
	got = gkv_poll(lane, out, PUT_LANE_DEPTH);
	for (int i = 0; i < got; i++) {
		const struct gkv_item *item = out[i].user;

		put_batch_end(b, lane, (size_t)(item - b->item), out[i].status);
	}
	return got;
}

/* Until one of the lanes has something. Returns 0, or a negative errno with the lane that has
 * it. */
static int put_lanes_sleep(struct put_batch *b, struct gkv **lane)
{
	struct pollfd ready[PUT_LANES];
	int rc = 0;

	for (unsigned i = 0; i < b->lanes && rc == 0; i++) {
		*lane = b->lane[i];
		ready[i] = (struct pollfd){ .fd = gkv_fd(*lane), .events = POLLIN };
		rc = ready[i].fd < 0 ? ready[i].fd : gkv_arm(*lane);
	}
	if (rc == 0)
		poll(ready, b->lanes, SLEEP_MS);
	return rc == -EAGAIN ? 0 : rc;
}

/* Over the lanes. Where one of them is of no use any more, the first item without a status
 * fails. */
static void put_batch_widely(struct put_batch *b)
{
	struct gkv *lane = NULL;
	int rc = 0, moved;

	while (rc >= 0 && b->done < (b->failed < b->count ? b->next : b->count)) {
		moved = 0;
		for (unsigned i = 0; i < b->lanes && rc >= 0; i++) {
			lane = b->lane[i];
			rc = put_lane_step(b, lane);
			moved += rc;
		}
		if (rc >= 0 && !moved)
			rc = put_lanes_sleep(b, &lane);
	}
	for (size_t i = 0; rc < 0 && i < b->failed; i++) {
		if (b->item[i].status == -ECANCELED)
			put_batch_end(b, lane, i, rc);
	}
}

size_t put_batch_send(struct put_batch *b)
{
	b->next = b->done = 0;
	b->failed = b->count;
	b->why[0] = '\0';
	if (b->count > PUT_LANE_DEPTH && !b->opened)
		put_batch_open(b);
	if (b->count > PUT_LANE_DEPTH && b->lanes)
		put_batch_widely(b);
	else if (b->count)
		put_batch_simply(b);
	return b->failed;
}
