/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Sessions: one for each connected client process.
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
 * THREE THREADS have to do with a session. Each owns a part of it, which no other touches, and none
 * waits for another: they write each other notes (note.h). The queue-pair thread takes locks that
 * others take: that of the grace periods (grace.h), and a client's (clients.h). The control thread
 * takes the latter when a session begins and when it is freed, when no worker has its client.
 *  - The control thread (control.c) accepts, reads and writes life lines, decides when a session
 *    begins and ends, and frees it. It calls no verb, so it is never late for a life line.
 *  - The queue-pair thread (pairs.h) has `pairs`, and calls the verbs, which may wait.
 *  - The clock thread keeps the lease (lease.c), which may wait for nothing.
 * Number, name, process, token and client stand before NOTE_BEGIN is posted, and do not change:
 * anyone reads them. The life line's descriptor is open until the session is freed; only the
 * control thread sends on it, so that frames do not mix, and others at most shut it down.
 *
 * A JOB is what the control thread wants of the queue-pair thread for a session: an epoch slot
 * (BEGIN), a queue pair (OPEN), or to be rid of one (CLOSE). There is one at a time. From the post
 * of its note until that comes back `job` is the queue-pair thread's, and the life line is not
 * read: what the client sends meanwhile stands in the socket, and what comes after is done after.
 * Its end is seen all the same, as is that of a session that waits for an older one.
 *
 * THE END. NOTE_END may be posted while a job is out. The queue-pair thread takes notes in their
 * order, so it has the job already: it gives up what it had begun for it, if anything, and sends
 * the job back before the end. The end comes back when no queue pair is left (not even one that a
 * worker has still), the clock thread has let go of the lease, and the slot is deregistered. So
 *  - what is freed then, nobody has: workers have no connection of it, the clock thread no slot,
 *    and notes that tell of it came to the control thread before, by the same mailbox;
 *  - the fence comes before memory is used again (I4): the reclaimer waits for the session until
 *    grace_leave(), which the queue-pair thread calls after all this, and after that posts the end.
 *    Until then, whatever keeps the queue-pair thread or a worker busy only keeps memory waiting.
 *
 * THE SERVER STOPS in this order: strangers and sessions are ended, and the control thread waits
 * for the last end, for which the others must still run. Then the queue-pair thread is stopped,
 * then the workers, then the clock thread; and then the store goes.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sys/eventfd.h>
#include <urcu/list.h>

#include "common/layout/root.h"
#include "common/rdma/cm.h"
#include "common/rdma/exchange.h"
#include "common/rdma/region.h"
#include "server/clients/clients.h"
#include "server/session/lease.h"
#include "server/session/pairs.h"
#include "server/worker/worker.h"

#define SESSIONS_MAX	    1024u
#define STRANGERS_MAX	    1024u /* connections that are no sessions yet */
#define SESSION_LIFELINE_MS 2000u
#define WORKERS_MAX	    64u

struct session_counters {
	_Atomic uint64_t sessions; /* connected now */
	_Atomic uint64_t queue_pairs; /* of them */
	_Atomic uint64_t strangers; /* connected, and no session: no HELLO yet, or it waits */
	_Atomic uint64_t accepted;
	_Atomic uint64_t refused;
	_Atomic uint64_t resumed; /* sessions of a client id that was known */
	_Atomic uint64_t fenced_silent, fenced_stuck, fenced_lied; /* by enum lease_verdict */
};

enum sessions_serve {
	SESSIONS_SERVED,
	SESSIONS_LATER, /* soon: who has said HELLO waits */
	SESSIONS_REFUSED,
};

struct sessions {
	/* Constant after start: what they need of the server. */
	struct rdma_device *dev; /* port_attr and mtu: queue-pair thread */
	struct store *store;
	struct root *root;
	uint32_t root_rkey;
	unsigned lease_ms;
	struct worker *workers[WORKERS_MAX];
	unsigned worker_count;
	struct cm_listener *cm; /* NULL: --connect tcp */
	unsigned cm_port; /* that it listens on */
	struct clients *clients;
	/*
	 * Of a server that is a member of a group; else NULL. The control thread calls all of them.
	 * serves - whether a client may connect that has met incarnation @met last, 0: none, and
	 * has waited for @waited_ns; SESSIONS_REFUSED: with @why. Where it says another thing than
	 * before, sessions_wake_control() is to be called, or those who wait are looked at with the
	 * next tick.
	 * member - another server or kv-cluster has dialled, with a PEER_HELLO or GROUP_ASK: takes
	 * @fd over.
	 * servers - members of the group, of which clients are told: how many.
	 * rested - no session is left: sessions_rested().
	 */
	enum sessions_serve (*serves)(void *ctx, uint64_t met, uint64_t waited_ns,
				      struct error *why);
	void (*member)(void *ctx, int fd, const struct wire_frame *first);
	unsigned (*servers)(void *ctx, struct wire_server out[WIRE_GROUP_MEMBERS_MAX]);
	void (*rested)(void *ctx);
	void *group_ctx;
	uint32_t group_lease_ms, rho_ppm; /* for WELCOME */

	/* Anyone's. */
	struct session_counters counters;
	_Atomic(const char *) fatal; /* what ends the server, in words; NULL: nothing */
	int notice_fd; /* eventfd: a worker has found a queue pair broken, or `fatal` was set */
	struct mailbox news; /* notes for the control thread */
	_Atomic uint32_t rest; /* odd: sessions_rest() */
	_Atomic uint32_t rests; /* the control thread: this value of `rest` was obeyed */

	struct pairs pairs; /* queue-pair thread */
	struct leases leases; /* clock thread */

	/* Control thread. */
	uint64_t newest; /* number of the last session that began */
	struct cds_list_head list; /* sessions by number, oldest first */
	struct cds_list_head strangers;
	struct cds_list_head parting; /* sessions that are over, until they come back */
	struct cds_list_head waiting; /* strangers that wait for the end of a session, or for us */
	struct cds_list_head ready; /* strangers that have waited for it */
	struct cds_list_head unfenced; /* over, and waited for: freed after the reclaimer */
	int epoll_fd; /* that watches life lines; -1: none does */
	uint64_t departures; /* connections ended since start */
};

/* What is wanted of the queue-pair thread, and how that went. */
struct job {
	struct note note;
	bool out; /* control thread: it was posted, and has not come back */
	struct wire_qp qp; /* OPEN: the client's offer; then the server's. CLOSE: handle */
	uint64_t epoch; /* BEGIN: E, for the WELCOME */
	struct error err; /* code 0: done */
};

struct session {
	struct sessions *all;
	/* Stand when it begins. */
	uint64_t number; /* its generation */
	struct client_entry *client;
	char name[64];
	uint32_t pid;
	uint64_t cm_token; /* random: requests of the CM name the session by it */

	struct conn_lifeline line; /* its descriptor, and what workers say of it */
	struct session_pairs pairs; /* queue-pair thread */
	struct lease lease;

	/* Control thread. */
	struct cds_list_head node;
	bool begun; /* HELLO was sound: it is a session */
	bool resumed; /* of a client that was here before */
	bool over; /* it is parting, or gone */
	bool paused; /* its life line is not read */
	bool ending; /* a frame could not be sent, or the peer broke the protocol */
	struct wire_hello *hello; /* owned, of a stranger that waits; else NULL */
	uint64_t hello_ns; /* when it came */
	struct session *awaits; /* for this one; NULL: for any */
	struct cds_list_head waiting_node;
	unsigned refusals;
	uint64_t deadline_ns; /* for HELLO */
	struct exchange_reader reader;
	bool opened
		[SESSION_QPS_MAX]; /* over the life line: queue pairs that were said to be there */

	/* Control thread, and the queue-pair thread's from posting it until it comes back. */
	struct job job;
	struct note end;
	uint64_t answer_until_ns; /* with `end`; 0: nothing is answered any more */
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

/* sessions_fatal - what ends the server; NULL: nothing. */
static inline const char *sessions_fatal(const struct sessions *all)
{
	return atomic_load_explicit(&all->fatal, memory_order_relaxed); /* static text */
}

/*
 * sessions_rest - every session ends, having answered what has come, and stays ended until
 * sessions_go_on(). From before the call on, serves() does not say SESSIONS_SERVED. Any thread, one
 * at a time.
 * sessions_rested - after sessions_rest(): no session is left, and no queue pair of one, so nobody
 * READs this server's memory.
 */
void sessions_rest(struct sessions *all);
bool sessions_rested(const struct sessions *all);
void sessions_go_on(struct sessions *all);

/* sessions_wake_control - the control thread looks at `fatal`, `rest` and serves(). Any thread. */
static inline void sessions_wake_control(const struct sessions *all)
{
	eventfd_write(all->notice_fd, 1); /* it fails only where it is readable already */
}

/* All that follows is the control thread's. sessions_notices - tell clients of their queue pairs
 * that workers found broken. */
void sessions_notices(struct sessions *all);

/* session_accept - a fresh connection; takes @fd over, also on failure. NULL: refused. */
struct session *session_accept(struct sessions *all, int fd);

/*
 * session_readable - its socket has something; @hung_up: the peer has closed it. Returns 0, or a
 * negative value when the session is over: the caller calls session_end().
 */
int session_readable(struct session *s, bool hung_up);

/*
 * session_end - it is over: its queue pairs go to ERR and are taken apart, and it is freed, later.
 * A stranger is freed now. @answer_until_ns: first answer what has arrived, up to this time, and
 * say BYE in the end; 0: do not.
 * session_end_note - the same but for posting it: returns the mail for all->pairs.asks.
 */
void session_end(struct session *s, uint64_t answer_until_ns);
struct mail *session_end_note(struct session *s, uint64_t answer_until_ns);

/* sessions_news - what has come from other threads. Sessions may be freed: all->departures. */
void sessions_news(struct sessions *all);

/* session_post - a job, whose fields say what is wanted: its life line is not read meanwhile. */
void session_post(struct session *s, enum note_kind kind);

/* session_pause, session_resume - whether its life line is read. Its end is seen all the same. */
void session_pause(struct session *s);
void session_resume(struct session *s);

/* session_count - @n more, of what is counted. */
static inline void session_count(_Atomic uint64_t *counter, int64_t n)
{
	atomic_fetch_add_explicit(counter, (uint64_t)n, memory_order_relaxed);
}

/* session_send - or give it up. */
void session_send(struct session *s, const struct wire_frame *frame);

/* session_refuse - counts, logs and tells the peer. @ask: of what is refused; 0: the session, or
 * what is no attempt at a queue pair. The session goes on, but not for ever. */
void session_refuse(struct session *s, uint32_t ask, const struct error *err);

/* Beginning (hello.c). session_hello - a stranger has said it. session_welcome - its slot is made.
 * sessions_admit - strangers that have waited; sessions_wake - for the end of @gone, which is
 * there; sessions_retry - for a server that may serve now. */
void session_hello(struct session *s, const struct wire_hello *h);
void session_welcome(struct session *s);
void sessions_admit(struct sessions *all);
void sessions_wake(struct sessions *all, const struct session *gone);
void sessions_retry(struct sessions *all);
