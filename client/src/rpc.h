/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Requests to the server, each ending in a reply, an error or the call's deadline. */
#include "client/src/handle.h"
#include "client/src/lookup.h"

struct rpc_call {
	enum rpc_op op;
	const void *key;
	const void *value; /* PUT */
	uint32_t key_len;
	uint32_t value_len;
	uint32_t condition; /* enum rpc_condition */
	uint64_t operand; /* RPC_IF_VERSION: the version; INCR: what is added */
	uint64_t ttl_ms; /* PUT, TOUCH; 0: for ever */
	size_t room; /* GET, STATS: staging memory that the reply may need; grows by itself */

	/* Progress. A retry keeps sequence and slot. */
	uint64_t sequence; /* 0: none taken yet */
	unsigned slot;
	bool posted; /* may have reached the server */
	uint64_t busy_ns; /* when the first -EBUSY came; 0: none did */
	unsigned pause_ms; /* the last one for it */

	/* After rpc_run() returned 0. Valid until the next request on the handle. */
	const struct rpc_reply *reply;
	const void *result; /* its value; NULL: none */
};

/*
 * rpc_run - send it, wait for its reply, over as many connections as it takes.
 * Returns 0, or the reply's status: -ENOENT, -EEXIST, -EDOM, -ERANGE, -ENOMEM, -EINVAL,
 * -EREMOTEIO; -ETIMEDOUT: no reply
 * within the call's time: whether a write was applied is not known; what handle_connect() returns,
 * for requests that surely did not reach the server. h->error holds the sentence, but for -ENOENT.
 */
int rpc_run(struct gkv *h, struct rpc_call *call);

/*
 * rpc_lookup - ask the server for a key: l ends FOUND or ABSENT. @age: of what may be remembered,
 * taken before. Returns 0, or as rpc_run().
 */
int rpc_lookup(struct gkv *h, struct lookup *l, uint32_t age);
