/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The remote half of a grace period: E, and what each session announces of itself in its epoch
 * slot (common/layout/root.h). The essay stands in grace.c.
 *
 * Threads: the queue-pair thread lets sessions join and leave; the
 * reclaimer advances E and asks how far all sessions are; a worker looks at them for STATS. They
 * share `lock`, which the data path never takes. The clock thread keeps leases without it: it has
 * a struct epoch_session of its own for each slot (session/lease.c).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <urcu/list.h>

#include "common/layout/root.h"

/* Sessions that hold back what somebody wants: e is at or below, h is below. 0: none does. */
struct grace_stuck {
	uint64_t epoch;
	uint64_t hints;
};

/* What clients say of their one-sided look-ups; nothing depends on it. */
struct grace_figures {
	uint64_t gets, reads, retries;
};

/* One session's share; part of its owner's structure. Fields are under the lock. */
struct epoch_session {
	struct cds_list_head node;
	const struct epoch_slot *slot; /* written by the client, one-sided; NULL: no longer */
	uint64_t generation;
	uint64_t e; /* the last sound announcement; that of the WELCOME before the first */
	uint64_t came; /* E when it began to be waited for */
	uint64_t h;
	uint64_t deferred_bytes; /* that it holds back, as of the reclaimer's last look */
	bool waited; /* it may have a queue pair */
	/* It announced an epoch that is not there yet, or one that goes backwards. Anyone reads */
	_Atomic bool lied;
};

struct grace {
	_Atomic uint64_t own; /* E, until there is a root */
	_Atomic(_Atomic uint64_t *) word; /* where E stands */
	_Atomic uint64_t *hint_floor; /* in the root; NULL: there is none */
	pthread_mutex_t lock;
	struct cds_list_head sessions;
	struct grace_figures gone; /* what sessions said whose slots are closed */
};

void grace_init(struct grace *g);
void grace_destroy(struct grace *g); /* no session is left */

/* grace_set_root - E and hint_floor stand in a root page from now on; NULL: no longer. No session
 * is there. */
void grace_set_root(struct grace *g, struct root *root);

/* grace_now - E. Any thread. */
uint64_t grace_now(const struct grace *g);

/*
 * grace_advance - the reclaimer: everything that is to be freed was unlinked before the call.
 * Returns r, the epoch that ends; sessions whose e is above r cannot reach any of it.
 */
uint64_t grace_advance(struct grace *g);

/*
 * grace_reach - the reclaimer: how far all sessions that are waited for have come. No section that
 * began before the epoch returned is open. UINT64_MAX: there are none.
 */
uint64_t grace_reach(struct grace *g);

/* grace_session_reach - the same of one session, under the lock. */
static inline uint64_t grace_session_reach(const struct epoch_session *s)
{
	return s->e > s->came ? s->e : s->came;
}

/*
 * grace_pass_hints - the same for hints: returns an epoch, at most @wanted, from before which no
 * hint is held or will be used. hint_floor is raised to it.
 */
uint64_t grace_pass_hints(struct grace *g, uint64_t wanted);

/* grace_ask_hints - clients are asked to drop hints from before @epoch, which costs them READs. */
void grace_ask_hints(struct grace *g, uint64_t epoch);

/* grace_urge_hints - the reclaimer: end an epoch if those who were @asked and still hold hints wait
 * for that. */
void grace_urge_hints(struct grace *g, uint64_t asked);

/*
 * grace_join - a new session, before its WELCOME is sent: its @slot, 64 B of zeroed memory that
 * the client does not know of yet, is filled for @generation. Returns the E that the WELCOME tells.
 * It is not waited for until grace_wait_for().
 */
uint64_t grace_join(struct grace *g, struct epoch_session *s, struct epoch_slot *slot,
		    uint64_t generation);

/* grace_take - the slot's announcement into @s, if it is sound. Under the lock where @s joined. */
void grace_take(const struct grace *g, struct epoch_session *s);

/*
 * grace_wait_for - with true before the session's first queue pair can be used, with false after
 * its last one was destroyed. One thread for all sessions.
 */
void grace_wait_for(struct grace *g, struct epoch_session *s, bool wait);

/* grace_close_slot - the slot's memory goes; what it announced last stays, and is waited for; what
 * its client said of itself is kept. */
void grace_close_slot(struct grace *g, struct epoch_session *s);

/* grace_leave - its queue pairs were destroyed and its slot was deregistered: it is waited for no
 * longer (I4). */
void grace_leave(struct grace *g, struct epoch_session *s);

/* grace_session_figures - of one session, under the lock. grace_figures - of all, those that have
 * gone included. Any thread. */
struct grace_figures grace_session_figures(const struct epoch_session *s);
struct grace_figures grace_figures(struct grace *g);
void grace_figures_add(struct grace_figures *sum, struct grace_figures one);

/* grace_each - call @visit for each session, its announcement taken, under the lock. */
void grace_each(struct grace *g, void (*visit)(void *ctx, struct epoch_session *s), void *ctx);
