/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Keys of a benchmark by number, their values, and many of them at once. */
#include <stdint.h>

#include "client/include/gracekv.h"

#define WARM_KEY_LEN   16u
#define WARM_VALUE_MAX 1024u

/* Keys 0 to @count - 1. */
struct warm_keys {
	uint64_t count;
	uint32_t
		key_len; /* WARM_KEY_LEN: "key:%012u", as redis-benchmark's; 8: the number itself */
	uint32_t value_len;
};

/* warm_key - the key of number @i, not terminated. */
void warm_key(const struct warm_keys *k, uint64_t i, char key[WARM_KEY_LEN]);

/* warm_value - its value: bytes that no other key has. */
void warm_value(const struct warm_keys *k, uint64_t i, char value[WARM_VALUE_MAX]);

/*
 * warm_load - PUT keys from @first on, by several threads. @why receives what failed.
 * Returns 0 or a negative errno.
 */
int warm_load(struct gkv_session *session, const struct warm_keys *k, uint64_t first, char *why,
	      size_t cap);

/*
 * warm_read_all - GET all of them and look at each byte: hints of all are in place then, as far as
 * they have room. Likewise.
 */
int warm_read_all(struct gkv *kv, const struct warm_keys *k, char *why, size_t cap);
