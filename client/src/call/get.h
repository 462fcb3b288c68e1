/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
#include "client/src/request/rpc.h"

/*
 * handle_lookup - a batch of at most READER_BATCH keys to its end: one-sided in a section of its
 * own, over again where the connection is lost, and by request what that leaves open. Each ends
 * FOUND or ABSENT. Returns 0, or why not, with the sentence in h->error.
 */
int handle_lookup(struct gkv *h, struct lookup *l, unsigned count);

/*
 * get_copy - the call under way gets one key: at most @cap bytes to @value, all else in @l. Returns
 * as gkv_get(). get_meta - of what was found, also with -EMSGSIZE.
 */
int get_copy(struct gkv *h, struct lookup *l, const void *key, size_t key_len, void *value,
	     size_t cap);
void get_meta(struct gkv_meta *meta, const struct lookup *l);
