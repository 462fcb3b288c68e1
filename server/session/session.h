/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Sessions: one for each connected client process. Everything here is the control thread's, but
 * for the counters, which anyone may read.
 *
 * A session begins with HELLO: its client id is registered, an earlier session of the same id is
 * ended first, it gets a number (also its generation), an epoch slot in a region of its own, and
 * a WELCOME. It ends when its life line does, or when it is fenced (fence.c): its queue pairs are
 * destroyed, its epoch slot is deregistered, and only then does it stop to hold back retired
 * memory (I4).
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <urcu/list.h>

#include "common/layout/root.h"
#include "common/rdma/cm.h"
#include "common/rdma/exchange.h"
#include "common/rdma/region.h"
#include "server/session/lease.h"
#include "server/clients/clients.h"
#include "server/session/reach.h"
#include "server/worker/worker.h"

#define SESSIONS_MAX	    1024u
#define STRANGERS_MAX	    1024u /* connections that have not said HELLO yet */
#define SESSION_LIFELINE_MS 2000u
#define WORKERS_MAX	    64u

struct session_counters {
	_Atomic uint64_t sessions; /* connected now */
	_Atomic uint64_t queue_pairs; /* of them */
	_Atomic uint64_t strangers; /* connected, no HELLO yet */
	_Atomic uint64_t accepted;
	_Atomic uint64_t refused;
	_Atomic uint64_t resumed; /* sessions of a client id that was known */
	_Atomic uint64_t fenced_silent, fenced_stuck, fenced_lied; /* by enum lease_verdict */
};

/* What sessions need of the server; constant after start. */
struct sessions {
	const struct rdma_device *dev;
	struct store *store;
	struct root *root;
	uint32_t root_rkey;
	unsigned lease_ms;
	struct worker *workers[WORKERS_MAX];
	unsigned worker_count;
	uint64_t newest; /* number of the last session that began */
	struct clients *clients;
	struct session_counters counters;
	struct cds_list_head list; /* sessions by number, oldest first */
	struct cds_list_head strangers;
	struct cds_list_head unfenced; /* over, and waited for: freed after the reclaimer */
	uint64_t departures; /* connections ended since start */
	int notice_fd; /* eventfd: a worker has found a queue pair broken */
	unsigned untold; /* waits for the last receive of queue pairs in vain, since one was not */
	const char *fatal; /* what the device said that ends the server; NULL: nothing */
	uint64_t look_ns; /* the last look for leases that are over */
	struct reach reach; /* GIDs that lead somewhere, and when others may be tried */
	struct cm_listener *cm; /* NULL: --connect tcp */
	unsigned cm_port; /* that it listens on */
	uint64_t cm_refusals; /* since cm_complaint_ns, without a line in the log */
	uint64_t cm_complaint_ns; /* when a refused request of the CM was logged last */
};

struct session {
	struct cds_list_head node;
	struct sessions *all;
	int fd; /* the life line */
	bool welcomed;
	unsigned refusals;
	bool unfenced; /* a queue pair of it could not be destroyed: it is waited for to the end */
	bool ending; /* a frame could not be sent, or the peer broke the protocol */
	uint64_t deadline_ns; /* for HELLO */
	struct exchange_reader reader;
	uint64_t number; /* its generation */
	struct client_entry *client;
	struct rdma_buffer slot; /* struct epoch_slot */
	struct lease lease;
	struct conn *conns[SESSION_QPS_MAX];
	char name[64];
	uint32_t pid;
	uint64_t cm_token; /* random: requests of the CM name the session by it */
	int gid_index; /* that its queue pairs go out from, as logged last; -1: none yet */
};

/* sessions_grace - what they announce. */
static inline struct grace *sessions_grace(const struct sessions *all)
{
	return reclaim_grace(all->store->reclaim);
}

/* sessions_init - lists and counters; the rest is the caller's to fill first. */
int sessions_init(struct sessions *all);
/* sessions_destroy - the store is gone. One that is all zeros is fine. */
void sessions_destroy(struct sessions *all);

/* sessions_device_events - take what the device has to say (events.c). */
void sessions_device_events(struct sessions *all);

/* sessions_notices - tell clients of their queue pairs that workers found broken. */
void sessions_notices(struct sessions *all);

/* session_accept - a fresh connection; takes @fd over, also on failure. NULL: refused. */
struct session *session_accept(struct sessions *all, int fd);

/*
 * session_readable - its socket has something. Returns 0, or a negative value when the session is
 * over: the caller calls session_end().
 */
int session_readable(struct session *s);

/*
 * session_end - fence it and forget it: frees @s. @answer_until_ns: answer what has arrived up to
 * this time, and say BYE; 0: do not.
 */
void session_end(struct session *s, uint64_t answer_until_ns);

/* Frames about queue pairs (queue_pairs.c). */
void session_qp_open(struct session *s, const struct wire_qp *offer);
void session_qp_ready(struct session *s, const struct wire_handle *handle);
void session_qp_close(struct session *s, const struct wire_handle *handle);
/* session_qp_lost - its end of the CM's connection says that the other one has gone. */
void session_qp_lost(struct session *s, unsigned handle, const struct cm *cm);
void session_qps_destroy(struct session *s, uint64_t answer_until_ns);

/*
 * session_await_receives - queue pairs @first to @last were failed: wait until the device has said
 * that they gave back their receives, where it does so, and not for long.
 */
void session_await_receives(struct session *s, unsigned first, unsigned last);

/* session_qps_lost - tell the client of those that a worker found broken. */
void session_qps_lost(struct session *s);

/*
 * session_qp_make - a queue pair for @handle, below SESSION_QPS_MAX, instead of an older one, which
 * is destroyed first. Connect it, then call session_qp_start(), or session_conn_drop().
 */
int session_qp_make(struct session *s, unsigned handle, unsigned credits,
		    const struct rdma_source *source, struct conn **out, struct error *err);

/*
 * session_conn_drop - destroy one of its queue pairs. Where that fails its client may go on with
 * READs: the session is waited for to the end (I4), and the server ends (all->fatal).
 */
void session_conn_drop(struct session *s, struct conn *c);

/* session_watch - it is waited for, and its lease runs, while it has a queue pair. */
void session_watch(struct session *s);

/* session_qp_start - the worker answers on it, and it is the session's. On failure it is the
 * caller's still. */
int session_qp_start(struct session *s, struct conn *c, struct error *err);

/* session_cm_event - take and obey an event of all->cm (cm_requests.c). Returns as cm_next(). It
 * may end a session; the device goes away: all->fatal. */
int session_cm_event(struct sessions *all);

/* session_qps_why - why a worker gave one of them up, in words; NULL: none did. */
const char *session_qps_why(const struct session *s);

/* session_send - or mark the session as ending. */
void session_send(struct session *s, const struct wire_frame *frame);

/* session_refuse - counts, logs and tells the peer. @ask: of what is refused; 0: the session, or
 * what is no attempt at a queue pair. The session goes on, but not for ever. */
void session_refuse(struct session *s, uint32_t ask, const struct error *err);
