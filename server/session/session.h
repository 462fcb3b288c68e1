/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Sessions: one for each connected client process. Everything here is the control thread's, but
 * for the counters, which anyone may read.
 *
 * A session begins with HELLO: its client id is registered, it gets a number (also its generation),
 * an epoch slot in a region of its own, and a WELCOME. It is over when its life line is, or when it
 * is fenced (fence.c). Then its queue pairs go to ERR at once, all of them, and are taken apart in
 * the background (apart.c), while others are served. When they are destroyed its epoch slot is
 * deregistered, and only then does it stop to hold back retired memory (I4), and is forgotten.
 *
 *	stranger --HELLO--> session --over--> parting --the last queue pair is gone--> freed
 *	   `--an older session of the client is there, or parting: waits for its end--'
 *
 * While a session waits, for the end of an older one or for a queue pair, its life line is not
 * read: what its client sends meanwhile stands in the socket.
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
	struct rdma_device *dev; /* port_attr and mtu: control thread */
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
	struct cds_list_head
		parting; /* sessions that are over, until the last queue pair is gone */
	struct cds_list_head waiting; /* strangers that wait for the end of a session */
	struct cds_list_head ready; /* strangers that have waited for it */
	struct cds_list_head unfenced; /* over, and waited for: freed after the reclaimer */
	struct cds_list_head
		failed; /* connections that wait for their last receive, oldest first */
	struct mailbox obeyed; /* connections that come back from their workers */
	struct mail *obeyed_next; /* taken from there, and not looked at yet */
	int epoll_fd; /* that watches life lines; -1: none does */
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

/* A queue pair that was asked for. One at a time. */
struct opening {
	bool wanted;
	unsigned handle, credits;
	struct wire_qp offer; /* over the life line */
	struct cm *cm; /* by the CM, owned until it is accepted or rejected; NULL: not */
	uint8_t cm_mtu;
	struct conn *conn; /* made, and on its way to its worker; NULL: older ones must go first */
};

struct session {
	struct cds_list_head node;
	struct sessions *all;
	int fd; /* the life line */
	bool welcomed;
	bool over; /* it is parting, or gone */
	bool paused; /* its life line is not read */
	struct wire_hello *hello; /* owned, of a stranger that waits; else NULL */
	struct session *awaits; /* for this one; NULL: for any */
	struct cds_list_head waiting_node;
	uint64_t answer_until_ns; /* of one that is over; 0: nothing was answered any more */
	unsigned refusals;
	bool unfenced; /* a queue pair of it could not be destroyed: it is waited for to the end */
	bool ending; /* a frame could not be sent, or the peer broke the protocol */
	uint64_t deadline_ns; /* for HELLO */
	struct exchange_reader reader;
	uint64_t number; /* its generation */
	struct client_entry *client;
	struct rdma_buffer slot; /* struct epoch_slot */
	struct lease lease;
	struct conn *conns[SESSION_QPS_MAX]; /* that workers answer on */
	struct cds_list_head apart; /* connections that are being taken apart */
	struct opening opening;
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
 * session_readable - its socket has something; @hung_up: the peer has closed it. Returns 0, or a
 * negative value when the session is over: the caller calls session_end().
 */
int session_readable(struct session *s, bool hung_up);

/*
 * session_end - it is over: its queue pairs go to ERR and are taken apart, and it is freed, now or
 * later. A stranger is freed. @answer_until_ns: first answer what has arrived, up to this time, and
 * say BYE in the end; 0: do not.
 */
void session_end(struct session *s, uint64_t answer_until_ns);
/* session_parted - one that is over has no queue pair any more: it is freed. */
void session_parted(struct session *s);

/* sessions_admit - strangers that have waited for the end of a session. */
void sessions_admit(struct sessions *all);

/* session_pause, session_resume - whether its life line is read. Its end is seen all the same. */
void session_pause(struct session *s);
void session_resume(struct session *s);

/* Queue pairs (queue_pairs.c). Frames about them: */
void session_qp_open(struct session *s, const struct wire_qp *offer);
void session_qp_ready(struct session *s, const struct wire_handle *handle);
void session_qp_close(struct session *s, const struct wire_handle *handle);
/* session_qp_lost - its end of the CM's connection says that the other one has gone. */
void session_qp_lost(struct session *s, unsigned handle, const struct cm *cm);
/* session_qps_lost - tell the client of those that a worker found broken. */
void session_qps_lost(struct session *s);
/* session_qps_why - why a worker gave one of them up, in words; NULL: none did. */
const char *session_qps_why(const struct session *s);

/*
 * session_open - s->opening says what is wanted: older queue pairs of that handle are taken apart,
 * one is made and connected, its worker is told, and then the client.
 * session_open_on - go on with that, if an older one was in its way and is gone.
 * session_attached - its worker has it, or has not: c->result.
 */
void session_open(struct session *s);
void session_open_on(struct session *s);
void session_attached(struct session *s, struct conn *c);

/* session_watch - it is waited for, and its lease runs, while it has a queue pair. */
void session_watch(struct session *s);

/* session_refuse_cm - as session_refuse(), by the CM, and @cm is gone. cm_requests.c */
void session_refuse_cm(struct session *s, struct cm *cm, const struct error *err);

/* Taking apart (apart.c). session_part - one of its queue pairs, which goes to ERR at once. */
void session_part(struct session *s, struct conn *c);
/* session_part_all - all; @answer_until_ns: as session_end(). */
void session_part_all(struct session *s, uint64_t answer_until_ns);
/* session_parts - whether one of @handle is being taken apart. */
bool session_parts(const struct session *s, unsigned handle);
/*
 * session_unfenced - its client may go on to access memory: it is never left out of the wait (I4),
 * and the server ends. @why: static.
 */
void session_unfenced(struct session *s, const char *why);

/* session_conn_drop - one that no worker has: now. */
void session_conn_drop(struct session *s, struct conn *c);
/* sessions_last_receive - the device says that this one has given back its last receive. */
void sessions_last_receive(struct sessions *all, struct conn *c);
/*
 * sessions_work - go on with what has come back from workers, some of it, and with connections that
 * have waited for long enough. Returns ms until it wants to be called again; -1: it need not.
 */
int sessions_work(struct sessions *all);

/* session_cm_event - take and obey an event of all->cm (cm_requests.c). Returns as cm_next(). The
 * device goes away: all->fatal. */
int session_cm_event(struct sessions *all);

/* session_give_up - it ends soon, by its life line. */
void session_give_up(struct session *s);

/* session_send - or give it up. */
void session_send(struct session *s, const struct wire_frame *frame);

/* session_refuse - counts, logs and tells the peer. @ask: of what is refused; 0: the session, or
 * what is no attempt at a queue pair. The session goes on, but not for ever. */
void session_refuse(struct session *s, uint32_t ask, const struct error *err);
