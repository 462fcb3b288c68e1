/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Records that are put together, with many requests in flight: a write that is to be on disk before
 * its answer waits for a sync there, which many then share. The server may apply them in any order,
 * so no two of a batch have one key: of two records the later one goes in a later batch, and wins.
 *
 * One handle has as many requests in flight as the server grants it, a few. A batch that is larger
 * goes over handles of its own, the lanes, which are opened for the first of that kind; where fewer
 * can be had, or none, it takes longer. One thread at a time.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/include/gracekv.h"

#define PUT_BATCH_MAX	256u /* records */
#define PUT_BATCH_BYTES (1u << 20) /* of keys and values */
#define PUT_LANES	8u
#define PUT_LANE_DEPTH	8u /* requests in flight of a lane */

struct put_batch {
	struct gkv_session *session;
	struct gkv *handle; /* the caller's */
	struct gkv *lane[PUT_LANES];
	unsigned lanes;
	bool opened; /* as many lanes as could be had */
	size_t count, used; /* records, and their bytes */
	size_t next, done; /* of a batch under way: item to be sent, how many have a status */
	size_t failed; /* the first item that was not put; count: none */
	char why[1024]; /* the library's sentence about that one, "": its status says it */
	uint64_t line[PUT_BATCH_MAX]; /* the caller's: where each record begins */
	struct gkv_item item[PUT_BATCH_MAX];
	char bytes[PUT_BATCH_BYTES];
};

/* put_batch_new - an empty one; session and handle stay the caller's. NULL: no memory. */
struct put_batch *put_batch_new(struct gkv_session *session, struct gkv *handle);

/* put_batch_takes - is there room for a record, and none with its key? An empty batch takes all. */
bool put_batch_takes(const struct put_batch *b, const void *key, size_t key_len, size_t value_len);

/*
 * put_batch_add - to a batch that takes it. Key and value are copied, but for a record that is
 * larger than PUT_BATCH_BYTES: it is alone, and to be sent while the caller still has its bytes.
 * @ttl_ms: as for gkv_put_with(), from when the batch is sent.
 * Returns true where the batch is to be sent at once: it is full, or has such a record.
 */
bool put_batch_add(struct put_batch *b, const void *key, size_t key_len, const void *value,
		   size_t value_len, uint64_t ttl_ms, uint64_t line);

/*
 * put_batch_send - put them, and wait for all answers. Returns how many there are up to the first
 * one that was not put: b->count, or the number of that item, of which its status and b->why tell
 * more. Those after it were put or not. The batch stays as it is until put_batch_clear().
 */
size_t put_batch_send(struct put_batch *b);

/* put_batch_clear - it is empty again. */
void put_batch_clear(struct put_batch *b);

/* put_batch_free - NULL is fine. */
void put_batch_free(struct put_batch *b);
