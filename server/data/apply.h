/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Records of snapshot and log, put into the store by several threads. A record of a key always goes
 * to the same thread, so those of a key are applied in the order in which they were given; between
 * keys there is none, and none is needed.
 */
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "server/store/store.h"

struct apply;

struct apply_record {
	const void *key, *value;
	uint32_t key_len, value_len;
	uint64_t version, expiry_ms;
	uint64_t body; /* XXH3 of key and value */
	bool is_del;
};

/*
 * apply_start - @threads: how many, at least 1. @stopping: asked while memory is waited for; may
 * be NULL. apply_end - all that was given has been applied; frees @a. Returns 0, or the first error
 * of any thread: -ENOMEM: the store is full; -ECANCELED: told to stop.
 * apply_give - copies the record. Returns 0, or such an error: nothing more needs to be given. One
 * thread gives.
 */
int apply_start(struct apply **out, struct store *store, unsigned threads,
		bool (*stopping)(void *ctx), void *ctx, struct error *err);
int apply_give(struct apply *a, const struct apply_record *r);
int apply_end(struct apply *a);
