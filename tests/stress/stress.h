/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What the parts of the stress program share: its options, and the block of shared memory by which
 * the process with the server leads the processes that read it remotely.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/stress/model.h"

#define REMOTES_MAX 8u
#define LOCALS_MAX  8u

struct options {
	uint64_t seed;
	uint64_t keys; /* that the table grows to */
	uint64_t keep; /* that it shrinks to */
	uint64_t memory_bytes;
	uint64_t slots; /* of the index to begin with; 0: the least, and it must grow and shrink */
	uint64_t writers, locals, remotes;
	uint64_t used_up; /* incarnations that some addresses have left, 0: all have all */
	uint64_t rounds; /* of growing and shrinking */
	uint64_t seconds; /* of the watchdog */
	uint64_t disturb; /* threads are interrupted, 0: not */
	const char *lie; /* what the store is made to do wrong, "none" */
	uint64_t weak; /* seed of SOFTRDMA_WEAK in every other remote reader, 0: none */
};

/* A step is a number that grows; a remote reader works on the newest one that it has seen. */
enum step { STEP_IDLE, STEP_RUN, STEP_VERIFY, STEP_END };

/* What a remote reader did. Its own to write; relaxed. */
struct remote_counts {
	_Atomic uint64_t sessions, gets, found, mgets;
	_Atomic uint64_t scans, scans_changed; /* over an index that grew or shrank meanwhile */
	_Atomic uint64_t reads, obsolete, checksum, directory, asked, reconnects;
	_Atomic uint64_t phase_work; /* since the phase began: gets, or scans */
};

struct shared {
	struct options o;
	struct model *model;
	char server[280]; /* HOST:PORT, before the first step */
	_Atomic uint32_t step; /* (number << 2 | enum step) */
	_Atomic uint32_t at[REMOTES_MAX]; /* the newest step that the reader is through with */
	_Atomic bool stay; /* readers that are to stay connected may */
	_Atomic uint32_t leave; /* grows: memory is short, connect anew */
	_Atomic uint32_t frontier[MODEL_WRITERS]; /* keys below it have been put or were to be */
	_Atomic uint32_t verify_next; /* first key that nobody has taken to verify */
	_Atomic uint64_t segments; /* as last looked at */
	struct remote_counts counts[REMOTES_MAX];
};

/* shared_frontier - keys that readers choose from. */
static inline uint32_t shared_frontier(const struct shared *s)
{
	uint32_t top = 1;

	for (unsigned w = 0; w < s->o.writers; w++) {
		uint32_t f = atomic_load_explicit(&s->frontier[w], memory_order_relaxed);

		top = f > top ? f : top;
	}
	return top;
}

/* shared_pick - a key to read: any, one of those that come and go now, or one that stays. */
static inline uint32_t shared_pick(const struct shared *s, uint64_t *random)
{
	uint64_t r = model_random(random);
	uint32_t frontier = shared_frontier(s), near = 512;
	uint32_t first = frontier > near ? frontier - near : 0;

	switch (r & 3) {
	case 0:
		return (uint32_t)(((r >> 2) % s->o.keep) % s->o.keys);
	case 1:
		return (uint32_t)((first + (r >> 2) % (2 * near)) % s->o.keys);
	default:
		return (uint32_t)((r >> 2) % frontier);
	}
}

/* options_take - the command line. Returns 0, or -1: exit with *status. */
int options_take(struct options *o, int argc, char **argv, int *status);

/* remote_main - a remote reader's process. Never returns. */
_Noreturn void remote_main(struct shared *s, unsigned number);

/* Its parts: scans, and reading everything once with nobody writing. */
struct gkv;
void remote_scan(struct shared *s, unsigned number, struct gkv *kv, uint32_t step);
void remote_verify(struct shared *s, struct gkv *kv);
