/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The estimate of the server's wall clock. How good it is, is said in clock.c. */
#include <stdint.h>

#define CLOCK_FRESH_MS 5000u /* without a sample younger than this the root is READ */

struct gkv;
struct world;

/*
 * clock_reply - a reply brought @clock_ms. @posted_ns: when its request was about to be posted
 * (CLOCK_MONOTONIC). The handle's own thread.
 */
void clock_reply(struct gkv *h, uint64_t clock_ms, uint64_t posted_ns);

/*
 * clock_root - a READ of the root of @w, posted at @posted_ns or after, brought @clock_ms. For all
 * handles that are in this life of the server. Any thread.
 */
void clock_root(struct world *w, uint64_t clock_ms, uint64_t posted_ns);

/* clock_estimate - reader_ops.clock_ms of a handle: may READ the root. 0: not known. */
uint64_t clock_estimate(void *ctx);
