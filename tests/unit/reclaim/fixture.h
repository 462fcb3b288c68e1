/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A reclaimer over memory of its own, with sessions whose epochs the test sets. */
#include <stdatomic.h>
#include <stdint.h>

#include "server/reclaim/reclaim.h"
#include "tests/lib/no_device.h"

static struct memory *memory;
static struct memory_cache *cache;
static struct reclaim *reclaim;
static struct reclaim_worker *worker;
static _Atomic uint64_t newest, oldest;

static inline uint64_t get_newest(void *ctx)
{
	return atomic_load(&newest);
}

static inline uint64_t get_oldest(void *ctx)
{
	return atomic_load(&oldest);
}

static inline int fixture_open(uint64_t data_bytes, unsigned hazards)
{
	const struct memory_config config = { 64 << 20, { take_region, drop_region, NULL } };
	const struct reclaim_sessions sessions = { get_newest, get_oldest, NULL };
	struct error err;
	unsigned extent;

	atomic_store(&newest, 0);
	atomic_store(&oldest, UINT64_MAX);
	return memory_create(&memory, &config, &err) ||
	       memory_extent_add(memory, EXTENT_DATA, data_bytes, &extent, &err) ||
	       memory_cache_create(&cache, memory) ||
	       reclaim_create(&reclaim, memory, &sessions, &err) ||
	       reclaim_worker_create(&worker, reclaim, hazards);
}
