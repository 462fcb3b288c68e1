/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Executing one send work request: see execute.c. */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/softrdma/objects/qp.h"
#include "common/softrdma/path/look.h"

/* Results below 0: not done, try again later. From 0 on: an enum ibv_wc_status. */
enum {
	EXECUTE_RNR = -1, /* no receive posted */
	EXECUTE_NOT_READY = -2, /* the peer's QP is not ready to receive */
	EXECUTE_ASKED = -3, /* the peer's process was asked to do it */
	EXECUTE_ROOM = -4, /* the way to the peer is full, and may stay so: then it is lost */
};

/* Memory of this process that an operation names, in pieces. */
struct soft_local {
	struct iovec piece[SHARED_SGES];
	unsigned pieces;
	uint32_t total;
	/* how far a copy has come */
	unsigned at;
	size_t at_offset;
};

/* A range of a region of the peer. */
struct soft_remote {
	struct shared_mr *mr;
	uint64_t word; /* of its entry */
	uint64_t addr; /* in its process */
	uint64_t length;
	unsigned char *mapped; /* where it lies here, or NULL */
};

/*
 * soft_execute - execute @wr, whole. @length: bytes transferred, of a success.
 * Holds qp->sq; the QP is in RTS. Returns a status or EXECUTE_*.
 */
int soft_execute(struct soft_qp *qp, const struct ibv_send_wr *wr, uint32_t *length);

/*
 * soft_prefetch - have the processor fetch what the READs among the next @count requests will copy.
 * A hint: checks nothing. Holds qp->sq.
 */
void soft_prefetch(struct soft_qp *qp, const struct ibv_send_wr *wr, unsigned count);

/* The parts that execute.c, deliver.c, atomic.c and chain.c share. Holds qp->sq throughout. */

/* soft_local_gather - check the SGEs of @wr and gather them. Returns a status. */
int soft_local_gather(struct soft_qp *qp, const struct ibv_send_wr *wr, uint32_t access,
		      struct soft_local *local);

/* soft_responder - may the peer's QP be used? @word: receives its word. Status or EXECUTE_*. */
int soft_responder(struct soft_qp *qp, uint64_t *word);

/* soft_responder_same - is it, as it was with @word? Its send queue may go on and off. */
bool soft_responder_same(struct soft_qp *qp, uint64_t word);

/* soft_remote_resolve - look up and check a range of the peer's. Returns false if it may not. */
bool soft_remote_resolve(struct soft_qp *qp, uint32_t key, uint64_t addr, uint64_t length,
			 uint32_t access, uint32_t pd, struct soft_remote *out);

/* soft_local_rest - the pieces from where the copy stands, for @length bytes. Returns how many. */
unsigned soft_local_rest(const struct soft_local *local, uint64_t length, struct iovec *out);

/* soft_local_advance - @length bytes more are copied. */
void soft_local_advance(struct soft_local *local, uint64_t length);

/* soft_copy_out - copy the next remote->length bytes of @local to the peer. Returns a status. */
int soft_copy_out(struct soft_qp *qp, const struct soft_remote *remote, struct soft_local *local);

/* soft_remote_attention - have the peer's service thread look at its QP. */
void soft_remote_attention(struct soft_qp *qp);

/*
 * soft_remote_fail - put the peer's QP into ERR.
 * @event: an asynchronous event for it, or -1.
 */
void soft_remote_fail(struct soft_qp *qp, int event);

/*
 * soft_deliver - SEND and WRITE with immediate, the part with the receive. @found: the peer's queue
 * pair; receives the regions. Status or EXECUTE_*.
 */
int soft_deliver(struct soft_qp *qp, const struct ibv_send_wr *wr, struct soft_local *local,
		 struct soft_found *found);
