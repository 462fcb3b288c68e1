/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Requests to the server, each ending in a reply, an error or its deadline. The essay is in
 * rpc.c.
 */
#include "client/src/link/handle.h"
#include "client/src/know/lookup.h"

#define STAGING_FREE UINT32_MAX

/* What a handle keeps of its calls. A slot is free while it is not taken, and nothing is due. */
struct requests {
	bool taken[HANDLE_CREDITS]; /* by a call that has not ended; over all connections */
	/* The staging memory is a slot's until its call has ended and its reply has come. */
	uint32_t staging_slot; /* or STAGING_FREE */
	struct rdma_buffer staging; /* created when it is first needed */
};

void requests_init(struct requests *r);
void requests_destroy(struct requests *r);

enum rpc_state {
	RPC_QUEUED, /* zero: waits for a slot, or for the staging memory */
	RPC_SENT, /* waits for its reply */
	RPC_PAUSED, /* "not now": until resume_ns */
};

struct rpc_call {
	enum rpc_op op;
	const void *key;
	const void *value; /* PUT, APPEND, MEASURE */
	uint32_t key_len;
	uint32_t value_len;
	uint32_t condition; /* enum rpc_condition */
	uint64_t operand; /* RPC_IF_VERSION: the version; INCR: what is added */
	uint64_t ttl_ms; /* writes but DEL; 0: for ever */
	bool keep; /* RPC_KEEP_EXPIRY */
	uint64_t server; /* incarnation of the one whose version the operand is; 0: any */
	size_t room; /* of a reply's value: staging memory that it may need; grows by itself */
	uint64_t deadline_ns; /* 0: that of the handle's call */
	void *item; /* what it is for: its maker's */

	/* Progress. A retry keeps sequence and slot. */
	enum rpc_state state;
	uint64_t sequence; /* 0: it has no slot */
	unsigned slot;
	bool posted; /* may have reached the server */
	uint64_t busy_ns; /* when the first -EBUSY came; 0: none did */
	uint64_t resume_ns;
	unsigned pause_ms; /* the last one for it */
	unsigned tries;

	/*
	 * After it returned 0, or the reply's status. Valid until the next request on the
	 * handle.
	 */
	const struct rpc_reply *reply;
	const void *result; /* its value; NULL: none */
};

/* rpc_stores - it brings a value that the server keeps. */
static inline bool rpc_stores(const struct rpc_call *c)
{
	return c->op == RPC_PUT || c->op == RPC_APPEND;
}

/* rpc_is_write - it changes something, if it is applied. */
static inline bool rpc_is_write(const struct rpc_call *c)
{
	return rpc_stores(c) || c->op == RPC_DEL || c->op == RPC_INCR || c->op == RPC_TOUCH;
}

static inline uint64_t rpc_deadline(struct gkv *h, const struct rpc_call *c)
{
	return c->deadline_ns ? c->deadline_ns : handle_deadline(h);
}

/* rpc_note - calls are about to begin: the handle is at work; is its connection there still? */
void rpc_note(struct gkv *h, bool writes);

/*
 * rpc_step - go on with a call as far as can be without waiting. The handle is ready. Poll
 * between two steps (channel_progress(), channel_poll()).
 * Returns -EINPROGRESS; 0, or the reply's status: -ENOENT, -EEXIST, -EDOM, -ERANGE, -ENOMEM,
 * -EINVAL, -EREMOTEIO; -ETIMEDOUT: the server said "not now" until the deadline. The call has ended
 * then, and rpc_end() is due when its reply was looked at. h->error holds the sentence, but for
 * -ENOENT. Where the connection is lost in it, -EINPROGRESS with h->link.live false: rpc_again()
 * when the handle is ready again.
 */
int rpc_step(struct gkv *h, struct rpc_call *c);

/* rpc_again - the handle has another queue pair: the call is sent again over that one. */
void rpc_again(struct gkv *h, struct rpc_call *c);

/* rpc_expired - its deadline has passed: ends it. Returns what its caller is told. */
int rpc_expired(struct gkv *h, struct rpc_call *c);

/* rpc_cut - there is no connection, because of @rc: ends it. Returns what its caller is told. */
int rpc_cut(struct gkv *h, struct rpc_call *c, int rc);

/* rpc_end - nobody looks at the call any more; its reply may be outstanding. Once or more. */
void rpc_end(struct gkv *h, struct rpc_call *c);

/* Frames and words (rpc_frame.c). */

/* rpc_frame - write the frame of a call that has its slot, and the staging memory where it needs
 * that. Returns its length in bytes. */
uint32_t rpc_frame(struct gkv *h, struct rpc_call *c);

/* rpc_spare - bytes of staging memory that nobody has. */
size_t rpc_spare(const struct gkv *h);

/* rpc_staging_bytes - that the frame of @c names; 0: none. */
size_t rpc_staging_bytes(const struct rpc_call *c);

/* rpc_known_status - a status that a server gives (wire_rpc.h); anything else is -EPROTO. */
int rpc_known_status(int status);

/* rpc_refused - the sentence of a refusal. Returns @rc. */
int rpc_refused(struct gkv *h, const struct rpc_call *c, int rc);
