/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Which sessions are fenced, and when (DESIGN 5.5): the policy over the mechanism of
 * reclaim/grace.h. The control thread's alone. The clock is the caller's.
 */
#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/rdma/exchange.h"
#include "server/reclaim/grace.h"

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
	struct epoch_session epoch;
	uint64_t beat;
	uint64_t beat_ns; /* when it was seen to change */
	uint64_t waited_ns; /* since when the session is waited for, or a pause was forgiven */
	uint64_t since_ns; /* since when it is waited for */
	uint64_t forgiven_reach; /* its reach when it was stuck and a pause was forgiven */
	uint64_t forgiven_h; /* the same, of one that was behind with its hints */
	bool forgiven; /* a pause of the server's, since the last beat */
	bool beaten; /* since it is waited for */
	bool over; /* the session is being fenced, or has gone: it is not judged */
	enum lease_verdict why; /* of the last look */
	struct lease *next_found; /* by the last look */
};

/* lease_join - as grace_join(). */
uint64_t lease_join(struct grace *g, struct lease *l, struct epoch_slot *slot, uint64_t generation);

/* lease_wait - as grace_wait_for(). A lease runs while the session is waited for. */
void lease_wait(struct grace *g, struct lease *l, bool wait, uint64_t now_ns);

/*
 * lease_heard - a frame has come over its life line. Returns whether that counts as a beat: until
 * the session has beaten, and not for longer than LEASE_FIRST_NS.
 */
bool lease_heard(struct lease *l, uint64_t now_ns);

/*
 * lease_find - several times a lease: the sessions that are to be fenced, linked by next_found,
 * each with its `why`; NULL: none.
 * @look_ns: when it was called last; 0 at first.
 */
struct lease *lease_find(struct grace *g, uint64_t *look_ns, uint64_t now_ns, uint64_t lease_ns,
			 struct grace_stuck stuck);
