/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/session/order.h"

static uint64_t newest(void *ctx)
{
	struct session_order *o = ctx;

	return atomic_load_explicit(&o->newest, memory_order_seq_cst);
}

static uint64_t oldest(void *ctx)
{
	struct session_order *o = ctx;

	/* pairs with publish_oldest(): the queue pairs were destroyed before the store */
	return atomic_load_explicit(&o->oldest, memory_order_acquire);
}

void session_order_init(struct session_order *o)
{
	atomic_init(&o->newest, 0);
	atomic_init(&o->oldest, UINT64_MAX);
}

struct reclaim_sessions session_order_sessions(struct session_order *o)
{
	return (struct reclaim_sessions){ .newest = newest, .oldest = oldest, .ctx = o };
}
