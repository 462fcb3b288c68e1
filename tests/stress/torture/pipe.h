/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The pipe count: how far each address of a block, a segment or a directory has come on its way
 * from "in use" over "retired" to "freed", in memory that all processes share.
 *
 * The server's side counts without knowing of it: the linker puts functions of watch_server.c in
 * front of memory_alloc(), memory_segment_alloc(), reclaim_retire() and memory_free().
 *
 * Time is the number of frees so far. A free takes its number, writes it to the address, and only
 * then frees. A reader that loads the number `since` once it has reached an address, and later
 * finds a greater number there, has been overtaken: a whole grace period went by while it held on.
 * One that finds it retired is what grace periods are for.
 *
 * All words are sequentially consistent: the number of a free is drawn before it is written, and
 * both before any byte of the block changes; a reader's `since` is loaded after its READ completed.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "server/memory/memory.h"

#define PIPE_EXTENTS 128u /* more than a run's memory has */

enum pipe_stage {
	PIPE_USED, /* or not published yet */
	PIPE_RETIRED,
	PIPE_FREED,
};

struct pipe_place {
	_Atomic uint64_t freed; /* number of the last free, 0: none yet */
	_Atomic uint64_t life; /* incarnation << 8 | enum pipe_stage, 0: never used */
	_Atomic uint32_t key; /* 1 + the key whose block was published here last */
};

struct pipe {
	struct pipe_place *place; /* PIPE_EXTENTS x units */
	uint64_t units; /* of 64 B, of an extent */
	_Atomic uint64_t now; /* frees so far */
	/* What happened; relaxed. */
	_Atomic uint64_t blocks, blocks_reused; /* allocations, those of an address used before */
	_Atomic uint64_t segments, segments_reused;
	_Atomic uint64_t recut; /* blocks allocated across places of an older cut of the slab */
};

/* pipe_create - shared with the processes forked later. NULL: no memory. Never freed. */
struct pipe *pipe_create(uint64_t memory_bytes);

/* pipe_at - of an address; one that is not watched ends the process, which is too large then. */
struct pipe_place *pipe_at(struct pipe *p, unsigned extent, uint64_t offset);

static inline uint64_t pipe_now(struct pipe *p)
{
	return atomic_load(&p->now);
}

static inline uint32_t pipe_life_incarnation(uint64_t life)
{
	return (uint32_t)(life >> 8);
}

static inline enum pipe_stage pipe_life_stage(uint64_t life)
{
	return (enum pipe_stage)(life & 0xff);
}

/* pipe_stage - where the life that was reached before @since is now. */
static inline enum pipe_stage pipe_stage(struct pipe_place *at, uint64_t since)
{
	enum pipe_stage stage = pipe_life_stage(atomic_load(&at->life));

	return atomic_load(&at->freed) > since ? PIPE_FREED : stage;
}

/* watch_server - from now on what this process's server does is counted in @p. */
enum watch_lie { WATCH_HONEST, WATCH_FREE_EARLY };
void watch_server(struct pipe *p, enum watch_lie lie);
