/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Records put into the store by several threads. A record of a key always goes to the same thread,
 * so those of a key are applied in the order in which they were given; between keys there is none,
 * and none is needed.
 */
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "server/store/store.h"

struct apply;

struct apply_config {
	struct store *store;
	unsigned threads; /* at least 1 */
	bool learning; /* see apply.c */
	bool (*stopping)(void *ctx); /* asked while memory is waited for; NULL: never. Any thread */
	void *ctx;
};

struct apply_record {
	const void *key, *value;
	uint32_t key_len, value_len;
	uint64_t version, expiry_ms;
	uint64_t body; /* XXH3 of key and value, where has_body says so */
	bool has_body;
	bool is_del;
	bool walked; /* of a walk: others of its key that came before may be newer */
};

/*
 * apply_start - returns 0 or a negative errno with @err.
 * apply_give - copies the record. Returns 0, or the first error of any thread: nothing more needs
 * to be given. -ENOMEM: the store is full; -ECANCELED: told to stop. One thread gives, and calls
 * what follows.
 * apply_flush - waits until all that was given is applied. Returns as apply_give() does.
 * apply_learned - after apply_flush(): no record of a walk is given any more.
 * apply_end - all that was given has been applied; frees @a. Returns as apply_give() does.
 */
int apply_start(struct apply **out, const struct apply_config *config, struct error *err);
int apply_give(struct apply *a, const struct apply_record *r);
int apply_flush(struct apply *a);
void apply_learned(struct apply *a);
int apply_end(struct apply *a);
