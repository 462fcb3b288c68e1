/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A link: a queue pair, and what belongs to it alone. A handle has one, and while another is made
 * for it, its connector has that one: once it is live the handle's link is a copy of it. One thread
 * at a time. The essay is in attach.c.
 */
#include <stdbool.h>
#include <stdint.h>

#include "client/src/link/session.h"
#include "common/base/error.h"
#include "common/base/time.h"
#include "common/rdma/cm.h"
#include "common/rdma/qp.h"
#include "common/rdma/region.h"

#define LINK_LEAVE_NS (100 * NS_PER_MS) /* for what is said to others when a handle closes */

struct link {
	/* Of its handle. */
	struct gkv_session *session;
	unsigned number; /* of the handle in its session; HOUSEKEEPER_QP: hidden */
	unsigned credits_wish; /* requests in flight, up to HANDLE_CREDITS; 0: none at all */
	unsigned reads_max; /* of operations that were submitted, in flight */
	const struct rdma_buffer *fetch; /* replies are received there */
	struct error *err; /* where sentences go */

	bool live;
	bool attempted; /* the next attempt is "again" to gkv_trace */
	bool worked; /* a request was answered since the queue pair was opened */
	struct backoff backoff; /* of queue pairs that break before they did any work */
	struct error lost; /* why the queue pair was; code 0: it was not, or it is not known */

	/* Of the queue pair. */
	uint64_t session_number; /* of the session when it was opened */
	uint64_t generation;
	uint64_t hints_after; /* round of the housekeeper; hints may be used after a later one */
	bool hints_ready; /* there was one */
	struct world *world; /* counted: the life of the server that it leads to */
	unsigned credits; /* granted */
	int lifeline; /* a duplicate, to be polled only; -1: none */
	struct rdma_cq cq;
	struct rdma_qp qp;
	struct cm *cm; /* that connected it; NULL: the exchange did */
	uint64_t chains_posted; /* of READs; they end in the order in which they were posted */
	uint64_t chains_done;
};

/*
 * link_attach - one attempt to open a queue pair on the connection that the session has, told to
 * nobody: for the housekeeper. @welcome: of that connection.
 * Returns 0; -ENOTCONN: there is none; why it did not come about, with the sentence; link_close()
 * then.
 */
int link_attach(struct link *l, uint64_t deadline_ns, struct wire_welcome *welcome);

/*
 * link_attempt - one attempt at a queue pair, connecting the session where that is lost. @due: when
 * the next one may be; @again: whether it may go well. Returns as link_attach().
 */
int link_attempt(struct link *l, uint64_t deadline_ns, uint64_t *due, bool *again);

/* link_worth_another - whether a queue pair that was refused with @rc may be had a little later:
 * a server that has no room says so at once; an address may come back. */
bool link_worth_another(int rc);

/* link_connect_by_cm - must hold the session's lock: connect the queue pair, which is in INIT,
 * and post its receives (attach_cm.c). Returns 0 or why not. */
int link_connect_by_cm(struct link *l, uint64_t deadline_ns);

/* link_receive - post the reply buffer @number. Returns 0, or -ECONNRESET with @err. */
int link_receive(struct link *l, unsigned number, struct error *err);

/* link_current - it is live, on the connection that the session has. */
static inline bool link_current(const struct link *l)
{
	/* acquire pairs with session_lost() */
	return l->live &&
	       l->session_number == atomic_load_explicit(&l->session->number, memory_order_acquire);
}

/* link_leave - tell the server that the queue pair is about to go, so that it takes its end apart.
 * Best effort; waits for LINK_LEAVE_NS at most. */
void link_leave(struct link *l);

/* link_close - destroy the queue pair: no memory of ours is named by anything after it. (But where
 * a device neither destroys nor resets it: it is broken then, and logged.) */
void link_close(struct link *l);
