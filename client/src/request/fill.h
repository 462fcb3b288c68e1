/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Requests filled with what the application gives, and results with what replies say. */
#include "client/src/request/rpc.h"

/*
 * write_key and so on - fill in a call, zeroed before, whose arguments are checked. Key and value
 * are pointed to. write_known: that no flag but @flags and no reserved field is set. Return
 * 0, or -EINVAL with the sentence.
 */
int write_key(struct gkv *h, struct rpc_call *c, enum rpc_op op, const void *key, size_t key_len);
/* write_put: of an APPEND too. */
int write_put(struct gkv *h, struct rpc_call *c, const void *value, size_t value_len,
	      const struct gkv_write_options *options);
int write_del(struct gkv *h, struct rpc_call *c, const struct gkv_write_options *options);
int write_incr(struct gkv *h, struct rpc_call *c, int64_t delta,
	       const struct gkv_write_options *options);
int write_known(struct gkv *h, const struct gkv_write_options *options, unsigned flags);
int write_touch(struct gkv *h, struct rpc_call *c, uint64_t ttl_ms);

/* item_known - that no reserved field is set. Returns 0, or -EINVAL with the sentence. */
int item_unknown(struct gkv *h);

static inline int item_known(struct gkv *h, const struct gkv_item *item)
{
	const unsigned *r = item->reserved; /* of each item of a batch: without a loop */

	static_assert(sizeof(item->reserved) == 7 * sizeof(*r), "reserved");
	return r[0] | r[1] | r[2] | r[3] | r[4] | r[5] | r[6] ? item_unknown(h) : 0;
}

/*
 * write_done - a call has ended with @rc, after rpc_step() or rpc_run(): count it, and remember
 * where the record is. @age: handle_age() before the request was first posted.
 * @meta: of the record then; with -EEXIST its version is that of the one that is there; may be
 * NULL.
 */
void write_done(struct gkv *h, const struct rpc_call *c, uint32_t age, int rc,
		struct gkv_meta *meta);

/*
 * rpc_found - what the reply of a GET says, into @l: FOUND. @age: of what may be remembered, taken
 * before the request was posted. Returns 0, or -EPROTO.
 */
int rpc_found(struct gkv *h, const struct rpc_call *c, struct lookup *l, uint32_t age);
