/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What the processes of stress and torture share: the options of both, and a block of memory by
 * which the process with the server leads those that read it remotely.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/time.h"
#include "tests/stress/model.h"

#define SEATS_MAX	16u
#define LOCALS_MAX	8u
#define PATIENCE_LEASES 20u

struct face;
struct pipe;

struct options {
	uint64_t seed;
	uint64_t seconds; /* stress: then the watchdog ends it; torture: then it ends well */
	uint64_t keys, keep; /* that the table grows to and shrinks to, again and again */
	uint64_t memory_bytes;
	uint64_t lease_ms; /* 0: the server's default */
	uint64_t patience_ms; /* that a write waits for memory, at least */
	uint64_t writers, locals;
	uint64_t weak; /* seed of SOFTRDMA_WEAK in some of the processes, 0: in none */
	uint64_t used_up; /* incarnations that some addresses have left, 0: all have all */
	uint64_t disturb; /* threads are interrupted, 0: not */
	const char *lie; /* what is done wrong on purpose, "none" */
	/* Of stress: */
	uint64_t slots; /* of the index to begin with; 0: the least, and it must grow and shrink */
	uint64_t rounds; /* of growing and shrinking */
	uint64_t remotes;
	/* Of torture: */
	uint64_t hot; /* of the keys that stay, those that are written most */
	uint64_t readers, hinters, clients; /* processes: index, hints, writers by RPC */
	uint64_t gets; /* not 0: so many look-ups of the hot keys, and nothing else */
	uint64_t pace_us; /* that a writer rests after a loop */
};

/* Those up to ROLE_HINT use hints. */
enum role { ROLE_GET, ROLE_MGET, ROLE_SCAN, ROLE_HINT, ROLE_INDEX, ROLE_COUNT, ROLE_WRITE };

/* What a reader did. Added to by the process that has the seat; relaxed. */
struct seat_counts {
	_Atomic uint64_t sessions, gets, found;
	_Atomic uint64_t reads, obsolete, checksum, directory, asked, reconnects;
	/* Of stress: */
	_Atomic uint64_t scans, scans_changed; /* over an index that grew or shrank meanwhile */
	_Atomic uint64_t phase_work; /* since the phase began: gets, or scans */
	/* Of torture: */
	_Atomic uint64_t pauses, stops, kills; /* inside open sections, by itself */
	_Atomic uint64_t held[2], held_segments[2]; /* looked at before a section's end: by stage */
	_Atomic uint64_t blocks; /* that a bucket had named, and whose incarnation was compared */
	_Atomic uint64_t fenced; /* sections that found themselves without a queue pair */
	_Atomic uint64_t unsure; /* freed while the bucket's READ was under way */
	_Atomic uint64_t hints, hints_good, hints_gone;
	_Atomic uint64_t hints_asked; /* that the server asked to be dropped */
	_Atomic uint64_t puts;
};

struct seat {
	enum role role;
	bool weak, stays;
	char name[40];
	_Atomic uint32_t at; /* stress: the newest step that the reader is through with */
	_Atomic uint64_t wake_ns; /* torture: when it is to go on: set before it stops itself */
	struct seat_counts counts;
};

/* A step is a number that grows; a remote reader works on the newest one that it has seen. */
enum step { STEP_IDLE, STEP_RUN, STEP_VERIFY, STEP_END };

struct shared {
	struct options o;
	const struct face *face;
	struct model *model;
	char server[280]; /* HOST:PORT, before the first step, or go */
	_Atomic uint32_t frontier[MODEL_WRITERS]; /* keys below it have been put or were to be */
	unsigned seats;
	struct seat seat[SEATS_MAX];
	/* Of stress: */
	_Atomic uint32_t step; /* (number << 2 | enum step) */
	_Atomic bool stay; /* readers that are to stay connected may */
	_Atomic uint32_t leave; /* grows: memory is short, connect again */
	_Atomic uint32_t verify_next; /* first key that nobody has taken to verify */
	_Atomic uint64_t segments; /* as last looked at */
	/* Of torture: */
	struct pipe *pipe; /* NULL: nothing is counted */
	/* Numbers of the keys in use, before go: an index into it is what the parts call a key. */
	uint32_t *key; /* NULL: they are their own numbers */
	_Atomic bool go, end;
	_Atomic uint64_t stops, kills, forks; /* of the nursery */
	_Atomic uint64_t counted; /* look-ups of ROLE_COUNT */
};

static inline bool shared_ended(const struct shared *s)
{
	return atomic_load(&s->end) || atomic_load(&s->model->any_wrong);
}

/*
 * shared_patience_ns - that a write waits for memory. A session that holds it back is fenced after
 * a lease and a tenth, and others may take what comes back first; memory that does not come at all
 * is wrong.
 */
static inline uint64_t shared_patience_ns(const struct shared *s)
{
	uint64_t leases_ms = PATIENCE_LEASES * s->o.lease_ms;

	return (leases_ms > s->o.patience_ms ? leases_ms : s->o.patience_ms) * NS_PER_MS;
}

/* shared_seat - give the next seat away. */
void shared_seat(struct shared *s, enum role role, bool weak, bool stays);

/* shared_sum - a counter at @offset of struct seat_counts, over the seats of @role; -1: all. */
uint64_t shared_sum(const struct shared *s, int role, size_t offset);

/*
 * shared_fork - a process that dies with the calling one. Returns 0 there, and its number or a
 * negative errno here.
 */
pid_t shared_fork(void);
