/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Requests that are waited for. */
#include "client/src/request/rpc.h"

/*
 * rpc_run - all of it: send it, wait for its reply, over as many connections as it takes.
 * Returns as rpc_step(), but for -EINPROGRESS; -ETIMEDOUT: no reply
 * within the call's time: whether a write was applied is not known; what handle_connect() returns,
 * for requests that surely did not reach the server.
 */
int rpc_run(struct gkv *h, struct rpc_call *call);

/*
 * rpc_window - @count calls, as many in flight as the server grants. They end in any order.
 * @make: fills the call for item @i. Returns 0, or a status: that item has no call.
 * @done: item @i has ended with @status; @call: during it, NULL where there is none; its reply may
 *	be NULL.
 * Returns 0; else why it ended early: those items that were not begun are told to nobody.
 */
struct rpc_window {
	void *arg;
	int (*make)(void *arg, size_t i, struct rpc_call *call);
	void (*done)(void *arg, size_t i, const struct rpc_call *call, int status);
};

int rpc_window(struct gkv *h, const struct rpc_window *w, size_t count);

/*
 * rpc_lookup - ask the server for a key: l ends FOUND or ABSENT. @age: as rpc_found(). Returns 0,
 * or as rpc_run().
 */
int rpc_lookup(struct gkv *h, struct lookup *l, uint32_t age);
