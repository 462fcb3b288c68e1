/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A session: the process's connection to one server. Its locks are for the control path only.
 *
 * lock is for the connection, and is held through resolver, handshake and queue pair: a
 * caller with a deadline takes it with session_lock(). handles_lock is for users of the session:
 * nothing that can take long is done under it. Lock order: keeper->round_lock, then lock, then
 * flights->lock, then handles_lock, world->lock, epochs.lock or bell.lock.
 *
 * The session is freed by gkv_session_close(), or by the thread that gives back the last handle or
 * registered memory after it: where it sees orphan and both counts 0, under handles_lock.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/include/gracekv.h"
#include "client/src/base/addresses.h"
#include "client/src/base/backoff.h"
#include "client/src/link/attempt.h"
#include "client/src/link/epochs.h"
#include "client/src/base/bell.h"
#include "client/src/base/figures.h"
#include "client/src/know/hints.h"
#include "client/src/base/options.h"
#include "client/src/know/world.h"
#include "common/base/error.h"
#include "common/layout/wire_tcp.h"
#include "common/rdma/device.h"
#include "common/rdma/exchange.h"

struct flights;
struct gkv;
struct housekeeper;
struct session_device;

/*
 * What earlier rooms ask of the one that keeps the session.
 * nudge: the calling thread, with no section open and no lock held, waits for memory that sessions
 *	hold back: have a round made. Returns by @deadline_ns.
 * follow: the handle has another device, or none, and no queue pair: let go of what is registered
 *	on the old one, and register what must be on the new one. Its own thread. Returns 0, or why
 *	not, with h->error.
 */
struct session_services {
	void (*nudge)(struct gkv_session *s, uint64_t deadline_ns);
	int (*follow)(struct gkv *h);
};

/* What gkv_session_describe() said; kept until the session goes, for those that have it. */
struct session_words {
	struct session_words *before;
	char text[];
};

struct gkv_session {
	/* Constant after gkv_session_open(). */
	struct settings settings;
	uint64_t client_id[2]; /* random, the same for all connections of this session */
	unsigned fork_count; /* fork_current() at open */

	struct epochs epochs; /* see there */
	struct hints hints; /* see there */
	struct bell bell; /* wakes the housekeeper's thread, and is stopped with the session */

	/* Of later rooms, which alone look into them; made with the session. */
	struct flights *flights; /* flight/async.h */
	struct housekeeper *keeper; /* keeper/housekeeper.h */
	const struct session_services *services;

	/* Any thread, no lock. */
	_Atomic uint64_t rounds_begun; /* by the housekeeper: its READs come after */
	_Atomic uint64_t rounds_applied; /* the last that has followed the server's hint_floor */
	_Atomic unsigned at; /* the server that is connected, or tried; under lock */
	_Atomic unsigned servers; /* how many of `server` there are; under lock */
	/* Those of the options, and members of their group that they tell of. What stands here
	 * does not change. */
	struct settings_server server[SETTINGS_SERVERS_MAX];
	_Atomic uint64_t number; /* grows with each connection lost; handles compare theirs */
	_Atomic uint64_t next_sequence; /* of requests, from 1, never used twice */
	_Atomic uint64_t reconnects; /* connections made but the first; written under lock */
	_Atomic(struct session_words *) words; /* newest first; written under lock */
	/* Of each handle: the number of its queue pair whose other end broke, as the server
	 * said. */
	_Atomic uint32_t qp_lost[SESSION_QPS_MAX];

	pthread_mutex_t lock; /* protects what follows, down to handles_lock */
	bool connected;
	bool closed; /* gkv_session_close() was called */
	bool hushed; /* what is done now is not for gkv_trace: the housekeeper's own */
	_Atomic(const char *) step; /* of connecting, begun last; static; NULL: none is */
	int lifeline; /* TCP socket, -1: none */
	struct session_device *device; /* NULL: none now; written under handles_lock as well */
	bool device_gone; /* it failed, and was not opened again yet */
	char device_name[64]; /* "": none was open yet */
	struct addresses addresses[SETTINGS_SERVERS_MAX]; /* of the servers */
	struct backoff backoff; /* of attempts to connect */
	struct error lost; /* why there is no connection, or the last one was lost */
	struct error unkept; /* why the housekeeper has no queue pair; code 0: it has, or will */
	struct exchange_reader reader;
	struct attempts attempts; /* at queue pairs */
	struct wire_welcome welcome; /* of the current, or last, connection */
	struct world *world; /* counted; NULL before the first connection */

	pthread_mutex_t handles_lock; /* protects all that follows */
	bool orphan; /* gkv_session_close() is done with it */
	unsigned handle_count;
	unsigned memory_count; /* registrations of the application's memory */
	bool handle_taken[SESSION_QPS_MAX];
	struct gkv *handle[SESSION_HANDLES_MAX]; /* by number, for their figures: figures.h */
	struct handle_figures gone; /* of those that were closed */
};

/* fork_watch - forks are counted from now on. Once or more. */
void fork_watch(void);

/* fork_current - differs in a child of fork() from the value in its parent. No system call. */
unsigned fork_current(void);

static inline bool session_foreign(const struct gkv_session *s)
{
	return s->fork_count != fork_current();
}

/* session_is_served - whether a thread keeps it, and connects handles with operations in flight. */
static inline bool session_is_served(struct gkv_session *s)
{
	return s->settings.housekeeper == GKV_HOUSEKEEPER_THREAD && !bell_stopped(&s->bell);
}

/* session_server - the one that it is connected to, or that was tried last: for messages. */
static inline const struct settings_server *session_server(const struct gkv_session *s)
{
	/* acquire: pairs with go_on(), after the entry was written */
	return &s->server[atomic_load_explicit(&s->at, memory_order_acquire)];
}

/* session_servers - how many there are to go to. */
static inline unsigned session_servers(const struct gkv_session *s)
{
	return atomic_load_explicit(&s->servers, memory_order_relaxed); /* only grows */
}

/* lock_until - @deadline_ns (CLOCK_MONOTONIC). Returns 0 or -ETIMEDOUT. */
int lock_until(pthread_mutex_t *lock, uint64_t deadline_ns);

/* session_lock - until @deadline_ns (CLOCK_MONOTONIC). Returns 0 or -ETIMEDOUT. */
int session_lock(struct gkv_session *s, uint64_t deadline_ns, struct error *err);
void session_unlock(struct gkv_session *s);

/* session_silent - the server of connection @number does not renew its lease: it is left, and
 * another one of the list is tried first. Where the lock is taken it does nothing. */
void session_silent(struct gkv_session *s, uint64_t number);

/* session_patience_ms - for an answer of its server. session_unanswered - that time was over: if
 * there are other servers, another one is tried. Must hold the lock. */
uint64_t session_patience_ms(const struct gkv_session *s);
void session_unanswered(struct gkv_session *s);

/*
 * session_connect - must hold the lock: make sure that there is a connection, with one attempt
 * where the back-off allows one now; backoff_due(&s->backoff) says when the next one may be.
 * Returns 0, or why the last attempt failed; -ESHUTDOWN: the session was closed.
 */
int session_connect(struct gkv_session *s, uint64_t deadline_ns, struct error *err);

/*
 * session_worth_another - whether a connect that failed with @rc may go well a little later.
 * session_goes_on - must hold the lock: the same of this session, whose device may be away as well.
 */
bool session_worth_another(int rc);
bool session_goes_on(const struct gkv_session *s, int rc);

/*
 * session_alive - must hold the lock: take what waits in the life line. Whether there is a
 * connection; where it was lost by what was heard, s->lost says why.
 */
bool session_alive(struct gkv_session *s);

/*
 * session_qp_fresh - must hold the lock: the server has answered with another end for @handle. What
 * was noted of it is about an older queue pair, whose number may come again.
 */
void session_qp_fresh(struct gkv_session *s, unsigned handle);

/*
 * session_open_by_cm - the device through which the RDMA CM's route to the peer of the TCP socket
 * @fd leaves. Returns 0; -EXDEV: another device, or port, was named; as cm_resolve().
 */
int session_open_by_cm(struct gkv_session *s, int fd, uint64_t deadline_ns,
		       struct rdma_device **out, struct error *err);

/* session_lost - must hold the lock: the connection is given up. */
void session_lost(struct gkv_session *s);

/*
 * session_check - the life line of connection @number became readable or hung up: find out
 * whether it is still there. Takes the lock, waiting for it until @deadline_ns.
 * Returns 0: it is, or nobody could tell in that time; -ECONNRESET.
 */
int session_check(struct gkv_session *s, uint64_t number, uint64_t deadline_ns, struct error *err);

/* session_usable - 0; -EINVAL: it is NULL; -EPERM: it belongs to the parent of this process. */
int session_usable(const struct gkv_session *s, struct error *err);
