/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Queue pairs connected by the RDMA CM (--connect cm) instead of the frames QP_OPEN and QP_OPENED.
 *
 * The TCP connection, HELLO and WELCOME stay as they are: the session, its life line and the
 * sentences of its refusals are the same in both ways. WELCOME says at which port the server serves
 * the CM, and a token that ties a CM request to the session. Then, for each queue pair:
 *
 *	client (one thread)                           kv-server (queue-pair thread)
 *	cm_resolve    address and route: device, port
 *	cm_connect    REQ {QPN, PSN, depths, path MTU;
 *	                   token, handle, credits, mtu} ->  cm_next: CM_REQUEST
 *	                                                    the session of the token is looked up
 *	                                                    cm_qp_connect: INIT, RTR, RTS
 *	                                                <-  cm_accept: REP {...; credits, mtu}
 *	              cm_qp_connect: INIT, RTR, RTS         or cm_reject: REJ {code, sentence}
 *	              (receives are posted)
 *	cm_establish  RTU                               ->  cm_next: CM_ESTABLISHED
 *	...
 *	cm_leave      DREQ                              ->  cm_next: CM_CLOSED
 *	              (queue pair destroyed)            <-  DREP, sent when the server's end is gone
 *
 * The queue pair is ours, on our own ibv_context: librdmacm has no part in it but to say with which
 * attributes it goes to INIT, RTR and RTS (rdma_init_qp_attr: address vector, source GID, PKEY,
 * PSNs). What is settled between both sides, and the options of a person, go before the CM's
 * values: path MTU (the smallest of both sides' and the CM's), READ depths, time-out, retries, RNR
 * timer, access flags, service level, traffic class.
 *
 * 1. A server's queue pair is in RTS before REP goes out, so what the client sends after RTU, even
 *    before it, is served. RTU carries nothing; where it gets lost the CM sends REP again.
 * 2. A queue pair is destroyed before its cm is (cm_destroy), on both sides: DREP, or the DREQ that
 *    the kernel sends for a process that has died, means that nothing remote is reached any more.
 * 3. Whoever vanishes in between leaves a request, or a half-open end. A client's wait ends with
 *    its deadline or with the life line; the server's end is destroyed with its session, as any
 *    other.
 * 4. Time: the kernel repeats a lost REQ, REP or DREQ after about 4 s; this cannot be set from
 *    here.
 *
 * Conventions: librdmacm's -1 and errno, and a CM event's status, become negative errno values here
 * and nowhere else. An event is acknowledged before anything is done about it.
 */
#include <stddef.h>
#include <stdint.h>

#include <sys/socket.h>

#include "common/base/error.h"
#include "common/layout/wire_cm.h"
#include "common/rdma/qp.h"

#define CM_PRIVATE_MAX 256u /* bytes that an event may carry */

struct rdma_cm_id;
struct rdma_event_channel;

/* Through which port of which device; "" and 0 where it is not bound to one. */
struct cm_route {
	char device[64];
	uint8_t port;
};

/* One end of a connection, or of a request for one. Its user's alone: one thread at a time. */
struct cm {
	struct rdma_cm_id *id;
	struct rdma_event_channel *channel; /* of this end alone; NULL: the listener's */
	struct cm_route route;
	char peer[64]; /* its address, in text */
	/* what the far end asked for, or granted; 0 before it was heard */
	unsigned peer_initiator;
	unsigned peer_responder;
	void *owner; /* the user's, NULL at first */
	unsigned number; /* the user's, 0 at first */
};

/* A wait: until when (CLOCK_MONOTONIC), and which socket ends it by becoming readable; -1: none. */
struct cm_wait {
	uint64_t deadline_ns;
	int lifeline;
};

/*
 * cm_destroy - after the queue pair that it connected. The peer hears that it has ended, where it
 * was connected. Must not run before all that cm_next() gave of it was looked at; NULL is fine.
 */
void cm_destroy(struct cm *cm);

/*
 * cm_qp_connect - settle with the peer, then INIT, RTR, RTS with the CM's attributes and ours.
 * @peer_mtu: enum ibv_mtu, checked by the decoder. Logs what was chosen.
 * Returns 0; -EPROTO: a READ depth of 0; what librdmacm or modify_qp returned.
 */
int cm_qp_connect(struct cm *cm, struct rdma_qp *qp, uint8_t peer_mtu, struct error *err);

/*
 * cm_qp_attr - put our values over the CM's in @attr, whose qp_state says for which step, and
 * return the mask: apart from the calls so that tests can look at it. qp->mtu and depths are
 * settled.
 */
int cm_qp_attr(const struct rdma_qp *qp, struct ibv_qp_attr *attr, int mask);

/*
 * The active side. All of them return -ETIMEDOUT at the deadline and -ECONNRESET when the life line
 * has something to say; @err is a sentence.
 */

/*
 * cm_resolve - address and route to @to: which device and port lead there. The cm has an event
 * channel of its own, so that no thread ever waits for, or reads, what is another's.
 * Returns 0; -ENODEV: no RDMA device, or none on the way; -ENOENT, -EACCES:
 * /dev/infiniband/rdma_cm; -EHOSTUNREACH, ... Free with cm_destroy().
 */
int cm_resolve(struct cm **out, const struct sockaddr *to, const struct cm_wait *wait,
	       struct error *err);

/*
 * cm_connect - ask for the connection of @qp, which is in INIT; when it returns 0, @qp is in RTS
 * and @reply is what the server granted. Post receives, then call cm_establish().
 * Returns also: the code of a rejection; -ECONNREFUSED: nobody listens; -EPROTO: a reply that
 * cannot be. After a failure only cm_destroy() is left.
 */
int cm_connect(struct cm *cm, struct rdma_qp *qp, const struct wire_cm_request *request,
	       struct wire_cm_reply *reply, const struct cm_wait *wait, struct error *err);

/* cm_establish - confirm: the connection may be used. */
int cm_establish(struct cm *cm, struct error *err);

/* cm_leave - ask the peer to take its end apart, and wait for it until @deadline_ns. Best
 * effort. */
void cm_leave(struct cm *cm, uint64_t deadline_ns);

/* The passive side: one thread's. */
struct cm_listener;

/*
 * cm_listen - at address and port @at, which may be a wildcard address. Never blocks after.
 * Returns 0, or as cm_resolve(); -EADDRINUSE, -EADDRNOTAVAIL. Free with cm_unlisten().
 */
int cm_listen(struct cm_listener **out, const struct sockaddr *at, struct error *err);
/* cm_unlisten - after every cm that came from it was destroyed. NULL is fine. */
void cm_unlisten(struct cm_listener *l);

/* cm_listener_fd - readable while an event waits. */
int cm_listener_fd(const struct cm_listener *l);

/* cm_listener_route - the device that holds the address; its name is "" on a wildcard address. */
const struct cm_route *cm_listener_route(const struct cm_listener *l);

enum cm_event_kind {
	CM_NOTHING, /* nothing to be done */
	CM_REQUEST, /* cm is new and the caller's: cm_accept(), or cm_reject() */
	CM_ESTABLISHED,
	CM_CLOSED, /* cm is connected no more: destroy its queue pair, then it */
	CM_FATAL, /* the device goes away */
};

struct cm_event {
	enum cm_event_kind kind;
	struct cm *cm; /* NULL: the listener */
	const char *text; /* what happened, in words; static */
	size_t data_len;
	uint8_t data[CM_PRIVATE_MAX]; /* of a request; untrusted */
};

/*
 * cm_next - take an event, without blocking. Returns 0; -EAGAIN: there is none; or why it could not
 * be taken: it waits still, as the descriptor says.
 */
int cm_next(struct cm_listener *l, struct cm_event *out);

/* cm_accept - after cm_qp_connect(), when @qp may be used. On failure the cm is the caller's
 * still. */
int cm_accept(struct cm *cm, const struct rdma_qp *qp, const struct wire_cm_reply *reply,
	      struct error *err);

/* cm_reject - say why not; destroys @cm. */
void cm_reject(struct cm *cm, int code, const char *text);
