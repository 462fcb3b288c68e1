/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A connection: one queue pair of a session, and its requests in flight. The queue-pair thread
 * makes it, has it attached to its worker, and takes it apart (apart.c). What only one of the two
 * threads touches says so; the rest is the worker's while it is attached.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <urcu/list.h>

#include "common/base/mailbox.h"
#include "common/layout/wire_measure.h"
#include "common/layout/wire_rpc.h"
#include "common/rdma/cm.h"
#include "common/rdma/qp.h"
#include "common/rdma/region.h"
#include "server/worker/receives.h"
#include "server/write/write.h"

struct worker;
struct session;
struct conn;

enum request_state {
	REQUEST_IDLE,
	REQUEST_PULLING, /* its value is being fetched */
	REQUEST_PENDING, /* the door has its write, which waits for the log */
	REQUEST_WAITING, /* its reply waits for a place in the send queue */
};

/* What travels with a reply into the client's staging memory. */
struct rpc_push {
	const void *data;
	uint32_t len;
	uint32_t lkey;
	unsigned what; /* enum rpc_wr: whose completion releases the data */
	int hazard; /* held meanwhile, or -1 */
	uint64_t staging_addr;
	uint32_t staging_rkey;
};

/* One request slot. */
struct request {
	struct conn *conn;
	enum request_state state;
	uint16_t slot;
	uint64_t batch; /* of completions, in which its last frame came */
	uint64_t now_ns; /* wall clock when that was, or when its value was there */
	struct write write; /* on its way through the door */
	struct {
		uint64_t addr, hash;
		uint32_t rkey;
	} pull; /* where the client has the value, and what it hashes to */
	/* while its READ or its reply waits for a place in the send queue: rpc_queue.c */
	struct request *next;
	uint32_t reply_len;
	bool pushes;
	struct rpc_push push;
};

/* The send queue as its user counts it: rpc_queue.c. */
struct conn_queue {
	unsigned places;
	uint32_t posted, completed; /* sends since the beginning */
	unsigned unsignalled; /* of them, since the last signalled one */
	/* `posted` after each signalled send that has not completed: a ring of a power of two */
	uint32_t *mark;
	uint32_t marks, marks_head, marks_tail;
	struct request *waiting, *waiting_last; /* in order */
};

/* What the worker is to do with a connection: worker.h. */
enum conn_command { CONN_IDLE, CONN_ATTACH, CONN_ANSWER, CONN_DRAIN, CONN_DETACH };

/* A session's life line, for workers: its owner's, who keeps it for longer than its connections. */
struct conn_lifeline {
	int fd; /* shut down on a protocol error */
	_Atomic(const char *) why; /* a worker did that, in words; NULL: none did */
	/* Queue pairs that broke, and the client does not know: CONN_LOST and the number of its
	 * end. Set by workers, taken by conn_lifeline_lost(). */
	_Atomic uint32_t lost[SESSION_QPS_MAX];
};

#define CONN_LOST 0x80000000u

/* conn_lifeline_why - why a worker gave the session up; NULL: none did. */
static inline const char *conn_lifeline_why(const struct conn_lifeline *l)
{
	/* acquire: pairs with rpc_protocol_error() */
	return atomic_load_explicit(&l->why, memory_order_acquire);
}

/* conn_lifeline_lost - once after a worker found @handle's broken: CONN_LOST and the number of the
 * client's end; 0: none has. */
static inline uint32_t conn_lifeline_lost(struct conn_lifeline *l, unsigned handle)
{
	/* relaxed: the eventfd that was written after it has woken us */
	return atomic_load_explicit(&l->lost[handle], memory_order_relaxed)
		       ? atomic_exchange_explicit(&l->lost[handle], 0, memory_order_relaxed)
		       : 0;
}

struct conn {
	struct rdma_qp qp;
	/* The queue-pair thread's, and the worker's from posting it until it comes back. */
	struct mail mail;
	enum conn_command command;
	uint64_t until_ns; /* ANSWER, DRAIN */
	int result;

	/* Queue-pair thread. */
	struct session *session;
	struct cds_list_head node; /* of the session's that are being taken apart */
	struct cds_list_head failed_node; /* of those that wait for their last receive */
	uint64_t failed_ns; /* since when */
	bool waits; /* it is among them */
	_Atomic bool doomed; /* it is taken apart: what breaks on it is no news. Anyone reads */
	bool alive; /* it could not be brought to ERR. Set before DRAIN */

	struct worker *worker;
	struct client_entry *client;
	uint64_t client_id[2];
	uint64_t generation;
	unsigned handle;
	struct cm *cm; /* that connected it, owned; NULL: the exchange did. Queue-pair thread */
	unsigned credits; /* 0: it carries no requests, and takes no receive of the worker's */
	struct conn_queue queue;
	bool failed; /* broke, or is being taken apart: ignored from then on */
	bool attached; /* queue-pair thread */
	bool marked, drained; /* the marker after all sends was posted, and came back */
	bool sweeps; /* what stood in the completion queue is waited for, since the worker had */
	uint64_t emptied, polled; /* these counts */
	struct conn *next_leaving;
	bool gave_back; /* the device said so: its last receive. Queue-pair thread, until DETACH */
	receives_time came; /* when it was attached */
	receives_time heard; /* and took its last receive since */
	struct conn_lifeline *lifeline; /* the session's */
	struct conn *next; /* hash chain of the worker */
	struct rdma_buffer replies; /* RPC_REPLY_MAX for each request slot */
	struct request request[]; /* one for each credit; after them queue.mark */
};

/* conn_of_mail - of a mailbox of connections. */
static inline struct conn *conn_of_mail(struct mail *mail)
{
	return caa_container_of(mail, struct conn, mail);
}

/*
 * conn_measure - what this end of a connection knows of a measurement, into @out, which has the
 * server's part; the verdict on it. The worker's thread.
 */
void conn_measure(const struct conn *c, const struct rpc_measure *plan, struct rpc_measured *out);

/* conn_reply_at - the reply frame of a request slot, in registered memory. */
static inline void *conn_reply_at(const struct conn *c, unsigned slot)
{
	return (char *)c->replies.addr + slot * RPC_REPLY_MAX;
}
