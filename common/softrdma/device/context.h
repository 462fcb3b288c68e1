/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* An open device and its asynchronous events. */
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/softrdma/shared/lock.h"
#include "common/softrdma/device/port.h"

enum {
	SOFT_GIDS = 4, /* places in a GID table */
	SOFT_WR_MAX = 32768,
	SOFT_CQE_MAX = 32768,
	SOFT_INLINE_MAX = 256,
	SOFT_RD_ATOMIC_MAX = 16,
	SOFT_QP_MAX = 4000,
};

#define SOFT_MSG_MAX (1u << 31)

struct soft_async;

/* verbs.h finds the extended operations in front of the public context. */
struct soft_context {
	struct verbs_context ex;
	uint32_t epoch;
	_Atomic uint32_t objects; /* PDs, CQs and channels that live */
	struct lock events_lock; /* protects the rest */
	struct soft_async *first, **last;
	struct soft_context *next; /* the list of device.c */
	_Atomic bool lost; /* IBV_EVENT_DEVICE_FATAL: it is good for taking objects away only */
};

static inline struct soft_context *soft_context(struct ibv_context *base)
{
	return (struct soft_context *)verbs_get_ctx(base);
}

static inline bool context_lost(const struct ibv_context *base)
{
	/* relaxed: a call at the same time may come before */
	return atomic_load_explicit(&soft_context((struct ibv_context *)(uintptr_t)base)->lost,
				    memory_order_relaxed);
}

/*
 * soft_contexts_raise - an event about the device, to all open contexts. IBV_EVENT_DEVICE_FATAL
 * puts their queue pairs into ERR. Without locks.
 */
void soft_contexts_raise(enum ibv_event_type type);

/* soft_contexts_fork_child - forget those of the parent. */
void soft_contexts_fork_child(void);

/* An object that events can be about; part of it. */
struct soft_async_count {
	uint32_t delivered; /* events handed out; events_lock of the context */
};

/*
 * soft_async_raise - queue an event. @count: of the object that event->element names, or NULL for
 * one that is about the device.
 */
void soft_async_raise(struct ibv_context *context, const struct ibv_async_event *event,
		      struct soft_async_count *count);

/* soft_async_retire - forget queued events of a dying object, or with NULL those of the device.
 * Returns how many of the object's were delivered. */
uint32_t soft_async_retire(struct ibv_context *context, struct soft_async_count *count);
