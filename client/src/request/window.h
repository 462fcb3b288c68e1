/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Calls under way together, and each to its end. The essay is in window.c. */
#include "client/src/request/rpc.h"

struct window {
	struct gkv *h;
	struct rpc_call *call; /* room for HANDLE_CREDITS, or for the only one */
	unsigned count;
	unsigned changes; /* grows with whatever a step has changed */
	/*
	 * next: the next call, into @c, which is zero. Returns false: none waits. NULL: never.
	 * done: @c has ended with @status. Its reply, which may be NULL, is there until the return.
	 */
	bool (*next)(void *arg, struct rpc_call *c);
	void (*done)(void *arg, struct rpc_call *c, int status);
	void *arg;
};

/* window_step - go on with those that are in it. Does not wait. Returns whether any has ended. */
bool window_step(struct window *w);

/* window_fill - take in what waits, while there is room. Returns whether it took any. */
bool window_fill(struct window *w);

/* window_end - a call ends with @status; another may take its place in the window. */
void window_end(struct window *w, struct rpc_call *c, int status);

/* window_again - the handle has, or will have, another queue pair: all go over that one. */
void window_again(struct window *w);

/* window_sending - whether the transport still has a SEND of theirs. */
bool window_sending(const struct window *w);

/* window_due - when the first of those that were told "not now" goes on; UINT64_MAX: there is none.
 * @paused: receives how many there are. */
uint64_t window_due(const struct window *w, unsigned *paused);
