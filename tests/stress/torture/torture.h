/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What the parts of the torture program share: its options, and the memory that all its processes
 * have in common.
 *
 *	torture		a whole server, writers, local readers
 *	  nursery	forks readers, stops them, kills them, forks others
 *	    reader ...	one process each, by its seat
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "tests/stress/model.h"
#include "tests/stress/torture/pipe.h"

#define SEATS_MAX  16u
#define LOCALS_MAX 8u

#define PATIENCE_LEASES 20u
#define PATIENCE_NS_MIN (5 * NS_PER_S)

#define CLIENT_KEYS	 16u /* of each writer by RPC, behind the others */
#define KEYS_PREFIX_BITS 5u /* that their hashes have in common */

struct options {
	uint64_t seed;
	uint64_t seconds; /* then it ends well */
	uint64_t keys, keep; /* that the table grows to and shrinks to, again and again */
	uint64_t hot; /* of the keys that stay, those that are written most */
	uint64_t memory_bytes;
	uint64_t lease_ms;
	uint64_t writers, locals;
	uint64_t readers, hinters, clients; /* processes: index, hints, writers by RPC */
	uint64_t gets; /* not 0: so many look-ups of the hot keys, and nothing else */
	uint64_t weak; /* seed of SOFTRDMA_WEAK in every other process, 0: none */
	uint64_t pace_us; /* that a writer rests after a loop */
	uint64_t used_up; /* incarnations that some addresses have left, 0: all have all */
	const char *lie;
};

enum role { ROLE_INDEX, ROLE_HINT, ROLE_COUNT, ROLE_WRITE };

/* What a reader did. Added to by the process that has the seat; relaxed. */
struct seat_counts {
	_Atomic uint64_t sessions, gets, found;
	_Atomic uint64_t pauses, stops, kills; /* inside open sections, by itself */
	/* Looked at before the section's end: by stage. */
	_Atomic uint64_t held[2], held_segments[2];
	_Atomic uint64_t blocks; /* that a bucket had named, and whose incarnation was compared */
	_Atomic uint64_t fenced; /* sections that found themselves without a queue pair */
	_Atomic uint64_t unsure; /* freed while the bucket's READ was under way */
	_Atomic uint64_t hints, hints_good, hints_gone;
	_Atomic uint64_t hints_asked; /* that the server asked to be dropped */
	_Atomic uint64_t puts;
	_Atomic uint64_t reads, obsolete, checksum, directory, asked, reconnects;
};

struct seat {
	enum role role;
	bool weak, stays;
	char name[40];
	_Atomic uint64_t wake_ns; /* when it is to go on: set before it stops itself */
	struct seat_counts counts;
};

struct shared {
	struct options o;
	struct model *model;
	struct pipe *pipe;
	char server[280]; /* HOST:PORT, before go */
	/* Numbers of the keys in use, before go: an index into it is what the parts call a key. */
	uint32_t *key;
	_Atomic bool go, end;
	_Atomic uint32_t frontier[MODEL_WRITERS]; /* keys below it have been put or were to be */
	_Atomic uint64_t stops, kills, forks; /* of the nursery */
	_Atomic uint64_t counted; /* look-ups of ROLE_COUNT */
	unsigned seats;
	struct seat seat[SEATS_MAX];
};

static inline bool shared_ended(const struct shared *s)
{
	return atomic_load(&s->end) || atomic_load(&s->model->any_wrong);
}

/*
 * shared_patience_ns - that a write waits for memory. Who holds it back is fenced after a lease and
 * a tenth, and others may take what comes back first; memory that does not come at all is wrong.
 */
static inline uint64_t shared_patience_ns(const struct shared *s)
{
	uint64_t leases = PATIENCE_LEASES * s->o.lease_ms * NS_PER_MS;

	return leases > PATIENCE_NS_MIN ? leases : PATIENCE_NS_MIN;
}

/* options_take - the command line. Returns 0, or -1: exit with *status. */
int options_take(struct options *o, int argc, char **argv, int *status);

/* keys_choose - those keys whose hashes have the same first bits, so that few segments hold all. */
int keys_choose(struct shared *s, uint64_t hash_seed);

/* key_pick - a key to read: hot, one that stays, one that comes and goes, any. */
uint32_t key_pick(const struct shared *s, uint64_t *random);

/* nursery_main - never returns; its exit status says nothing, the model does. */
_Noreturn void nursery_main(struct shared *s);

/* reader_main - a process with a seat. @life: of the seat, from 0. Never returns. */
_Noreturn void reader_main(struct shared *s, unsigned seat, unsigned life);
