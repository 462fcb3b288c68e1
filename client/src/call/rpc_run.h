/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Requests that are waited for. */
#include "client/src/request/window.h"

/*
 * rpc_run - all of it: send it, wait for its reply, over as many connections as it takes.
 * Returns as rpc_step(), but for -EINPROGRESS; -ETIMEDOUT: no reply
 * within the call's time: whether a write was applied is not known; what handle_connect() returns,
 * for requests that surely did not reach the server.
 */
int rpc_run(struct gkv *h, struct rpc_call *call);

/*
 * rpc_run_many - the same of all calls that @next brings, writes, as many in flight as the server
 * grants. Returns 0; else why it ended early: those that were not begun are told to nobody.
 */
int rpc_run_many(struct gkv *h, bool (*next)(void *arg, struct rpc_call *c),
		 void (*done)(void *arg, struct rpc_call *c, int status), void *arg);

/*
 * rpc_lookup - ask the server for a key: l ends FOUND or ABSENT. @age: as rpc_found(). Returns 0,
 * or as rpc_run().
 */
int rpc_lookup(struct gkv *h, struct lookup *l, uint32_t age);
