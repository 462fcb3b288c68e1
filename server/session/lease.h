/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Which sessions are fenced, and when (DESIGN 5.5): the policy over the mechanism of
 * reclaim/grace.h. The clock thread keeps leases (lease.c). The clock is the caller's.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <urcu/list.h>

#include "common/base/time.h"
#include "common/rdma/exchange.h"
#include "server/reclaim/reclaim.h"
#include "server/session/note.h"

/* What a session has for its first beat: the time that its client gives to two queue pairs. */
#define LEASE_FIRST_NS (2 * EXCHANGE_DEADLINE_MS * NS_PER_MS)

enum lease_verdict {
	LEASE_KEPT,
	LEASE_SILENT, /* no beat for a lease */
	LEASE_STUCK, /* it beats, but a section of it holds memory back for too long */
	LEASE_HOARDS, /* it beats, but keeps hints that it was asked to drop */
	LEASE_LIED, /* it announces an epoch that is not there yet, or one that goes backwards */
};

/* One session's; part of its owner's structure. */
struct lease {
	struct note comes, goes;
	struct epoch_session epoch; /* the reclaimer's share, under its lock */

	/* Queue-pair thread; the clock thread reads. */
	_Atomic uint64_t watch; /* grows; odd: the session is waited for, ... */
	_Atomic uint64_t since_ns, came; /* ... since then, and E was that */
	/* Control thread; the clock thread reads: its client waits for a queue pair. */
	_Atomic bool asks;
	/* Queue-pair thread; the clock thread reads: it waits for one that the CM connects. */
	_Atomic bool asks_cm;

	/* Clock thread. */
	struct cds_list_head node;
	struct epoch_session seen; /* what it has found in the slot itself */
	uint64_t watched; /* `watch`, as of the last look */
	uint64_t beat;
	uint64_t beat_ns; /* when it was seen to change */
	uint64_t asked_ns; /* when a queue pair was still being made for it */
	uint64_t waited_ns; /* since when the session is waited for, or a pause was forgiven */
	uint64_t forgiven_reach; /* its reach when it was stuck and a pause was forgiven */
	uint64_t forgiven_h; /* the same, of one that was behind with its hints */
	bool forgiven; /* a pause of the server's, since the last beat */
	bool beaten; /* since it is waited for */
	bool told; /* it was found to be over */

	/* With the verdict. */
	enum lease_verdict why;
	struct lease *next_found;
};

/* All of them. */
struct leases {
	struct reclaim *reclaim;
	uint64_t lease_ns;
	struct mailbox box; /* leases that come and go: the clock thread's */
	struct mailbox *left; /* where those that have gone are sent back */
	struct mailbox *told; /* where NOTE_FOUND goes */
	/* Clock thread. */
	struct cds_list_head list;
	uint64_t look_ns; /* the last look; 0: none yet */
	/* Clock thread, and the control thread's from posting `note` to leases_carry_on(). */
	struct note note;
	struct lease *found;
	_Atomic bool note_is_out;
};

/* leases_init - @left, @told: see above. Returns 0 or a negative errno. leases_destroy - all have
 * gone. */
int leases_init(struct leases *all, struct reclaim *reclaim, unsigned lease_ms,
		struct mailbox *left, struct mailbox *told);
void leases_destroy(struct leases *all);

/* Queue-pair thread. lease_join - as grace_join(), and the lease is kept from now on. */
uint64_t lease_join(struct leases *all, struct lease *l, struct epoch_slot *slot,
		    uint64_t generation);
/* lease_leave - its slot is about to go: when l->goes has come back nobody keeps the lease. */
void lease_leave(struct leases *all, struct lease *l);
/* lease_wait - as grace_wait_for(). A lease runs while the session is waited for. */
void lease_wait(struct leases *all, struct lease *l, bool wait, uint64_t now_ns);

/* Clock thread. leases_take - those that have come and gone since. */
void leases_take(struct leases *all);
/* leases_look - once in leases_period_ms(): sessions that are to be fenced are told of. */
void leases_look(struct leases *all, uint64_t now_ns);
unsigned leases_period_ms(const struct leases *all);
/* leases_find - a look: those that are over now, linked by next_found, each with its `why`. */
struct lease *leases_find(struct leases *all, uint64_t now_ns, struct grace_stuck stuck);

/* leases_carry_on - the control thread has seen to what NOTE_FOUND tells of. */
void leases_carry_on(struct leases *all);
